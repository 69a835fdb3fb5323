"""A text as the one row that an encoder reads of it, and what stands where in it.

Shape key: L positions of the row.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.layouts.layout import TextCapacity
from seg_tf.models.encoder import Encoder
from seg_tf.text.graph.trees import Trees
from seg_tf.text.punkt import Splitter
from seg_tf.text.tree import DocumentTree, TreeBuilder
from seg_tf.text.vocabulary import SENT


@dataclasses.dataclass(frozen=True, eq=False)
class TextWindow:
    """A text laid out as in pretraining, alone and without padding.

    Attributes:
        features: what the encoder reads, each `(1, L)`.
        tokens: the L tokens, special ones included, `[SENT]` by that name, whatever
            row of the vocabulary it has.
        paragraphs: int `(L,)`, which paragraph of the window, from 0. A special token
            belongs where its indices are: `[CLS]` to the first, `[SEP]` to the last.
        sentences: int `(L,)`, which sentence, likewise, counted through all paragraphs.
        is_piece: bool `(L,)`, whether it is text, not a special token.
    """

    features: Mapping[str, np.ndarray]
    tokens: tuple[str, ...]
    paragraphs: np.ndarray
    sentences: np.ndarray
    is_piece: np.ndarray

    @property
    def num_pieces(self) -> int:
        """Word pieces of the text."""
        return int(self.is_piece.sum())

    @property
    def num_paragraphs(self) -> int:
        """Paragraphs, the last of which may have been cut."""
        return int(self.paragraphs[-1]) + 1

    @property
    def num_sentences(self) -> int:
        """Sentences of all paragraphs."""
        return int(self.sentences[-1]) + 1


def window_capacity(pretrained: Pretrained) -> TextCapacity:
    """Capacity of the windows that a model was trained on.

    Raises:
        ValueError: if it was not trained on windows.
    """
    if not isinstance(pretrained.encoder, Encoder):
        raise ValueError(
            "`checkpoint` must be of an encoder that reads windows (BERT, BERT with "
            f"P.S., SegaBERT, SLM). Received: {pretrained.folder}, the run "
            f"{pretrained.config.name!r}, whose model is a "
            f"{type(pretrained.encoder).__name__}"
        )
    return pretrained.layout().text_capacity


def read_tree(
    paragraphs: Sequence[str], pretrained: Pretrained, splitter: Splitter
) -> DocumentTree:
    """Sentences and word pieces of a text, as records hold them.

    Args:
        paragraphs: of the text.
        pretrained: the model that is to read it.
        splitter: what makes sentences of a paragraph.

    Raises:
        ValueError: if there is no word piece in it.
    """
    encode = pretrained.text_encoder().encode
    (tree,) = TreeBuilder(splitter.split, encode).build([paragraphs])
    if not len(tree.token_ids):
        raise ValueError(
            "`text` must hold a word that the model can read. Received: "
            f"{len(paragraphs)} paragraphs, without"
        )
    return tree


def first_window(tree: DocumentTree, capacity: TextCapacity) -> DocumentTree:
    """The beginning of a text, as much as a window holds of it.

    As where records are cut, these are whole sentences, and a part of the first one
    only if that is too long for a window.

    Args:
        tree: the text.
        capacity: the most that a window holds.
    """
    ends = np.cumsum(tree.sentence_lengths)
    num_whole = int(np.searchsorted(ends, capacity.num_pieces, side="right"))
    count = max(num_whole, 1)
    if capacity.num_sentences is not None:
        count = min(count, capacity.num_sentences)
    sentence_lengths = np.array(tree.sentence_lengths[:count])
    sentence_lengths[0] = min(sentence_lengths[0], capacity.num_pieces)
    paragraph_ends = np.minimum(np.cumsum(tree.paragraph_lengths), count)
    paragraph_lengths = np.diff(paragraph_ends, prepend=0)
    return DocumentTree(
        tree.token_ids[: sentence_lengths.sum()],
        sentence_lengths,
        paragraph_lengths[paragraph_lengths > 0],
    )


def lay_out(tree: DocumentTree, pretrained: Pretrained) -> TextWindow:
    """The row that a model was trained to read of such a text.

    That is `[CLS] pieces [SEP]` with the indices that the model embeds, capped, and for
    a model of sentences (SLM) a `[SENT]` before each, in the order of the text.

    Args:
        tree: a text that fits into a window.
        pretrained: a model that was trained on windows.
    """
    layout, vocabulary = pretrained.layout(), pretrained.vocabulary
    row = layout.rows(Trees.of_document(tree))
    features = {name: values.numpy() for name, values in row.items()}
    features["window_number"] = np.ones_like(features["token_ids"])
    # Before each sentence's pieces, one position or none.
    lengths = tree.sentence_lengths + int(layout.sent_id is not None)
    sentences = np.repeat(np.arange(len(lengths)), lengths)
    paragraph_of = np.repeat(
        np.arange(len(tree.paragraph_lengths)), tree.paragraph_lengths
    )
    sentences = np.pad(sentences, 1, mode="edge")  # [CLS] and [SEP]
    token_ids = features["token_ids"][0]
    tokens = [
        SENT if token_id == layout.sent_id else token
        for token_id, token in zip(
            token_ids, vocabulary.tokens_of(token_ids), strict=True
        )
    ]
    return TextWindow(
        features={name: features[name] for name in pretrained.encoder.feature_names},
        tokens=tuple(tokens),
        paragraphs=paragraph_of[sentences],
        sentences=sentences,
        is_piece=features["sentence_number"][0] > 0,
    )
