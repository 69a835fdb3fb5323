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
    """`{number: number of the document that stays and that it repeats}`.

    Args:
        documents: `{number: lines}`.
        threshold: of near duplicates; None looks for exact ones alone.
    """
    pairs = {
        (number, other)
        for number, lines in documents.items()
        for other, other_lines in documents.items()
        if other < number and words_of(other_lines) == words_of(lines)
    }
    hashes = {number: slow_min_hash(lines) for number, lines in documents.items()}

    def is_similar(number, other):
        if threshold is None:
            return words_of(documents[number]) == words_of(documents[other])
        return hashes[number].jaccard(hashes[other]) >= threshold

    if threshold is not None:
        num_bands, rows = signatures.bands(threshold)
        for band in range(num_bands):
            groups = {}
            for number in sorted(documents):
                values = hashes[number].hashvalues[band * rows : (band + 1) * rows]
                groups.setdefault(tuple(values.tolist()), []).append(number)
            for group in groups.values():
                while group:
                    first, *others = group
                    group = []
                    for number in others:
                        if is_similar(number, first):
                            pairs.add((number, first))
                        else:
                            group.append(number)
    found = {}
    for number, other in sorted(pairs):
        stays = found.get(other, other)
        if number not in found and is_similar(number, stays):
            found[number] = stays
    return found
