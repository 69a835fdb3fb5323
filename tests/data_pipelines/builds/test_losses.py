"""Builds that lose more of a corpus than `--max_rejected_share` end with an error."""

import gzip
import json
import random

import pytest

from data_pipelines.builds import document_build, losses
from data_pipelines.builds.document_options import DocumentOptions
from data_pipelines.builds.errors import BuildError
from data_pipelines.builds.losses import LossWatch, TooManyRejectedError
from data_pipelines.builds.text_worker import SliceMaker
from data_pipelines.readers import RejectedDocument
from tests.data_pipelines import small_corpus
from tests.data_pipelines.small_corpus import contents


def rejected(reason="malformed_json", source="a", lost_of_file=""):
    return RejectedDocument(source, "line 1", reason, "Bad.", lost_of_file)


def feed(watch, items):
    """Tells a watch of documents (numbers) and rejections; returns its error."""
    try:
        for item in items:
            if isinstance(item, RejectedDocument):
                watch.add_rejected(item)
            else:
                watch.add_document()
    except TooManyRejectedError as error:
        return str(error)
    return None


# --- On the way -----------------------------------------------------------------


def test_reading_stops_at_a_loss_after_a_thousand_documents():
    items = [*[rejected()] * 60, *[9] * 939]
    assert feed(LossWatch(0.05, {"a": 1}), items) is None
    error = feed(LossWatch(0.05, {"a": 1}), [*items, rejected("not_utf8"), rejected()])
    assert error.startswith(
        "61 of the first 1,000 documents could not be read, 6.1% (60 malformed_json, "
        "1 not_utf8): more than --max_rejected_share=0.05 allows. The first: "
        "a, line 1: Bad. [malformed_json] | "
    )


def test_what_was_not_asked_for_is_no_loss():
    reasons = ("redirect", "other_namespace", "empty_document", "no_word_pieces")
    items = [rejected(reason) for reason in reasons] * 500
    assert feed(LossWatch(0.0, {"a": 1}), [*items, 9]) is None


def test_reading_that_goes_on_counts_what_was_lost_before():
    items = [*[rejected()] * 40, *[9] * 500]
    first = losses.Losses()
    for item in items[:40]:
        first.add(item)
    watch = LossWatch(0.05, {"a": 1})
    watch.resume([{"losses": first.described()}, {}], 500)
    more = [*[9] * 440, *[rejected()] * 30]
    assert feed(watch, more) == feed(LossWatch(0.05, {"a": 1}), [*items, *more])
    assert "of the first 1,000" in feed(LossWatch(0.05, {"a": 1}), [*items, *more])


def test_what_is_missing_of_files_is_estimated_by_their_sizes():
    sizes = {"a": 100, "b": 100, "c": 100, "left": 1, "gone": 0}
    described = losses.describe_broken_files({"left": "rest", "gone": "whole"}, sizes)
    assert described == {
        "count": 2,
        "first": ["left", "gone"],
        "bytes": 99 + 100,
        "of_bytes": 301 + 99 + 100,
    }
    # A file that breaks off lacks as much as there is of it, at least.
    whole = losses.describe_broken_files({"a": "rest"}, sizes)
    assert (whole["bytes"], whole["of_bytes"]) == (100, 401)
    end = [rejected("a", "left", "rest"), rejected("b", "gone", "whole")]
    assert feed(LossWatch(0.4, sizes), end) is None
    error = feed(LossWatch(0.39, sizes), end)
    assert error.startswith(
        "2 file(s) could not be read to their end, with an estimated 39.8% of the "
        "input's bytes (left, gone): more than --max_rejected_share=0.39 allows. The "
        "first: left, line 1: "
    )


# --- Builds ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Two files of 20 documents each, 4 of them bad."""
    folder = tmp_path_factory.mktemp("losses")
    small_corpus.write_vocabulary(folder)
    (folder / "text").mkdir()
    for name in ("a", "b"):
        lines = [small_corpus.document_line(number) for number in range(20)]
        lines[3] = "broken\n"
        lines[15] = '{"body": 1}\n'
        (folder / "text" / f"{name}.jsonl").write_text("".join(lines))
    return folder


def options_of(corpus, **overrides):
    text = corpus / "text"
    return small_corpus.options_of(text, corpus / "vocab.txt", **overrides)


def build(corpus, output_dir, num_workers=1, **overrides):
    options = options_of(corpus, **overrides)
    return document_build.build_documents(options, output_dir, num_workers=num_workers)


@pytest.fixture(scope="module")
def built(corpus, tmp_path_factory):
    """The build that may lose a tenth."""
    folder = tmp_path_factory.mktemp("built")
    build(corpus, folder, max_rejected_share=0.1)
    return folder


