"""A text as the one row that an encoder reads of it, and what stands where in it.

A document, one row, by the very graph that lays out rows of pretraining. The texts of
tasks, several a row and many rows a batch, are laid out by `seg_tf.finetuning`'s
`window_layout` and `sentence_layout`; a test holds both to the same rows.

Shape key: L positions of the row.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from seg_tf import configuration
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.inference import rows
from seg_tf.inference.rows import Row
from seg_tf.models.encoder import Encoder
from seg_tf.text.punkt import SentenceSplitter
from seg_tf.text.sentence_rows import sentence_rows
from seg_tf.text.tree import DocumentTree, TreeBuilder
from seg_tf.text.vocabulary import SENT
from seg_tf.text.window_indices import add_indices

_SPECIAL_TOKENS = 2


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


@dataclasses.dataclass(frozen=True)
class WindowRoom:
    """How much text the windows of a model hold.

    Attributes:
        num_pieces: word pieces.
        num_sentences: sentences; None for any number.
    """

    num_pieces: int
    num_sentences: int | None = None

    @classmethod
    def of(cls, pretrained: Pretrained) -> "WindowRoom":
        """The room of the windows that a model was trained on.

        Raises:
            ValueError: if it was not trained on windows.
        """
        inputs = pretrained.config.inputs
        if not isinstance(pretrained.encoder, Encoder):
            raise ValueError(
                "`checkpoint` must be of an encoder that reads windows (BERT, BERT "
                f"with P.S., SegaBERT, SLM). Received: {pretrained.folder}, the run "
                f"{pretrained.config.name!r}, whose model is a "
                f"{type(pretrained.encoder).__name__}"
            )
        return cls(
            inputs.window_length - _SPECIAL_TOKENS,
            getattr(inputs, "max_sentences", None),
        )

    def shared(self, other: "WindowRoom") -> "WindowRoom":
        """What fits into the windows of both."""
        limits = {self.num_sentences, other.num_sentences} - {None}
        return WindowRoom(
            min(self.num_pieces, other.num_pieces), min(limits, default=None)
        )


def read_tree(
    paragraphs: Sequence[str], pretrained: Pretrained, splitter: SentenceSplitter
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


def first_window(tree: DocumentTree, room: WindowRoom) -> DocumentTree:
    """The beginning of a text, as much as a window holds of it.

    As where records are cut, these are whole sentences, and a part of the first one
    only if that is too long for a window.

    Args:
        tree: the text.
        room: what a window holds.
    """
    ends = np.cumsum(tree.sentence_lengths)
    num_whole = int(np.searchsorted(ends, room.num_pieces, side="right"))
    count = max(num_whole, 1)
    if room.num_sentences is not None:
        count = min(count, room.num_sentences)
    sentence_lengths = np.array(tree.sentence_lengths[:count])
    sentence_lengths[0] = min(sentence_lengths[0], room.num_pieces)
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
    is_sentence_model = isinstance(
        pretrained.config.inputs, configuration.SentenceInputsConfig
    )
    lay_out_pieces = _row_of_sentences if is_sentence_model else _row_of_pieces
    token_ids, is_piece, indices = lay_out_pieces(tree, pretrained)
    # Before each sentence's pieces, one position or none.
    lengths = tree.sentence_lengths + int(is_sentence_model)
    sentences = np.repeat(np.arange(len(lengths)), lengths)
    paragraph_of = np.repeat(
        np.arange(len(tree.paragraph_lengths)), tree.paragraph_lengths
    )
    sentences = np.pad(sentences, 1, mode="edge")  # [CLS] and [SEP]
    tokens = pretrained.vocabulary.tokens_of(token_ids)
    if is_sentence_model:
        sent_id = pretrained.vocabulary.sent_id
        tokens = [
            SENT if token_id == sent_id else token
            for token_id, token in zip(token_ids, tokens, strict=True)
        ]
    features = {
        "token_ids": token_ids,
        "padding_mask": np.ones(len(token_ids), bool),
        "window_number": np.ones(len(token_ids), np.int32),
        "token_type": np.zeros(len(token_ids), np.int32),
        **indices,
    }
    return TextWindow(
        features={
            name: features[name][np.newaxis]
            for name in pretrained.encoder.feature_names
        },
        tokens=tuple(tokens),
        paragraphs=paragraph_of[sentences],
        sentences=sentences,
        is_piece=is_piece,
    )


_LaidOut = tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]


def _row_of_pieces(tree: DocumentTree, pretrained: Pretrained) -> _LaidOut:
    vocabulary, num_pieces = pretrained.vocabulary, len(tree.token_ids)
    indices = add_indices(
        num_pieces=tf.constant([num_pieces]),
        sentence_lengths=tf.constant([tree.sentence_lengths], tf.int32),
        paragraph_lengths=tf.constant([tree.paragraph_lengths], tf.int32),
        first_index=tf.constant([tree.first_index], tf.int32),
        row_length=num_pieces + _SPECIAL_TOKENS,
        caps=pretrained.encoder.index_tables,
    )
    token_ids = np.array(
        [vocabulary.cls_id, *tree.token_ids, vocabulary.sep_id], np.int32
    )
    is_piece = np.pad(np.ones(num_pieces, bool), 1)
    return token_ids, is_piece, {name: one.numpy()[0] for name, one in indices.items()}


def _row_of_sentences(tree: DocumentTree, pretrained: Pretrained) -> _LaidOut:
    vocabulary = pretrained.vocabulary
    first_pieces = np.cumsum(tree.sentence_lengths) - tree.sentence_lengths
    indices = tree.indices()
    row = Row(
        tuple(np.split(tree.token_ids, first_pieces[1:])),
        *(
            tuple(indices[name][first_pieces])
            for name in ("paragraph_index", "sentence_index")
        ),
    )
    padded = rows.pad([row], len(row.pieces), row.num_tokens)
    found = sentence_rows(
        **{name: tf.constant(array) for name, array in padded.items()},
        row_length=row.num_tokens,
        special_ids=vocabulary.special_ids,
        sent_id=vocabulary.sent_id,
        caps=pretrained.encoder.index_tables,
    )
    found = {name: tensor.numpy()[0] for name, tensor in found.items()}
    return found["token_ids"], found["sentence_numbers"] > 0, found
