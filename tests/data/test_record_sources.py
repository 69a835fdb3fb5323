import pathlib
import re

import pytest

from seg_tf import files
from seg_tf.data import record_sources
from seg_tf.data.record_sources import RecordSource


@pytest.fixture
def root(tmp_path, monkeypatch):
    for name in ("wikipedia/128", "books/128", "books/512", "a,b", "a:2", "domain"):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_text(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def weights(records_dir):
    sources = record_sources.parse(records_dir)
    return {name: source.weight for name, source in sources.items()}


def test_folders_have_weights_and_names_as_short_as_possible(root):
    assert weights("domain:1,books/128:3") == {"128": 3, "domain": 1}
    both = "wikipedia/128:3, books/128:1,domain:2"
    expected = {"books/128": 1, "wikipedia/128": 3, f"{root.name}/domain": 2}
    assert weights(both) == expected
    (source,) = record_sources.parse("books/512/").values()
    assert source == RecordSource(pathlib.Path("books/512"), 1)


@pytest.mark.parametrize("name", ["a,b", "a:2", "domain"])
def test_a_folder_that_is_there_is_the_only_source_whatever_its_name(root, name):
    (source,) = record_sources.parse(name).values()
    assert source == RecordSource(source.folder, 1)
    assert record_sources.describe(record_sources.parse(name)) == {
        "manifest_checksum": files.checksum(root / name / "manifest.json")
    }


def test_identity_is_of_checksums_and_weights(root):
    described = record_sources.describe(record_sources.parse("domain:2,books/128:6"))
    assert described == {
        "sources": {
            "128": {
                "manifest_checksum": files.checksum(root / "books/128/manifest.json"),
                "weight": 3,
            },
            "domain": {
                "manifest_checksum": files.checksum(root / "domain/manifest.json"),
                "weight": 1,
            },
        }
    }


@pytest.mark.parametrize(
    ("records_dir", "expected"),
    [
        (None, "`--records_dir` must be a folder"),
        ("absent", "Found no absent/manifest.json"),
        ("domain:1,absent:2", "Found no absent/manifest.json"),
        (
            "domain,books/128",
            "a positive integer, after a colon: wikipedia:3,books:1. ",
        ),
        ("domain:1,books/128:0", "Received: 'books/128:0'"),
        ("domain:1,books/128:x", "Received: 'books/128:x'"),
        ("domain:1,", "Received: ''"),
        ("domain:1,a,b:2", "Received: 'a'"),
        ("domain:1,books/../domain:2", "domain more than once"),
        ("domain:99999,books/128:2", "weights that add up to 100,001. Round them"),
    ],
)
def test_mistakes_are_named(root, records_dir, expected):
    with pytest.raises(ValueError, match=re.escape(expected)):
        record_sources.parse(records_dir)