def test_a_build_that_loses_too_much_says_what(corpus, tmp_path):
    with pytest.raises(BuildError) as error:
        build(corpus, tmp_path)
    message = str(error.value)
    assert message.startswith(
        "4 of 40 documents could not be read, 10.0% (2 malformed_json, 2 "
        "missing_text_field): more than --max_rejected_share=0.05 allows. The first: "
        "a.jsonl, line 4: "
    )
    assert "a.jsonl, line 16" in message
    assert "b.jsonl, line 4" in message
    assert "b.jsonl, line 16" not in message, "three examples are enough"
    assert not (tmp_path / "manifest.json").exists()
    assert len((tmp_path / "rejected.jsonl").read_text().splitlines()) == 4


def test_a_larger_share_goes_on_with_what_is_finished(
    corpus, built, tmp_path, monkeypatch
):
    with pytest.raises(TooManyRejectedError):
        build(corpus, tmp_path)
    monkeypatch.setattr(SliceMaker, "make", None)  # Nothing is made again.
    build(corpus, tmp_path, max_rejected_share=0.1)
    assert contents(tmp_path) == contents(built)


def test_a_finished_build_is_checked_again(corpus, built):
    with pytest.raises(TooManyRejectedError, match=r"4 of 40.*=0\.09 "):
        build(corpus, built, max_rejected_share=0.09)
    build(corpus, built, max_rejected_share=0.1)


@pytest.mark.slow
def test_two_workers_are_refused_as_one_is(corpus, tmp_path):
    messages = []
    for num_workers in (1, 2):
        with pytest.raises(TooManyRejectedError) as error:
            build(corpus, tmp_path / str(num_workers), num_workers)
        messages.append(str(error.value))
    assert messages[0] == messages[1]


def test_a_wrong_option_is_told_early_and_in_the_way_of_none(corpus, tmp_path):
    text = tmp_path / "text"
    text.mkdir()
    lines = [small_corpus.document_line(number) for number in range(1100)]
    (text / "a.jsonl").write_text("".join(lines))
    options = options_of(corpus, input=str(text), slice_megabytes=1.0)
    output_dir = tmp_path / "out"
    wrong = options_of(corpus, input=str(text), reader_options={"text_field": "body"})
    with pytest.raises(BuildError, match=r"1,000 of the first 1,000 documents.*'body'"):
        document_build.build_documents(wrong, output_dir)
    manifest = document_build.build_documents(options, output_dir)
    assert manifest.count("documents") == 1100


def test_half_of_a_gzip_file_is_a_loss(corpus, tmp_path):
    text = tmp_path / "text"
    text.mkdir()
    lines = [small_corpus.document_line(number) for number in range(400)]
    random.Random(0).shuffle(lines)
    data = gzip.compress("".join(lines).encode())
    (text / "whole.json.gz").write_bytes(data)
    (text / "half.json.gz").write_bytes(data[: len(data) // 2])
    settings = {"input": str(text), "slice_megabytes": 1.0}
    # Of documents it is but one of some 600.
    with pytest.raises(
        TooManyRejectedError,
        match=r"1 file\(s\) .* to their end.* 25\.\d%.*\(half\.json\.gz\).*gzip",
    ):
        build(corpus, tmp_path / "out", **settings)
    manifest = build(corpus, tmp_path / "out", **settings, max_rejected_share=0.5)
    assert manifest.rejected == {"truncated_gzip": 1}
    # The median of two sizes is the lower one.
    half = len(data) // 2
    assert manifest.broken_files == {
        "count": 1,
        "first": ["half.json.gz"],
        "bytes": half,
        "of_bytes": half + len(data) + half,
    }
    with pytest.raises(TooManyRejectedError):
        build(corpus, tmp_path / "out", **settings)


def test_the_share_leaves_no_trace_in_the_records(corpus, built, tmp_path):
    build(corpus, tmp_path, max_rejected_share=1.0)
    assert contents(tmp_path) == contents(built)
    manifest = json.loads((built / "manifest.json").read_text())
    assert "max_rejected_share" not in json.dumps(manifest)
    assert manifest["broken_files"] is None, "documents were lost, no file"


def test_beam_refuses_once_files_are_measured(corpus, tmp_path, monkeypatch):
    pytest.importorskip("apache_beam", exc_type=ImportError)
    from data_pipelines.builds import beam_engine

    monkeypatch.setattr(losses, "MIN_DOCUMENTS", 30)
    # No slice is made.
    monkeypatch.setattr(beam_engine.BeamEngine, "_make_slices", None)
    with pytest.raises(TooManyRejectedError) as measured:
        document_build.build_documents(
            options_of(corpus),
            tmp_path / "beam",
            engine=beam_engine.BeamEngine(("--runner=FnApiRunner",)),
        )
    with pytest.raises(TooManyRejectedError) as read:
        build(corpus, tmp_path / "local")
    assert str(measured.value) == str(read.value)
    assert "of the first 36 documents" in str(read.value)
    # Nothing is finished that the next command could go on with.
    assert not (tmp_path / "beam" / ".progress").exists()


@pytest.mark.parametrize("share", [-0.1, 1.5])
def test_a_share_is_between_none_and_all(share):
    with pytest.raises(ValueError, match=r"`max_rejected_share` must lie between"):
        DocumentOptions(
            format="markdown", input="", vocab_file="", max_rejected_share=share
        )
