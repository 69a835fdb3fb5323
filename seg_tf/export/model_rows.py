"""What the models differ in when they are served: rows of texts, and which vectors.

Shape key: B rows, L row length, M sentences, D width.
"""

import abc
from collections.abc import Mapping, Sequence

import tensorflow as tf

from seg_tf import configuration
from seg_tf.finetuning import graph_segments
from seg_tf.finetuning.row_lengths import longest_row
from seg_tf.finetuning.window_layout import index_caps
from seg_tf.inference import graph_rows
from seg_tf.inference.text_windows import WindowRoom
from seg_tf.ops.gathering import gather_vectors
from seg_tf.text.graph_pieces import GraphWordPieces
from seg_tf.text.graph_sentences import GraphSentenceSplitter
from seg_tf.text.graph_text import GraphTreeBuilder, TextTrees
from seg_tf.training.pretrained import Pretrained

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
        max_length: the most positions of a row of fine-tuning, if nothing else is said.
    """

    extra_features: tuple[str, ...]
    max_length: int

    def __init__(
        self, pretrained: Pretrained, splitter: GraphSentenceSplitter, room: WindowRoom
    ):
        super().__init__()
        self.room = room
        self.word_pieces = GraphWordPieces(pretrained.vocabulary, pretrained.lower_case)
        self.max_length = longest_row(pretrained, None)
        self._vocabulary = pretrained.vocabulary
        self._caps = dict(pretrained.encoder.index_tables)
        self._pair_caps = index_caps(pretrained)
        self._build_trees = GraphTreeBuilder(
            splitter, self.word_pieces, room.num_pieces, room.num_sentences
        )

    def of_texts(self, texts: tf.Tensor) -> tuple[TextTrees, Features]:
        """The beginnings of texts, and their rows as in pretraining.

        Args:
            texts: string `(B,)`; a line of a text is a paragraph.
        """
        trees = self._build_trees(texts)
        features = dict(self._rows(trees))
        if "token_type" in self._pair_caps:
            features["token_type"] = tf.zeros_like(features["token_ids"])
        return trees, features

    def of_segments(
        self, texts: Sequence[tf.Tensor], room: int
    ) -> tuple[tf.Tensor, Features]:
        """Which examples were cut, and the rows of examples as in fine-tuning.

        Args:
            texts: one or two string tensors `(B,)`.
            room: the most pieces of an example.
        """
        segments, is_cut = graph_segments.encode_segments(texts, self.word_pieces, room)
        return is_cut, self._segment_rows(segments)

    @abc.abstractmethod
    def num_specials(self, num_texts: int) -> int:
        """Special tokens of a row of so many texts."""

    @abc.abstractmethod
    def _rows(self, trees: TextTrees) -> Features: ...

    @abc.abstractmethod
    def _segment_rows(self, segments: Sequence[tf.RaggedTensor]) -> Features: ...

    @abc.abstractmethod
    def sentence_vectors(
        self, sequence_output: tf.Tensor, features: Features
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Vectors of the sentences of rows, and which of them there are.

        Args:
            sequence_output: float `(B, L, D)`.
            features: the rows.

        Returns:
            float `(B, M, D)`, 0 where there is no sentence, and bool `(B, M)`.
        """


class RowsOfWindows(ModelRows):
    """`[CLS] pieces [SEP]` (BERT, BERT with P.S., SegaBERT).

    There is no token for a sentence, so its vector is the mean over its pieces.
    """

    extra_features = ("sentence_number",)

    def num_specials(self, num_texts: int) -> int:
        return 1 + num_texts

    def _rows(self, trees: TextTrees) -> Features:
        return graph_rows.window_rows(trees, self._vocabulary, self._caps)

    def _segment_rows(self, segments: Sequence[tf.RaggedTensor]) -> Features:
        return graph_segments.window_rows(segments, self._vocabulary, self._pair_caps)

    def sentence_vectors(
        self, sequence_output: tf.Tensor, features: Features
    ) -> tuple[tf.Tensor, tf.Tensor]:
        number = features["sentence_number"]
        most = tf.maximum(tf.reduce_max(number), 0)
        which = tf.range(1, 1 + most)[tf.newaxis, :, tf.newaxis]
        is_of = tf.cast(number[:, tf.newaxis, :] == which, sequence_output.dtype)
        counts = tf.reduce_sum(is_of, axis=2)
        sums = tf.matmul(is_of, sequence_output)
        return sums / tf.maximum(counts, 1)[:, :, tf.newaxis], counts > 0


class RowsOfSentences(ModelRows):
    """`[CLS] [SENT] s1 [SENT] s2 … [SEP]` (SLM); a sentence's vector is its `[SENT]`'s."""

    extra_features = ("candidate_positions", "candidate_mask")

    def num_specials(self, num_texts: int) -> int:
        return 2 + num_texts

    def _rows(self, trees: TextTrees) -> Features:
        features = graph_rows.rows_of_sentences(
            trees, self._vocabulary, self._caps, self.room.num_sentences
        )
        # As wide as the row with the most sentences.
        most = tf.reduce_max(tf.maximum(trees.num_sentences, 1))
        for name in self.extra_features:
            features[name] = features[name][:, : most + 2]
        return features

    def _segment_rows(self, segments: Sequence[tf.RaggedTensor]) -> Features:
        return graph_segments.rows_of_sentences(
            segments, self._vocabulary, self._pair_caps
        )

    def sentence_vectors(
        self, sequence_output: tf.Tensor, features: Features
    ) -> tuple[tf.Tensor, tf.Tensor]:
        vectors = gather_vectors(
            sequence_output, features["candidate_positions"][:, 1:-1]
        )
        # The last candidate is [SEP].
        mask = features["candidate_mask"][:, 2:]
        return tf.where(mask[:, :, tf.newaxis], vectors, 0), mask


def model_rows(pretrained: Pretrained, splitter: GraphSentenceSplitter) -> ModelRows:
    """How the rows of a model are made.

    Args:
        pretrained: a BERT, BERT with P.S., SegaBERT, SLM or a mixture.
        splitter: what makes sentences of paragraphs.

    Raises:
        ValueError: if it is another model.
    """
    model, inputs = pretrained.config.model, pretrained.config.inputs
    if not isinstance(model, configuration.EncoderConfig):
        raise ValueError(
            "`checkpoint` must be of an encoder of windows (BERT, SegaBERT, SLM) to be "
            f"exported. Received: {pretrained.folder}, the run "
            f"{pretrained.config.name!r}, whose model was of {type(model).__name__}"
        )
    room = WindowRoom.of(pretrained)
    if isinstance(inputs, configuration.SentenceInputsConfig):
        return RowsOfSentences(pretrained, splitter, room)
    return RowsOfWindows(pretrained, splitter, room)
