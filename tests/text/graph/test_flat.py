"""Operations on flat tensors, against loops and Python."""

import numpy as np
import pytest
import tensorflow as tf

from seg_tf.text.graph.flat import (
    NUM_CODE_POINTS,
    CodePointTable,
    FlatTexts,
    MarkedPositions,
    count_off,
)


@pytest.mark.parametrize("marks", ["", "0", "1", "0010110", "1000001"])
def test_nearest_marked_positions(marks):
    marked = [at for at, mark in enumerate(marks) if mark == "1"]
    found = MarkedPositions(tf.constant([mark == "1" for mark in marks], tf.bool))
    for at in range(len(marks) + 1):
        before = [one for one in marked if one < at]
        after = [one for one in marked if one >= at]
        assert found.count_before(at) == len(before)
        assert found.last_before(at) == (before[-1] if before else -1)
        assert found.next_from(at) == (after[0] if after else len(marks))


def test_runs_are_counted_off():
    numbers, runs = count_off(tf.constant([5, 0, 9, 2]), tf.constant([2, 3, 0, 1]))
    assert numbers.numpy().tolist() == [5, 6, 0, 1, 2, 2]
    assert runs.numpy().tolist() == [0, 0, 1, 1, 1, 3]
    assert tf.size(count_off(tf.constant([], tf.int32), tf.constant([], tf.int32))) == 0


def test_one_long_run_does_not_make_others_long():
    # As a table of as many columns for each run it would take 400 GB.
    lengths = tf.constant([1_000_000] + [1] * 100_000)
    numbers, runs = count_off(tf.zeros_like(lengths), lengths)
    assert numbers[999_999] == 999_999
    assert runs[-1] == 100_000
    assert int(tf.reduce_sum(numbers[1_000_000:])) == 0


def test_a_table_of_code_points():
    values = np.random.default_rng(1).integers(0, 9, NUM_CODE_POINTS)
    values[5000:900_000] = 3
    asked = np.array([[0, 4999, 5000], [899_999, 900_000, NUM_CODE_POINTS - 1]])
    found = CodePointTable(values)(tf.constant(asked, tf.int32))
    np.testing.assert_array_equal(found, values[asked])


@pytest.mark.parametrize("content", [b"a\xffb", b"\xe4\xb8", b"\xed\xa0\x80c"])
def test_what_is_no_utf8_is_replaced(content):
    flat = FlatTexts.of(tf.constant([content, b"y"]))
    text = "".join(map(chr, flat.code_points.numpy()))
    # How many stand there is nothing that the tokenizer, which drops them, could see.
    expected = content.decode("utf-8", errors="replace") + "\ny\n"
    assert text.replace("\ufffd", "") == expected.replace("\ufffd", "")
    assert "\ufffd" in text
