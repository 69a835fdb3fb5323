"""GLUE: its files, each with its quirks."""

import csv

import pytest

from seg_tf import tasks
from tests.sample_data import sample_data

# Complete files of the sample data: their columns of texts and label by number, as
# GLUE's paper and its users count them.
COMPLETE = [
    ("glue/cola", "train", "CoLA/train.tsv", (3,), 1, 8_551),
    ("glue/cola", "dev", "CoLA/dev.tsv", (3,), 1, 1_043),
    ("glue/cola", "test", "CoLA/test.tsv", (1,), None, 1_063),
    ("glue/sst-2", "train", "SST-2/train.tsv", (0,), 1, 67_349),
    ("glue/sst-2", "dev", "SST-2/dev.tsv", (0,), 1, 872),
    ("glue/mrpc", "train", "MRPC/train.tsv", (3, 4), 0, 3_668),
    ("glue/mrpc", "dev", "MRPC/dev.tsv", (3, 4), 0, 408),
    ("glue/sts-b", "train", "STS-B/train.tsv", (7, 8), 9, 5_749),
    ("glue/sts-b", "dev", "STS-B/dev.tsv", (7, 8), 9, 1_500),
    ("glue/sts-b", "test", "STS-B/test.tsv", (7, 8), None, 1_379),
    ("glue/qnli", "dev", "QNLI/dev.tsv", (1, 2), 3, 5_463),
    ("glue/qnli", "test", "QNLI/test.tsv", (1, 2), None, 5_463),
    ("glue/rte", "train", "RTE/train.tsv", (1, 2), 3, 2_490),
    ("glue/rte", "dev", "RTE/dev.tsv", (1, 2), 3, 277),
    ("glue/rte", "test", "RTE/test.tsv", (1, 2), None, 3_000),
]


def csv_rows(path, *, has_header):
    """The rows as the csv module gives them, of which quotes are no part."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return rows[1:] if has_header else rows


@pytest.mark.parametrize("name, split, file, texts, label, size", COMPLETE)
def test_real_files_are_read_whole(name, split, file, texts, label, size):
    folder, task = sample_data("glue"), tasks.get(name)
    has_header = not (name == "glue/cola" and split != "test")
    expected = csv_rows(folder / file, has_header=has_header)
    found = tasks.read(task, folder, split)
    assert len(found) == len(expected) == size == task.split(split).num_examples
    assert [one.texts for one in found] == [
        tuple(row[column] for column in texts) for row in expected
    ]
    if label is None:
        assert {one.label for one in found} == {None}
        assert [one.identifier for one in found] == [row[0] for row in expected]
    else:
        read = float if task.is_regression else task.labels.index
        assert [one.label for one in found] == [read(row[label]) for row in expected]
    assert [int(one.identifier) for one in found] == list(range(size))


def write(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


MNLI_HEADER = (
    "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\t"
    "sentence1_parse\tsentence2_parse\tsentence1\tsentence2"
)


def test_mnli_takes_the_gold_label_and_no_annotators(tmp_path):
    labels = "\tlabel1\tlabel2\tlabel3\tlabel4\tlabel5\tgold_label"
    row = "4\t1\t2\tfiction\t(a)\t(b)\t(ROOT a)\t(ROOT b)\tA man.\tA dog."
    votes = "\tneutral\tcontradiction\tcontradiction\tneutral\tcontradiction"
    file = tmp_path / "MNLI" / "dev_mismatched.tsv"
    write(file, MNLI_HEADER + labels, row + votes + "\tcontradiction")
    assert tasks.read("glue/mnli", tmp_path, "dev_mismatched") == [
        tasks.Example(("A man.", "A dog."), 2, "4")
    ]
    write(file, MNLI_HEADER + labels, row + votes + "\t-")
    expected = r":2: column 16 \(gold_label\) must be one of entailment, .*: '-'"
    with pytest.raises(ValueError, match=expected):
        tasks.read("glue/mnli", tmp_path, "dev_mismatched")
    write(tmp_path / "MNLI" / "test_matched.tsv", MNLI_HEADER, row)
    assert tasks.read("glue/mnli", tmp_path, "test_matched") == [
        tasks.Example(("A man.", "A dog."), None, "4")
    ]


def test_unknown_tasks_are_told_the_known_ones():
    with pytest.raises(ValueError, match="Received: 'mrpc'") as caught:
        tasks.get("mrpc")
    assert all(known in str(caught.value) for known in tasks.names())


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(ValueError, match="`split` must be one of train, dev_matched"):
        tasks.read("glue/mnli", tmp_path, "dev")
    with pytest.raises(FileNotFoundError, match=r"MNLI/dev_matched\.tsv"):
        tasks.read("glue/mnli", tmp_path, "dev_matched")


def test_both_test_sets_of_mrpc_are_read(tmp_path):
    header = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String"
    row = "1\t1\t15\ta1\tb1"
    write(tmp_path / "MRPC" / "msr_paraphrase_test.txt", header, row)
    assert tasks.read("glue/mrpc", tmp_path, "test") == [
        tasks.Example(("a1", "b1"), 1, "0")
    ]
    header = "index\t#1 ID\t#2 ID\t#1 String\t#2 String"
    write(tmp_path / "MRPC" / "test.tsv", header, "0\t1\t15\ta1\tb1")
    assert tasks.read("glue/mrpc", tmp_path, "test") == [
        tasks.Example(("a1", "b1"), None, "0")
    ]
