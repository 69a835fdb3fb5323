"""Which files an input stands for."""

import os
import pathlib

import pytest

from seg_tf import file_listing


def make(folder: pathlib.Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text")


def listed(input_path, suffixes=()) -> list[str]:
    return [
        file_listing.relative_name(file, input_path)
        for file in file_listing.list_files(input_path, suffixes)
    ]


def test_folder_is_searched_recursively_and_sorted_by_name(tmp_path):
    make(tmp_path, "b.txt", "a/z.txt", "a/B.txt", "a.txt", "a/sub/1.txt")
    # "." sorts before "/": by whole names, not folder by folder.
    expected = ["a.txt", "a/B.txt", "a/sub/1.txt", "a/z.txt", "b.txt"]
    assert listed(tmp_path) == expected == sorted(expected)


def test_hidden_files_and_folders_are_left_out(tmp_path):
    make(tmp_path, "seen", ".hidden", ".git/config", "sub/.DS_Store")
    assert listed(tmp_path) == ["seen"]


def test_suffixes_filter_a_folder_and_see_through_compression(tmp_path):
    make(tmp_path, "a.json", "b.JSONL", "c.json.gz", "d.jsonl.zst", "e.json.bz2")
    make(tmp_path, "f.gz", "README", "g.txt", "h.txt.gz", "json")
    expected = ["a.json", "b.JSONL", "c.json.gz", "d.jsonl.zst", "e.json.bz2", "f.gz"]
    assert listed(tmp_path, (".json", ".jsonl")) == expected


def test_glob_takes_files_of_any_suffix_and_folders(tmp_path):
    make(tmp_path, "AA/wiki_00", "AA/wiki_01", "AB/wiki_00", "C/other", "wiki_09")
    assert listed(f"{tmp_path}/A*") == ["AA/wiki_00", "AA/wiki_01", "AB/wiki_00"]
    assert listed(f"{tmp_path}/*/wiki_0[01]", (".txt",)) == [
        "AA/wiki_00",
        "AA/wiki_01",
        "AB/wiki_00",
    ]
    # Found twice, as files and in their folder; listed once.
    assert listed(f"{tmp_path}/**/*") == listed(tmp_path)


def test_folder_linked_twice_is_listed_once_under_its_first_name(tmp_path):
    make(tmp_path, "real/a", "corpus/b")
    for name in ("z", "y", "x"):
        os.symlink(tmp_path / "real", tmp_path / "corpus" / name)
    assert listed(tmp_path / "corpus") == ["b", "x/a"]


def test_folder_that_cannot_be_read_is_an_error(tmp_path, monkeypatch):
    make(tmp_path, "locked/a")

    def scandir(path):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(PermissionError, match="Permission denied"):
        file_listing.list_files(tmp_path)


def test_name_that_is_not_utf8_becomes_text(tmp_path):
    path = os.path.join(os.fsencode(tmp_path), b"caf\xe9")
    with open(path, "wb") as file:
        file.write(b"text")
    assert listed(tmp_path) == ["caf\ufffd"]


def test_folder_without_matching_files_says_what_was_looked_for(tmp_path):
    make(tmp_path, "a.txt", ".b.md")
    with pytest.raises(ValueError, match=r"named \*\.md or \*\.markdown.*a glob"):
        file_listing.list_files(tmp_path, (".md", ".markdown"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"files, hidden ones aside.*none$"):
        file_listing.list_files(tmp_path / "empty")


def test_folder_of_empty_files_is_an_error(tmp_path):
    (tmp_path / "a").touch()
    (tmp_path / "b").touch()
    with pytest.raises(ValueError, match=r"2 file\(s\) are all empty, 'a' among"):
        file_listing.list_files(tmp_path)
    make(tmp_path, "c")
    assert listed(tmp_path) == ["a", "b", "c"]


@pytest.mark.parametrize("input_path", ["pipe", "*pe"])
def test_pipes_are_refused_by_name(tmp_path, input_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match=r"'.*/pipe', which is a pipe.* Write"):
        file_listing.list_files(tmp_path / input_path)
