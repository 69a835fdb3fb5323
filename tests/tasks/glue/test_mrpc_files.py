"""MRPC in all its forms: whatever lies there, train and dev never overlap."""

import pytest

from seg_tf import tasks
from tests.sample_data import sample_data
from tests.tasks.glue.test_glue_tasks import write

HEADER = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String"
ROWS = [
    f"{number % 2}\t{number}\t{number}5\ta{number}\tb{number}" for number in range(6)
]


def texts(folder, split):
    return [one.texts[0] for one in tasks.read("glue/mrpc", folder, split)]


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "MRPC" / "msr_paraphrase_train.txt", HEADER, *ROWS)
    return tmp_path


def test_dev_ids_part_all_pairs(folder):
    # A pair is two numbers: (4, 15) is not (4, 45).
    write(folder / "MRPC" / "dev_ids.tsv", "1\t15", "3\t35")
    assert texts(folder, "dev") == ["a1", "a3"]
    assert texts(folder, "train") == ["a0", "a2", "a4", "a5"]


def test_a_dev_file_keeps_its_pairs_out_of_train(folder):
    write(folder / "MRPC" / "dev.tsv", HEADER, ROWS[4])
    assert texts(folder, "dev") == ["a4"]
    assert texts(folder, "train") == ["a0", "a1", "a2", "a3", "a5"]


def test_all_pairs_are_train_where_there_is_no_dev(folder):
    assert len(texts(folder, "train")) == 6
    with pytest.raises(FileNotFoundError, match=r"MRPC/dev\.tsv.*MRPC/dev_ids\.tsv"):
        texts(folder, "dev")


def test_what_the_script_leaves_comes_first(folder):
    write(folder / "MRPC" / "train.tsv", HEADER, ROWS[2])
    write(folder / "MRPC" / "dev_ids.tsv", "1\t15")
    assert texts(folder, "train") == ["a2"]


@pytest.mark.parametrize("split", ["train", "dev"])
def test_pairs_of_dev_that_are_missing_are_an_error(folder, split):
    write(folder / "MRPC" / "dev_ids.tsv", "1\t15", "4\t15")
    with pytest.raises(ValueError, match="a file without 1 of 2, such as 4 and 15"):
        texts(folder, split)


def test_both_test_sets_are_read(folder):
    write(folder / "MRPC" / "msr_paraphrase_test.txt", HEADER, ROWS[1])
    assert tasks.read("glue/mrpc", folder, "test") == [
        tasks.Example(("a1", "b1"), 1, "0")
    ]
    header = "index\t#1 ID\t#2 ID\t#1 String\t#2 String"
    write(folder / "MRPC" / "test.tsv", header, "0\t1\t15\ta1\tb1")
    assert tasks.read("glue/mrpc", folder, "test") == [
        tasks.Example(("a1", "b1"), None, "0")
    ]


def test_real_pairs_without_those_of_dev_are_the_real_train(tmp_path):
    """GLUE's own train.tsv is the oracle of the parting."""
    source = sample_data("glue", "MRPC")
    for name in ("msr_paraphrase_train.txt", "dev.tsv"):
        (tmp_path / name).symlink_to(source / name)
    assert len(texts(tmp_path, "train")) == 3_668
    assert tasks.read("glue/mrpc", tmp_path, "train") == tasks.read(
        "glue/mrpc", source, "train"
    )
    (tmp_path / "dev.tsv").unlink()
    assert len(texts(tmp_path, "train")) == 4_076
