"""Rows of blocks: tables written by hand, and a loop over sentences."""

import numpy as np
import pytest
import tensorflow as tf

from seg_tf.layouts import blocks
from seg_tf.layouts.block_placing import SpecialIds, place_in_blocks

IDS = SpecialIds(ss=2, attention=5, end=3, pad=9)


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
        special_ids=IDS,
    )
    return {name: values.numpy() for name, values in row.items()}


def slow_row(sentences, starts, row_length):
    row = {name: [0] * row_length for name in ("position_index", "sentence_number")}
    row["token_ids"] = [IDS.pad] * row_length
    row["is_piece"] = [False] * row_length
    for number, (pieces, start) in enumerate(zip(sentences, starts, strict=True), 1):
        tokens = [IDS.ss, IDS.attention, *pieces, IDS.end]
        for offset, token in enumerate(tokens):
            row["token_ids"][start + offset] = token
            row["position_index"][start + offset] = offset
            row["sentence_number"][start + offset] = number
            row["is_piece"][start + offset] = 1 < offset < len(tokens) - 1
    row["padding_mask"] = [number > 0 for number in row["sentence_number"]]
    return row


def test_the_example_of_the_docstring():
    row = lay_out([([[7, 8], [9]], [5, 0])], 10)
    assert row["token_ids"][0].tolist() == [2, 5, 9, 3, 9, 2, 5, 7, 8, 3]
    assert row["position_index"][0].tolist() == [0, 1, 2, 3, 0, 0, 1, 2, 3, 4]
    assert row["sentence_number"][0].tolist() == [2, 2, 2, 2, 0, 1, 1, 1, 1, 1]
    assert np.flatnonzero(row["is_piece"][0]).tolist() == [2, 7, 8]
    assert np.flatnonzero(~row["padding_mask"][0]).tolist() == [4]


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
        lengths = np.array([[len(one) + 3 for one in sentences]])
        starts, succeeded = place_in_blocks(lengths, 24, 16)
        assert succeeded.all()
        rows.append((sentences, starts[0].tolist()))
    found = lay_out(rows, 24 * 16)
    for number, (sentences, starts) in enumerate(rows):
        expected = slow_row(sentences, starts, 24 * 16)
        assert found.keys() == expected.keys()
        for name, values in expected.items():
            np.testing.assert_array_equal(found[name][number], values, err_msg=name)
