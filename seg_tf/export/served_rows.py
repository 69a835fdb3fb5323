"""Rows of texts, made in the graph of a SavedModel.

Shape key: B rows.
"""

from collections.abc import Sequence

import tensorflow as tf

from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.layouts.layout import Features
from seg_tf.layouts.trees import Trees
from seg_tf.preprocessing.segments import encode_segments
from seg_tf.text.graph.characters import GraphTreeBuilder, TextTrees
from seg_tf.text.graph.pieces import GraphWordPieces
from seg_tf.text.graph.sentences import GraphSentenceSplitter


class ServedRows(tf.Module):
    """Spells texts in word pieces and lays them out.

    Args:
        pretrained: the model that reads them.

    Attributes:
        layout: that of the model.
    """

    def __init__(self, pretrained: Pretrained):
        super().__init__()
        self.layout = pretrained.layout()
        self._word_pieces = GraphWordPieces(
            pretrained.vocabulary, pretrained.lower_case
        )
        self._build_trees = GraphTreeBuilder(
            GraphSentenceSplitter(pretrained.sentence_parameters),
            self._word_pieces,
            self.layout.text_capacity.num_pieces,
            self.layout.text_capacity.num_sentences,
        )

    def of_texts(self, texts: tf.Tensor) -> tuple[TextTrees, Features]:
        """The beginnings of texts, and their rows as in pretraining.

        Args:
            texts: string `(B,)`; a line of a text is a paragraph.
        """
        trees = self.layout.beginning(self._build_trees(texts))
        # A text without a piece has an empty sentence.
        width = tf.maximum(tf.reduce_max(trees.num_sentences), 1)
        lengths = tf.pad(trees.sentence_lengths, [[0, 0], [0, 1]])[:, :width]
        of_documents = Trees.of_documents(
            pieces=trees.pieces,
            sentence_lengths=lengths,
            num_sentences=trees.num_sentences,
            paragraph_lengths=tf.pad(trees.paragraph_lengths, [[0, 0], [0, 1]]),
        )
        return trees, self.layout.rows(of_documents)

    def of_segments(
        self, texts: Sequence[tf.Tensor], capacity: int
    ) -> tuple[tf.Tensor, Features]:
        """Flags of examples that were cut, and the rows of examples as in fine-tuning.

        Args:
            texts: one or two string tensors `(B,)`.
            capacity: the most pieces of an example.
        """
        segments, is_cut = encode_segments(texts, self._word_pieces, capacity)
        return is_cut, self.layout.rows(Trees.of_texts(segments))
