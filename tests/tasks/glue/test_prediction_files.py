"""Prediction files: what the leaderboard's form asks for, and nothing half-written."""

import os
import re

import numpy as np
import pytest

from seg_tf import tasks
from seg_tf.tasks.glue import prediction_files
from seg_tf.tasks.glue.averages import COLUMNS
from tests.sample_data import sample_data


def examples(count):
    return [tasks.Example(("a",), None, str(number)) for number in range(count)]


@pytest.mark.parametrize(
    "column, predictions, words",
    [
        ("CoLA", [1, 0, 1], ["1", "0", "1"]),
        ("WNLI", [1, 0, 1], ["1", "0", "1"]),
        ("MNLI-m", [0, 1, 2], ["entailment", "neutral", "contradiction"]),
        ("MNLI-mm", [2, 2, 0], ["contradiction", "contradiction", "entailment"]),
        ("AX", [1, 0, 2], ["neutral", "entailment", "contradiction"]),
        ("QNLI", [0, 1, 0], ["entailment", "not_entailment", "entailment"]),
        ("RTE", [1, 1, 0], ["not_entailment", "not_entailment", "entailment"]),
        ("STS-B", [5.7, -0.2, 3.14159], ["5.000", "0.000", "3.142"]),
        ("STS-B", [0, 5, 2], ["0.000", "5.000", "2.000"]),
    ],
)
@pytest.mark.parametrize("kind", [list, np.array, lambda x: np.array(x, np.float32)])
def test_files_have_header_index_and_word(tmp_path, column, predictions, words, kind):
    path = prediction_files.write(column, examples(3), kind(predictions), tmp_path)
    assert path == tmp_path / f"{column}.tsv"
    lines = [f"{number}\t{word}" for number, word in enumerate(words)]
    expected = "\n".join(["index\tprediction", *lines, ""])
    assert path.read_bytes() == expected.encode()
    assert os.listdir(tmp_path) == [path.name]


def test_indices_are_those_of_the_test_set(tmp_path):
    some = [tasks.Example(("a", "b"), None, index) for index in ("7", "3")]
    path = prediction_files.write("QQP", some, [1, 0], tmp_path)
    assert path.read_text() == "index\tprediction\n7\t1\n3\t0\n"


def test_real_test_set_comes_out_as_it_went_in(tmp_path):
    found = tasks.read("glue/rte", sample_data("glue"), "test")
    path = prediction_files.write("RTE", found, np.arange(len(found)) % 2, tmp_path)
    lines = path.read_text().splitlines()
    assert len(lines) == 3_001
    assert all(
        re.fullmatch(rf"{number}\t(not_)?entailment", line)
        for number, line in enumerate(lines[1:])
    )


@pytest.mark.parametrize(
    "column, predictions, message",
    [
        ("MNLI", [0], "`column` must be one of CoLA, .* Received: 'MNLI'"),
        ("CoLA", [0, 1], r"each of the 1 examples. Received: shape \(2,\)"),
        ("CoLA", [[0.1, 0.9]], r"Received: shape \(1, 2\)"),
        ("CoLA", [2], "numbers of labels"),
        ("CoLA", [0.7], "numbers of labels"),
        ("STS-B", [float("nan")], "must be finite"),
    ],
)
def test_wrong_predictions_leave_the_old_file(tmp_path, column, predictions, message):
    old = tmp_path / f"{column}.tsv"
    old.write_text("old")
    with pytest.raises(ValueError, match=message):
        prediction_files.write(column, examples(1), predictions, tmp_path)
    assert old.read_text() == "old"


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    old = prediction_files.write("CoLA", examples(1), [0], tmp_path)
    before = old.read_bytes()

    def full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        prediction_files.write("CoLA", examples(1), [1], tmp_path)
    assert old.read_bytes() == before
    assert os.listdir(tmp_path) == [old.name]


def test_a_submission_is_eleven_whole_files(tmp_path):
    names = {
        *("CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI-m", "MNLI-mm", "QNLI"),
        *("RTE", "WNLI", "AX"),
    }
    assert set(prediction_files.problems(tmp_path)) == {
        f"{name}.tsv is missing" for name in names
    }
    for name, column in COLUMNS.items():
        size = column.task.split(column.test_split).num_examples
        (tmp_path / f"{name}.tsv").write_text("index\tprediction\n" + "0\t0\n" * size)
    assert prediction_files.problems(tmp_path) == []
    prediction_files.write("WNLI", examples(2), [0, 1], tmp_path)
    assert prediction_files.problems(tmp_path) == [
        "WNLI.tsv has 2 predictions instead of 146"
    ]
