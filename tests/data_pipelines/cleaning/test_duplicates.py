"""Duplicates: those that all pairs show, whatever the order of work."""

import dataclasses
import random

import numpy as np
import pytest

from data_pipelines import BuildError
from data_pipelines.builds.makers import FingerprintMaker, SliceMaker
from data_pipelines.cleaning import duplicates
from data_pipelines.cleaning.cleaning_options import CleaningOptions
from data_pipelines.readers import Document
from seg_tf.data import examples
from seg_tf.data.manifest import Manifest
from tests.data_pipelines.cleaning import corpora
from tests.data_pipelines.cleaning.slow_duplicates import slow_duplicates, slow_min_hash
from tests.data_pipelines.small_corpus import contents, interrupted, noted

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


def kept_ids(folder):
    manifest = Manifest.load(folder)
    return {
        document_id
        for shards in manifest.splits.values()
        for shard in shards
        for _, document_id, _ in examples.read_trees(
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


def test_an_interrupted_search_continues(corpus, built, tmp_path, monkeypatch):
    with interrupted(FingerprintMaker, 2):
        corpora.build(corpus[0], tmp_path, NEAR)
    with noted(FingerprintMaker) as made, interrupted(SliceMaker, 1):
        corpora.build(corpus[0], tmp_path, NEAR)
    assert made[0] == 2  # What was finished is not done again.

    def never(*_):
        raise AssertionError("signatures were made again")

    monkeypatch.setattr(FingerprintMaker, "make", never)
    corpora.build(corpus[0], tmp_path, NEAR)
    assert contents(tmp_path) == contents(built)


def test_too_many_documents_for_near_duplicates_are_refused(
    corpus, tmp_path, monkeypatch
):
    monkeypatch.setattr(duplicates, "MAX_NEAR_DOCUMENTS", 40)
    corpora.build(corpus[0], tmp_path / "exact", EXACT)
    with pytest.raises(BuildError, match=r"for more than 40 doc.*'near'.*datatrove"):
        corpora.build(corpus[0], tmp_path / "near", NEAR)


def test_fingerprints_are_of_all_runs_of_five_words(monkeypatch):
    monkeypatch.setattr(duplicates, "_SHINGLES_AT_ONCE", 7)
    long = corpora.random_lines(random.Random(3), 20)
    for lines in (long, ["a b"], ["a b c d e"], ["a b c d e f"], []):
        words = duplicates.normalised_words(Document(tuple(lines), "", ""))
        expected = slow_min_hash("\n".join(lines)).hashvalues
        np.testing.assert_array_equal(duplicates.near_fingerprint(words), expected)
