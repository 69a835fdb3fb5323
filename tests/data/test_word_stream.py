"""A split as one stream of words, against a flattening word by word."""

import dataclasses
import itertools

import numpy as np
import pytest

from seg_tf.data import examples, shards
from seg_tf.data.word_stream import WordStream
from tests.data_pipelines.builders import random_tree, write_word_documents

VOCAB_SIZE = 300


def flatten(shards_of_documents):
    """(word, sentence, paragraph) of each word, counted through, by loops."""
    flat = []
    sentence = paragraph = -1
    for tree in itertools.chain.from_iterable(shards_of_documents):
        words = iter(tree.token_ids.tolist())
        lengths = iter(tree.sentence_lengths.tolist())
        for num_sentences in tree.paragraph_lengths.tolist():
            paragraph += 1
            for _ in range(num_sentences):
                sentence += 1
                for _ in range(next(lengths)):
                    flat.append((next(words), sentence, paragraph))
            flat.append((0, sentence, paragraph))  # <eos>
    return flat


def documents(seed=0):
    """Shards of documents; some shards are empty, some documents a few words."""
    generator = np.random.default_rng(seed)

    def made(count, longest):
        return [random_tree(generator, longest, VOCAB_SIZE) for _ in range(count)]

    return {
        "train": [[], made(4, 200), [], [], made(3, 5), made(1, 900), []],
        "validation": [[], made(2, 60), [], [], [], [], []],
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("words")


@pytest.fixture(scope="module")
def manifest(folder):
    return write_word_documents(folder, documents(), vocab_size=VOCAB_SIZE)


def as_rows(words):
    return list(zip(words.token_ids, words.sentences, words.paragraphs, strict=True))


@pytest.mark.parametrize("split", ["train", "validation"])
def test_stream_is_the_documents_one_after_the_other(manifest, folder, split):
    stream = WordStream(manifest, folder, split)
    expected = flatten(documents()[split])
    assert stream.num_tokens == len(expected)
    assert stream.num_sentences == expected[-1][1] + 1
    assert stream.num_paragraphs == expected[-1][2] + 1
    words = stream.read(0, len(expected))
    assert as_rows(words) == expected
    assert [words.token_ids.dtype, words.sentences.dtype] == [np.int32, np.int64]


@pytest.mark.parametrize("length", [1, 7, 400])
def test_reading_anywhere_is_a_slice(manifest, folder, length):
    stream = WordStream(manifest, folder, "train")
    expected = flatten(documents()["train"])
    begins = np.random.default_rng(1).integers(0, len(expected) - length, 60)
    for begin in begins.tolist():
        found = as_rows(stream.read(begin, length))
        assert found == expected[begin : begin + length]


def test_stream_begins_anew_and_counts_on(manifest, folder):
    stream = WordStream(manifest, folder, "validation")
    flat = flatten(documents()["validation"])
    _, sentence, paragraph = flat[-1]
    again = [(w, s + sentence + 1, p + paragraph + 1) for w, s, p in flat]
    third = [(w, s + sentence + 1, p + paragraph + 1) for w, s, p in again]
    thrice = flat + again + third
    assert as_rows(stream.read(0, len(thrice))) == thrice
    begin = 2 * len(flat) - 3
    assert as_rows(stream.read(begin, 9)) == thrice[begin : begin + 9]


def test_documents_are_decoded_once_while_places_are_read_in_turns(
    manifest, folder, monkeypatch
):
    decoded = []

    def counted(data, widths, decode=examples.decode):
        decoded.append(data)
        return decode(data, widths)

    monkeypatch.setattr(examples, "decode", counted)
    stream = WordStream(manifest, folder, "train", num_places=3)
    third = stream.num_tokens // 3
    for step in range(third // 10):
        for place in range(3):
            stream.read(place * third + 10 * step, 10)
    # Each document where a place begins in it, and once more where it is come to.
    assert len(set(decoded)) <= len(decoded) <= 8 + 2


def test_a_word_is_found_in_its_record(manifest, folder):
    stream = WordStream(manifest, folder, "train")
    first = len(flatten([documents()["train"][1]]))
    assert stream.locate(first - 1) == "train-00001.tfrecord, record 3"
    assert stream.locate(first) == "train-00004.tfrecord, record 0"
    assert stream.locate(first + stream.num_tokens) == stream.locate(first)


def test_a_shard_with_other_sizes_than_the_manifests_is_named(manifest, folder):
    entries = list(manifest.splits["train"])
    entries[1] = dataclasses.replace(entries[1], sentences=entries[1].sentences - 1)
    other = dataclasses.replace(
        manifest, splits={**manifest.splits, "train": tuple(entries)}
    )
    stream = WordStream(other, folder, "train")
    with pytest.raises(shards.DamagedShardError, match=r"train-00001.*: expected \["):
        stream.read(0, 1)


def test_a_damaged_or_missing_shard_is_named(tmp_path):
    manifest = write_word_documents(tmp_path, documents(), vocab_size=VOCAB_SIZE)
    path = tmp_path / "train-00001.tfrecord"
    damaged = bytearray(path.read_bytes())
    damaged[40] ^= 1
    path.write_bytes(damaged)
    stream = WordStream(manifest, tmp_path, "train")
    with pytest.raises(shards.DamagedShardError, match=r"train-00001.*record 0"):
        stream.read(0, 5)
    path.unlink()
    with pytest.raises(ValueError, match=r"train-00001\.tfrecord: .* missing"):
        WordStream(manifest, tmp_path, "train")


def test_a_split_without_words_cannot_be_read(tmp_path):
    manifest = write_word_documents(
        tmp_path, {"train": documents()["train"]}, vocab_size=VOCAB_SIZE
    )
    stream = WordStream(manifest, tmp_path, "validation")
    assert stream.num_tokens == 0
    with pytest.raises(ValueError, match="must hold words"):
        stream.read(0, 1)
