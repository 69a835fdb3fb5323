"""Rows of blocks, and places of sentences in them, against loops."""

from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from seg_tf.layouts import blocks
from seg_tf.layouts.blocks import place_in_blocks, split_long


class Ids(NamedTuple):
    cls_id: int = 2
    attention_id: int = 5
    sep_id: int = 3
    pad_id: int = 9


IDS = Ids()


def lay_out(rows, row_length):
    """Rows of (sentences, their starts) by the function under test, a batch at once."""
    width = max(len(starts) for _, starts in rows)

    def padded(lists, width):
        # Padding must not matter.
        return tf.constant([[*one, *[77] * (width - len(one))] for one in lists])

    pieces = [[piece for one in sentences for piece in one] for sentences, _ in rows]
    lengths = [[len(one) for one in sentences] for sentences, _ in rows]
    row = tf.function(blocks.lay_out)(
        pieces=padded(pieces, max(map(len, pieces))),
        lengths=padded(lengths, width),
        starts=padded([starts for _, starts in rows], width),
        is_sentence=tf.sequence_mask([len(starts) for _, starts in rows], width),
        row_length=row_length,
        vocabulary=IDS,
    )
    return {name: values.numpy() for name, values in row.items()}


def slow_row(sentences, starts, row_length):
    row = {name: [0] * row_length for name in ("position_index", "sentence_number")}
    row["token_ids"] = [IDS.pad_id] * row_length
    row["is_piece"] = [False] * row_length
    for number, (pieces, start) in enumerate(zip(sentences, starts, strict=True), 1):
        tokens = [IDS.cls_id, IDS.attention_id, *pieces, IDS.sep_id]
        for offset, token in enumerate(tokens):
            row["token_ids"][start + offset] = token
            row["position_index"][start + offset] = offset
            row["sentence_number"][start + offset] = number
            row["is_piece"][start + offset] = 1 < offset < len(tokens) - 1
    row["padding_mask"] = [number > 0 for number in row["sentence_number"]]
    return row


@pytest.mark.parametrize("longest", [1, 13])
def test_rows_are_those_of_a_loop_over_sentences(longest):
    generator = np.random.default_rng(longest)
    rows = []
    for _ in range(30):
        count = int(generator.integers(1, 13))
        sentences = [
            generator.integers(100, 200, generator.integers(0, longest + 1)).tolist()
            for _ in range(count)
        ]
        lengths = np.array([[len(one) + 3 for one in sentences]], np.int32)
        starts, succeeded = place_in_blocks(lengths, 16, 24)
        assert succeeded.numpy().all()
        rows.append((sentences, starts[0].numpy().tolist()))
    found = lay_out(rows, 24 * 16)
    for number, (sentences, starts) in enumerate(rows):
        expected = slow_row(sentences, starts, 24 * 16)
        assert found.keys() == expected.keys()
        for name, values in expected.items():
            np.testing.assert_array_equal(found[name][number], values, err_msg=name)


def test_long_sentences_are_cut_into_even_parts():
    lengths, part = split_long(np.array([3, 10, 4, 0, 5]), 4)
    assert lengths.tolist() == [3, 4, 3, 3, 4, 0, 3, 2]
    assert part.tolist() == [0, 0, 1, 2, 0, 0, 0, 1]


@pytest.mark.parametrize("longest", [1, 7, 45, 500])
def test_no_piece_is_lost_by_cutting(longest):
    whole = np.random.default_rng(0).integers(1, 300, 200)
    lengths, part = split_long(whole, longest)
    assert lengths.max() <= longest
    assert lengths.min() >= 1
    sentence = np.cumsum(part == 0) - 1
    assert np.bincount(sentence, weights=lengths).tolist() == whole.tolist()
    for number in range(len(whole)):
        own = lengths[sentence == number]
        assert len(own) == -(-whole[number] // longest)
        assert own.max() - own.min() <= 1


def slow_starts(lengths, num_blocks, block_length):
    """First-fit decreasing, one sentence and one block at a time; None if it fails."""
    used, starts = [0] * num_blocks, {}
    order = sorted(range(len(lengths)), key=lambda number: -lengths[number])
    for number in order:
        for block in range(num_blocks):
            if used[block] + lengths[number] <= block_length:
                starts[number] = block * block_length + used[block]
                used[block] += int(lengths[number])
                break
        else:
            return None
    return [starts[number] for number in range(len(lengths))]


def test_sentences_go_where_first_fit_decreasing_puts_them():
    generator = np.random.default_rng(1)
    lengths = generator.integers(3, 33, (200, 12), np.int32)
    lengths[generator.random(lengths.shape) < 0.2] = 0
    found = place_in_blocks(lengths, 32, 6)
    starts, succeeded = (values.numpy() for values in found)
    # Blocks that are not needed change nothing.
    more, all_fit = place_in_blocks(lengths, 32, 12)
    np.testing.assert_array_equal(more.numpy()[succeeded], starts[succeeded])
    assert all_fit.numpy().all()
    assert 20 < succeeded.sum() < 180  # both ways are tried
    for row, found, ok in zip(lengths, starts, succeeded, strict=True):
        expected = slow_starts(row[row > 0].tolist(), 6, 32)
        assert ok == (expected is not None)
        if ok:
            assert found[row > 0].tolist() == expected
            assert (found[row == 0] == 0).all()
