"""Vectors of the sentences of rows, by whichever encoder of texts.

Shape key: B rows, S sentences of a row, D width.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from seg_tf.checkpoints.encoder_copies import copy_encoder
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.layouts.rows import Example, trees_of
from seg_tf.ops.gathering import mean_vectors
from seg_tf.text.graph.trees import Trees


class ExampleVectors:
    """Lays out examples as rows of pretraining and encodes them.

    One graph serves rows of all sizes.

    Args:
        pretrained: an encoder of texts.
        vectors: "sent", the output at a sentence's `[SENT]` (SLM) or pooled at its
            `<SS>` (ReAT), or "mean", the mean of the outputs at its word pieces, 0
            where there is none (all but ReAT). None is "sent" if the model has it.

    Attributes:
        layout: that of the rows.
        vectors: "sent" or "mean".

    Raises:
        ValueError: if the checkpoint is of no encoder of texts, or the model has no
            such vectors.
    """

    def __init__(self, pretrained: Pretrained, vectors: str | None = None):
        self.layout = pretrained.layout()
        has_pieces = self.layout.holds_spans
        known = ["sent"] if self.layout.sent_id is not None or not has_pieces else []
        known += ["mean"] if has_pieces else []
        self.vectors = known[0] if vectors is None else vectors
        if self.vectors not in known:
            raise ValueError(
                f"`vectors` of this model must be one of {', '.join(known)}. Received: "
                f"{vectors!r}"
            )
        encoder = copy_encoder(pretrained)

        def run(fields: Mapping[str, tf.Tensor]) -> tf.Tensor:
            features = self.layout.rows(Trees(**fields))
            sequence = tf.cast(encoder(features, training=False), tf.float32)
            if self.vectors == "mean":
                number = features["sentence_number"]
                return mean_vectors(sequence, number, tf.reduce_max(number))[0]
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
