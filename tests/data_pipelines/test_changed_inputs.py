"""Inputs that change, at equal size too, between two commands or while being read."""

import hashlib
import json
import os
import pathlib

import pyarrow as pa
import pyarrow.parquet
import pytest

from data_pipelines.builds import (
    beam_engine,
    beam_steps,
    document_build,
    document_building,
    document_slices,
    source_checksums,
)
from data_pipelines.builds.document_slices import Cursor
from data_pipelines.builds.errors import BuildError
from data_pipelines.builds.local_engine import LocalEngine
from data_pipelines.builds.text_worker import SliceMaker
from data_pipelines.cleaning import duplicates
from data_pipelines.cleaning.cleaning_options import CleaningOptions
from data_pipelines.readers import raw_files
from tests.data_pipelines import small_corpus
from tests.data_pipelines.interruptions import interrupted
from tests.data_pipelines.small_corpus import contents

pytestmark = pytest.mark.slow

TEXTS = [f"The ship number {number} sailed away. It came home." for number in range(60)]
CHANGED = "changed since the build in .* read it"


def write_text(path, texts):
    if path.suffix == ".parquet":
        pa.parquet.write_table(pa.table({"text": texts}), path, compression="none")
    else:
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))


@pytest.fixture
def corpus(tmp_path):
    """Three files of JSON lines and a vocabulary."""
    (tmp_path / "text").mkdir()
    for number in range(3):
        texts = TEXTS[20 * number : 20 * number + 20]
        write_text(tmp_path / "text" / f"{number}.jsonl", texts)
    small_corpus.write_vocabulary(tmp_path, "ship")
    return tmp_path


def options_of(corpus, **overrides):
    # Slices of 9 of the 20 documents of a file.
    settings = {"validation_fraction": 0.1, "slice_megabytes": 0.0004, **overrides}
    return small_corpus.options_of(corpus / "text", corpus / "vocab.txt", **settings)


def build(corpus, name="out", engine=None, **overrides):
    return document_build.build_documents(
        options_of(corpus, **overrides), corpus / name, engine=engine
    )


