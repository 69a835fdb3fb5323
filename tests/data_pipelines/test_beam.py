"""Builds by Apache Beam: the same bytes as those of the local engine."""

import json
import random
import shutil

import pytest

from data_pipelines import BuildError
from data_pipelines.builds import beam_engine, sharded_build
from data_pipelines.builds.documents import build_documents
from data_pipelines.builds.local_engine import LocalEngine
from data_pipelines.builds.makers import FingerprintMaker
from data_pipelines.builds.windows import build_windows
from data_pipelines.cleaning.cleaning_options import CleaningOptions
from seg_tf import files
from seg_tf.data.manifest import Manifest
from tests import command_calls
from tests.data_pipelines import small_corpus
from tests.data_pipelines.small_corpus import contents, interrupted

pytestmark = pytest.mark.slow

IN_PROCESS = ("--runner=FnApiRunner",)
TWO_THREADS = ("--direct_num_workers=2", "--direct_running_mode=multi_threading")


@pytest.fixture
def beam():
    return pytest.importorskip("apache_beam", exc_type=ImportError)


@pytest.fixture
def in_process(beam):
    return beam_engine.BeamEngine(IN_PROCESS)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Five files of JSON lines: bad lines at both ends, one with nothing, one large."""
    folder = tmp_path_factory.mktemp("beam_corpus")
    text = folder / "text"
    text.mkdir()
    generator = random.Random(1)
    for name, num_documents in (("a", 9), ("b", 1), ("c", 0), ("d", 60), ("e", 5)):
        lines = [
            small_corpus.random_document_line(generator) for _ in range(num_documents)
        ]
        if name != "c":
            lines = ["{broken", *lines, json.dumps({"text": "\x01\x02"}), '{"x": 1}']
        (text / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    small_corpus.write_vocabulary(folder, "the", "man", "ship")
    return folder


def options_of(corpus, **overrides):
    settings = {"slice_megabytes": 0.0025, "max_rejected_share": 1.0, **overrides}
    return small_corpus.document_options(corpus, **settings)


def build(corpus, output_dir, engine, **overrides):
    options = options_of(corpus, **overrides)
    build_documents(options, output_dir / "documents", engine=engine)
    build_windows(
        small_corpus.WINDOW_OPTIONS, output_dir / "documents", output_dir, engine=engine
    )


@pytest.fixture(scope="module")
def built(corpus, tmp_path_factory):
    output_dir = tmp_path_factory.mktemp("built_locally")
    build(corpus, output_dir, LocalEngine())
    return output_dir


# --- Builds ---------------------------------------------------------------------


@pytest.mark.parametrize("beam_is_first", [True, False])
def test_an_engine_resumes_the_other(
    corpus, built, tmp_path, monkeypatch, in_process, beam_is_first
):
    engines = [in_process, LocalEngine()]
    first, second = engines if beam_is_first else reversed(engines)
    done = []
    write_json = files.write_json

    def write_until_full(path, value):
        # The shards exist when their report is written.
        if path.name.startswith("task"):
            if len(done) == 4:
                raise OSError("the disk is full")
            done.append(path)
        write_json(path, value)

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_json", write_until_full)
        message = "the disk is full"
        if beam_is_first:
            message = f"^the Beam job failed: .*{message}.*same command again"
        with pytest.raises((BuildError, OSError), match=message):
            build(corpus, tmp_path, first)
    progress = tmp_path / "documents" / ".progress"
    assert len(list(progress.glob(sharded_build.REPORTS))) == 4
    inodes = {path: path.stat().st_ino for path in progress.parent.glob("train-*")}
    assert len(inodes) >= 10
    # Half a shard of a killed process.
    (progress / ".aside-left").mkdir()
    (progress / ".aside-left" / "train-00003.tfrecord").write_bytes(b"half")
    build(corpus, tmp_path, second)
    assert contents(tmp_path) == contents(built)
    # Finished slices were not made again.
    numbers = [path.stem.split("-")[1] for path in done[:4]]
    for path in (progress.parent / f"train-{number}.tfrecord" for number in numbers):
        assert path.stat().st_ino == inodes[path]


def test_cleaning_drops_the_same(corpus, tmp_path, in_process):
    """Duplicates are in other slices and files than the documents they repeat."""
    text = tmp_path / "text"
    shutil.copytree(corpus / "text", text)
    lines = (text / "d.jsonl").read_text().splitlines()
    (text / "f.jsonl").write_text("".join(f"{line}\n" for line in lines[5:15]))
    settings = {
        "input": str(text),
        "cleaning": CleaningOptions(
            min_line_words=4, min_document_words=10, duplicates="exact"
        ),
    }
    build(corpus, tmp_path / "local", LocalEngine(), **settings)
    # An unfinished search is resumed too.
    with interrupted(FingerprintMaker, 3):
        build(corpus, tmp_path / "beam", LocalEngine(), **settings)
    build(corpus, tmp_path / "beam", in_process, **settings)
    assert contents(tmp_path / "beam") == contents(tmp_path / "local")
    dropped = Manifest.load(tmp_path / "local" / "documents").cleaning["steps"]
    assert dropped["duplicates"]["documents"] >= 4
    assert dropped["short_lines"]["paragraphs"]


# --- Options and the command ----------------------------------------------------


def run_command(corpus, output_dir, *arguments):
    flags = ("--slice_megabytes=0.0025", "--max_rejected_share=1", *arguments)
    return command_calls.call(*small_corpus.command(corpus, output_dir, *flags))


def test_the_command_builds_the_same_with_beam(corpus, built, tmp_path, beam):
    result = run_command(
        *(corpus, tmp_path, "--engine=beam", "--runner=DirectRunner"),
        *("--", *TWO_THREADS),
    )
    assert result.returncode == 0, result.stderr
    assert "Beam job: measure files (5 inputs)" in result.stderr
    assert contents(tmp_path) == contents(built)
    manifest = Manifest.load(tmp_path / "documents")
    assert len(manifest.splits["train"]) > 5
    # In 4 files: a broken line, no field, no piece; and an empty file.
    assert sum(manifest.rejected.values()) == 13


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--runner=FlinkRunner"], "`--runner` is for `--engine=beam`"),
        (["--", "--flink_master=x"], "`--` is for `--engine=beam`"),
        (["--engine=beam", "--num_workers=2"], "`--num_workers` is for"),
    ],
)
def test_flags_of_the_other_engine_are_refused(corpus, tmp_path, arguments, message):
    result = run_command(corpus, tmp_path / "out", *arguments)
    assert result.returncode == 1
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "out").exists()


def test_errors_of_jobs_are_readable(corpus, tmp_path, in_process, beam):
    near = CleaningOptions(duplicates="near")
    with pytest.raises(ValueError, match=r"'exact' with --engine=beam.*datatrove"):
        build(corpus, tmp_path / "near", in_process, cleaning=near)
    engine = beam_engine.BeamEngine(["--runner=FlinkRuner"])
    with pytest.raises(
        BuildError, match=r"Beam job failed: .*FlinkRuner.*same command"
    ):
        build(corpus, tmp_path / "runner", engine)
    in_process._run = lambda *_: None
    with pytest.raises(BuildError, match=r"without the size of a\.jsonl.*very folder"):
        build(corpus, tmp_path, in_process)
