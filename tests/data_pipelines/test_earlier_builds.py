"""Builds into a folder that contains one, or where another process is at work."""

import pytest

from data_pipelines import BuildError
from data_pipelines.builds import slices
from data_pipelines.builds.documents import build_documents
from data_pipelines.builds.makers import SliceMaker
from data_pipelines.builds.windows import WindowMaker, build_windows
from seg_tf.data.manifest import Manifest
from tests.data_pipelines.small_corpus import (
    CUT_SENTENCES,
    WINDOW_OPTIONS,
    build,
    contents,
    document_options,
    interrupted,
)

pytestmark = pytest.mark.slow


def test_a_finished_build_stays_unchanged(corpus, built, monkeypatch):
    before = {p: p.stat().st_mtime_ns for p in built.rglob("*")}
    monkeypatch.delattr(slices, "read_slices")
    build(corpus, built)
    assert {p: p.stat().st_mtime_ns for p in built.rglob("*")} == before


@pytest.mark.parametrize(
    ("kind", "overrides", "message"),
    [
        (
            "built",
            {"slice_megabytes": 0.004},
            r"another `options\.slice_megabytes` \(expected 0\.004, found 0\.003",
        ),
        (
            "built",
            {"lower_case": False},
            r"`vocabulary\.lower_case` \(expected False, found",
        ),
        (
            "built",
            {"window_options": CUT_SENTENCES},
            r"finished build with another `options\.cut_sentences` .*True",
        ),
        ("built", {"max_rejected_share": 0.0}, "could not be read.*=0 allows"),
    ],
)
def test_another_build_is_not_overwritten(corpus, request, kind, overrides, message):
    folder = request.getfixturevalue(kind)
    before = contents(folder)
    with pytest.raises(BuildError, match=message):
        build(corpus, folder, **overrides)
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("options", "other"),
    [(WINDOW_OPTIONS, CUT_SENTENCES), (CUT_SENTENCES, WINDOW_OPTIONS)],
)
def test_an_unfinished_build_keeps_its_options(
    corpus, built, cut_built, tmp_path, options, other
):
    with interrupted(SliceMaker, 0):
        build(corpus, tmp_path)
    with pytest.raises(BuildError, match=r"`options\.slice_me.*0\.004.*0\.003"):
        build(corpus, tmp_path, slice_megabytes=0.004)
    with interrupted(WindowMaker, 3):
        build(corpus, tmp_path, options)
    with pytest.raises(BuildError, match="unfinished build with another `cut_sent"):
        build(corpus, tmp_path, other)
    build(corpus, tmp_path, options)
    expected = cut_built if options.cut_sentences else built
    assert contents(tmp_path) == contents(expected)


def test_a_build_of_nothing_blocks_nothing(corpus, tmp_path):
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "others.tfrecord").write_text("of somebody else")
    message = r"no document in .* json_lines: rejected in all: .*; first .*'body'.*see"
    with pytest.raises(BuildError, match=message):
        build(corpus, tmp_path, reader_options={"text_field": "body"})
    names = {"others.tfrecord", "rejected.jsonl", ".lock"}
    assert {path.name for path in folder.iterdir()} == names
    build(corpus, tmp_path)
    assert Manifest.load(folder).count("records")


def overwrite_documents(corpus, output_dir):
    options = document_options(corpus, slice_megabytes=1.0)
    build_documents(options, output_dir / "documents", overwrite=True)


def overwrite_windows(corpus, output_dir):
    del corpus
    build_windows(CUT_SENTENCES, output_dir / "documents", output_dir, overwrite=True)


@pytest.mark.parametrize(
    ("maker", "overwrite", "folder"),
    [
        (SliceMaker, overwrite_documents, "documents"),
        (WindowMaker, overwrite_windows, ""),
        # Windows are cut from documents that another build would remove.
        (WindowMaker, overwrite_documents, "documents"),
    ],
)
def test_overwrite_does_not_touch_a_running_build(
    corpus, built, tmp_path, monkeypatch, maker, overwrite, folder
):
    make, refusals = maker.make, []

    def make_and_overwrite(self, payload, folder):
        if payload.number == 3:
            before = contents(tmp_path)
            with pytest.raises(BuildError, match="another process is build") as error:
                overwrite(corpus, tmp_path)
            assert contents(tmp_path) == before
            refusals.append(str(error.value))
        return make(self, payload, folder)

    monkeypatch.setattr(maker, "make", make_and_overwrite)
    build(corpus, tmp_path)
    (refusal,) = refusals
    assert refusal.startswith(f"{tmp_path / folder}: ")
    assert contents(tmp_path) == contents(built)
