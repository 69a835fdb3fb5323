"""Hugging Face Datasets, streamed from local folders: the Hub is out of reach here."""

import gzip
import json

import pytest

from data_pipelines import readers
from tests.data_pipelines.readers import helpers

ROWS = [{"title": f"T  {n}", "body": f"Text {n}.\nMore."} for n in range(30)]


@pytest.fixture
def datasets(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return pytest.importorskip("datasets", reason="make setup-corpora installs it")


@pytest.fixture
def folder(tmp_path):
    """A dataset of three files of three kinds, and a split for validation."""
    pa = pytest.importorskip("pyarrow", reason="make setup-corpora installs it")
    from pyarrow import parquet

    folder = tmp_path / "letters"
    (folder / "data").mkdir(parents=True)
    for number in range(3):
        table = pa.Table.from_pylist(ROWS[number * 10 : number * 10 + 10])
        parquet.write_table(table, folder / f"data/train-{number:05d}-of-00003.parquet")
    table = pa.Table.from_pylist([{"title": None, "body": "Held out."}])
    parquet.write_table(table, folder / "data/validation-00000-of-00001.parquet")
    return folder


def reader(**options):
    return readers.get_reader("datasets", **{"text_field": "body", **options})


def test_each_file_of_a_split_is_read_in_order(datasets, folder):
    items = list(reader().read_input(folder))
    assert helpers.paragraphs(items) == [row["body"].split("\n") for row in ROWS]
    assert [item.title for item in items] == [f"T {n}" for n in range(30)]
    assert items[13].source == "data/train-00001-of-00003.parquet"
    assert items[13].location == "row 4"
    (item,) = reader().read_input(f"{folder}[validation]")
    assert (item.paragraphs, item.title) == (("Held out.",), "")


def test_saved_datasets_and_compressed_files_are_read(datasets, tmp_path):
    datasets.Dataset.from_list(ROWS).save_to_disk(tmp_path / "saved")
    items = list(reader().read_input(tmp_path / "saved"))
    assert helpers.paragraphs(items) == [row["body"].split("\n") for row in ROWS]
    (tmp_path / "lines").mkdir()
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    (tmp_path / "lines/train.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    assert helpers.paragraphs(list(reader().read_input(tmp_path / "lines"))) == (
        helpers.paragraphs(items)
    )
    # The cache of the Hub has links to files.
    (tmp_path / "blob").write_text("title\tbody\nT\tOne, two.\n")
    (tmp_path / "table").mkdir()
    (tmp_path / "table/train.tsv").symlink_to(tmp_path / "blob")
    (item,) = reader().read_input(tmp_path / "table")
    assert (item.source, item.paragraphs) == ("train.tsv", ("One, two.",))


def test_bad_rows_are_rejected_and_damage_ends_the_file(datasets, tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text('{"body": "One."}\n{"body": null}\n{"body": " "}\n')
    items = list(reader().read_input(tmp_path))
    assert helpers.reasons(items) == ["", "text_not_a_string", "empty_document"]
    assert items[1].location == "row 2"
    path.write_text('{"body": "One."}\n{broken\n')
    (item,) = reader().read_input(tmp_path)
    assert (item.reason, item.ends_file) == ("damaged_table", True)
    path.write_text('{"text": "One."}\n')
    (item,) = reader().read_input(tmp_path)
    assert item.reason == "missing_text_field"
    assert "found only ['text']" in item.message
