"""Converts texts, labels and sample weights to batches for Keras.

`TextExamples` encodes all texts in advance, with a `TextPreprocessor`, and keeps them
in memory. Its shuffled batches have rows of similar length.

Shape key: E examples.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from seg_tf.features import FEATURES
from seg_tf.layouts.rows import Example, Segment
from seg_tf.preprocessing import TextPreprocessor
from seg_tf.text.normalization import drop_surrogates

_PREFETCHED_BATCHES = 2
# Maximum numbers of examples and of characters to encode at once.
_CHUNK_SIZE, _CHUNK_CHARACTERS = 1024, 2**22


class TextExamples:
    """Encodes texts once, and returns datasets of batches with labels and weights.

    Raises a ValueError if the texts, labels or weights are invalid.

    Args:
        preprocessor: `TextPreprocessor` of the model.
        texts: examples in any form that `to_tuples` accepts.
        labels: array-like `(E,)` or `(E, 1)` of class indices or scores, or None.
        sample_weight: array-like `(E,)`, weights in the loss, or None.
        num_classes: int. Number of classes. If None, any finite labels are valid.
        report: function that is called with a message if rows were truncated.
    """

    def __init__(
        self,
        preprocessor: TextPreprocessor,
        texts: Any,
        labels: Any = None,
        sample_weight: Any = None,
        *,
        num_classes: int | None = None,
        report: Callable[[str], Any] = print,
    ):
        self._layout = preprocessor.layout
        self._num_choices = preprocessor.num_choices
        tuples = to_tuples(texts, preprocessor.num_texts)
        size = len(tuples)
        self._labels = check_labels(labels, size, num_classes)
        self._weights = None
        if sample_weight is not None:
            self._weights = np.asarray(sample_weight, np.float32)
            if self._weights.shape != (size,):
                raise ValueError(
                    "`sample_weight` must hold one weight for each of `texts`. "
                    f"Received: weights of the shape {self._weights.shape}, "
                    f"{size} examples"
                )

        encode = preprocessor.encode
        longest = max(1, max(sum(map(len, example)) for example in tuples))
        chunk = max(1, min(_CHUNK_SIZE, _CHUNK_CHARACTERS // longest))
        if size > chunk:
            strings = [tf.TensorSpec([None], tf.string)] * preprocessor.num_texts
            encode = tf.function(encode, input_signature=[strings], autograph=False)
        with tf.device("CPU"):
            columns = [
                tf.constant(list(map(utf8, column)))
                for column in zip(*tuples, strict=True)
            ]
            chunks = [
                encode([column[begin : begin + chunk] for column in columns])
                for begin in range(0, size, chunk)
            ]
            segments = [
                tf.concat(chunk_texts, axis=0)
                for chunk_texts in zip(*(texts for texts, _ in chunks), strict=True)
            ]
        self._pieces = [ragged.values.numpy() for ragged in segments]
        self._splits = [ragged.row_splits.numpy().tolist() for ragged in segments]
        num_cut = sum(int(np.count_nonzero(is_cut)) for _, is_cut in chunks)
        num_rows = size * self._num_choices
        if num_cut:
            report(
                f"Truncated, because longer than {preprocessor.capacity} word "
                f"pieces: {num_cut:,} of {num_rows:,} rows"
            )
        shapes = [self._layout.row_shape(self._example(row)) for row in range(num_rows)]
        by_example = np.array(shapes).reshape(size, self._num_choices, -1)
        self._row_shapes = by_example.max(axis=1)

    def batches(self, batch_size: int, seed: int | None = None) -> tf.data.Dataset:
        """Returns a finite dataset of features, with labels and weights if they exist.

        With a seed, each epoch is shuffled, and batches contain examples of similar
        length. Regression batches ignore the length, because scores may depend on it,
        as in STS-B. Raises a ValueError if `batch_size` is less than 1.
        """
        is_regression = self._labels is not None and self._labels.dtype.kind == "f"
        return row_batches(
            self._make_batch,
            self._row_shapes,
            batch_size,
            seed,
            by_shape=not is_regression,
        )

    def _example(self, row: int) -> Example:
        # In fine-tuning, each text is a paragraph of one sentence (Segatron, sections
        # 2.3 and 3.2).
        return tuple(
            Segment(pieces[splits[row] : splits[row + 1]], text, paragraph=text)
            for text, (pieces, splits) in enumerate(
                zip(self._pieces, self._splits, strict=True)
            )
        )

    def _make_batch(self, numbers: np.ndarray, row_shape: tuple[int, ...]) -> Any:
        choices = np.arange(self._num_choices)
        rows = (numbers[:, None] * self._num_choices + choices).reshape(-1)
        arrays = self._layout.lay_out(list(map(self._example, rows)), row_shape)
        features = {
            name: array.astype(FEATURES[name].dtype) for name, array in arrays.items()
        }
        labels, weights = (
            None if values is None else values[numbers]
            for values in (self._labels, self._weights)
        )
        return keras.utils.pack_x_y_sample_weight(features, labels, weights)


def row_batches(
    make_batch: Callable[[np.ndarray, tuple[int, ...]], Any],
    row_shapes: np.ndarray,
    batch_size: int,
    seed: int | None,
    by_shape: bool = True,
) -> tf.data.Dataset:
    """Returns a finite dataset of batches. With a seed, each epoch is shuffled.

    `make_batch` creates a batch from example indices and a row shape. `row_shapes`, int
    `(E, sizes)`, has the row shape of each example. If `by_shape` is True, shuffled
    batches have examples of equal shape where possible. Raises a ValueError if
    `batch_size` is less than 1.
    """
    if batch_size < 1:
        raise ValueError(
            f"`batch_size` must be at least 1. Received: batch_size={batch_size}"
        )
    epochs = itertools.count()

    def load(numbers: np.ndarray) -> Any:
        row_shape = tuple(row_shapes[numbers].max(axis=0).tolist())
        return make_batch(numbers, row_shape)

    def batches() -> Iterator[Any]:
        numbers = np.arange(len(row_shapes))
        if seed is not None:
            generator = np.random.default_rng((seed, next(epochs)))
            if by_shape:
                return map(load, batches_by_shape(row_shapes, batch_size, generator))
            numbers = generator.permutation(numbers)
        return map(load, _chunks(numbers, batch_size))

    signature = keras.tree.map_structure(
        lambda array: tf.TensorSpec([None] * array.ndim, array.dtype),
        load(np.arange(1)),
    )
    dataset = tf.data.Dataset.from_generator(batches, output_signature=signature)
    num_batches = -(-len(row_shapes) // batch_size)
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(num_batches))
    return dataset.prefetch(_PREFETCHED_BATCHES)


def batches_by_shape(
    row_shapes: np.ndarray, batch_size: int, generator: np.random.Generator
) -> list[np.ndarray]:
    """Draws random batches of example indices, each of one row shape if possible.

    Examples that do not fill a batch of their shape are combined with the next larger
    shapes. Returns `ceil(E / batch_size)` int arrays. At most one of them is not full.
    """
    order = generator.permutation(len(row_shapes))
    _, kinds = np.unique(row_shapes[order], axis=0, return_inverse=True)
    batches, remainders = [], []
    for kind in range(kinds.max() + 1):
        numbers = order[kinds.reshape(-1) == kind]
        num_full = len(numbers) // batch_size * batch_size
        batches += _chunks(numbers[:num_full], batch_size)
        remainders.append(numbers[num_full:])
    batches += _chunks(np.concatenate(remainders), batch_size)
    return [batches[number] for number in generator.permutation(len(batches))]


def _chunks(numbers: np.ndarray, size: int) -> list[np.ndarray]:
    return [numbers[begin : begin + size] for begin in range(0, len(numbers), size)]


def is_text(values: Any) -> bool:
    """Returns whether the first of `values` is text. Empty sequences count as text."""
    if isinstance(values, str | bytes):
        return True
    if tf.is_tensor(values):
        return values.dtype == tf.string
    if hasattr(values, "to_numpy"):
        values = values.to_numpy()
    if isinstance(values, np.ndarray):
        values = values[:1].tolist()
    if not isinstance(values, Sequence):
        return False
    return not len(values) or is_text(values[0])


def to_tuples(texts: Any, num_texts: int | None = None) -> list[tuple[str, ...]]:
    """Converts examples to tuples of strings. Bytes are decoded as UTF-8.

    Args:
        texts: a sequence, array or tensor of strings, or of tuples of strings. As in
            keras-hub, it may also be a tuple of `num_texts` lists, arrays or tensors:
            all first texts, all second texts and so on.
        num_texts: int. Number of texts per example, by default as in the first one.

    Raises:
        ValueError: if there are no examples, or if one is not of `num_texts` texts.
    """
    if (
        isinstance(texts, tuple)
        and len(texts) == num_texts != 1
        and not any(isinstance(column, str | bytes | tuple) for column in texts)
    ):
        texts = list(zip(*map(_to_list, texts), strict=True))
    if isinstance(texts, str | bytes) or not len(texts):
        raise ValueError(
            "`texts` must be a sequence of at least one example, each a text or a "
            f"tuple of texts. Received: {texts!r}"
        )
    tuples = []
    for number, value in enumerate(_to_list(texts)):
        example = _to_list(value)
        example = [example] if isinstance(example, str | bytes) else example
        is_valid = isinstance(example, Sequence) and all(
            isinstance(text, str | bytes) for text in example
        )
        num_texts = num_texts or (len(example) if is_valid else 1)
        if not is_valid or len(example) != num_texts:
            raise ValueError(
                "`texts` must hold examples of "
                f"{'one string' if num_texts == 1 else f'{num_texts} strings'}. "
                f"Received: texts[{number}]={value!r}"
            )
        tuples.append(
            tuple(
                text.decode("utf-8", "replace") if isinstance(text, bytes) else text
                for text in example
            )
        )
    return tuples


def utf8(text: str) -> bytes:
    """Encodes a text as UTF-8. Unpaired surrogates are replaced by U+FFFD."""
    return drop_surrogates(text, "\ufffd").encode()


def _to_list(values: Any) -> Any:
    for method in ("numpy", "to_numpy", "tolist"):
        if hasattr(values, method):
            values = getattr(values, method)()
    return values


def check_labels(
    labels: Any, num_examples: int, num_classes: int | None
) -> np.ndarray | None:
    """Converts labels `(E,)` or `(E, 1)` to int32 or float32 `(E,)`, and None to None.

    Labels are float32 if they are floats and `num_classes` is None. Raises a ValueError
    unless each example has one label, an integer from 0 to `num_classes - 1` or, if
    `num_classes` is None, a finite number.
    """
    if labels is None:
        return None
    labels = np.asarray(labels)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (num_examples,) or labels.dtype.kind not in "biuf":
        is_one_hot = labels.ndim == 2
        hint = (
            ", not one-hot rows; `np.argmax(labels, axis=1)` gives numbers of classes"
        )
        raise ValueError(
            f"`labels` must hold one number for each of `texts`{hint * is_one_hot}. "
            f"Received: labels of the shape {labels.shape} and the type "
            f"{labels.dtype}, {num_examples} examples"
        )
    rule, is_right = "finite", np.isfinite(labels)
    if num_classes is not None:
        rule = f"the number of a class, 0 to {num_classes - 1}"
        is_right = np.isin(labels, np.arange(num_classes))
    if not is_right.all():
        row = int(np.argmin(is_right))
        raise ValueError(
            f"`labels` must each be {rule}. Received: labels[{row}]={labels[row]}"
        )
    is_float = num_classes is None and labels.dtype.kind == "f"
    return labels.astype(np.float32 if is_float else np.int32)
