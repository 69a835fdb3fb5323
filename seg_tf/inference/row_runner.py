"""Runs a pretrained encoder on rows of sentences, whatever their number and lengths.

Shape key: B rows, L row length, D hidden size.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from seg_tf.inference.rows import batches
from seg_tf.layouts.rows import trees_of
from seg_tf.text.graph.trees import Trees

if TYPE_CHECKING:
    from seg_tf.checkpoints.pretrained import Pretrained
    from seg_tf.layouts.rows import Example
    from seg_tf.layouts.sentences import SentenceLayout

# (sequence output `(B, L, D)`, features) -> tensors, one entry a row.
Compute = Callable[[tf.Tensor, Mapping[str, tf.Tensor]], Sequence[tf.Tensor]]

_TOKENS_PER_BATCH = 8_192


class RowRunner:
    """Lays out rows, runs the encoder on them in batches, and computes from that.

    Rows of about one length go together; the result for a row does not depend on
    the others, but for rounding. Each row length is compiled once.

    Args:
        pretrained: a model whose inputs were rows of sentences.
        compute: what is wanted of each row.
        tokens_per_batch: about how many positions are run at once.

    Attributes:
        max_sentences: the most sentences of a row.
        row_length: the most positions of a row.

    Raises:
        ValueError: if the model's inputs were other rows.
    """

    def __init__(
        self,
        pretrained: Pretrained,
        compute: Compute,
        tokens_per_batch: int = _TOKENS_PER_BATCH,
    ):
        self._layout = sentence_layout(pretrained)
        self.max_sentences = self._layout.max_sentences
        self.row_length = self._layout.max_length
        self._encoder = pretrained.encoder
        self._compute = compute
        self._tokens_per_batch = tokens_per_batch
        self._word_pieces = pretrained.text_encoder()
        self._functions: dict[int, Callable] = {}

    def encode_text(self, sentences: Sequence[str]) -> list[np.ndarray]:
        """Word pieces of each sentence; a call has a fixed cost, so give it many."""
        ids, lengths = self._word_pieces.encode(sentences)
        return np.split(ids, np.cumsum(lengths)[:-1]) if len(lengths) else []

    def __call__(
        self, rows: Sequence[Example], on_progress: Callable[[int], Any] = bool
    ) -> list[np.ndarray]:
        """Computes what is wanted of each row.

        Args:
            rows: at least one.
            on_progress: called with the number of rows of each batch that is done.

        Returns:
            An array for each tensor of `compute`, whose first axis is that of `rows`.
        """
        results = None
        for length, numbers in batches(rows, self.row_length, self._tokens_per_batch):
            trees = trees_of([rows[number] for number in numbers], self.max_sentences)
            computed = [one.numpy() for one in self._function(length)(vars(trees))]
            if results is None:
                results = [
                    np.zeros((len(rows), *array.shape[1:]), array.dtype)
                    for array in computed
                ]
            for result, array in zip(results, computed, strict=True):
                result[numbers] = array
            on_progress(len(numbers))
        return results

    def _function(self, length: int) -> Callable:
        """The compiled function for rows of one length."""
        if length not in self._functions:

            def run(fields: Mapping[str, tf.Tensor]) -> Sequence[tf.Tensor]:
                features = self._layout.rows(Trees(**fields), length)
                sequence = self._encoder(features, training=False)
                return self._compute(sequence, features)

            signature = {
                field.name: tf.TensorSpec([None, self.max_sentences], tf.int32)
                for field in dataclasses.fields(Trees)
            }
            signature["pieces"] = tf.TensorSpec([None, None], tf.int32)
            signature["num_sentences"] = tf.TensorSpec([None], tf.int32)
            function = tf.function(run, input_signature=[signature], autograph=False)
            # Concrete, since TensorFlow takes function after function made of the same
            # lines for one that is compiled again and again, and warns.
            self._functions[length] = function.get_concrete_function()
        return self._functions[length]


def sentence_layout(pretrained: Pretrained) -> SentenceLayout:
    """The rows of sentences that a model was trained on.

    Raises:
        ValueError: if it was trained on others.
    """
    layout = pretrained.layout()
    if layout.sent_id is None:
        raise ValueError(
            "`checkpoint` must be of a model of sentences (SLM), trained with "
            "inputs of SentenceInputsConfig. Received: "
            f"{pretrained.folder}, the run {pretrained.config.name!r}, whose "
            f"inputs were of {type(pretrained.config.inputs).__name__}"
        )
    return layout
