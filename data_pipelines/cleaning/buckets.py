"""Finds documents that repeat an earlier one, given buckets of candidates.

A document is a duplicate if an earlier one of one of its buckets is similar enough and
stays itself. "Earlier" is by number, so the answer depends on no order of work.
"""

from collections.abc import Callable, Iterable

import numpy as np

# Numbers of later and of earlier documents -> which of these pairs are similar.
Compare = Callable[[np.ndarray, np.ndarray], np.ndarray]

# How often the documents of a bucket that differ from its first one are compared with
# the first of themselves.
_ROUNDS = 8


def pairs_in_buckets(
    buckets: np.ndarray, numbers: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs each document of a bucket, but the first, with the first.

    Args:
        buckets: uint64 array `(n,)` or `(n, k)`, the bucket of each document.
        numbers: int64 array `(n,)`, what orders documents: the lowest is the first.

    Returns:
        Two int64 arrays `(m,)`, places in `numbers`: of later documents, and of the
        first ones of their buckets.
    """
    columns = buckets.T if buckets.ndim == 2 else [buckets]
    order = np.lexsort((numbers, *columns))
    is_first = np.zeros(len(numbers), bool)
    is_first[:1] = True
    for column in columns:
        ordered = column[order]
        is_first[1:] |= ordered[1:] != ordered[:-1]
    firsts = order[is_first][np.cumsum(is_first) - 1]
    return order[~is_first], firsts[~is_first]


def are_similar(
    signatures: np.ndarray, others: np.ndarray, threshold: float
) -> np.ndarray:
    """Compares the estimated similarities of pairs with the threshold.

    Args:
        signatures: uint32 array `(m, 128)`.
        others: those to compare with, one by one.
        threshold: share of places in which similar ones agree.

    Returns:
        Bool array `(m,)`.
    """
    return (signatures == others).mean(axis=1) >= threshold


def similar_pairs(
    hashes: np.ndarray, numbers: np.ndarray, compare: Compare
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of the documents of some buckets that are similar.

    Each document is compared with the first of its bucket; those that differ from it
    form a separate bucket, some times over, so that pages which share a template
    do not hide copies among themselves.

    Args:
        hashes: uint64 array `(n,)`, the bucket of each document.
        numbers: int64 array `(n,)`, what orders documents.
        compare: numbers of later and of earlier documents -> which pairs are similar.

    Returns:
        Two int64 arrays `(m,)`: numbers of later and of earlier documents.
    """
    none = np.zeros(0, np.int64)
    found = [(none, none)]
    for _ in range(_ROUNDS):
        later, first = pairs_in_buckets(hashes, numbers)
        if not len(later):
            break
        is_similar = compare(numbers[later], numbers[first])
        found.append((numbers[later[is_similar]], numbers[first[is_similar]]))
        hashes, numbers = hashes[later[~is_similar]], numbers[later[~is_similar]]
    later_parts, earlier_parts = zip(*found, strict=True)
    return np.concatenate(later_parts), np.concatenate(earlier_parts)


def choose_what_stays(
    pairs: Iterable[tuple[np.ndarray, np.ndarray]],
    compare: Compare,
    repeats: np.ndarray,
) -> int:
    """Chooses what to drop of pairs, so that each resembles one that stays.

    Where B resembles A, and C resembles B but not A, B is dropped and C stays.

    Args:
        pairs: parts of two int64 arrays `(m,)`: numbers of documents, and of earlier
            ones that they resemble; over all parts sorted by the one, then the other.
        compare: as for `similar_pairs`.
        repeats: int64 array `(n,)` of -1, one for each number. Is set, for a document
            to drop, to the number of one that stays.

    Returns:
        How many are to drop.
    """
    num_dropped = 0
    for later, earlier in pairs:
        for number, other in zip(later.tolist(), earlier.tolist(), strict=True):
            if repeats[number] >= 0:
                continue
            stays = other if repeats[other] < 0 else int(repeats[other])
            if stays == other or compare(np.array([number]), np.array([stays]))[0]:
                repeats[number] = stays
                num_dropped += 1
    return num_dropped
