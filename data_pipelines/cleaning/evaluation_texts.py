r"""Finds copies of evaluation texts in a corpus by comparing runs of words.

Words are the matches of `\w+` in the NFKC-normalized, case-folded text, so differences
in punctuation, spacing and case do not hide a copy.

Shape key: W words, R runs of words.
"""

import functools
import hashlib
import pathlib
import re
import unicodedata
from collections.abc import Iterable

import numpy as np

from data_pipelines.cleaning.cleaning_options import CleaningOptions

_WORD = re.compile(r"\w+")
# Odd, so that multiplication modulo 2^64 loses no bits.
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def split_words(text: str) -> list[str]:
    """Returns the NFKC-normalized, case-folded words of a text."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


@functools.lru_cache(maxsize=1 << 20)
def _word_hash(word: str) -> int:
    data = word.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def run_hashes(words: list[str], length: int) -> np.ndarray:
    """Hashes all R = W - length + 1 runs of `length` words. Returns uint64 `(R,)`.

    The probability that any run in a corpus of 10^10 words collides with one of 10^7
    different runs is below one percent.
    """
    num_runs = len(words) - length + 1
    if num_runs <= 0:
        return np.zeros(0, np.uint64)
    word_hashes = np.fromiter(map(_word_hash, words), np.uint64, len(words))
    hashes = np.zeros(num_runs, np.uint64)
    for offset in range(length):
        hashes = hashes * _FACTOR + word_hashes[offset : offset + num_runs]
    return hashes


class EvaluationTexts:
    """Finds texts that share a run of `length` words with an evaluation text.

    Of `num_texts` evaluation texts, `num_short` have fewer words and cannot be found.
    """

    def __init__(self, texts: Iterable[str], length: int):
        self._length = length
        texts = list(map(split_words, texts))
        self.num_texts = len(texts)
        self.num_short = sum(len(words) < length for words in texts)
        hashes = [run_hashes(words, length) for words in ([], *texts)]
        self._hashes = np.unique(np.concatenate(hashes))

    def __str__(self) -> str:
        return (
            f"copies of {self.num_texts - self.num_short:,} evaluation texts; "
            f"{self.num_short:,} more have fewer than {self._length} words and cannot "
            "be found"
        )

    def find(self, text: str) -> str | None:
        """Returns the words of the first shared run, joined by spaces, or None."""
        words = split_words(text)
        hashes = run_hashes(words, self._length)
        # `np.isin` would sort the evaluation texts again for each text.
        places = np.searchsorted(self._hashes, hashes)
        places = np.minimum(places, len(self._hashes) - 1)
        (copies,) = np.nonzero(self._hashes[places] == hashes)
        if not len(copies):
            return None
        return " ".join(words[copies[0] : copies[0] + self._length])


@functools.lru_cache(maxsize=1)
def load(options: CleaningOptions) -> EvaluationTexts:
    """Reads the evaluation texts (cached). Raises ValueError if all are too short."""
    path, length = options.evaluation_texts, options.evaluation_words
    lines = pathlib.Path(path).expanduser().read_text("utf-8").splitlines()
    texts = EvaluationTexts(filter(None, map(str.strip, lines)), length)
    if texts.num_short == texts.num_texts:
        raise ValueError(
            f"`evaluation_texts` must have texts of at least {length} words "
            f"(`evaluation_words`). Received: {path}, whose {texts.num_texts:,} texts "
            "are all shorter"
        )
    return texts
