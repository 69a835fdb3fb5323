"""Detects texts that the fast word-piece tokenizer may encode differently.

Against the exact tokenizer, the fast one folds case further (ß to ss, … to three
full stops) or, where accents stay, lower-cases a sigma at the end of a word otherwise;
strips no accents of cased text; splits at ideographs always; puts a space where a
control character is to be dropped; never reorders combining marks; knows another
version of Unicode; and bounds the bytes of a word in place of its characters. All but
the last are questions about single characters, so tables of code points, found by
trying each (`find_differing_characters`), answer them; words that might be overlong are
found by the distance of the characters that end words.
"""

from collections.abc import Sequence

import numpy as np

from seg_tf.text import differing_characters
from seg_tf.text.exact_tokenizer import MAX_CHARACTERS_PER_WORD, Normalization
from seg_tf.text.fast_tokenizer import map_to_array

# Decomposing one character gives at most 4: a word of no more characters than this
# stays within the limit, and a longer one might not.
_MAX_GROWTH = 4
LONGEST_SAFE_WORD = MAX_CHARACTERS_PER_WORD // _MAX_GROWTH

# Strings from Python may hold halves of surrogate pairs, which no encoding can.
_SURROGATES = (0xD800, 0xDFFF)

# Characters before and after which both tokenizers end a word. The list need not be
# complete: what it lacks makes words look longer, which is safe.
WORD_BREAKS = (
    (0x09, 0x0A),
    (0x0D, 0x0D),
    (0x20, 0x2F),
    (0x3A, 0x40),
    (0x5B, 0x60),
    (0x7B, 0x7E),
    (0xA0, 0xA1),
    (0xAB, 0xAB),
    (0xBB, 0xBB),
    (0x2010, 0x2027),
    (0x3000, 0x3002),
    (0x3400, 0x4DB5),
    (0x4E00, 0x9FD5),
)

_ORDINARY, _BREAK, _DIFFERING = range(3)


class TokenizerDifferences:
    """Finds the texts for which the fast tokenizer is not known to be right.

    Args:
        normalization: that of the tokenizers.

    Example:
        >>> from seg_tf.text.exact_tokenizer import UNCASED
        >>> TokenizerDifferences(UNCASED).may_occur(["café", "Straße", "é" * 80])
        array([False,  True,  True])
    """

    def __init__(self, normalization: Normalization):
        ranges = differing_characters.ranges(normalization)
        self._kinds = np.full(0x110000, _ORDINARY, np.uint8)
        _fill(self._kinds, WORD_BREAKS, _BREAK)
        _fill(self._kinds, (*ranges, _SURROGATES), _DIFFERING)

    def may_occur(self, texts: Sequence[str]) -> np.ndarray:
        """A bool array, True for each text that needs the exact tokenizer."""
        joined = "\n".join(texts)
        encoded = joined.encode("utf-32-le", "surrogatepass")
        kinds = self._kinds[np.frombuffer(encoded, np.uint32)]
        run_ends = np.append(np.flatnonzero(kinds == _BREAK), len(joined))
        run_lengths = np.diff(run_ends, prepend=-1) - 1
        in_long_words = run_ends[run_lengths > LONGEST_SAFE_WORD] - 1
        found = np.append(np.flatnonzero(kinds == _DIFFERING), in_long_words)
        text_ends = np.cumsum(map_to_array(len, texts, np.int64) + 1)
        differences = np.zeros(len(texts), bool)
        differences[np.searchsorted(text_ends, found, side="right")] = True
        return differences


def _fill(table: np.ndarray, ranges: Sequence[tuple[int, int]], value: int) -> None:
    for first, last in ranges:
        table[first : last + 1] = value
