"""Operations on flat tensors, against loops and Python."""

import pytest
import tensorflow as tf

from seg_tf.text.graph.flat import FlatTexts, count_off


def test_one_long_run_does_not_make_others_long():
    # As a table of as many columns for each run it would take 400 GB.
    lengths = tf.constant([1_000_000] + [1] * 100_000)
    numbers, runs = count_off(tf.zeros_like(lengths), lengths)
    assert numbers[999_999] == 999_999
    assert runs[-1] == 100_000
    assert int(tf.reduce_sum(numbers[1_000_000:])) == 0


@pytest.mark.parametrize("content", [b"a\xffb", b"\xe4\xb8", b"\xed\xa0\x80c"])
def test_what_is_no_utf8_is_replaced(content):
    flat = FlatTexts.of(tf.constant([content, b"y"]))
    text = "".join(map(chr, flat.code_points.numpy()))
    # How many stand there is nothing that the tokenizer, which drops them, could see.
    expected = content.decode("utf-8", errors="replace") + "\ny\n"
    assert text.replace("\ufffd", "") == expected.replace("\ufffd", "")
    assert "\ufffd" in text
