"""Word pieces in the graph, equal to those of the exact tokenizer.

Everything that the fast tokenizer of tensorflow_text does otherwise (see
`tokenizer_differences`) is done before it, by tables of what the exact one makes of
each character; what is left to it are words, of which it knows the longest pieces.

Shape key: N characters, R spans, W words, K pieces.
"""

import dataclasses

import tensorflow as tf

from seg_tf.text import normalized_characters
from seg_tf.text.exact_tokenizer import (
    MAX_CHARACTERS_PER_WORD,
    UNKNOWN,
    Normalization,
)
from seg_tf.text.fast_tokenizer import MAX_BYTES_PER_WORD, word_piece_kernel
from seg_tf.text.graph.code_point_table import CodePointTable, held_once
from seg_tf.text.marked_positions import (
    MarkedPositions,
    count_off,
    shifted,
    which_run,
)
from seg_tf.text.vocabulary import Vocabulary


@dataclasses.dataclass(frozen=True)
class Pieces:
    """Word pieces of spans of a text, in order: tensors `(K,)`.

    Attributes:
        ids: int32, vocabulary ids.
        spans: int32, which span each belongs to.
        starts: int32, the character that each begins with.
        stops: int32, the position after the last character of each.
    """

    ids: tf.Tensor
    spans: tf.Tensor
    starts: tf.Tensor
    stops: tf.Tensor


@dataclasses.dataclass(frozen=True)
class _Words:
    """Normalised words: their characters, flat, where those come from, and spans."""

    characters: tf.Tensor
    origins: tf.Tensor
    lengths: tf.Tensor
    spans: tf.Tensor


class GraphWordPieces(tf.Module):
    """Encodes spans of a flat tensor of characters as word pieces.

    The ids are those of `seg_tf.text.word_pieces.WordPieces`: no special token comes
    out of text.

    Args:
        vocabulary: the tokens and their ids.
        normalization: changes to text before words are looked up.
    """

    def __init__(self, vocabulary: Vocabulary, normalization: Normalization):
        super().__init__()
        table = normalized_characters.normalized_characters(normalization)
        self._entry = CodePointTable(table.entry)
        self._kind = CodePointTable(table.kind)
        self._lengths, self._starts, self._sequences = map(
            held_once, (table.lengths, table.starts, table.sequences)
        )
        self._tokenizer = word_piece_kernel(
            tuple(vocabulary.tokens), MAX_BYTES_PER_WORD, splits_words=False
        )

    def encode(
        self,
        code_points: tf.Tensor,
        starts: tf.Tensor,
        stops: tf.Tensor,
        texts: tf.Tensor,
        most_words: int,
    ) -> Pieces:
        """The pieces of every span; no word reaches from one to the next.

        Args:
            code_points: int32 tensor `(N,)`.
            starts: int32 tensor `(R,)`, where spans start, and `stops`, after their
                last character.
            texts: int32 tensor `(R,)`, which text each belongs to, not falling.
            most_words: further words of a text are left out. Each would have been at
                least one piece.
        """
        words = self._words(code_points, starts, stops)
        text = tf.gather(texts, words.spans)
        is_first = text != shifted(text, -1, -1)
        first = MarkedPositions(is_first).last_before(tf.range(tf.size(text)) + 1)
        is_kept = tf.range(tf.size(text)) - first < most_words
        words = _kept(words, is_kept)
        strings = tf.strings.unicode_encode(
            tf.RaggedTensor.from_row_lengths(
                words.characters, words.lengths, validate=False
            ),
            "UTF-8",
        )
        is_long = words.lengths > MAX_CHARACTERS_PER_WORD
        ids, begins, ends = self._tokenizer.tokenize_with_offsets(
            tf.where(is_long, UNKNOWN, strings)
        )
        word = tf.cast(ids.value_rowids(), tf.int32)
        # From bytes to characters; the end of a word that is too long is its own.
        num_bytes = _num_bytes(words.characters)
        byte_before = tf.cumsum(num_bytes, exclusive=True)
        character = tf.cumsum(words.lengths, exclusive=True)
        base = tf.gather(byte_before, tf.gather(character, word))
        begin = tf.searchsorted(
            byte_before, base + tf.cast(begins.values, tf.int32), side="left"
        )
        end = tf.searchsorted(
            byte_before, base + tf.cast(ends.values, tf.int32), side="left"
        )
        after = tf.gather(character + words.lengths, word)
        end = tf.where(tf.gather(is_long, word), after, end)
        return Pieces(
            ids=ids.values,
            spans=tf.gather(words.spans, word),
            starts=tf.gather(words.origins, begin),
            stops=tf.gather(words.origins, end - 1) + 1,
        )

    def _words(
        self, code_points: tf.Tensor, starts: tf.Tensor, stops: tf.Tensor
    ) -> _Words:
        position, span = count_off(starts, stops - starts)
        given = tf.gather(code_points, position)
        entry = self._entry(given)
        at, source = count_off(
            tf.gather(self._starts, entry), tf.gather(self._lengths, entry)
        )
        normalized = tf.where(
            tf.gather(entry, source) == 0,
            tf.gather(given, source),
            tf.gather(self._sequences, at),
        )
        kind = self._kind(normalized)
        span = tf.gather(span, source)
        is_part = kind == normalized_characters.PART
        continues = is_part & shifted(is_part, -1, False)
        continues &= span == shifted(span, -1, -1)
        is_kept = kind != normalized_characters.BLANK
        first = tf.cast(tf.where(tf.boolean_mask(~continues, is_kept))[:, 0], tf.int32)
        characters = tf.boolean_mask(normalized, is_kept)
        after = tf.concat([first, [tf.size(characters)]], 0)[1:]
        return _Words(
            characters=characters,
            origins=tf.boolean_mask(tf.gather(position, source), is_kept),
            lengths=after - first,
            spans=tf.gather(tf.boolean_mask(span, is_kept), first),
        )


def _kept(words: _Words, is_kept: tf.Tensor) -> _Words:
    of_characters = tf.gather(is_kept, which_run(words.lengths))
    return _Words(
        characters=tf.boolean_mask(words.characters, of_characters),
        origins=tf.boolean_mask(words.origins, of_characters),
        lengths=tf.boolean_mask(words.lengths, is_kept),
        spans=tf.boolean_mask(words.spans, is_kept),
    )


def _num_bytes(code_points: tf.Tensor) -> tf.Tensor:
    """Number of UTF-8 bytes of each code point."""
    more = (code_points >= bound for bound in (0x80, 0x800, 0x10000))
    return 1 + tf.add_n([tf.cast(is_more, tf.int32) for is_more in more])
