"""Finds documents that repeat an earlier one, given buckets of candidates.

A document is a duplicate if an earlier one of one of its buckets is similar enough and
stays itself. "Earlier" is by number, so the answer depends on no order of work.
"""

from collections.abc import Callable

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
        Two int64 arrays `(m,)`: numbers of later documents, and of the first ones of
        their buckets.
    """
    if not len(numbers):
        return numbers, numbers
    columns = buckets.reshape(len(numbers), -1).T
    order = np.lexsort((numbers, *columns))
    is_first = np.ones(len(numbers), bool)
    is_first[1:] = False
    for column in columns:
        ordered = column[order]
        is_first[1:] |= ordered[1:] != ordered[:-1]
    ordered = numbers[order]
    firsts = ordered[is_first][np.cumsum(is_first) - 1]
    return ordered[~is_first], firsts[~is_first]


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
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Pairs of one band that are similar.

    Each document is compared with the first of its bucket; those that differ from it
    form a separate bucket, some times over, so that pages which share a template
    do not hide copies among themselves.

    Args:
        hashes: uint64 array `(n,)`, the bucket of each document of the corpus.
        numbers: int64 array `(m,)`, rows of `hashes`: the documents that this band
            compares.
        compare: numbers of later and of earlier documents -> which pairs are similar.
    """
    found = []
    for _ in range(_ROUNDS):
        later, earlier = pairs_in_buckets(hashes[numbers], numbers)
        if not len(later):
            break
        is_similar = compare(later, earlier)
        found.append((later[is_similar], earlier[is_similar]))
        numbers = later[~is_similar]
    return found


def without_what_stays(
    later: np.ndarray, earlier: np.ndarray, compare: Compare
) -> dict[int, int]:
    """Chooses what to drop of pairs, so that each resembles one that stays.

    Where B resembles A, and C resembles B but not A, B is dropped and C stays.

    Args:
        later: int64 array `(m,)`.
        earlier: what they resemble.
        compare: as for `similar_pairs`.

    Returns:
        Number of a document to drop -> of one that stays, in rising order.
    """
    dropped: dict[int, int] = {}
    for number, other in sorted(
        set(zip(later.tolist(), earlier.tolist(), strict=True))
    ):
        if number in dropped:
            continue
        stays = dropped.get(other, other)
        if stays == other or compare(np.array([number]), np.array([stays]))[0]:
            dropped[number] = stays
    return dropped
