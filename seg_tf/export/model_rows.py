"""What the models differ in when they are served: rows of texts, and which vectors.

Shape key: B rows, L row length, M sentences, D width.
"""

import abc
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from seg_tf import configuration
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.finetuning import graph_segments
from seg_tf.inference.text_windows import WindowRoom
from seg_tf.layouts import block_placing, blocks, sentences, windows
from seg_tf.layouts.trees import Trees
from seg_tf.ops.gathering import gather_vectors
from seg_tf.text.graph.characters import GraphTreeBuilder, TextTrees
from seg_tf.text.graph.pieces import GraphWordPieces
from seg_tf.text.graph.sentences import GraphSentenceSplitter

Features = Mapping[str, tf.Tensor]


class ModelRows(tf.Module, abc.ABC):
    """Makes rows of texts, and vectors of what the encoder makes of rows.

    Args:
        pretrained: the model.
        splitter: what makes sentences of paragraphs.
        room: how much text a row holds.

    Attributes:
        extra_features: features beside the encoder's from which sentence vectors are
            made.
    """

    extra_features: tuple[str, ...]

    def __init__(
        self, pretrained: Pretrained, splitter: GraphSentenceSplitter, room: WindowRoom
    ):
        super().__init__()
        self.room = room
        self.word_pieces = GraphWordPieces(pretrained.vocabulary, pretrained.lower_case)
        self._vocabulary = pretrained.vocabulary
        self._build_trees = GraphTreeBuilder(
            splitter, self.word_pieces, room.num_pieces, room.num_sentences
        )

    def of_texts(self, texts: tf.Tensor) -> tuple[TextTrees, Features]:
        """The beginnings of texts, and their rows as in pretraining.

        Args:
            texts: string `(B,)`; a line of a text is a paragraph.
        """
        trees = self._trees(texts)
        # A text without a piece has an empty sentence.
        width = tf.maximum(tf.reduce_max(trees.num_sentences), 1)
        lengths = tf.pad(trees.sentence_lengths, [[0, 0], [0, 1]])[:, :width]
        of_documents = Trees.of_documents(
            pieces=trees.pieces,
            sentence_lengths=lengths,
            num_sentences=trees.num_sentences,
            paragraph_lengths=tf.pad(trees.paragraph_lengths, [[0, 0], [0, 1]]),
        )
        return trees, self._rows(of_documents)

    def of_segments(
        self, texts: Sequence[tf.Tensor], room: int
    ) -> tuple[tf.Tensor, Features]:
        """Flags of examples that were cut, and the rows of examples as in fine-tuning.

        Args:
            texts: one or two string tensors `(B,)`.
            room: the most pieces of an example.
        """
        segments, is_cut = graph_segments.encode_segments(texts, self.word_pieces, room)
        return is_cut, self._rows(Trees.of_texts(segments))

    def _trees(self, texts: tf.Tensor) -> TextTrees:
        return self._build_trees(texts)

    @abc.abstractmethod
    def _rows(self, trees: Trees) -> Features: ...

    @abc.abstractmethod
    def sentence_vectors(
        self, encoder: Any, sequence_output: tf.Tensor, features: Features
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Vectors of the sentences of rows, and which of them there are.

        Args:
            encoder: the encoder.
            sequence_output: float `(B, L, D)`.
            features: the rows.

        Returns:
            float `(B, M, D)`, 0 where there is no sentence, and bool `(B, M)`.
        """

    def pooled_output(
        self, sequence_output: tf.Tensor, vectors: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        """One vector of each row: that of `[CLS]`."""
        del vectors, mask
        return sequence_output[:, 0]


class _IndexedRows(ModelRows):
    """Rows whose indices are embedded."""

    def __init__(
        self, pretrained: Pretrained, splitter: GraphSentenceSplitter, room: WindowRoom
    ):
        super().__init__(pretrained, splitter, room)
        self._caps = pretrained.encoder.index_caps


class RowsOfWindows(_IndexedRows):
    """`[CLS] pieces [SEP]` (BERT, BERT with P.S., SegaBERT).

    There is no token for a sentence, so its vector is the mean over its pieces.
    """

    extra_features = ("sentence_number",)

    def _rows(self, trees: Trees) -> Features:
        num_texts = 1 + tf.reduce_max(trees.texts)
        return windows.window_rows(
            trees,
            special_ids=self._vocabulary.special_ids,
            row_length=1 + num_texts + tf.reduce_max(trees.num_pieces()),
            caps=self._caps,
        )

    def sentence_vectors(
        self, encoder: Any, sequence_output: tf.Tensor, features: Features
    ) -> tuple[tf.Tensor, tf.Tensor]:
        return _means(sequence_output, features["sentence_number"])


class RowsOfSentences(_IndexedRows):
    """`[CLS] [SENT] s1 [SENT] s2 … [SEP]` (SLM); vectors are those of `[SENT]`."""

    extra_features = ("candidate_positions", "candidate_mask")

    def _rows(self, trees: Trees) -> Features:
        num_tokens = trees.num_pieces() + trees.num_sentences
        return sentences.sentence_rows(
            trees.as_one_text(),
            special_ids=self._vocabulary.special_ids,
            sent_id=self._vocabulary.sent_id,
            row_length=sentences.NUM_SPECIAL_TOKENS + tf.reduce_max(num_tokens),
            caps=self._caps,
        )

    def sentence_vectors(
        self, encoder: Any, sequence_output: tf.Tensor, features: Features
    ) -> tuple[tf.Tensor, tf.Tensor]:
        vectors = gather_vectors(
            sequence_output, features["candidate_positions"][:, 1:-1]
        )
        # The last candidate is [SEP].
        mask = features["candidate_mask"][:, 2:]
        return tf.where(mask[:, :, tf.newaxis], vectors, 0), mask


class RowsOfBlocks(ModelRows):
    """`<SS> <Attn> words </s>` for every sentence (ReAT).

    A sentence's vector is its pooled `<SS>`, or the mean over those of its parts where
    it is longer than a block; that of the row is the mean over the sentences'.
    """

    extra_features = ("given_text",)

    def __init__(self, pretrained: Pretrained, splitter: GraphSentenceSplitter):
        encoder = pretrained.encoder
        self._block_length = encoder.block_length
        self._max_parts = encoder.max_sentences
        self._longest = encoder.block_length - block_placing.NUM_SPECIAL_TOKENS
        room = WindowRoom(self._max_parts * self._longest, self._max_parts)
        super().__init__(pretrained, splitter, room)
        self._special_ids = block_placing.SpecialIds.of(pretrained.vocabulary)

    def _trees(self, texts: tf.Tensor) -> TextTrees:
        return self._build_trees(texts).beginning(
            lambda lengths: -(-lengths // self._longest), self._max_parts
        )

    def _rows(self, trees: Trees) -> Features:
        return blocks.block_rows(trees, self._block_length, self._special_ids)

    def sentence_vectors(
        self, encoder: Any, sequence_output: tf.Tensor, features: Features
    ) -> tuple[tf.Tensor, tf.Tensor]:
        pooled = encoder.pool(sequence_output, features["sentence_starts"])
        return _means(pooled, features["given_text"])

    def pooled_output(
        self, sequence_output: tf.Tensor, vectors: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        counts = tf.reduce_sum(tf.cast(mask, vectors.dtype), axis=1, keepdims=True)
        return tf.reduce_sum(vectors, axis=1) / tf.maximum(counts, 1)


def _means(vectors: tf.Tensor, number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Means over the vectors of each number from 1 on, and which numbers there are."""
    which = tf.range(1, 1 + tf.reduce_max(number))[tf.newaxis, :, tf.newaxis]
    is_of = tf.cast(number[:, tf.newaxis, :] == which, vectors.dtype)
    counts = tf.reduce_sum(is_of, axis=2)
    sums = tf.matmul(is_of, vectors)
    return sums / tf.maximum(counts, 1)[:, :, tf.newaxis], counts > 0


def model_rows(pretrained: Pretrained, splitter: GraphSentenceSplitter) -> ModelRows:
    """How the rows of a model are made.

    Args:
        pretrained: a BERT, BERT with P.S., SegaBERT, SLM or a mixture, or a ReAT.
        splitter: what makes sentences of paragraphs.

    Raises:
        ValueError: if it is another model.
    """
    model, inputs = pretrained.config.model, pretrained.config.inputs
    if isinstance(model, configuration.ReATConfig):
        return RowsOfBlocks(pretrained, splitter)
    if not isinstance(model, configuration.EncoderConfig):
        raise ValueError(
            "`checkpoint` must be of an encoder (BERT, SegaBERT, SLM, ReAT) to be "
            f"exported. Received: {pretrained.folder}, the run "
            f"{pretrained.config.name!r}, whose model was of {type(model).__name__}"
        )
    room = WindowRoom.of(pretrained)
    if isinstance(inputs, configuration.SentenceInputsConfig):
        return RowsOfSentences(pretrained, splitter, room)
    return RowsOfWindows(pretrained, splitter, room)
