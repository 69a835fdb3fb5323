"""Builds that lose more of a corpus than `--max_rejected_share` end with an error."""

import dataclasses
import gzip
import json
import random

import pytest

from data_pipelines import BuildError
from data_pipelines.builds import losses
from data_pipelines.builds.documents import build_documents
from data_pipelines.builds.losses import LossWatch, TooManyRejectedError
from data_pipelines.builds.makers import SliceMaker
from data_pipelines.readers import RejectedDocument
from tests.data_pipelines import small_corpus
from tests.data_pipelines.small_corpus import contents


def rejected(reason="malformed_json", source="a", ends_file=False):
    return RejectedDocument(source, "line 1", reason, "Bad.", ends_file)


def feed(watch, items):
    """Feeds documents (numbers) and rejections to a watch; returns its error."""
    try:
        for item in items:
            watch.add(item if isinstance(item, RejectedDocument) else None)
    except TooManyRejectedError as error:
        return str(error)
    return None


# --- While reading --------------------------------------------------------------


def test_reading_stops_at_a_loss_in_a_thousand_documents(capsys):
    items = [*[rejected()] * 50, *[9] * 949]
    assert feed(LossWatch(0.05), [*items, 9]) is None
    assert capsys.readouterr().err.count("left out, for example: a, line 1: Bad.") == 1
    assert feed(LossWatch(0.05), [*items, 9, *[rejected()] * 90]) is None
    assert feed(LossWatch(0.05), [*items, rejected("not_utf8")]).startswith(
        "51 of 1,000 documents could not be read, 5.1% (50 malformed_json, 1 not_utf8)"
        ": more than --max_rejected_share=0.05 allows. The first: a, line 1: Bad. "
        "[malformed_json] | "
    )
    reasons = ("redirect", "other_namespace", "empty_document", "no_word_pieces")
    items = [rejected(reason) for reason in reasons] * 500
    assert feed(LossWatch(0.0), [*items, 9]) is None


def test_resumed_reading_counts_earlier_losses():
    items = [*[rejected()] * 40, *[9] * 500]
    report = {
        "rejected": [dataclasses.asdict(item) for item in items[:40]] * 2,
        "num_rejected_when_read": 40,
    }
    watch = LossWatch(0.05)
    watch.resume(500, [report])
    more = [*[9] * 440, *[rejected()] * 30]
    error = feed(LossWatch(0.05), [*items, *more])
    assert "60 of 1,000 documents" in error
    assert feed(watch, more) == error


def test_empty_files_are_not_broken():
    item = {"reason": "empty_file", "source": "a", "ends_file": True}
    report = {"counted": {}, "rejected": [item, {**item, "reason": "truncated_gzip"}]}
    entries = losses.manifest_entries({0: report}, {"a": 0, "b": 9})
    assert entries["rejected"] == {"empty_file": 1, "truncated_gzip": 1}
    assert entries["broken_files"]["count"] == 1


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


def build(corpus, output_dir, num_workers=1, engine=None, **overrides):
    text, vocabulary = corpus / "text", corpus / "vocab.txt"
    options = small_corpus.options_of(text, vocabulary, **overrides)
    return build_documents(options, output_dir, num_workers=num_workers, engine=engine)


@pytest.fixture(scope="module")
def built(corpus, tmp_path_factory):
    """The build that may lose a tenth."""
    folder = tmp_path_factory.mktemp("built")
    build(corpus, folder, max_rejected_share=0.1)
    return folder


def test_a_larger_share_resumes(corpus, built, tmp_path, monkeypatch):
    with pytest.raises(BuildError) as error:
        build(corpus, tmp_path)
    message = str(error.value)
    assert message.startswith(
        "4 of 40 documents could not be read, 10.0% (2 malformed_json, 2 "
        "missing_text_field): more than --max_rejected_share=0.05 allows. The first: "
        "a.jsonl, line 4: "
    )
    assert "a.jsonl, line 16" in message
    assert "b.jsonl, line 16" not in message, "three examples are enough"
    assert not (tmp_path / "manifest.json").exists()
    assert len((tmp_path / "rejected.jsonl").read_text().splitlines()) == 4
    monkeypatch.setattr(SliceMaker, "make", None)  # Nothing is made again.
    build(corpus, tmp_path, max_rejected_share=0.1)
    assert contents(tmp_path) == contents(built)
    with pytest.raises(TooManyRejectedError, match=r"4 of 40.*=0\.09 "):
        build(corpus, built, max_rejected_share=0.09)
    manifest = json.loads((built / "manifest.json").read_text())
    assert "max_rejected_share" not in json.dumps(manifest)
    assert manifest["broken_files"] is None


@pytest.mark.slow
def test_every_engine_raises_the_same_error(corpus, tmp_path, monkeypatch):
    pytest.importorskip("apache_beam", exc_type=ImportError)
    from data_pipelines.builds.beam_engine import BeamEngine

    monkeypatch.setattr(losses, "MIN_DOCUMENTS", 30)
    monkeypatch.setattr(BeamEngine, "_make_slices", None)  # No slice is made.
    engine = BeamEngine(("--runner=FnApiRunner",))
    messages = []
    for number, arguments in enumerate(({}, {"num_workers": 2}, {"engine": engine})):
        with pytest.raises(TooManyRejectedError) as error:
            build(corpus, tmp_path / str(number), **arguments)
        messages.append(str(error.value))
    assert "of 30 documents" in messages[0]
    assert messages == messages[:1] * 3
    # There is nothing that the next command could resume.
    assert not (tmp_path / "2" / ".progress").exists()


def test_half_of_a_gzip_file_is_a_loss(corpus, tmp_path):
    text = tmp_path / "text"
    text.mkdir()
    lines = [small_corpus.document_line(number) for number in range(400)]
    random.Random(0).shuffle(lines)
    data = gzip.compress("".join(lines).encode())
    half = len(data) // 2
    (text / "whole.json.gz").write_bytes(data)
    (text / "half.json.gz").write_bytes(data[:half])
    settings = {"input": str(text), "slice_megabytes": 1.0}
    # Among documents it is only one of some 600.
    message = r"1 file\(s\) .* to their end.* 25\.\d%.*\(half\.json\.gz\).*gzip"
    with pytest.raises(TooManyRejectedError, match=message):
        build(corpus, tmp_path / "out", **settings)
    manifest = build(corpus, tmp_path / "out", **settings, max_rejected_share=0.5)
    assert manifest.rejected == {"truncated_gzip": 1}
    # The median of two sizes is the lower one.
    assert manifest.broken_files == {
        "count": 1,
        "first": ["half.json.gz"],
        "bytes": half,
        "of_bytes": half + len(data) + half,
    }
    with pytest.raises(TooManyRejectedError):
        build(corpus, tmp_path / "out", **settings)


def test_missing_bytes_are_estimated_by_sizes():
    sizes = {"a": 100, "b": 200, "c": 100, "left": 1, "gone": 0}
    described = losses.describe_broken_files(["left", "gone", "b"], sizes)
    assert described == {
        "count": 3,
        "first": ["left", "gone", "b"],
        "bytes": 100 + 100 + 200,
        "of_bytes": 401 + 400,
    }
