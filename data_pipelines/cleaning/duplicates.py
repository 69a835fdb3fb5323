"""Finds documents that repeat an earlier one by comparing fingerprints of their words.

An exact fingerprint is a hash of all words. A near fingerprint is a MinHash (Broder,
1997) of word 5-grams. The fraction of numbers in which two MinHashes agree estimates
the Jaccard similarity of the documents' 5-grams. Documents are compared only if they
agree in a whole band of numbers (locality-sensitive hashing).
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
"""Maximum number of documents to search for near duplicates, with 6 GB of memory."""
SHINGLE_WORDS = 5
NUM_PERMUTATIONS = 128
_MIN_HASH = {"seed": 1, "scheme": "affine32"}
# Weights of false positives and false negatives in the choice of bands. Candidates are
# compared afterwards, so false positives cost only time.
_WEIGHTS = (0.05, 0.95)
# Number of shingles to hash at a time. Each needs `NUM_PERMUTATIONS` numbers.
_SHINGLES_AT_ONCE = 4096


def normalised_words(document: Document) -> list[str]:
    """Returns the words to compare, NFKC-normalized and case-folded."""
    text = unicodedata.normalize("NFKC", "\n".join(document.paragraphs))
    return text.casefold().split()


def exact_fingerprint(words: list[str]) -> np.ndarray:
    """Returns a 128-bit hash of a document's words as a uint32 array `(4,)`."""
    text = " ".join(words).encode("utf-8", "surrogatepass")
    return np.frombuffer(hashlib.blake2b(text, digest_size=16).digest(), "<u4")


@functools.cache
def _empty_min_hash() -> MinHash:
    return MinHash(NUM_PERMUTATIONS, **_MIN_HASH)


def near_fingerprint(words: list[str]) -> np.ndarray:
    """Returns the MinHash of a document's word 5-grams as a uint32 array `(128,)`.

    If a document has fewer than five words, these are hashed together.
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
    """Finds the documents with the same words as an earlier one.

    Takes a uint32 array `(n, 4)`. Returns an int64 array `(2, m)`: indices of the
    documents to drop, ascending, and of the first documents with the same words.
    """
    order = np.lexsort(fingerprints.T)  # Stable: the first of a group is the earliest.
    ordered = fingerprints[order]
    is_first = np.ones(len(order), bool)
    is_first[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    firsts = order[is_first][np.cumsum(is_first) - 1]
    pairs = np.stack([order[~is_first], firsts[~is_first]])
    return pairs[:, np.argsort(pairs[0])]


def near_duplicates(fingerprints: np.ndarray, threshold: float) -> np.ndarray:
    """Finds near duplicates of earlier documents that are themselves kept.

    Similar documents agree in at least the fraction `threshold` of their hashes. If B
    resembles A, and C resembles B but not A, B is dropped and C is kept. Takes a uint32
    array `(n, 128)`. Returns an int64 array `(2, m)`: indices of the documents to drop,
    ascending, and of the earliest similar documents that are kept.
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
