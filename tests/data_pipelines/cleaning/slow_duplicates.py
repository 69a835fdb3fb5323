"""Which documents repeat an earlier one, as the definition says it, pair by pair."""

import functools
import unicodedata

from datasketch import MinHash, MinHashLSH

from data_pipelines.cleaning import duplicates


def words_of(text):
    return unicodedata.normalize("NFKC", text).casefold().split()


def runs_of(text):
    words = words_of(text)
    if len(words) <= 5:
        return {tuple(words)}
    return {tuple(words[i : i + 5]) for i in range(len(words) - 4)}


@functools.cache
def slow_min_hash(text):
    found = MinHash(duplicates.NUM_PERMUTATIONS, seed=1, scheme="affine32")
    for run in sorted(runs_of(text)):
        found.update(" ".join(run).encode())
    return found


def slow_duplicates(documents, threshold=None):
    """`{number: number of the document that stays and that it repeats}`.

    Args:
        documents: `{number: lines}`.
        threshold: of near duplicates; None looks for exact ones alone.
    """
    texts = {number: "\n".join(lines) for number, lines in documents.items()}
    if threshold is None:
        found = {}
        for number, text in texts.items():
            found[number] = next(
                other
                for other, other_text in texts.items()
                if words_of(other_text) == words_of(text)
            )
        return {number: other for number, other in found.items() if number != other}
    hashes = {number: slow_min_hash(text) for number, text in texts.items()}
    index = MinHashLSH(
        threshold, duplicates.NUM_PERMUTATIONS, weights=duplicates._WEIGHTS
    )

    def share_a_band(number, other):
        agree = hashes[number].hashvalues == hashes[other].hashvalues
        return agree[: index.b * index.r].reshape(index.b, index.r).all(axis=1).any()

    found = {}
    for number in sorted(documents):
        for other in sorted(documents):
            if (
                other < number
                and other not in found
                and share_a_band(number, other)
                and hashes[number].jaccard(hashes[other]) >= threshold
            ):
                found[number] = other
                break
    return found
