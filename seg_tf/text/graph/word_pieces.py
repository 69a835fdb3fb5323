"""Encodes text as word pieces in the graph, like the exact tokenizer.

The exact tokenizer (`seg_tf.text.normalization`) normalizes one character at a time,
and splits words at whitespace and around some of the normalized characters. Tables of
its results for all characters reproduce this here, with one exception: marks that are
not accents, such as Indic viramas, are not sorted into canonical order.

Shape key: N characters, R spans, W words, K pieces.
"""

import dataclasses
import functools
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf
import tokenizers

from seg_tf.text.graph import flat
from seg_tf.text.normalization import (
    MAX_CHARACTERS_PER_WORD,
    Normalization,
    exact_normalizer,
)
from seg_tf.text.vocabulary import UNK, Vocabulary
from seg_tf.text.word_pieces import MAX_BYTES_PER_WORD, word_piece_kernel

# Kinds of normalized characters: part of a word, a whole word, or whitespace.
_PART, _ALONE, _BLANK = range(3)
_SURROGATES = range(0xD800, 0xE000)
# A mark and a letter that the normalizer keeps, to separate characters.
_BAR, _LETTER = "|", "a"
_AT_ONCE = 1 << 12


@dataclasses.dataclass(frozen=True)
class Pieces:
    """Word pieces of spans of a text, in order, as int32 tensors `(K,)`.

    `spans` are span indices. `starts` and `stops` bound the characters of each piece.
    """

    ids: tf.Tensor
    spans: tf.Tensor
    starts: tf.Tensor
    stops: tf.Tensor


@dataclasses.dataclass(frozen=True)
class _Words:
    """Normalized words `(W,)`. `origins` are the original positions of `characters`."""

    characters: tf.Tensor
    origins: tf.Tensor
    lengths: tf.Tensor
    spans: tf.Tensor


