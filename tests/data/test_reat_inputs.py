"""Rows of texts from records: nothing lost, in blocks, moved and masked as they say."""

import collections
import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from seg_tf.config import ReATConfig, build_from
from seg_tf.data import randomness
from seg_tf.data.inputs import MaskingConfig, ReATInputsConfig
from seg_tf.data.reat_inputs import exchange
from seg_tf.layouts.blocks import split_long
from seg_tf.text.tree import DocumentTree
from tests.data.test_window_inputs import take, unmasked
from tests.data_pipelines.builders import (
    FIRST_PIECE,
    SPECIAL_IDS,
    random_tree,
    read_split,
    write_windows,
)

pytestmark = pytest.mark.slow
VOCAB_SIZE = 500
ATTENTION = 5  # the first unused row of the vocabulary that the builder writes
MODEL = ReATConfig(block_length=32, max_sentences=12)
CONFIG = ReATInputsConfig(
    window_length=400,
    row_length=512,
    sentences_per_row=60,
    short_sentence_length=12,
    short_max_sentences=4,
    long_sentence_length=32,
    long_max_sentences=12,
    long_rate=0.25,
    masking=MaskingConfig(max_predictions=77),
)


def write(folder):
    """Windows of random documents, with a word alone and an endless sentence."""
    generator = np.random.default_rng(0)

    def documents(count):
        return [random_tree(generator, 700, VOCAB_SIZE) for _ in range(count)]

    one_word = DocumentTree(np.array([FIRST_PIECE]), np.array([1]), np.array([1]))
    endless = DocumentTree(
        generator.integers(FIRST_PIECE, VOCAB_SIZE, 300), np.array([300]), np.array([1])
    )
    write_windows(
        folder,
        {
            "train": [[*documents(20), one_word], [*documents(12), endless], []],
            "validation": [[*documents(6), endless]],
        },
        window_length=CONFIG.window_length,
        vocab_size=VOCAB_SIZE,
    )
    return folder


@pytest.fixture(scope="module")
def records_dir(tmp_path_factory):
    return write(tmp_path_factory.mktemp("records"))


def build(records_dir, seed=0, model=MODEL, **overrides):
    return build_from(
        dataclasses.replace(CONFIG, **overrides),
        records_dir=records_dir,
        seed=seed,
        **model.inputs_arguments,
    )


def texts_of(rows):
    """Each text as its sentences in the order in which they are presented.

    Checks on the way that rows are what the contract says.
    """
    token_ids = unmasked(rows)
    for row, mask in enumerate(rows["sentence_mask"]):
        numbers = rows["sentence_number"][row]
        count = mask.sum()
        assert mask[:count].all()
        assert set(numbers) - {0} == set(range(1, count + 1))
        np.testing.assert_array_equal(rows["padding_mask"][row], numbers > 0)
        assert (token_ids[row][numbers == 0] == SPECIAL_IDS["pad"]).all()
        for name in ("position_index", "text_number", "sentence_position"):
            assert (rows[name][row][numbers == 0] == 0).all()
        texts = collections.defaultdict(dict)
        for slot in range(count):
            at = np.flatnonzero(numbers == slot + 1)
            start = rows["sentence_starts"][row, slot]
            # In one piece, in one block, with positions of its own.
            np.testing.assert_array_equal(at, start + np.arange(len(at)))
            assert at[0] // 32 == at[-1] // 32
            np.testing.assert_array_equal(
                rows["position_index"][row, at], np.arange(len(at))
            )
            (text,) = set(rows["text_number"][row, at])
            (place,) = set(rows["sentence_position"][row, at])
            tokens = token_ids[row, at].tolist()
            assert tokens[:2] == [SPECIAL_IDS["cls"], ATTENTION]
            assert tokens[-1] == SPECIAL_IDS["sep"]
            assert place not in texts[text]
            texts[text][place] = (slot, tokens[2:-1])
        for number, text in sorted(texts.items()):
            assert sorted(text) == list(range(len(text)))
            yield row, number, [text[place] for place in sorted(text)]


def expected_texts(records_dir, split, sentence_length, max_sentences):
    """The texts of a split, cut by hand: lists of sentences."""
    for tree in read_split(records_dir, split):
        lengths, part = split_long(tree.sentence_lengths, sentence_length - 3)
        ends = np.cumsum(lengths)
        sentences = [
            tuple(tree.token_ids[end - length : end].tolist())
            for end, length in zip(ends, lengths, strict=True)
        ]
        begin = 0
        while begin < len(sentences):
            end = min(begin + max_sentences, len(sentences))
            whole = end
            # No text ends inside of a sentence, but of one that is longer than a text.
            while whole < len(sentences) and part[whole] and whole > begin:
                whole -= 1
            end = whole if whole > begin else end
            yield tuple(sentences[begin:end])
            begin = end


