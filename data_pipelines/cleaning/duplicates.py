"""Documents that repeat an earlier one, by fingerprints of their words.

An exact fingerprint is a hash of all words. A near fingerprint is a MinHash (Broder,
1997) of word 5-grams: the share of numbers in which two of them agree estimates the
Jaccard similarity of the two sets of 5-grams. Documents that agree in a whole band of
numbers are compared ("locality-sensitive hashing").
"""

from __future__ import annotations

import functools
import hashlib
import unicodedata
from typing import TYPE_CHECKING

import numpy as np
from datasketch import LeanMinHash, MinHash, MinHashLSH

from seg_tf import command_line

if TYPE_CHECKING:
    from data_pipelines.readers import Document

MAX_NEAR_DOCUMENTS = 1_000_000
"""Documents among which near duplicates are found: an index of 6 GB (threshold 0.8)."""
SHINGLE_WORDS = 5
NUM_PERMUTATIONS = 128
_MIN_HASH = {"seed": 1, "scheme": "affine32"}
# The library chooses bands so that missed candidates and needless comparisons weigh the
# same. Candidates are compared afterwards here, so only a missed one is an error.
_WEIGHTS = (0.05, 0.95)
# Shingles hashed at a time, times `NUM_PERMUTATIONS` numbers.
_SHINGLES_AT_ONCE = 4096


def normalised_words(document: Document) -> list[str]:
    """The words to compare: compatibility forms (NFKC) without case."""
    text = unicodedata.normalize("NFKC", "\n".join(document.paragraphs))
    return text.casefold().split()


def exact_fingerprint(words: list[str]) -> np.ndarray:
    """A 128-bit hash of a document: uint32 array `(4,)`."""
    text = " ".join(words).encode("utf-8", "surrogatepass")
    return np.frombuffer(hashlib.blake2b(text, digest_size=16).digest(), "<u4")


@functools.cache
def _empty_min_hash() -> MinHash:
    return MinHash(NUM_PERMUTATIONS, **_MIN_HASH)


def near_fingerprint(words: list[str]) -> np.ndarray:
    """The MinHash of a document's runs of 5 words: uint32 array `(128,)`.

    A document with fewer words is one run.
    """
    runs = {
        " ".join(words[begin : begin + SHINGLE_WORDS]).encode("utf-8", "surrogatepass")
        for begin in range(max(len(words) - SHINGLE_WORDS, 0) + 1)
    }
    shingles = list(runs)
    min_hash = _empty_min_hash().copy()
    for begin in range(0, len(shingles), _SHINGLES_AT_ONCE):
        min_hash.update_batch(shingles[begin : begin + _SHINGLES_AT_ONCE])
    return min_hash.hashvalues.astype("<u4")


def exact_duplicates(fingerprints: np.ndarray) -> np.ndarray:
    """Finds the documents that have the words of an earlier one.

    Of fingerprints, a uint32 array `(n, 4)`, returns an int64 array `(2, m)` of rows:
    documents to drop, ascending, and the first document with the same words.
    """
    order = np.lexsort(fingerprints.T)  # Stable: the first of a group is the earliest.
    ordered = fingerprints[order]
    is_first = np.ones(len(order), bool)
    is_first[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    firsts = order[is_first][np.cumsum(is_first) - 1]
    pairs = np.stack([order[~is_first], firsts[~is_first]])
    return pairs[:, np.argsort(pairs[0])]


def near_duplicates(fingerprints: np.ndarray, threshold: float) -> np.ndarray:
    """Finds the documents that nearly repeat an earlier one that stays.

    Similar documents agree in a share of numbers of at least `threshold`. Where B
    resembles A, and C resembles B but not A, B is dropped and C stays. Of fingerprints,
    a uint32 array `(n, 128)`, returns an int64 array `(2, m)` of rows: documents to
    drop, ascending, and the earliest document that stays and that each resembles.
    """
    index, pairs = MinHashLSH(threshold, NUM_PERMUTATIONS, weights=_WEIGHTS), []
    with command_line.progress_bar(
        len(fingerprints), "duplicates", " documents"
    ) as bar:
        for row, values in enumerate(fingerprints):
            min_hash = LeanMinHash(hashvalues=values, **_MIN_HASH)
            earlier = np.array(sorted(index.query(min_hash)), np.int64)
            agreement = (fingerprints[earlier] == values).mean(axis=1)
            similar = earlier[agreement >= threshold]
            if len(similar):
                pairs.append((row, similar[0]))
            else:
                index.insert(row, min_hash, check_duplication=False)
            bar.update(1)
    return np.array(pairs, np.int64).reshape(-1, 2).T
