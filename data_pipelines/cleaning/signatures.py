"""Signatures of documents, compared to find those that repeat others.

The signature of a document is a MinHash (Broder, 1997) of its word 5-grams: the share
of places in which two signatures agree estimates the Jaccard similarity of the two sets
of 5-grams. Signatures are cut into bands, and documents that agree in a whole band are
compared ("locality-sensitive hashing").
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import unicodedata
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from datasketch import MinHash, MinHashLSH

from data_pipelines.cleaning.cleaning_options import NEAR, CleaningOptions

if TYPE_CHECKING:
    from data_pipelines.readers import Document

SHINGLE_WORDS = 5
NUM_PERMUTATIONS = 128
# The library cuts bands so that candidates missed and compared in vain weigh the same.
# Ours are compared afterwards, so only missing one is an error.
_WEIGHTS = (0.05, 0.95)
# Hashes of so many shingles times permutations are held at once.
_SHINGLES_AT_ONCE = 4096


@dataclasses.dataclass(frozen=True)
class Signatures:
    """Of `n` documents, in `b` bands; no bands where exact duplicates are looked for.

    Attributes:
        document_ids: int64 array `(n,)`, rising.
        text_hashes: uint64 array `(n, 2)`, of all words.
        band_hashes: uint64 array `(b, n)`.
        signatures: uint32 array `(n, 128)`, or `(n, 0)`.
    """

    document_ids: np.ndarray
    text_hashes: np.ndarray
    band_hashes: np.ndarray
    signatures: np.ndarray


def normalised_words(document: Document) -> list[str]:
    """The words that count in comparisons: compatible forms and case made one."""
    text = unicodedata.normalize("NFKC", "\n".join(document.paragraphs))
    return text.casefold().split()


def shingles(words: list[str]) -> Iterator[bytes]:
    """All runs of 5 words; of fewer words, the one run that they are."""
    for begin in range(max(len(words) - SHINGLE_WORDS, 0) + 1):
        run = " ".join(words[begin : begin + SHINGLE_WORDS])
        yield run.encode("utf-8", "surrogatepass")


@functools.cache
def bands(threshold: float) -> tuple[int, int]:
    """Number of bands and rows of a band for a threshold of similarity."""
    lsh = MinHashLSH(threshold, NUM_PERMUTATIONS, weights=_WEIGHTS)
    return lsh.b, lsh.r


@functools.cache
def _empty_min_hash() -> MinHash:
    return MinHash(NUM_PERMUTATIONS, seed=1, scheme="affine32")


def signature(words: list[str]) -> np.ndarray:
    """The MinHash of a document: uint32 array `(128,)`."""
    min_hash = _empty_min_hash().copy()
    runs = list(set(shingles(words)))
    for begin in range(0, len(runs), _SHINGLES_AT_ONCE):
        min_hash.update_batch(runs[begin : begin + _SHINGLES_AT_ONCE])
    return min_hash.hashvalues.astype("<u4")


def signatures_of(
    documents: Iterable[tuple[int, Document]], options: CleaningOptions
) -> Signatures:
    """Computes the text and band hashes, and MinHashes, of documents.

    Args:
        documents: numbered, rising, after the other cleaning steps.
        options: how duplicates are found.
    """
    is_near = options.duplicates == NEAR
    num_bands, rows = bands(options.duplicate_threshold) if is_near else (0, 0)
    document_ids, text_hashes, band_hashes, found = [], [], [], []
    for document_id, document in documents:
        words = normalised_words(document)
        document_ids.append(document_id)
        text_hashes.append(_hash(" ".join(words).encode("utf-8", "surrogatepass"), 16))
        if is_near:
            values = signature(words)
            found.append(values)
            band_hashes.append(
                [
                    _hash(values[band * rows : (band + 1) * rows].tobytes(), 8)
                    for band in range(num_bands)
                ]
            )
    num_documents = len(document_ids)
    columns = NUM_PERMUTATIONS if is_near else 0
    return Signatures(
        np.array(document_ids, "<i8"),
        np.frombuffer(b"".join(text_hashes), "<u8").reshape(num_documents, 2),
        np.frombuffer(b"".join(b"".join(one) for one in band_hashes), "<u8")
        .reshape(num_documents, num_bands)
        .T,
        np.array(found, "<u4").reshape(num_documents, columns),
    )


def _hash(data: bytes, num_bytes: int) -> bytes:
    return hashlib.blake2b(data, digest_size=num_bytes).digest()