class GraphWordPieces(tf.Module):
    """Encodes spans of a flat tensor of characters, like `WordPieces`."""

    def __init__(self, vocabulary: Vocabulary, normalization: Normalization):
        super().__init__()
        table = normalized_characters(normalization)
        self._entry = flat.CodePointTable(table.entry)
        self._kind = flat.CodePointTable(table.kind)
        self._lengths, self._starts, self._sequences = map(
            flat.table_variable, (table.lengths, table.starts, table.sequences)
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
        """Encodes each span separately, up to `most_words` words per text.

        `code_points` is int32 `(N,)`. `starts` and `stops` of spans, and `texts`, their
        ascending text numbers, are int32 `(R,)`.
        """
        words = self._words(code_points, starts, stops)
        text = tf.gather(texts, words.spans)
        is_first = text != flat.shifted(text, -1, -1)
        first = flat.MarkedPositions(is_first).last_before(tf.range(tf.size(text)) + 1)
        is_kept = tf.range(tf.size(text)) - first < most_words
        is_character_kept = tf.gather(is_kept, flat.which_run(words.lengths))
        words = _Words(
            characters=tf.boolean_mask(words.characters, is_character_kept),
            origins=tf.boolean_mask(words.origins, is_character_kept),
            lengths=tf.boolean_mask(words.lengths, is_kept),
            spans=tf.boolean_mask(words.spans, is_kept),
        )
        is_long = words.lengths > MAX_CHARACTERS_PER_WORD
        ids, begins, ends = self._tokenizer.tokenize_with_offsets(
            tf.where(is_long, UNK, flat.encode_strings(words.characters, words.lengths))
        )
        word = tf.cast(ids.value_rowids(), tf.int32)
        # Convert bytes to characters. A word that is too long is one piece.
        more = (words.characters >= bound for bound in (0x80, 0x800, 0x10000))
        num_bytes = 1 + tf.add_n([tf.cast(is_more, tf.int32) for is_more in more])
        byte_before = tf.cumsum(num_bytes, exclusive=True)
        character = tf.cumsum(words.lengths, exclusive=True)
        base = tf.gather(byte_before, tf.gather(character, word))
        begin, end = (
            tf.searchsorted(byte_before, base + tf.cast(offsets.values, tf.int32))
            for offsets in (begins, ends)
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
        position, span = flat.count_off(starts, stops - starts)
        source_points = tf.gather(code_points, position)
        entry = self._entry(source_points)
        at, source = flat.count_off(
            tf.gather(self._starts, entry), tf.gather(self._lengths, entry)
        )
        normalized = tf.where(
            tf.gather(entry, source) == 0,
            tf.gather(source_points, source),
            tf.gather(self._sequences, at),
        )
        kind = self._kind(normalized)
        span = tf.gather(span, source)
        is_part = kind == _PART
        continues = is_part & flat.shifted(is_part, -1, False)
        continues &= span == flat.shifted(span, -1, -1)
        is_kept = kind != _BLANK
        first = tf.cast(tf.where(tf.boolean_mask(~continues, is_kept))[:, 0], tf.int32)
        characters = tf.boolean_mask(normalized, is_kept)
        after = tf.concat([first, [tf.size(characters)]], 0)[1:]
        return _Words(
            characters=characters,
            origins=tf.boolean_mask(tf.gather(position, source), is_kept),
            lengths=after - first,
            spans=tf.gather(tf.boolean_mask(span, is_kept), first),
        )


@dataclasses.dataclass(frozen=True, eq=False)
class NormalizedCharacters:
    """Normalized forms of code points, as int32 tables.

    `entry` is the number of the sequence that replaces a code point, or 0 if none does.
    `starts` and `lengths` bound each sequence in `sequences`. `kind`, indexed by
    normalized code points, is `_PART`, `_ALONE` or `_BLANK`.
    """

    entry: np.ndarray
    lengths: np.ndarray
    starts: np.ndarray
    sequences: np.ndarray
    kind: np.ndarray


@functools.cache
def normalized_characters(normalization: Normalization) -> NormalizedCharacters:
    """Tabulates the exact normalizer for all characters, which takes some seconds."""
    entry = np.zeros(flat.NUM_CODE_POINTS, np.int32)
    numbers: dict[str, int] = {}
    alone: list[int] = []
    for code_point, normalized in enumerate(_normalized(normalization)):
        stripped = normalized.strip(" ") or normalized[:1]
        # The normalizer puts spaces around ideographs, so each is a word.
        if stripped != normalized:
            alone += map(ord, stripped)
        if stripped != chr(code_point):
            entry[code_point] = numbers.setdefault(stripped, 1 + len(numbers))
    lengths = np.array([1, *map(len, numbers)], np.int32)
    sequences = np.array([0, *map(ord, "".join(numbers))], np.int32)
    comes_out = entry == 0
    comes_out[sequences] = True
    comes_out[_SURROGATES] = False
    kind = np.full(flat.NUM_CODE_POINTS, _PART, np.int32)
    kind[alone + _punctuation(np.flatnonzero(comes_out).tolist())] = _ALONE
    kind[ord(" ")] = _BLANK
    starts = np.cumsum(lengths, dtype=np.int32) - lengths
    return NormalizedCharacters(entry, lengths, starts, sequences, kind)


def _normalized(normalization: Normalization) -> Iterator[str]:
    """Yields the normalized form of each code point, and "" for surrogates."""
    normalize = exact_normalizer(normalization).normalize_str
    for group in _groups(range(flat.NUM_CODE_POINTS)):
        characters = [
            "" if code_point in _SURROGATES else chr(code_point) for code_point in group
        ]
        if _BAR in characters:
            yield from map(normalize, characters)
        else:
            yield from normalize(_BAR.join(characters)).split(_BAR)


def _punctuation(code_points: list[int]) -> list[int]:
    """Selects the code points that the tokenizer always makes separate words."""
    split = tokenizers.pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    words: set[str] = set()
    for group in _groups(code_points):
        text = "".join(_LETTER + chr(code_point) for code_point in group)
        # Words of several characters contain only letters and other parts of words.
        words.update(word for word, _ in split(text) if len(word) == 1)
    return [ord(word) for word in words - {_LETTER}]


def _groups(code_points: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(code_points), _AT_ONCE):
        yield code_points[start : start + _AT_ONCE]
