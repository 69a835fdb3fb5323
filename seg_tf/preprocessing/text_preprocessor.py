"""Texts as rows, in the graph: texts of examples, and beginnings of documents.

Shape key: B examples, T texts of each, C choices, L row length.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from seg_tf.features import FEATURES
from seg_tf.layouts.layout import Features
from seg_tf.text.graph.flat import FlatTexts
from seg_tf.text.graph.punkt import GraphSentenceSplitter
from seg_tf.text.graph.trees import Beginnings, GraphTreeBuilder, Trees
from seg_tf.text.graph.word_pieces import GraphWordPieces

if TYPE_CHECKING:
    from seg_tf.checkpoints.pretrained import Pretrained


class TextPreprocessor(tf.Module):
    """Encodes the texts of examples and lays them out as in fine-tuning.

    Each text is a paragraph of one sentence. Rows are as long as the longest of their
    batch.

    Example:
    ```
    dataset.batch(32).map(classifier.preprocessor)   # of (texts, labels), or texts
    ```

    Args:
        pretrained: the model that reads the rows.
        num_texts: texts of an example.
        max_length: maximum number of positions of an example; None uses that of
            pretraining. Longer examples are cut as by `cut_longest`.
        num_choices: answers of a multiple choice: an example is then a shared text and
            this number of answers, each in a row with it.

    Call arguments:
        x: string `(B,)`, or a tuple with one for each text.
        y: labels, which are passed on, or None.
        sample_weight: weights, which are passed on, or None.

    Returns:
        The features `(B, L)`, or `(B * C, L)`, in a tuple with labels and weights, for
        Keras.
    """

    def __init__(
        self,
        pretrained: Pretrained,
        num_texts: int = 1,
        max_length: int | None = None,
        num_choices: int = 1,
    ):
        super().__init__()
        self.num_texts = num_texts if num_choices == 1 else 1 + num_choices
        self.num_choices = num_choices
        self.layout = pretrained.layout(max_length)
        self.capacity = self.layout.capacity(num_texts if num_choices == 1 else 2)
        self._word_pieces = GraphWordPieces(
            pretrained.vocabulary, pretrained.normalization
        )

    # AutoGraph has nothing to convert inside `Dataset.map`.
    @tf.autograph.experimental.do_not_convert
    def __call__(self, x: Any, y: Any = None, sample_weight: Any = None) -> Any:
        texts = tuple(x) if isinstance(x, tuple | list) else (x,)
        shapes = [tf.convert_to_tensor(text, tf.string).shape for text in texts]
        if [shape.rank for shape in shapes] != [1] * self.num_texts:
            raise ValueError(
                f"`x` must be {self.num_texts} string tensors of one dimension, a "
                f"batch of each text. Received: shapes {shapes}"
            )
        features = {
            name: tf.cast(values, FEATURES[name].dtype)
            for name, values in self.layout.read_features(self.read(texts)[1]).items()
        }
        return keras.utils.pack_x_y_sample_weight(features, y, sample_weight)

    def read(self, texts: Sequence[tf.Tensor]) -> tuple[tf.Tensor, Features]:
        """Flags of rows whose texts were cut, and the rows of string tensors `(B,)`."""
        segments, is_cut = self.encode(texts)
        return is_cut, self.layout.rows(Trees.of_texts(segments))

    def encode(
        self, texts: Sequence[tf.Tensor]
    ) -> tuple[list[tf.RaggedTensor], tf.Tensor]:
        """Word pieces of string tensors `(B,)`, cut to the capacity of a row.

        They are a ragged int32 tensor `(B * C, pieces)` for each text of a row. The
        other result is bool `(B * C,)`, whether texts were cut.
        """
        if self.num_choices > 1:
            shared, *answers = texts
            answers = tf.reshape(tf.stack(answers, axis=1), [-1])
            texts = [tf.repeat(shared, self.num_choices), answers]
        # One more piece, so that cuts are detected.
        encoded = [
            encode_sentences(
                text, self._word_pieces, self.capacity + 1
            ).with_row_splits_dtype(tf.int64)
            for text in texts
        ]
        lengths = tf.stack([pieces.row_lengths() for pieces in encoded], axis=1)
        lengths = tf.cast(lengths, tf.int32)
        limits = cut_longest(lengths, self.capacity)
        cut = []
        for text, pieces in enumerate(encoded):
            place = tf.ragged.range(lengths[:, text])
            is_first = place < limits[:, text, tf.newaxis]
            cut.append(tf.ragged.boolean_mask(pieces, is_first))
        return cut, tf.reduce_any(limits < lengths, axis=1)


class DocumentPreprocessor(tf.Module):
    """Finds sentences and word pieces of documents and lays out their beginnings.

    Call arguments:
        texts: string `(B,)`; each line of a text is a paragraph.

    Returns:
        The features of rows `(B, L)` as in pretraining.
    """

    def __init__(self, pretrained: Pretrained):
        super().__init__()
        self.layout = pretrained.layout()
        self._build_trees = GraphTreeBuilder(
            GraphSentenceSplitter(pretrained.sentence_parameters),
            GraphWordPieces(pretrained.vocabulary, pretrained.normalization),
            *dataclasses.astuple(self.layout.text_capacity),
        )

    @tf.autograph.experimental.do_not_convert
    def __call__(self, texts: tf.Tensor) -> Features:
        return self.layout.read_features(self.read(texts)[1])

    def read(self, texts: tf.Tensor) -> tuple[Beginnings, Features]:
        """The beginnings of texts, and their rows."""
        beginnings = self._build_trees(texts)
        return beginnings, self.layout.rows(beginnings.trees)


def encode_sentences(
    texts: tf.Tensor, word_pieces: GraphWordPieces, max_words: int
) -> tf.RaggedTensor:
    """Word pieces of the first words of texts `(B,)`, ragged int32 `(B, pieces)`."""
    flat, num_texts = FlatTexts.of(texts), tf.size(texts)
    pieces = word_pieces.encode(
        flat.code_points,
        flat.starts,
        flat.ends,
        tf.range(num_texts),
        most_words=max_words,
    )
    return tf.RaggedTensor.from_value_rowids(
        pieces.ids, pieces.spans, nrows=num_texts, validate=False
    )


def cut_longest(lengths: tf.Tensor, capacity: int) -> tf.Tensor:
    """Lengths of texts after truncation to `capacity` pieces by BERT's rule.

    Piece by piece, the longest text loses its last one; among equally long texts, the
    last text. Lengths [5, 2, 6] become [4, 2, 4] of 10 pieces, and [4, 2, 3] of 9.

    Lengths and result are int32 `(B, T)`.
    """
    num_texts = tf.shape(lengths)[1]
    # The share of each text if all shorter ones remain whole.
    rising = tf.sort(lengths, axis=1)
    shorter = tf.cumsum(rising, axis=1, exclusive=True)
    shares = tf.maximum(capacity - shorter, 0) // tf.range(num_texts, 0, -1)
    is_cut = rising > shares
    first = tf.argmax(tf.cast(is_cut, tf.int32), axis=1, output_type=tf.int32)
    share = tf.gather(shares, first, batch_dims=1)[:, tf.newaxis]
    level = tf.minimum(lengths, share)
    # The remainder goes to the first texts that have more.
    remainder = capacity - tf.reduce_sum(level, axis=1, keepdims=True)
    is_longer = lengths > share
    gets_more = is_longer & (tf.cumsum(tf.cast(is_longer, tf.int32), 1) <= remainder)
    level += tf.cast(gets_more, tf.int32)
    return tf.where(tf.reduce_any(is_cut, axis=1, keepdims=True), level, lengths)
