"""Duplicates: those that all pairs show, whatever the order of work."""

import dataclasses
import itertools
import pathlib
import random
import tempfile

import numpy as np
import pytest

from data_pipelines.builds import (
    document_building,
    duplicate_pairs,
    duplicate_search,
)
from data_pipelines.builds.duplicate_search import FoundDuplicates
from data_pipelines.cleaning import (
    buckets,
    signature_files,
    signatures,
    similar_documents,
)
from data_pipelines.cleaning.cleaning_options import CleaningOptions
from data_pipelines.cleaning.signature_files import Comparison, SignatureFiles
from data_pipelines.readers import Document
from data_pipelines.records import tree_shards
from data_pipelines.records.manifest import Manifest
from tests.data_pipelines.cleaning import corpora
from tests.data_pipelines.cleaning.slow_duplicates import (
    slow_duplicates,
    slow_min_hash,
    true_similarity,
)
from tests.data_pipelines.interruptions import interrupted, noted
from tests.data_pipelines.small_corpus import contents

NEAR = CleaningOptions(duplicates="near", duplicate_threshold=0.7)
EXACT = CleaningOptions(duplicates="exact")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    return folder, dict(enumerate(corpora.write(folder)))


@pytest.fixture(scope="module")
def built(corpus, tmp_path_factory):
    output_dir = tmp_path_factory.mktemp("near")
    corpora.build(corpus[0], output_dir, NEAR)
    return output_dir


def dropped_of(slices, threshold=NEAR.duplicate_threshold, ends=(1000,)):
    """Documents that are dropped, from the signatures of some slices.

    Args:
        slices: the signatures.
        threshold: of near duplicates.
        ends: number of the first document after each slice.
    """
    with tempfile.TemporaryDirectory() as name:
        folder, first_ids = pathlib.Path(name), (0, *ends)
        for number, found in enumerate(slices):
            signature_files.save(folder, number, first_ids[number], found)
        stored = SignatureFiles(folder, first_ids)
        compare = Comparison(stored, threshold)
        ranges = similar_documents.hash_ranges(stored)
        for of in ranges:
            similar_documents.write_pairs(of, compare, folder)
        path = folder / "found.npy"
        similar_documents.write_duplicates(path, folder, len(ranges), compare)
        found = FoundDuplicates.load(path)
        assert (np.diff(found.document_ids) > 0).all()
        pairs = zip(found.document_ids, found.duplicate_of, strict=True)
        return {int(later): int(earlier) for later, earlier in pairs}


def signatures_in_slices(documents, size):
    """Signatures of documents in slices of `size`, and where the slices end."""
    begins = range(0, len(documents), size)
    numbered = [(n, Document(tuple(documents[n]), "", "")) for n in sorted(documents)]
    slices = [
        signatures.signatures_of(numbered[begin : begin + size], NEAR)
        for begin in begins
    ]
    return slices, [begin + size for begin in begins]


def kept_ids(folder):
    manifest = Manifest.load(folder)
    return {
        document_id
        for shards in manifest.splits.values()
        for shard in shards
        for _, document_id, _ in tree_shards.read_trees(
            folder / shard.file, manifest.number_widths
        )
    }


def test_near_duplicates_are_those_of_all_pairs(corpus, built):
    expected = slow_duplicates(corpus[1], NEAR.duplicate_threshold)
    assert 20 < len(expected) < 40
    assert kept_ids(built) == corpus[1].keys() - expected.keys()
    counts = Manifest.load(built).cleaning["steps"]["duplicates"]
    assert counts["documents"] == len(expected)
    dropped = [corpus[1][number] for number in expected]
    assert counts["paragraphs"] == sum(map(len, dropped))
    assert counts["characters"] == sum(len("".join(lines)) for lines in dropped)
    for example in counts["examples"]:
        earlier = expected[example["document_id"]]
        assert example["why"] == f"repeats document {earlier}"


def test_near_duplicates_truly_have_much_in_common(corpus):
    """The oracle shares MinHash with what it tests; sets of 5-grams do not."""
    found = slow_duplicates(corpus[1], NEAR.duplicate_threshold)
    for number, other in found.items():
        assert true_similarity(corpus[1][number], corpus[1][other]) > 0.5
    for number, lines in corpus[1].items():
        for other in range(number):
            if true_similarity(lines, corpus[1][other]) > 0.9:
                assert number in found


