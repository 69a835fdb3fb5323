"""Runs a pretrained encoder on any number of rows of any length.

Shape key: B rows, L row length, S segments of a row, D width.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from seg_tf.layouts.layout import Features, Layout
from seg_tf.layouts.rows import Example, Segment, trees_of
from seg_tf.ops.attention import mean_vectors
from seg_tf.text.graph.trees import Trees

# Maximum number of positions in a batch, unless a single row has more.
_TOKENS_PER_BATCH = 8_192

# Maps encoder, sequence output `(B, L, D)` and features to tensors with B rows.
Compute = Callable[[keras.Model, tf.Tensor, Features], Sequence[tf.Tensor]]


def make_row(
    pieces: Sequence[np.ndarray], paragraphs: Sequence[int]
) -> tuple[Segment, ...]:
    """Creates an example of one segment per sentence. Renumbers paragraphs from 0."""
    segments: list[Segment] = []
    index, number, previous = 0, 0, None
    for ids, paragraph in zip(pieces, paragraphs, strict=True):
        if len(ids):  # Records leave out sentences without word pieces.
            index += previous not in (None, paragraph)
            number = number + 1 if paragraph == previous else 0
            previous = paragraph
        segments.append(Segment(ids, paragraph=index, sentence=number))
    return tuple(segments)


class RowEncoder:
    """Lays out examples as rows, encodes them and applies `compute` to the outputs.

    Rows of similar length are batched. The result for a row does not depend on the
    rest of its batch, except for rounding. One graph serves all row lengths. `compute`
    maps the encoder, its output in float32 `(B, L, D)` and the features to tensors with
    B rows. Rows are padded to `num_columns` segments, so that shapes are static. If
    `num_columns` is None, batches are padded to the row with the most segments.
    """

    def __init__(
        self,
        encoder: keras.Model,
        layout: Layout,
        compute: Compute,
        num_columns: int | None = None,
    ):
        self._layout = layout
        self._num_columns = num_columns

        def run(fields: Mapping[str, tf.Tensor]) -> Sequence[tf.Tensor]:
            features = layout.rows(Trees(**fields))
            sequence_BLD = tf.cast(encoder(features, training=False), tf.float32)
            return compute(encoder, sequence_BLD, features)

        signature = {
            field.name: tf.TensorSpec([None, num_columns], tf.int32)
            for field in dataclasses.fields(Trees)
        }
        signature["pieces"] = tf.TensorSpec([None, None], tf.int32)
        signature["num_sentences"] = tf.TensorSpec([None], tf.int32)
        function = tf.function(run, input_signature=[signature], autograph=False)
        # Concrete, because TensorFlow warns about retracing if it sees several
        # functions that are created by the same lines.
        self._run = function.get_concrete_function()

    def __call__(
        self, examples: Sequence[Example], on_progress: Callable[[int], Any] = bool
    ) -> list[tuple[np.ndarray, ...]]:
        """Returns a tuple for each example, with an array per tensor of `compute`.

        Each example must have at least one segment and fit into a row. Results keep the
        padding of their batch. `on_progress` is called with each batch's row count.
        """
        results: list[tuple[np.ndarray, ...]] = [()] * len(examples)
        for numbers in self._batches(examples):
            batch = [examples[number] for number in numbers]
            trees = trees_of(batch, self._num_columns or max(map(len, batch)))
            arrays = [tensor.numpy() for tensor in self._run(vars(trees))]
            for number, *row in zip(numbers, *arrays, strict=True):
                results[number] = tuple(row)
            on_progress(len(numbers))
        return results

    def _batches(self, examples: Sequence[Example]) -> list[list[int]]:
        lengths = [self._layout.num_tokens(example) for example in examples]
        batches: list[list[int]] = []
        for number in np.argsort(lengths, kind="stable").tolist():
            # Batches are padded to the newest row, which is the longest.
            size = (len(batches[-1]) + 1) * lengths[number] if batches else np.inf
            if size <= _TOKENS_PER_BATCH:
                batches[-1].append(number)
            else:
                batches.append([number])
        return batches


def means_of_pieces(
    encoder: keras.Model, sequence_BLD: tf.Tensor, features: Features
) -> Sequence[tf.Tensor]:
    """Averages the outputs at each segment's pieces. Returns `[means]`, `(B, S, D)`."""
    number_BL = features["sentence_number"]
    return [mean_vectors(sequence_BLD, number_BL, tf.reduce_max(number_BL))[0]]
