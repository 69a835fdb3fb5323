"""Texts as flat tensors: decoded as Python decodes them."""

import numpy as np
import pytest
import tensorflow as tf

from seg_tf.text.graph.characters import FlatTexts


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("\ufeffa\ufeff", id="byte-order-marks"),
        pytest.param("a\x00b\r\n\x1f\n", id="controls"),
        pytest.param("é中👍\U0010fffd", id="of-all-lengths"),
        pytest.param("", id="empty"),
    ],
)
def test_characters_are_those_of_python(text):
    flat = FlatTexts.of(tf.constant(["x", text, "y"]))
    joined = f"x\n{text}\ny\n"
    assert flat.code_points.numpy().tolist() == list(map(ord, joined))
    assert flat.starts.numpy().tolist() == [0, 2, 3 + len(text)]
    assert flat.ends.numpy().tolist() == [1, 2 + len(text), 4 + len(text)]
    found = flat.strings(flat.starts, flat.ends).numpy()
    assert [one.decode() for one in found] == ["x", text, "y"]
    belongs = flat.text_of(tf.range(len(joined)))
    lengths = [2, 1 + len(text), 2]
    np.testing.assert_array_equal(belongs, np.repeat(range(3), lengths))


@pytest.mark.parametrize("content", [b"a\xffb", b"\xe4\xb8", b"\xed\xa0\x80c"])
def test_what_is_no_utf8_is_replaced(content):
    flat = FlatTexts.of(tf.constant([content, b"y"]))
    text = "".join(map(chr, flat.code_points.numpy()))
    # How many stand there is nothing that the tokenizer, which drops them, could see.
    expected = content.decode("utf-8", errors="replace") + "\ny\n"
    assert text.replace("\ufffd", "") == expected.replace("\ufffd", "")
    assert "\ufffd" in text
