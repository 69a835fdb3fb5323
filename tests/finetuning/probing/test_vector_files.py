"""Vectors in a folder: right, computed once, and after a kill only what is missing."""

import functools
import json

import numpy as np
import pytest

from seg_tf.finetuning.probing.frozen_encoder import FrozenEncoder
from seg_tf.finetuning.probing.vector_files import sentence_vectors
from tests.counting_bar import CountingBar
from tests.finetuning.tiny_models import some_texts, tiny

pytestmark = pytest.mark.slow

ROWS_OF_PART = 4


@functools.cache
def frozen(kind, mode="per_sentence", **arguments):
    return FrozenEncoder(tiny(kind), mode, 3, **arguments)


class CountingEncoder:
    """Remembers which rows it encoded, and dies when it is told to."""

    def __init__(self, encoder, dies_after=None):
        self.num_texts = encoder.num_texts
        self.rows_of = encoder.rows_of
        self.describe = encoder.describe
        self.encoded = []
        self._encode = encoder.encode
        self._dies_after = dies_after

    def encode(self, rows, on_progress=bool):
        if self._dies_after is not None and len(self.encoded) >= self._dies_after:
            raise KeyboardInterrupt
        self.encoded += rows
        return self._encode(rows, on_progress)


def make(examples, folder, encoder=None, bars=None, reports=None):
    encoder = encoder or CountingEncoder(frozen("slm"))
    bars = [] if bars is None else bars

    def progress(total):
        bars.append(CountingBar(total))
        return bars[-1]

    vectors = sentence_vectors(
        encoder,
        examples,
        folder,
        progress,
        ([] if reports is None else reports).append,
        rows_of_part=ROWS_OF_PART,
    )
    return vectors, encoder


@pytest.fixture
def examples():
    found = some_texts(np.random.default_rng(1), 5, 3)
    # Texts, and an example, that come again.
    found[3] = (found[0][0], found[1][2], found[3][2])
    found[4] = found[0]
    return found


@pytest.mark.parametrize("mode", ["per_sentence", "joint"])
def test_every_text_has_its_vector_though_rows_are_encoded_once(
    mode, examples, tmp_path
):
    encoder = CountingEncoder(frozen("slm", mode))
    bars = []
    vectors, _ = make(examples, tmp_path / "v", encoder, bars)
    assert vectors.shape == (5, 3, 12)
    assert len(encoder.encoded) == len(set(encoder.encoded))
    assert len(encoder.encoded) == (4 if mode == "joint" else 10)
    assert bars[0].done == bars[0].total == len(encoder.encoded)
    plain = frozen("slm", mode)
    for example, found in zip(examples, vectors, strict=True):
        rows = [example] if mode == "joint" else [(text,) for text in example]
        expected = np.concatenate(plain.encode(rows)[0])
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_second_time_nothing_is_encoded(examples, tmp_path):
    first, _ = make(examples, tmp_path)
    bars = []
    second, encoder = make(examples, tmp_path, bars=bars)
    np.testing.assert_array_equal(first, second)
    assert encoder.encoded == bars == []


def test_a_killed_job_goes_on_with_the_missing_parts(examples, tmp_path):
    expected, _ = make(examples, tmp_path / "whole")
    folder = tmp_path / "killed"
    dying = CountingEncoder(frozen("slm"), dies_after=ROWS_OF_PART)
    with pytest.raises(KeyboardInterrupt):
        make(examples, folder, dying)
    # As if killed in the midst of writing.
    leftover = folder / ".aside-0"
    leftover.mkdir()
    (leftover / "part-00001.npy").write_bytes(b"half")
    bars = []
    vectors, encoder = make(examples, folder, bars=bars)
    np.testing.assert_array_equal(vectors, expected)
    assert len(encoder.encoded) == 10 - ROWS_OF_PART
    assert not set(encoder.encoded) & set(dying.encoded)
    assert bars[0].done == bars[0].total == 10
    assert not leftover.exists()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"examples": 1}, "texts_sha256"),
        ({"kind": "segabert_slm"}, "encoder_sha256"),
        ({"mode": "joint"}, "mode: per_sentence there, joint now"),
        ({"max_length": 20}, "max_length: 48 there, 20 now"),
        ({"randomly_initialized": True}, "encoder_sha256"),
    ],
)
def test_other_vectors_are_refused(changed, message, examples, tmp_path):
    changed = dict(changed)
    make(examples, tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    if changed.pop("examples", None):
        # The same words in all, parted elsewhere.
        examples[1] = (f"{examples[1][0]} {examples[1][1]}", "", examples[1][2])
    encoder = CountingEncoder(frozen(**{"kind": "slm", **changed}))
    with pytest.raises(ValueError, match=f"holds other vectors.*{message}"):
        make(examples, tmp_path, encoder)
    assert encoder.encoded == []
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_the_folder_says_what_vectors_depend_on(examples, tmp_path):
    make(examples, tmp_path)
    settings = json.loads((tmp_path / "settings.json").read_text())
    assert settings["vocab_sha256"] == tiny("slm").vocabulary.checksum
    assert settings["num_rows"] == 10
    weights = np.load(tmp_path / "part-00000.npy")
    assert weights.shape == (ROWS_OF_PART, 1, 12)
    assert weights.dtype == np.float32


def test_damaged_vectors_are_named(examples, tmp_path):
    make(examples, tmp_path)
    np.save(tmp_path / "part-00001.npy", np.zeros((1, 1, 12), np.float32))
    with pytest.raises(ValueError, match=r"vectors of 10 rows.*with 7.*Remove it"):
        make(examples, tmp_path)


def test_cut_texts_are_reported(examples, tmp_path):
    reports = []
    encoder = CountingEncoder(frozen("slm", max_length=6))
    make(examples, tmp_path, encoder, reports=reports)
    (line,) = reports
    assert "texts were cut: " in line
    longer = {text for one in examples for text in one if len(text.split()) > 3}
    assert line.endswith(f"cut: {len(longer)} of 10 rows encoded now")
    # A killed job goes on, and speaks of what it did itself.
    (tmp_path / "part-00000.npy").unlink()
    make(examples, tmp_path, encoder, reports=reports)
    assert reports[1].endswith(f" of {ROWS_OF_PART} rows encoded now")


def test_examples_need_as_many_texts_as_were_told(tmp_path):
    with pytest.raises(ValueError, match=r"3 texts each.*Received: 2 in example 1"):
        make([("a", "b", "c"), ("a", "b")], tmp_path)
