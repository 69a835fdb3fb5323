import itertools

import numpy as np
import pytest

from seg_tf.data.text_packing import (
    RowShape,
    TextShape,
    cut_texts,
    pack_texts,
    sentence_matrix,
)
from seg_tf.layouts.blocks import place_in_blocks, split_long

ROW = RowShape(num_blocks=8, block_length=64, num_sentences=40)
SHAPE = TextShape(sentence_length=32, max_sentences=6)


def random_windows(seed=0, count=120):
    """Pieces of the sentences of windows, as flat list and counts."""
    generator = np.random.default_rng(seed)
    num_sentences = generator.integers(1, 30, count)
    lengths = generator.geometric(1 / 14, num_sentences.sum())
    return lengths, num_sentences


def sentences_of(texts, number):
    first = texts.firsts[number]
    return list(range(first, first + texts.counts[number]))


def slow_texts(lengths, num_sentences, shape, row):
    """Sizes of the parts of each text of each window, word by word as it is said."""
    texts, begin = [], 0
    for window, count in enumerate(num_sentences):
        pieces, part = split_long(lengths[begin : begin + count], shape.max_pieces)
        begin += count
        left = list(zip((pieces + 3).tolist(), part.tolist(), strict=True))
        while left:
            size = 1
            while (
                size < min(len(left), shape.max_sentences, row.num_sentences)
                and sum(one for one, _ in left[: size + 1]) <= 0.985 * row.length
            ):
                size += 1
            whole = size
            while whole and whole < len(left) and left[whole][1] > 0:
                whole -= 1
            texts.append((window, [one for one, _ in left[: whole or size]]))
            left = left[whole or size :]
    return texts


@pytest.mark.parametrize("max_sentences", [2, 6, 100])
@pytest.mark.parametrize("longest", [8, 32])
def test_texts_are_as_long_as_they_may_be(max_sentences, longest):
    lengths, num_sentences = random_windows()
    shape = TextShape(longest, max_sentences)
    texts = cut_texts(lengths, num_sentences, shape, ROW)
    found = [
        (window, texts.positions[sentences_of(texts, number)].tolist())
        for number, window in enumerate(texts.windows)
    ]
    assert found == slow_texts(lengths, num_sentences, shape, ROW)
    for window, first in enumerate(texts.window_firsts):
        assert first == texts.firsts[texts.windows == window].min()


def packed_texts(texts, row, seed):
    """The texts, and a list of the texts of each row."""
    texts, packs = pack_texts(texts, row, seed=seed)
    assert (packs.offsets[0], packs.offsets[-1]) == (0, len(packs.members))
    rows = [packs.of_rows(np.array([number]))[0] for number in range(len(packs))]
    return texts, rows


def assert_packed(texts, rows, row):
    """Every text is in one row, and the sentences of every row find room."""
    assert sorted(np.concatenate(rows).tolist()) == list(range(len(texts)))
    members = [sentences_of(texts, number) for number in range(len(texts))]
    of_texts = sorted(itertools.chain(*members))
    assert of_texts == list(range(len(texts.positions)))
    matrix = sentence_matrix(texts, rows)
    for found, one in zip(matrix, rows, strict=True):
        expected = texts.positions[
            [*itertools.chain(*(members[number] for number in one))]
        ]
        assert found[found > 0].tolist() == expected.tolist()
        assert len(expected) <= row.num_sentences
    _, succeeded = place_in_blocks(matrix, row.block_length, row.num_blocks)
    assert succeeded.numpy().all()


@pytest.mark.parametrize("seed", range(3))
def test_every_text_has_a_row_in_which_it_fits(seed):
    texts = cut_texts(*random_windows(seed), SHAPE, ROW)
    packed, rows = packed_texts(texts, ROW, seed=seed)
    assert_packed(packed, rows, ROW)
    assert len(packed) == len(texts)


def test_rows_are_nearly_full():
    generator = np.random.default_rng(5)
    num_sentences = generator.integers(5, 200, 150)
    lengths = 1 + generator.gamma(2.5, 9, num_sentences.sum()).astype(int)
    row = RowShape(num_blocks=56, block_length=128, num_sentences=336)
    for shape in (TextShape(48, 16), TextShape(128, 128)):
        texts = cut_texts(lengths, num_sentences, shape, row)
        packed, rows = packed_texts(texts, row, seed=0)
        assert_packed(packed, rows, row)
        fill = texts.positions.sum() / (len(rows) * row.length)
        padded = texts.positions.sum() / (
            len(texts) * shape.max_sentences * shape.sentence_length
        )
        assert fill > 0.94 > 0.6 > padded


def test_a_text_that_does_not_fit_alone_is_cut_in_two():
    # Fourteen sentences of 33: 462 of 512 positions, but one a block.
    texts = cut_texts(np.full(14, 30), np.array([14]), TextShape(40, 14), ROW)
    assert (len(texts), texts.sizes.tolist()) == (1, [462])
    packed, rows = packed_texts(texts, ROW, seed=0)
    assert packed.counts.tolist() == [7, 7]
    assert len(rows) == 2
    assert_packed(packed, rows, ROW)
