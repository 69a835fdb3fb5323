"""Inputs that change, at equal size too, between two commands or during a build."""

import json
import os

import pytest

from data_pipelines import BuildError
from data_pipelines.builds import beam_engine
from data_pipelines.builds.documents import build_documents
from data_pipelines.builds.local_engine import LocalEngine
from data_pipelines.builds.makers import SliceMaker
from tests.data_pipelines import small_corpus
from tests.data_pipelines.small_corpus import contents, interrupted

pytestmark = pytest.mark.slow

TEXTS = [f"The ship number {number} sailed away. It came home." for number in range(60)]
CHANGED = "changed since the build in .* read it"


def write_text(path, texts):
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


def build(corpus, name="out", engine=None, **overrides):
    # Slices of 9 of the 20 documents of a file.
    settings = {"validation_fraction": 0.1, "slice_megabytes": 0.0004, **overrides}
    options = small_corpus.options_of(corpus / "text", corpus / "vocab.txt", **settings)
    return build_documents(options, corpus / name, engine=engine)


def edit(path):
    """Changes a file's text, but neither its size nor the time of its last change."""
    before, status = path.read_bytes(), path.stat()
    path.write_bytes(before.replace(b"ship", b"boat"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_size == status.st_size
    assert path.read_bytes() != before
    return before


def grow(path):
    with open(path, "a") as file:
        file.write(json.dumps({"text": "The ship came home."}) + "\n")


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
    grow(path)
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


@pytest.mark.parametrize("change", [edit, grow])
@pytest.mark.parametrize(("name", "stopped_at"), [("0.jsonl", 4), ("1.jsonl", 3)])
def test_an_input_that_changes_during_the_build(
    corpus, monkeypatch, change, name, stopped_at
):
    expected = contents(build(corpus, "whole") and corpus / "whole")
    make, path = SliceMaker.make, corpus / "text" / name
    before = path.read_bytes()

    def make_and_change(self, payload, folder):
        if payload.number == stopped_at:
            change(path)
        return make(self, payload, folder)

    with monkeypatch.context() as patch:
        patch.setattr(SliceMaker, "make", make_and_change)
        with pytest.raises(BuildError, match=rf"{name}: the file has changed"):
            build(corpus)
    assert not (corpus / "out" / "manifest.json").exists()
    # No slice was made of the changed text.
    path.write_bytes(before)
    build(corpus)
    assert contents(corpus / "out") == expected