@pytest.mark.parametrize(
    ("long_rate", "sentence_length", "max_sentences"), [(0.0, 12, 4), (1.0, 32, 12)]
)
@pytest.mark.parametrize("split", ["train", "validation"])
def test_an_epoch_holds_every_word_once(
    records_dir, long_rate, sentence_length, max_sentences, split
):
    inputs = build(records_dir, long_rate=long_rate, exchange_rate=0.0)
    if split == "train":
        rows = take(inputs.train_dataset(3), inputs.num_train_samples)
    else:
        rows = take(inputs.validation_dataset(3), inputs.num_validation_samples)
    found = collections.Counter(
        tuple(tuple(pieces) for _, pieces in text) for _, _, text in texts_of(rows)
    )
    expected = collections.Counter(
        expected_texts(records_dir, split, sentence_length, max_sentences)
    )
    assert found == expected
    assert not rows["is_moved"].any()


def whole_sentences(rows):
    """Which sentences were not cut into parts: bool `(B, N)`."""
    part = rows["sentence_part"]
    following = np.pad(part, [(0, 0), (0, 1)])[:, 1:]
    return rows["sentence_mask"] & (part == 0) & (following == 0)


def test_moved_sentences_are_where_they_are_not_in_the_text(records_dir):
    inputs = build(records_dir, exchange_rate=0.4)
    rows = take(inputs.train_dataset(5), inputs.num_train_samples)
    known = set()
    for length, most in ((12, 4), (32, 12)):
        known |= set(expected_texts(records_dir, "train", length, most))
    moved, alone = 0, 0
    is_whole = whole_sentences(rows)
    for row, _, text in texts_of(rows):
        slots = [slot for slot, _ in text]
        # Parts of a cut sentence stay, and do not count.
        num_whole = is_whole[row, slots].sum()
        # Slots are in the order of the text; places in that of its presentation.
        in_order = [tuple(pieces) for _, pieces in sorted(text)]
        assert tuple(in_order) in known
        for place, slot in enumerate(slots):
            is_moved = rows["is_moved"][row, slot]
            assert is_moved == (place != slot - min(slots))
            assert rows["can_move"][row, slot] == (
                is_whole[row, slot] and num_whole > 1
            )
            moved += is_moved
        alone += num_whole == 1
    assert moved > 100
    assert alone
    assert not rows["can_move"][~rows["sentence_mask"]].any()


@pytest.mark.parametrize("long_rate", [0.0, 0.25, 1.0])
def test_fill_is_that_of_an_epoch(records_dir, long_rate):
    inputs = build(records_dir, long_rate=long_rate)
    rows = take(inputs.train_dataset(5), inputs.num_train_samples)
    # The rows of long texts that an epoch draws are not exactly average.
    tolerance = 0.01 if long_rate == 0.25 else 1e-3
    assert rows["padding_mask"].mean() == pytest.approx(inputs.fill, abs=tolerance)
    assert rows["text_number"].max(axis=1).mean() > 1


@pytest.mark.parametrize(
    ("model", "overrides", "message"),
    [
        ({"block_length": 16}, {}, r"Received: 32 with block_length=16"),
        ({"max_sentences": 8}, {}, r"12 with max_sentences=8"),
        ({}, {"row_length": 500}, r"multiple of `model.block_length`.*row_length=500"),
    ],
)
def test_what_does_not_fit_is_named(records_dir, model, overrides, message):
    with pytest.raises(ValueError, match=message):
        build(records_dir, model=dataclasses.replace(MODEL, **model), **overrides)


def exchanged(sizes, rows, rate=0.2, slots=None, seed=0):
    """Rows that all have texts of these sizes: places before and after, and flags."""
    width = slots or sum(sizes)
    number = np.zeros((rows, width), np.int32)
    places = np.zeros((rows, width), np.int32)
    number[:, : sum(sizes)] = [
        1 + n for n, size in enumerate(sizes) for _ in range(size)
    ]
    places[:, : sum(sizes)] = [place for size in sizes for place in range(size)]
    streams = tf.constant(randomness.uniform_integers(seed, rows), tf.uint64)
    found = exchange(tf.constant(number), tf.constant(places), streams, rate)
    return number, places, *(values.numpy() for values in found)


def test_sentences_change_places_inside_their_texts():
    number, before, after, is_moved, can_move = exchanged([9, 2, 1, 30], 200, slots=50)
    for text in range(1, 5):
        own = number[0] == text
        for row in range(200):
            assert sorted(after[row, own]) == list(range(own.sum()))
    np.testing.assert_array_equal(is_moved, before != after)
    assert (can_move == (number > 0) & (number != 3)).all()
    assert not is_moved[~can_move].any()
    assert (after[number == 0] == 0).all()


@pytest.mark.parametrize("size", [2, 3, 5, 9, 10, 14, 128])
def test_the_rate_is_kept_whatever_the_length_of_a_text(size):
    rows = 4000
    *_, is_moved, _ = exchanged([size], rows)
    counts = is_moved.sum(axis=1)
    assert not (counts == 1).any()
    # At most 2 or one more than the rate says, so this is far more than 5 sigma.
    assert counts.mean() == pytest.approx(0.2 * size, abs=5 * counts.std() / 60 + 1e-6)
    if 0.2 * size >= 2:
        assert set(counts) <= {int(0.2 * size), int(0.2 * size) + 1}
    else:
        assert set(counts) == {0, 2}
