"""Which documents repeat an earlier one, as the definition says it, pair by pair."""

import functools
import unicodedata

from datasketch import MinHash

from data_pipelines.cleaning import signatures


def words_of(lines):
    return unicodedata.normalize("NFKC", "\n".join(lines)).casefold().split()


def runs_of(lines):
    words = words_of(lines)
    if len(words) <= 5:
        return {tuple(words)}
    return {tuple(words[i : i + 5]) for i in range(len(words) - 4)}


def true_similarity(lines, others):
    runs, other_runs = runs_of(lines), runs_of(others)
    return len(runs & other_runs) / len(runs | other_runs)


def slow_min_hash(lines):
    return _slow_min_hash("\n".join(lines))


@functools.cache
def _slow_min_hash(text):
    lines = text.split("\n")
    found = MinHash(signatures.NUM_PERMUTATIONS, seed=1, scheme="affine32")
    for run in sorted(runs_of(lines)):
        found.update(" ".join(run).encode())
    return found


def slow_duplicates(documents, threshold=None):
    """`{number: number of the lowest document that it repeats}`.

    Args:
        documents: `{number: lines}`.
        threshold: of near duplicates; None looks for exact ones alone.
    """
    found = {}
    for number, lines in documents.items():
        for other, other_lines in documents.items():
            if other < number and words_of(other_lines) == words_of(lines):
                found.setdefault(number, set()).add(other)
    if threshold is not None:
        num_bands, rows = signatures.bands(threshold)
        hashes = {number: slow_min_hash(lines) for number, lines in documents.items()}
        for band in range(num_bands):

            def part(number, band=band):
                values = hashes[number].hashvalues
                return values[band * rows : (band + 1) * rows].tolist()

            for number in documents:
                first = min(n for n in documents if part(n) == part(number))
                if first != number:
                    similarity = hashes[number].jaccard(hashes[first])
                    if similarity >= threshold:
                        found.setdefault(number, set()).add(first)
    return {number: min(others) for number, others in found.items()}
