"""Which documents repeat an earlier one, given buckets of documents that may.

A document is a duplicate if the first document of one of its buckets is another one and
similar enough. That depends on no order of work: any engine that has the documents of a
bucket together can say it.
"""

import numpy as np


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
    """Whether the estimated similarities of pairs reach the threshold.

    Args:
        signatures: uint32 array `(m, 128)`.
        others: those to compare with, one by one.
        threshold: share of places in which similar ones agree.

    Returns:
        Bool array `(m,)`.
    """
    return (signatures == others).mean(axis=1) >= threshold


def lowest_of_each(
    later: np.ndarray, earlier: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Of several pairs of one later document, that with the lowest earlier one.

    Returns:
        Two int64 arrays, rising numbers of later documents and their earlier ones.
    """
    order = np.lexsort((earlier, later))
    later, earlier = later[order], earlier[order]
    is_first = np.append(True, later[1:] != later[:-1])[: len(later)]
    return later[is_first], earlier[is_first]
