"""Builds into a folder that holds one, or where another process is at work."""

import os
import pathlib
import shutil

import pytest

from data_pipelines import (
    build_windows,
)
from data_pipelines.builds import (
    document_build,
    document_slices,
    sharded_build,
)
from data_pipelines.builds.errors import BuildError
from data_pipelines.builds.text_worker import SliceMaker
from data_pipelines.builds.window_building import WindowMaker
from seg_tf.data.manifest import Manifest
from tests.data_pipelines.interruptions import interrupted
from tests.data_pipelines.random_corpus import (
    CUT_SENTENCES,
    WINDOW_OPTIONS,
    build,
    build_three_slices_of_windows,
    document_options,
)
from tests.data_pipelines.small_corpus import contents

pytestmark = pytest.mark.slow


def test_a_finished_build_is_left_as_it_is(corpus, built, monkeypatch):
    before = {p: p.stat().st_mtime_ns for p in built.rglob("*")}

    def never(*_):
        raise AssertionError("a finished build was made again")

    monkeypatch.setattr(document_slices, "read_slices", never)
    build(corpus, built)
    assert {p: p.stat().st_mtime_ns for p in built.rglob("*")} == before


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"slice_megabytes": 0.004},
            r"another `options\.slice_megabytes` \(expected 0\.004, found 0\.003",
        ),
        ({"lower_case": False}, r"`vocabulary\.lower_case` \(expected False, found"),
    ],
)
def test_another_build_is_not_overwritten(corpus, built, overrides, message):
    before = contents(built / "documents")
    with pytest.raises(BuildError, match=message):
        build(corpus, built, **overrides)
    assert contents(built / "documents") == before


@pytest.mark.parametrize(
    ("kind", "other"), [("built", CUT_SENTENCES), ("cut_built", WINDOW_OPTIONS)]
)
def test_windows_that_cut_sentences_are_another_build(corpus, kind, other, request):
    folder = request.getfixturevalue(kind)
    before = contents(folder)
    message = r"finished build with another `options\.cut_sentences` .*True"
    with pytest.raises(BuildError, match=message):
        build(corpus, folder, window_options=other)
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("options", "other"),
    [(WINDOW_OPTIONS, CUT_SENTENCES), (CUT_SENTENCES, WINDOW_OPTIONS)],
)
def test_an_unfinished_build_does_not_start_to_cut_sentences_or_stop(
    corpus, built, cut_built, tmp_path, options, other
):
    build_three_slices_of_windows(corpus, tmp_path, window_options=options)
    with pytest.raises(BuildError, match="unfinished build with another `cut_sent"):
        build(corpus, tmp_path, window_options=other)
    build(corpus, tmp_path, window_options=options)
    expected = cut_built if options.cut_sentences else built
    assert contents(tmp_path) == contents(expected)


def test_a_build_of_nothing_is_in_the_way_of_none(corpus, tmp_path):
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "others.tfrecord").write_text("of somebody else")
    options = {"reader_options": {"text_field": "body"}}
    message = r"no document in .* json_lines: rejected in all: .*; first .*'body'.*see"
    with pytest.raises(BuildError, match=message):
        build(corpus, tmp_path, **options)
    folder = tmp_path / "documents"
    left = {"others.tfrecord", "rejected.jsonl", ".lock"}
    assert {path.name for path in folder.iterdir()} == left
    build(corpus, tmp_path)
    assert Manifest.load(folder).count("records")


def test_an_unfinished_build_says_which_option_differs(corpus, tmp_path):
    with interrupted(SliceMaker, 0):
        build(corpus, tmp_path)
    with pytest.raises(BuildError, match=r"`options\.slice_me.*0\.004.*0\.003"):
        build(corpus, tmp_path, slice_megabytes=0.004)


def test_overwrite_makes_the_new_build(corpus, built, tmp_path):
    build(corpus, tmp_path, slice_megabytes=0.01)
    # As a kill in the middle of an earlier removal leaves it.
    (tmp_path / ".aside-removed-.progress" / "signatures").mkdir(parents=True)
    document_build.build_documents(
        document_options(corpus), tmp_path / "documents", overwrite=True
    )
    build_windows.build_windows(
        WINDOW_OPTIONS,
        tmp_path / "documents",
        tmp_path,
        overwrite=True,
    )
    assert contents(tmp_path) == contents(built)


def test_strict_is_not_content_with_what_was_built_without_it(corpus, tmp_path):
    build(corpus, tmp_path)
    with pytest.raises(BuildError, match=r"--strict wants all documents; left out: \d"):
        build(corpus, tmp_path, strict=True)


def test_two_builds_at_once_are_refused(corpus, tmp_path):
    first = sharded_build.ShardedBuild(tmp_path, {"a": 1})
    second = sharded_build.ShardedBuild(tmp_path, {"a": 1})
    with (
        first.opened(),
        pytest.raises(BuildError, match="another process"),
        second.opened(),
    ):
        pass


def overwrite_documents(corpus, output_dir):
    document_build.build_documents(
        document_options(corpus, slice_megabytes=1.0),
        output_dir / "documents",
        overwrite=True,
    )


def overwrite_windows(corpus, output_dir):
    del corpus
    build_windows.build_windows(
        CUT_SENTENCES, output_dir / "documents", output_dir, overwrite=True
    )


@pytest.mark.parametrize(
    ("maker", "overwrite", "folder"),
    [
        (SliceMaker, overwrite_documents, "documents"),
        (WindowMaker, overwrite_windows, ""),
        # Windows are cut from documents that another build would remove.
        (WindowMaker, overwrite_documents, "documents"),
    ],
)
def test_overwrite_does_not_touch_a_build_that_is_under_way(
    corpus, built, tmp_path, monkeypatch, maker, overwrite, folder
):
    make, refusals = maker.make, []

    def make_beside_another(self, payload, folder):
        if payload.number == 3:
            before = contents(tmp_path)
            with pytest.raises(BuildError, match="another process is build") as error:
                overwrite(corpus, tmp_path)
            assert contents(tmp_path) == before
            refusals.append(str(error.value))
        return make(self, payload, folder)

    monkeypatch.setattr(maker, "make", make_beside_another)
    build(corpus, tmp_path)
    (refusal,) = refusals
    assert refusal.startswith(f"{tmp_path / folder}: ")
    assert contents(tmp_path) == contents(built)


def test_windows_are_cut_from_documents_that_may_only_be_read(
    corpus, built, tmp_path, monkeypatch
):
    documents = tmp_path / "documents"
    shutil.copytree(built / "documents", documents)
    (documents / ".lock").unlink()
    open_file = os.open

    def refused(path, flags, *mode, **options):
        # Root may write everywhere, whatever the mode of a folder.
        if pathlib.Path(path).parent == documents and flags & os.O_CREAT:
            raise PermissionError(13, "Permission denied", str(path))
        return open_file(path, flags, *mode, **options)

    monkeypatch.setattr(os, "open", refused)
    build_windows.build_windows(WINDOW_OPTIONS, documents, tmp_path)
    assert not (documents / ".lock").exists()
    shutil.copy(built / "documents" / ".lock", documents)
    assert contents(tmp_path) == contents(built)
