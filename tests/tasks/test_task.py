"""Tab-separated files: what is read, and what is said of those that cannot be."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest

from seg_tf import tasks
from seg_tf.tasks import task


def write(folder, content, name="file.tsv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(path, **settings):
    settings = {"required": ("sentence",), **settings}
    return [row.fields for row in task.read_rows(path, **settings)]


def test_quotes_and_odd_line_ends_are_text(tmp_path):
    # What `str.splitlines` and quoting would take for the ends of rows and fields.
    odd = 'say "A\x85B\u2028C\x0bD\x1cE'
    path = write(tmp_path, f'sentence\tlabel\n{odd}\t1\n"two\t0\n')
    assert read(path) == [(odd, "1"), ('"two', "0")]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("last", ["", "end"])
def test_line_ends_and_byte_order_mark_are_no_text(tmp_path, end, mark, last):
    content = f"{mark}sentence\tlabel{end}a b \t1{end}\tx"
    path = write(tmp_path, content + (end if last else ""))
    assert read(path) == [("a b ", "1"), ("", "x")]


def test_files_without_a_header_have_given_columns(tmp_path):
    path = write(tmp_path, "gj04\t1\nsentence\t0\n")
    (first, second) = task.read_rows(
        path, required=["label"], columns=["source", "label"]
    )
    assert (first.field("label"), second.field("source")) == ("1", "sentence")
    assert (first.line, second.line) == (1, 2)


@pytest.mark.parametrize(
    "content, message",
    [
        ("sentence\tlabel\na\t1\nb\n", r":3: a row must have 2 columns \(sentence, la"),
        ("sentence\tlabel\na\t1\tc\n", r":2: a row .* Received: 3, 'a\\t1\\tc'"),
        ("text\tlabel\na\t1\n", ":1: the header must name .* sentence. Received: tex"),
        ("sentence\tlabel\n", "must hold rows"),
        ("", "must hold rows"),
        (b"sentence\tlabel\na\t1\nb\tcaf\xe9\n", ":3: must be UTF-8"),
    ],
)
def test_errors_say_where_and_what(tmp_path, content, message):
    with pytest.raises(ValueError, match=message) as caught:
        read(write(tmp_path, content))
    assert str(tmp_path / "file.tsv") in str(caught.value)


def rows(tmp_path, field):
    return task.read_rows(write(tmp_path, f"a\tb\nx\t{field}\n"), required=("a", "b"))


@pytest.mark.parametrize("word", ["", "2", " 1"])
def test_unknown_and_missing_labels_are_named(tmp_path, word):
    (row,) = rows(tmp_path, word)
    message = rf":2: column 2 \(b\) must be one of 0, 1.* Received: '{word}'"
    with pytest.raises(ValueError, match=message):
        row.label("b", ("0", "1"))


@pytest.mark.parametrize("word", ["", "high", "5.001", "nan"])
def test_scores_must_be_numbers_in_the_range(tmp_path, word):
    (row,) = rows(tmp_path, word)
    with pytest.raises(ValueError, match=rf"a number from 0 to 5.*{word}'"):
        row.number("b", 0, 5)


def test_files_are_found_in_either_folder(tmp_path):
    (tmp_path / "MRPC").mkdir()
    path = write(tmp_path / "MRPC", "x", "dev.tsv")
    assert task.find_file(tmp_path, "MRPC", ["no", "dev.tsv"]) == path
    assert task.find_file(tmp_path / "MRPC", "MRPC", ["dev.tsv"]) == path


def test_missing_files_are_named(tmp_path):
    (tmp_path / "a.tsv").mkdir()  # a folder is no file
    with pytest.raises(FileNotFoundError) as caught:
        task.find_file(tmp_path, "MRPC", ["a.tsv", "b.tsv"])
    for place in ("MRPC/a.tsv", "MRPC/b.tsv", "a.tsv", "b.tsv"):
        assert str(tmp_path / place) in str(caught.value)


def test_predictions_are_written_with_the_labels_that_are_known(tmp_path):
    path = tmp_path / "predictions.tsv"
    rte, sts_b = tasks.get("glue/rte"), tasks.get("glue/sts-b")
    examples = [tasks.Example(("a", "b"), None, str(number)) for number in (7, 8)]
    tasks.write_predictions(path, rte, examples, np.array([1, 0]))
    expected = "index\tprediction\n7\tnot_entailment\n8\tentailment\n"
    assert path.read_text() == expected
    examples = [dataclasses.replace(examples[0], label=2.5)]
    tasks.write_predictions(path, sts_b, examples, np.array([3.25], np.float32))
    assert path.read_text() == "index\tlabel\tprediction\n7\t2.5\t3.25\n"


def test_tasks_do_without_tensorflow():
    code = """
import sys
import seg_tf.commands.tasks, seg_tf.tasks.task, seg_tf.tasks.squad
import seg_tf.tasks.similarity, seg_tf.tasks.finetuning_settings
print([name for name in ("tensorflow", "keras") if name in sys.modules])
"""
    call = [sys.executable, "-c", code]
    printed = subprocess.run(call, capture_output=True, text=True, check=True).stdout
    assert printed == "[]\n"
