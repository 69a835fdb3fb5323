"""Texts and labels as batches for Keras' `fit`, `evaluate` and `predict`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from seg_tf.finetuning.row_batches import row_batches
from seg_tf.finetuning.segments import as_tuples, encode_texts
from seg_tf.finetuning.text_layout import text_layout
from seg_tf.training.pretrained import Pretrained


def text_batches(
    pretrained: Pretrained,
    texts: Sequence[str | Sequence[str]],
    labels: Any = None,
    *,
    batch_size: int,
    seed: int | None = None,
    max_length: int | None = None,
    report: Callable[[str], Any] = print,
) -> tf.data.Dataset:
    """Batches of the features that the encoder of a checkpoint reads.

    Texts are spelled once, here; rows are laid out batch by batch. All examples are in
    an epoch, in `ceil(examples / batch_size)` batches, and rows are padded to the
    longest of their batch, rounded up to one of few lengths.

    With a seed there is a new order each time that the dataset is gone through, the
    k-th a function of seed and k alone, and examples of about one length share a batch.

    Args:
        pretrained: what `load_pretrained` returned.
        texts: examples, each a text or a tuple of texts, all of as many.
        labels: array-like of `(examples, …)`: ints for classes, floats for a
            regression. None gives no labels, for `predict`.
        batch_size: examples of a batch; the last one may have fewer.
        seed: of the order; None gives the examples in order, as `predict` needs them.
        max_length: the most positions of an example; None takes those of pretraining.
            Of one that is longer, the longest text loses its last piece until it fits.
        report: called with a line of text if examples were cut.

    Returns:
        Finite dataset of features, or of pairs of features and labels.

    Raises:
        ValueError: if there is no example, their numbers of texts differ or are too
            many for a row, or there are not as many labels.
    """
    if batch_size < 1:
        raise ValueError(
            f"`batch_size` must be at least 1. Received: batch_size={batch_size}"
        )
    layout = text_layout(pretrained, max_length=max_length)
    tuples = as_tuples(texts)
    room = layout.room(len(tuples[0]))
    examples = encode_texts(pretrained.text_encoder(), tuples, room)
    if examples.num_cut:
        report(
            f"Cut, because they are longer than {room} word pieces: "
            f"{examples.num_cut:,} of {len(examples):,} examples"
        )
    row_shapes = np.array([layout.row_shape(example) for example in examples])

    def lay_out(
        numbers: np.ndarray, row_shape: tuple[int, ...]
    ) -> Mapping[str, np.ndarray]:
        return layout.lay_out([examples[number] for number in numbers], row_shape)

    return row_batches(
        lay_out, row_shapes, _checked(labels, len(tuples)), batch_size, seed
    )


def _checked(labels: Any, num_examples: int) -> np.ndarray | None:
    if labels is None:
        return None
    labels = np.asarray(labels)
    if labels.ndim == 0 or len(labels) != num_examples:
        raise ValueError(
            "`labels` must hold one label for each of `texts`. Received: labels of "
            f"the shape {labels.shape}, {num_examples} examples"
        )
    if labels.dtype.kind not in "biuf":
        raise ValueError(
            "`labels` must be numbers, those of classes counted from 0. Received: "
            f"labels of the type {labels.dtype}"
        )
    return labels.astype(np.int32 if labels.dtype.kind in "biu" else np.float32)
