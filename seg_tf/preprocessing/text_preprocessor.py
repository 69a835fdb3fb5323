"""Texts as rows, in the graph: texts of examples, and beginnings of documents.

Shape key: B examples, C choices, L row length.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from seg_tf.features import FEATURES
from seg_tf.layouts.layout import Features
from seg_tf.preprocessing.segments import encode_segments
from seg_tf.text.graph.punkt import GraphSentenceSplitter
from seg_tf.text.graph.trees import Beginnings, GraphTreeBuilder, Trees
from seg_tf.text.graph.word_pieces import GraphWordPieces

if TYPE_CHECKING:
    from seg_tf.checkpoints.pretrained import Pretrained


class TextPreprocessor(tf.Module):
    """Spells the texts of examples and lays them out as in fine-tuning.

    Each text is a paragraph of one sentence. Rows are as long as the longest of their
    batch needs.

    Example:
    ```
    dataset.batch(32).map(classifier.preprocessor)   # of (texts, labels), or texts
    ```

    Args:
        pretrained: the model that reads them.
        num_texts: texts of an example.
        max_length: the most positions of an example; None takes those of pretraining.
            Of one that is longer, the longest text loses its last piece until it fits.
        num_choices: answers of a multiple choice: an example is then a shared text and
            so many others, each of which makes a row with it.

    Attributes:
        num_texts: strings of an example.
        num_choices: rows of an example.
        capacity: word pieces of a row.
        layout: that of the rows.

    Call arguments:
        x: string `(B,)`, or a tuple of one for each text.
        y: labels, which are passed on; None for none.
        sample_weight: likewise.

    Returns:
        The features `(B, L)`, or `(B * C, L)`, in a tuple with what was passed on, as
        Keras takes them.
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

    # Not to be rewritten by AutoGraph inside `Dataset.map`.
    @tf.autograph.experimental.do_not_convert
    def __call__(self, x: Any, y: Any = None, sample_weight: Any = None) -> Any:
        texts = tuple(x) if isinstance(x, tuple | list) else (x,)
        shapes = [tf.convert_to_tensor(text, tf.string).shape for text in texts]
        if len(texts) != self.num_texts or any(shape.rank != 1 for shape in shapes):
            raise ValueError(
                f"`x` must be {self.num_texts} string tensors of one dimension, a "
                "batch of each text. Received: "
                f"{len(texts)} of the shapes {', '.join(map(str, shapes))}"
            )
        features = {
            name: tf.cast(values, FEATURES[name].dtype)
            for name, values in self.layout.read_features(self.read(texts)[1]).items()
        }
        return keras.utils.pack_x_y_sample_weight(features, y, sample_weight)

    def read(self, texts: Sequence[tf.Tensor]) -> tuple[tf.Tensor, Features]:
        """Flags of rows whose texts were cut, and the rows.

        Args:
            texts: string tensors `(B,)`, one for each text.
        """
        segments, is_cut = self.encode(texts)
        return is_cut, self.layout.rows(Trees.of_texts(segments))

    def encode(
        self, texts: Sequence[tf.Tensor]
    ) -> tuple[list[tf.RaggedTensor], tf.Tensor]:
        """Word pieces of the texts of each row, cut to what a row takes.

        Args:
            texts: string tensors `(B,)`, one for each text.

        Returns:
            A ragged int32 tensor `(B * C, pieces)` for each text of a row, and bool
            `(B * C,)`, whether texts were cut.
        """
        if self.num_choices > 1:
            shared, *answers = texts
            answers = tf.reshape(tf.stack(answers, axis=1), [-1])
            texts = [tf.repeat(shared, self.num_choices), answers]
        return encode_segments(texts, self._word_pieces, self.capacity)


class DocumentPreprocessor(tf.Module):
    """Finds sentences and word pieces of documents and lays out their beginnings.

    Args:
        pretrained: the model that reads them.

    Attributes:
        layout: that of the model.

    Call arguments:
        texts: string `(B,)`; a line of a text is a paragraph.

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