def edit(path):
    """Changes a file's text, and neither its size nor the time of its last change."""
    before, status = path.read_bytes(), path.stat()
    path.write_bytes(before.replace(b"ship", b"boat"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_size == status.st_size
    assert path.read_bytes() != before
    return before


def test_a_finished_build_is_not_that_of_an_edited_input(corpus):
    manifest = build(corpus)
    before = contents(corpus / "out")
    path = corpus / "text" / "1.jsonl"
    text = edit(path)
    with pytest.raises(BuildError, match=rf"{path}: .*{CHANGED}.*--overwrite"):
        build(corpus)
    assert contents(corpus / "out") == before
    path.write_bytes(text)
    assert build(corpus) == manifest


def test_an_input_of_another_size_is_named(corpus):
    build(corpus)
    with open(corpus / "text" / "1.jsonl", "a") as file:
        file.write("\n")
    with pytest.raises(BuildError, match=r"another `sources\.1` .*'1\.jsonl'"):
        build(corpus)


@pytest.fixture
def engine(request):
    if request.param == "local":
        return LocalEngine()
    pytest.importorskip("apache_beam", exc_type=ImportError)
    return beam_engine.BeamEngine(["--runner=FnApiRunner"])


@pytest.mark.parametrize(
    ("engine", "name"),
    [("local", "0.jsonl"), ("local", "1.jsonl"), ("beam", "1.jsonl")],
    indirect=["engine"],
)
def test_an_unfinished_build_does_not_mix_texts(corpus, engine, name):
    expected = contents(build(corpus, "whole") and corpus / "whole")
    # Slice 3 begins in the middle of the second file.
    with interrupted(SliceMaker, 3):
        build(corpus)
    path = corpus / "text" / name
    text = edit(path)
    with pytest.raises(BuildError, match=rf"{path}: .*{CHANGED}"):
        build(corpus, engine=engine)
    assert not (corpus / "out" / "manifest.json").exists()
    path.write_bytes(text)
    build(corpus, engine=engine)
    assert contents(corpus / "out") == expected


def test_a_line_of_notes_that_a_kill_cut_off_is_no_obstacle(corpus):
    expected = contents(build(corpus, "whole") and corpus / "whole")
    with interrupted(SliceMaker, 3):
        build(corpus)
    notes = corpus / "out" / ".progress" / source_checksums.NOTES_FILE
    notes.write_bytes(notes.read_bytes()[:-7])
    build(corpus)
    assert contents(corpus / "out") == expected


def grow(path):
    with open(path, "a") as file:
        file.write(json.dumps({"text": "The ship came home."}) + "\n")


@pytest.mark.parametrize("change", [edit, grow])
@pytest.mark.parametrize(("name", "stopped_at"), [("0.jsonl", 4), ("1.jsonl", 3)])
def test_an_input_that_changes_during_the_build(
    corpus, monkeypatch, change, name, stopped_at
):
    make = SliceMaker.make

    def make_and_change(self, payload, folder):
        if payload.number == stopped_at:
            change(corpus / "text" / name)
        return make(self, payload, folder)

    monkeypatch.setattr(SliceMaker, "make", make_and_change)
    with pytest.raises(BuildError, match=rf"{name}: the file has changed"):
        build(corpus)
    assert not (corpus / "out" / "manifest.json").exists()


def test_a_new_time_of_the_same_bytes_is_no_change(corpus, monkeypatch):
    make = SliceMaker.make

    def make_and_touch(self, payload, folder):
        for path in (corpus / "text").iterdir():
            path.touch()
        return make(self, payload, folder)

    monkeypatch.setattr(SliceMaker, "make", make_and_touch)
    manifest = build(corpus)
    assert build(corpus) == manifest


def test_an_input_that_changes_between_two_looks_at_the_corpus(corpus, monkeypatch):
    find = duplicates.exact_duplicates

    def edit_and_find(*arguments):
        edit(corpus / "text" / "2.jsonl")
        return find(*arguments)

    monkeypatch.setattr(duplicates, "exact_duplicates", edit_and_find)
    with pytest.raises(BuildError, match=rf"2\.jsonl: .*{CHANGED}"):
        build(corpus, cleaning=CleaningOptions(duplicates="exact"))


def test_a_table_is_hashed_before_its_rows_are_read(corpus):
    (corpus / "tables").mkdir()
    path = corpus / "tables" / "a.parquet"
    write_text(path, TEXTS)
    tables = {"format": "parquet", "input": str(corpus / "tables")}
    with interrupted(SliceMaker, 1):
        build(corpus, **tables)
    text = edit(path)
    with pytest.raises(BuildError, match=rf"{path}: .*{CHANGED}"):
        build(corpus, **tables)
    path.write_bytes(text)
    (source,) = build(corpus, **tables).sources
    assert source["sha256"] == raw_checksum(path)


def raw_checksum(path):
    checksum = raw_files.RunningChecksum()
    checksum.read_rest(path)
    return checksum.hexdigest()


def test_a_remote_input_that_was_edited_is_named(corpus, memory):
    lines = (corpus / "text" / "0.jsonl").read_bytes()
    memory.pipe("/text/a.jsonl", lines)
    build(corpus, input="memory://text")
    memory.pipe("/text/a.jsonl", lines.replace(b"ship", b"boat"))
    with pytest.raises(BuildError, match=rf"memory:.*a\.jsonl: .*{CHANGED}"):
        build(corpus, input="memory://text")


def test_a_beam_step_fails_at_a_file_that_changed_after_it_was_measured(corpus):
    options = options_of(corpus)
    sources = document_building.list_sources(options)
    ledger = source_checksums.SourceLedger(sources)
    list(document_slices.read_slices(options, sources, Cursor(), 0, ledger))
    path = pathlib.Path(sources["1.jsonl"])
    source = beam_steps.SourceFile(
        *(1, "1.jsonl", path, path.stat().st_size, ledger.known(1), corpus / "out")
    )
    # No slice wants anything of this file: its last bytes are compared all the same.
    assert not list(beam_steps.ReadItems(options)(source))
    edit(path)
    with pytest.raises(BuildError, match=rf"{path}: .*{CHANGED}"):
        list(beam_steps.ReadItems(options)(source))


@pytest.mark.parametrize("sizes", [[100], [1, 2, 97], [40, 40, 20]])
def test_prefixes_are_compared_wherever_reads_end(sizes):
    data = bytes(range(100))
    known = {n: hashlib.sha256(data[:n]).hexdigest() for n in (0, 1, 40, 99)}
    for flipped in range(100):
        changed = bytearray(data)
        changed[flipped] ^= 1
        for content in (data, bytes(changed)):
            checksum = raw_files.RunningChecksum(known)
            position = 0
            for size in sizes:
                checksum.add(position, content[position : position + size])
                # What was read twice, or after a gap, is not hashed.
                checksum.add(max(position - 3, 0), content[:1])
                checksum.add(position + size + 1, b"x")
                position += size
            assert checksum.hexdigest() == hashlib.sha256(content).hexdigest()
            first = min((n for n in known if n > flipped), default=None)
            expected = None if content == data else first
            found = checksum.difference and checksum.difference[0]
            assert found == expected
