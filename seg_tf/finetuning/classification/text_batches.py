"""Texts and labels as batches for Keras' `fit`, `evaluate` and `predict`."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.features import FEATURES
from seg_tf.finetuning.row_batches import row_batches
from seg_tf.finetuning.segments import as_tuples, encode_texts


def text_batches(
    pretrained: Pretrained,
    texts: Sequence[str | Sequence[str]],
    labels: Any = None,
    *,
    batch_size: int,
    seed: int | None = None,
    max_length: int | None = None,
    report: Callable[[str], Any] = print,
    num_choices: int = 1,
    num_texts: int | None = None,
    num_classes: int | None = None,
) -> tf.data.Dataset:
    """Batches of the features that the encoder of a checkpoint reads.

    Texts are spelled once, here; rows are laid out batch by batch. All examples are in
    an epoch, in `ceil(examples / batch_size)` batches, and rows are padded to the
    longest of their batch, rounded up to one of few lengths.

    With a seed there is a new order each time that the dataset is gone through, the
    k-th a function of seed and k alone. Examples of about one length share a batch, but
    not those of a regression: where scores hang on the length, as in STS-B, each batch
    would have a mean score of its own.

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
        num_choices: as for `TextExamples`.
        num_texts: likewise.
        num_classes: likewise.

    Returns:
        Finite dataset of features, or of pairs of features and labels.

    Raises:
        ValueError: as `TextExamples`.
    """
    examples = TextExamples(
        pretrained,
        texts,
        labels,
        max_length=max_length,
        report=report,
        num_choices=num_choices,
        num_texts=num_texts,
        num_classes=num_classes,
    )
    return examples.batches(batch_size, seed)


class TextExamples:
    """Texts and labels, spelled once, for batches of any size and order.

    Args:
        pretrained: what `load_pretrained` returned.
        texts: examples, each a text or a tuple of texts, all of as many.
        labels: array-like of `(examples, …)`: ints for classes, floats for a
            regression. None gives no labels, for `predict`.
        max_length: the most positions of an example; None takes those of pretraining.
            Of one that is longer, the longest text loses its last piece until it fits.
        report: called with a line of text if examples were cut.
        num_choices: rows of an example; of several, the first text and each of the
            others are a row, and batches have the rows of an example one after another.
        num_texts: texts that an example has to have; None takes those of the first.
        num_classes: classes that labels are numbers of; None takes any finite numbers.

    Attributes:
        labels: array of int32 or float32, or None.

    Raises:
        ValueError: if there is no example, their numbers of texts differ, are not those
            of the model or too many for a row, or there are not as many labels, or one
            is no class or not finite.
    """

    def __init__(
        self,
        pretrained: Pretrained,
        texts: Sequence[str | Sequence[str]],
        labels: Any = None,
        *,
        max_length: int | None = None,
        report: Callable[[str], Any] = print,
        num_choices: int = 1,
        num_texts: int | None = None,
        num_classes: int | None = None,
    ):
        self._layout = pretrained.layout(max_length)
        self._num_choices = num_choices
        tuples = as_tuples(texts)
        num_examples = len(tuples)
        if num_texts not in (None, len(tuples[0])):
            raise ValueError(
                f"`texts` must hold examples of {num_texts} texts, as the model was "
                f"made for. Received: texts[0] of {len(tuples[0])}"
            )
        if num_choices > 1:
            tuples = _rows_of_choices(tuples, num_choices)
        room = self._layout.capacity(len(tuples[0]))
        self.labels = _checked(labels, num_examples, num_classes)
        self._examples = encode_texts(pretrained.text_encoder(), tuples, room)
        if self._examples.num_cut:
            what = "examples" if num_choices == 1 else "rows"
            report(
                f"Cut, because they are longer than {room} word pieces: "
                f"{self._examples.num_cut:,} of {len(self._examples):,} {what}"
            )
        shapes = np.array(list(map(self._layout.row_shape, self._examples)))
        by_example = shapes.reshape(num_examples, num_choices, -1)
        self._row_shapes = by_example.max(axis=1)

    def __len__(self) -> int:
        return len(self._row_shapes)

    def batches(self, batch_size: int, seed: int | None = None) -> tf.data.Dataset:
        """A dataset of them: see `text_batches`.

        Args:
            batch_size: examples of a batch; the last one may have fewer.
            seed: of the order; None gives the examples in order.

        Raises:
            ValueError: if batches would be empty.
        """
        is_regression = self.labels is not None and self.labels.dtype.kind == "f"
        return row_batches(
            self._make_batch,
            self._row_shapes,
            batch_size,
            seed,
            by_shape=not is_regression,
        )

    def _make_batch(self, numbers: np.ndarray, row_shape: tuple[int, ...]) -> Any:
        choices = np.arange(self._num_choices)
        rows = (numbers[:, None] * self._num_choices + choices).reshape(-1)
        examples = [self._examples[row] for row in rows]
        features = {
            name: values.astype(FEATURES[name].dtype)
            for name, values in self._layout.lay_out(examples, row_shape).items()
        }
        return features if self.labels is None else (features, self.labels[numbers])


def _rows_of_choices(
    tuples: Sequence[tuple[str, ...]], num_choices: int
) -> list[tuple[str, str]]:
    if len(tuples[0]) != 1 + num_choices:
        raise ValueError(
            f"`texts` must hold a shared text and {num_choices} answers each. "
            f"Received: examples of {len(tuples[0])} texts"
        )
    return [(shared, answer) for shared, *answers in tuples for answer in answers]


def _checked(
    labels: Any, num_examples: int, num_classes: int | None
) -> np.ndarray | None:
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
    _check_all(labels, np.isfinite(labels), "a finite number")
    if num_classes is not None:
        is_class = (labels >= 0) & (labels < num_classes) & (labels == labels // 1)
        _check_all(labels, is_class, f"the number of a class, 0 to {num_classes - 1}")
        return labels.astype(np.int32)
    return labels.astype(np.int32 if labels.dtype.kind in "biu" else np.float32)


def _check_all(labels: np.ndarray, is_right: np.ndarray, rule: str) -> None:
    """Raises ValueError that names the first label that is not right."""
    if not is_right.all():
        row = int(np.argwhere(~is_right)[0][0])
        raise ValueError(
            f"`labels` must each be {rule}. Received: labels[{row}]={labels[row]}"
        )
