"""Vectors of the sentences of rows, by whichever encoder of texts.

Shape key: B rows, S sentences of a row, D width.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from seg_tf.checkpoints.encoder_copies import copy_encoder
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.layouts.segments import Example, trees_of
from seg_tf.layouts.trees import Trees


class ExampleVectors:
    """Lays out examples as rows of pretraining and encodes them.

    The vector of a sentence is the encoder's output at its `[SENT]` (SLM), its pooled
    `<SS>` (ReAT), or the mean over its word pieces (BERT, SegaBERT), which is 0 where
    there is none. One graph serves rows of all sizes.

    Args:
        pretrained: an encoder of texts.

    Attributes:
        layout: that of the rows.

    Raises:
        ValueError: if the checkpoint is of no encoder of texts.
    """

    def __init__(self, pretrained: Pretrained):
        self.layout = pretrained.layout()
        encoder = copy_encoder(pretrained)

        def run(fields: Mapping[str, tf.Tensor]) -> tf.Tensor:
            features = self.layout.rows(Trees(**fields))
            sequence = tf.cast(encoder(features, training=False), tf.float32)
            return self.layout.sentence_vectors(encoder, sequence, features)[0]

        signature = {
            field.name: tf.TensorSpec([None, None], tf.int32)
            for field in dataclasses.fields(Trees)
        }
        signature["num_sentences"] = tf.TensorSpec([None], tf.int32)
        function = tf.function(run, input_signature=[signature], autograph=False)
        # Concrete, since TensorFlow takes function after function made of the same
        # lines for one that is compiled again and again, and warns.
        self._run = function.get_concrete_function()

    def __call__(self, examples: Sequence[Example]) -> np.ndarray:
        """Vectors of the sentences of each example: float32 `(B, S, D)`.

        Args:
            examples: at least one; each fits into a row.
        """
        num_sentences = max(map(len, examples))
        found = self._run(vars(trees_of(examples, num_sentences))).numpy()
        # Sentences after the last that has a piece may have no column.
        missing = max(0, num_sentences - found.shape[1])
        return np.pad(found, [(0, 0), (0, missing), (0, 0)])[:, :num_sentences]
