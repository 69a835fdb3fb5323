"""Tables of the exact word-piece tokenizer's result for every single character.

The tokenizer (`seg_tf.text.exact_tokenizer`) drops characters, decomposes them, strips
accents and folds case, one character at a time, and ends words at white space and
around some of what comes out. So it is asked about each character once.

What no table of characters can hold: two marks that are no accents, side by side in
another order than the canonical one, change places there. They are Indic vowel killers
and tone marks of East Asian scripts and of musical notation.
"""

import dataclasses
import functools
from collections.abc import Iterator, Sequence

import numpy as np
import tokenizers

from seg_tf.text.exact_tokenizer import Normalization, exact_normalizer
from seg_tf.text.graph.code_point_table import NUM_CODE_POINTS

# Kinds of normalised characters: part of a word, a whole word, or white space.
PART, ALONE, BLANK = range(3)

_SURROGATES = range(0xD800, 0xE000)
# A mark that the normaliser leaves alone, and a letter: nothing continues past them.
_BAR, _LETTER = "|", "a"
_AT_ONCE = 1 << 12


@dataclasses.dataclass(frozen=True, eq=False)
class NormalizedCharacters:
    """Normalised form of each code point, as tables.

    Attributes:
        entry: int32 `(0x110000,)`, for every code point which sequence it becomes; 0
            if it stays as it is.
        lengths: int32, of every sequence.
        starts: int32, where in `sequences` each begins.
        sequences: int32, code points, one sequence after the other.
        kind: int32 `(0x110000,)`, `PART`, `ALONE` or `BLANK`, of what comes out.
    """

    entry: np.ndarray
    lengths: np.ndarray
    starts: np.ndarray
    sequences: np.ndarray
    kind: np.ndarray


@functools.cache
def normalized_characters(normalization: Normalization) -> NormalizedCharacters:
    """Asks the tokenizer about all characters; some seconds.

    Args:
        normalization: the changes to text that the tokenizer is set to.
    """
    entry = np.zeros(NUM_CODE_POINTS, np.int32)
    numbers: dict[str, int] = {}
    alone = []
    for code_point, normalized in enumerate(_normalized(normalization)):
        kept = normalized.strip(" ") or normalized[:1]
        # Ideographs get spaces around them: each is a word.
        if kept != normalized:
            alone += map(ord, kept)
        if kept != chr(code_point):
            entry[code_point] = numbers.setdefault(kept, 1 + len(numbers))
    lengths = np.array([1, *map(len, numbers)], np.int32)
    sequences = np.array([0, *map(ord, "".join(numbers))], np.int32)
    kind = np.full(NUM_CODE_POINTS, PART, np.int32)
    comes_out = entry == 0
    comes_out[sequences] = True
    comes_out[_SURROGATES] = False
    kind[alone + _punctuation(np.flatnonzero(comes_out).tolist())] = ALONE
    kind[ord(" ")] = BLANK
    return NormalizedCharacters(
        entry=entry,
        lengths=lengths,
        starts=np.cumsum(lengths, dtype=np.int32) - lengths,
        sequences=sequences,
        kind=kind,
    )


def _normalized(normalization: Normalization) -> Iterator[str]:
    """Normalised form of each code point by itself, without surrogate halves."""
    normalize = exact_normalizer(normalization).normalize_str
    for group in _groups(range(NUM_CODE_POINTS)):
        asked = [
            "" if code_point in _SURROGATES else chr(code_point) for code_point in group
        ]
        if _BAR in asked:
            yield from map(normalize, asked)
        else:
            yield from normalize(_BAR.join(asked)).split(_BAR)


def _punctuation(code_points: list[int]) -> list[int]:
    """Selects the normalised characters that always end a word."""
    split = tokenizers.pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    found = set()
    for group in _groups(code_points):
        text = "".join(_LETTER + chr(code_point) for code_point in group)
        # A word of several characters is letters and what is part of words.
        found.update(word for word, _ in split(text) if len(word) == 1)
    return [ord(word) for word in found - {_LETTER}]


def _groups(code_points: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(code_points), _AT_ONCE):
        yield code_points[start : start + _AT_ONCE]