def test_exact_duplicates_are_those_of_all_pairs(corpus, tmp_path):
    corpora.build(corpus[0], tmp_path, EXACT)
    expected = slow_duplicates(corpus[1])
    assert 5 < len(expected) < len(slow_duplicates(corpus[1], 0.7))
    assert kept_ids(tmp_path) == corpus[1].keys() - expected.keys()


def test_duplicates_are_found_among_what_other_steps_leave(corpus, tmp_path):
    options = dataclasses.replace(EXACT, min_line_words=8, min_document_words=12)
    corpora.build(corpus[0], tmp_path, options)
    left = {
        number: [line for line in lines if len(line.split()) >= 8]
        for number, lines in corpus[1].items()
    }
    left = {n: lines for n, lines in left.items() if len(" ".join(lines).split()) >= 12}
    expected = slow_duplicates(left)
    # Copies whose changed words were in short lines are exact now.
    assert expected.keys() - slow_duplicates(corpus[1]).keys()
    assert kept_ids(tmp_path) == left.keys() - expected.keys()


def test_slices_change_no_duplicate(corpus, built, tmp_path):
    corpora.build(corpus[0], tmp_path, NEAR, slice_megabytes=0.02)
    assert kept_ids(tmp_path) == kept_ids(built)
    assert Manifest.load(tmp_path).cleaning == Manifest.load(built).cleaning


@pytest.mark.parametrize(
    "job, fail_after",
    [(duplicate_search, 0), (duplicate_search, 2), (duplicate_pairs, 5)],
)
def test_an_interrupted_search_goes_on(corpus, built, tmp_path, job, fail_after):
    with interrupted(job, fail_after):
        corpora.build(corpus[0], tmp_path, NEAR)
    with noted(job) as made:
        corpora.build(corpus[0], tmp_path, NEAR)
    assert made[0] == fail_after  # What was finished is not done again.
    assert contents(tmp_path) == contents(built)


def test_a_finished_search_is_not_done_again(corpus, built, tmp_path, monkeypatch):
    with interrupted(document_building, 1):
        corpora.build(corpus[0], tmp_path, NEAR)

    def never(*_):
        raise AssertionError("signatures were made again")

    monkeypatch.setattr(duplicate_search, "make_slice", never)
    corpora.build(corpus[0], tmp_path, NEAR)
    assert contents(tmp_path) == contents(built)


def test_another_threshold_is_another_build(corpus, built, tmp_path):
    other = dataclasses.replace(NEAR, duplicate_threshold=0.95)
    manifest = corpora.build(corpus[0], tmp_path, other)
    dropped = manifest.cleaning["steps"]["duplicates"]["documents"]
    assert dropped < Manifest.load(built).cleaning["steps"]["duplicates"]["documents"]
    assert dropped == len(slow_duplicates(corpus[1], 0.95))


def test_documents_of_few_words_are_compared_whole():
    assert list(signatures.shingles(["a", "b"])) == [b"a b"]
    assert list(signatures.shingles(list("abcde"))) == [b"a b c d e"]
    assert len(list(signatures.shingles(list("abcdef")))) == 2


def test_long_documents_have_the_signature_of_all_their_runs(monkeypatch):
    lines = corpora.random_lines(random.Random(3), 20)
    words = signatures.normalised_words(Document(tuple(lines), "", ""))
    monkeypatch.setattr(signatures, "_SHINGLES_AT_ONCE", 7)
    expected = slow_min_hash(lines).hashvalues
    np.testing.assert_array_equal(signatures.signature(words), expected)


def test_pairs_are_with_the_lowest_of_a_bucket():
    generator = np.random.default_rng(0)
    hashes = generator.integers(0, 12, (80, 2)).astype(np.uint64)
    hashes[:, 1] %= 2
    numbers = generator.permutation(80)
    expected = set()
    for number, bucket in zip(numbers, hashes, strict=True):
        mates = numbers[(hashes == bucket).all(axis=1)]
        if min(mates) != number:
            expected.add((int(number), int(min(mates))))
    later, firsts = buckets.pairs_in_buckets(hashes, numbers)
    pairs = zip(numbers[later].tolist(), numbers[firsts].tolist(), strict=True)
    assert set(pairs) == expected
    assert len(later) == len(expected)


