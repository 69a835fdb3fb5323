"""Which files an input stands for."""

import os

import pytest

from seg_tf import file_listing


def write_files(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text")


def listed(input_path, suffixes=()):
    return [
        file_listing.relative_name(file, input_path)
        for file in file_listing.list_files(input_path, suffixes)
    ]


def test_folder_is_searched_recursively_and_sorted_by_name(tmp_path, monkeypatch):
    write_files(tmp_path, "b.txt", "a/z.txt", "a/B.txt", "a.txt", "a/sub/1.txt")
    write_files(tmp_path, ".hidden", ".git/config", "sub/.DS_Store")
    # "." sorts before "/": by whole names, not folder by folder.
    expected = ["a.txt", "a/B.txt", "a/sub/1.txt", "a/z.txt", "b.txt"]
    assert listed(tmp_path) == expected == sorted(expected)
    monkeypatch.setenv("HOME", str(tmp_path.parent))
    assert listed(f"~/{tmp_path.name}") == expected


def test_suffixes_filter_a_folder_and_see_through_compression(tmp_path):
    write_files(tmp_path, "a.json", "b.JSONL", "c.json.gz", "d.jsonl.zst", "e.json.bz2")
    write_files(tmp_path, "f.gz", "README", "g.txt", "h.txt.gz", "json")
    expected = ["a.json", "b.JSONL", "c.json.gz", "d.jsonl.zst", "e.json.bz2", "f.gz"]
    assert listed(tmp_path, (".json", ".jsonl")) == expected


def test_glob_matches_files_of_any_suffix_and_folders(tmp_path):
    write_files(
        tmp_path, "AA/wiki_00", "AA/wiki_01", "AB/wiki_00", "C/other", "wiki_09"
    )
    expected = ["AA/wiki_00", "AA/wiki_01", "AB/wiki_00"]
    assert listed(f"{tmp_path}/A*") == expected
    assert listed(f"{tmp_path}/*/wiki_0[01]", (".txt",)) == expected
    # Files that also match in their folder are listed once.
    assert listed(f"{tmp_path}/**/*") == listed(tmp_path)


def test_folder_linked_twice_is_listed_once_under_its_first_name(tmp_path):
    write_files(tmp_path, "real/a", "corpus/b")
    for name in ("z", "y", "x"):
        os.symlink(tmp_path / "real", tmp_path / "corpus" / name)
    assert listed(tmp_path / "corpus") == ["b", "x/a"]


def test_names_that_are_not_utf8_become_different_texts(tmp_path):
    for name in (b"caf\xe8", b"caf\xe9"):
        with open(os.path.join(os.fsencode(tmp_path), name), "wb") as file:
            file.write(b"text")
    assert listed(tmp_path) == ["caf\\xe8", "caf\\xe9"]


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("nowhere", FileNotFoundError, r"input must.*nowhere'"),
        ("text", ValueError, r"named \*\.md or \*\.markdown.*A glob"),
        ("empty", ValueError, r"2 file\(s\) are all empty"),
        ("pipe", ValueError, r"'.*/pipe', a pipe"),
        ("pi*", ValueError, r"'.*/pipe', a pipe"),
        ("locked", PermissionError, "Permission denied"),
    ],
)
def test_unusable_inputs_are_refused(tmp_path, monkeypatch, name, error, message):
    write_files(tmp_path, "text/a.txt", "text/.b.md", "locked/a.md")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty/a.md").touch()
    (tmp_path / "empty/b.md").touch()
    os.mkfifo(tmp_path / "pipe")

    def scandir(path, scan=os.scandir):
        if os.path.basename(path) == "locked":
            raise PermissionError(13, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(error, match=message):
        file_listing.list_files(tmp_path / name, (".md", ".markdown"))