def test_what_is_dropped_resembles_what_stays():
    """1 resembles 0, 2 resembles 1 and not 0, 3 resembles 2 and 1, 4 resembles 3."""
    similar = {(1, 0), (2, 1), (3, 2), (3, 1), (4, 3), (4, 2), (9, 1), (9, 0)}

    def compare(later, earlier):
        pairs = zip(later.tolist(), earlier.tolist(), strict=True)
        return np.array([pair in similar for pair in pairs])

    pairs = np.array([[1, 0], [2, 1], [3, 1], [3, 2], [4, 3], [9, 1]])
    for cut in range(len(pairs)):
        repeats = np.full(10, -1)
        parts = [pairs[:cut].T, pairs[cut:].T]
        assert buckets.choose_what_stays(parts, compare, repeats) == 4
        dropped = {int(n): int(repeats[n]) for n in np.flatnonzero(repeats >= 0)}
        assert dropped == {1: 0, 3: 2, 4: 2, 9: 0}
    empty = np.zeros(0, np.int64)
    assert buckets.choose_what_stays([], compare, empty) == 0
    assert len(buckets.pairs_in_buckets(empty, empty)[0]) == 0


def test_documents_drift_away_from_the_first_and_some_stay():
    """Each text has some other words than the one before: no chain empties a corpus."""
    generator = random.Random(5)
    words = [f"w{n}" for n in range(400)]
    documents = {}
    for number in range(12):
        documents[number] = [" ".join(words)]
        begin = 30 * number
        words[begin : begin + 12] = [f"x{generator.random()}" for _ in range(12)]
    found = signatures.signatures_of(
        ((n, Document(tuple(lines), "", "")) for n, lines in documents.items()), NEAR
    )
    expected = slow_duplicates(documents, 0.7)
    assert 3 < len(expected) < 11
    assert not set(expected.values()) & expected.keys()
    assert dropped_of([found]) == expected


def test_a_template_does_not_hide_copies_of_its_pages():
    generator = random.Random(6)
    template = [f"t{n}" for n in range(200)]
    documents = {}
    for number in range(6):
        own = [f"p{number} w{n}" for n in range(60)]
        documents[number] = [" ".join([*template, *own])]
        copy = [word if generator.random() > 0.02 else "changed" for word in own]
        documents[number + 6] = [" ".join([*template, *copy])]
    found = signatures.signatures_of(
        ((n, Document(tuple(documents[n]), "", "")) for n in sorted(documents)),
        dataclasses.replace(NEAR, duplicate_threshold=0.8),
    )
    expected = {number + 6: number for number in range(6)}
    assert slow_duplicates(documents, 0.8) == expected
    assert dropped_of([found], 0.8) == expected


def test_a_slice_of_which_nothing_is_left_is_no_obstacle():
    document = Document(("one two three four five six seven",), "file", "line 1")
    slices = [
        signatures.signatures_of(found, NEAR)
        for found in ([], [(3, document)], [], [(9, document)], [])
    ]
    assert dropped_of(slices, ends=(2, 5, 6, 10, 12)) == {9: 3}
    assert dropped_of([], ends=()) == {}


@pytest.mark.parametrize("documents_of_range", [7, 40, 1 << 22])
def test_memory_is_bounded_and_answers_are_the_same(
    corpus, monkeypatch, documents_of_range
):
    """Ranges of hashes, pairs and choices of few documents at a time."""
    slices, ends = signatures_in_slices(corpus[1], 13)
    monkeypatch.setattr(signature_files, "_PAIRS_AT_ONCE", 5)
    monkeypatch.setattr(similar_documents, "_DOCUMENTS_OF_RANGE", documents_of_range)
    monkeypatch.setattr(similar_documents, "_DOCUMENTS_AT_ONCE", 9)
    expected = slow_duplicates(corpus[1], NEAR.duplicate_threshold)
    assert dropped_of(slices, ends=ends) == expected


def test_every_hash_lies_in_one_range(monkeypatch):
    monkeypatch.setattr(similar_documents, "_DOCUMENTS_OF_RANGE", 3)
    ranges = similar_documents.hash_ranges(SignatureFiles(pathlib.Path(), (0,)))
    assert [(of.first, of.last) for of in ranges] == [(0, 2**64 - 1)]
    monkeypatch.setattr(SignatureFiles, "num_columns", lambda _: 2)
    stored = SignatureFiles(pathlib.Path(), (0, 4, 10))
    ranges = similar_documents.hash_ranges(stored)
    assert [of.number for of in ranges] == list(range(8))
    for column in range(2):
        of_column = [of for of in ranges if of.column == column]
        assert (of_column[0].first, of_column[-1].last) == (0, 2**64 - 1)
        for one, after in itertools.pairwise(of_column):
            assert one.last + 1 == after.first
