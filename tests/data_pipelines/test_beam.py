"""Builds by Apache Beam: the same bytes as those of the local engine."""

import builtins
import contextlib
import dataclasses
import functools
import json
import os
import random
import shutil
import subprocess
import sys

import numpy as np
import psutil
import pytest

from data_pipelines import build_windows
from data_pipelines.builds import (
    beam_engine,
    beam_jobs,
    beam_output,
    beam_steps,
    document_build,
    document_building,
    document_slices,
    sharded_build,
    slice_plan,
)
from data_pipelines.builds.document_options import DocumentOptions
from data_pipelines.builds.document_slices import Cursor
from data_pipelines.builds.errors import BuildError
from data_pipelines.builds.local_engine import LocalEngine
from data_pipelines.builds.window_building import WindowOptions
from data_pipelines.cleaning import signature_files
from data_pipelines.cleaning.cleaning_options import CleaningOptions
from data_pipelines.records.manifest import Manifest
from tests.data_pipelines import dying_steps
from tests.data_pipelines.test_build_records import (
    REPOSITORY,
    contents,
    random_paragraph,
)

pytestmark = pytest.mark.slow

IN_PROCESS = ("--runner=FnApiRunner",)
TWO_PROCESSES = (
    *IN_PROCESS,
    "--direct_num_workers=2",
    "--direct_running_mode=multi_processing",
)


@pytest.fixture
def beam():
    return pytest.importorskip("apache_beam", exc_type=ImportError)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Five files of JSON lines: bad lines at both ends, one with nothing, one large."""
    folder = tmp_path_factory.mktemp("beam_corpus")
    text = folder / "text"
    text.mkdir()
    generator = random.Random(1)
    for name, num_documents in (("a", 9), ("b", 1), ("c", 0), ("d", 60), ("e", 5)):
        lines = [
            json.dumps(
                {
                    "text": "\n".join(
                        random_paragraph(generator)
                        for _ in range(generator.randint(1, 5))
                    )
                }
            )
            for _ in range(num_documents)
        ]
        if name != "c":
            lines = ["{broken", *lines, json.dumps({"text": "\x01\x02"}), '{"x": 1}']
        (text / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    letters = "abcdefghijklmnopqrstuvwxyz0123456789.!?"
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "man", "ship"]
    pieces += [*letters, *(f"##{letter}" for letter in letters)]
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")
    return folder


def options_of(corpus, **overrides):
    settings = {
        "format": "json_lines",
        "input": str(corpus / "text"),
        "vocab_file": str(corpus / "vocab.txt"),
        "validation_fraction": 0.1,
        "slice_megabytes": 0.0025,
        "max_rejected_share": 1.0,
    }
    return DocumentOptions(**{**settings, **overrides})


def build(corpus, output_dir, engine, **overrides):
    document_build.build_documents(
        options_of(corpus, **overrides), output_dir / "documents", engine=engine
    )
    build_windows.build_windows(
        WindowOptions(window_length=32),
        output_dir / "documents",
        output_dir,
        engine=engine,
    )


@pytest.fixture(scope="module")
def built(corpus, tmp_path_factory):
    output_dir = tmp_path_factory.mktemp("built_locally")
    build(corpus, output_dir, LocalEngine())
    return output_dir


@pytest.fixture
def in_process(beam):
    return beam_engine.BeamEngine(IN_PROCESS)


# --- The plan -------------------------------------------------------------------


def planned_by_reading(options):
    """Ends of slices as the engine that reads everything in order finds them."""
    sources = document_building.list_sources(options)
    tasks = document_slices.read_slices(options, sources, Cursor(), 0)
    return [(t.number, t.payload.first_document_id, t.payload.next) for t in tasks]


@pytest.mark.parametrize("megabytes", [1e-7, 0.0001, 0.0007, 0.0025, 0.02, 9.0])
def test_the_plan_is_what_reading_in_order_finds(corpus, tmp_path, megabytes):
    options = options_of(corpus, slice_megabytes=megabytes)
    place = beam_output.Place(tmp_path / "out", tmp_path)
    place.output_dir.mkdir()
    sizes = []
    for number, (name, path) in enumerate(
        document_building.list_sources(options).items()
    ):
        source = beam_steps.SourceFile(number, name, path, path.stat().st_size)
        beam_steps.MeasureSource(options, place)(source)
        with np.load(tmp_path / beam_steps.source_report_name(number)) as measured:
            sizes.append(measured["sizes"])
    plan = slice_plan.plan_slices(options.slice_characters, sizes)
    found = [(p.number, p.begin.document_id, p.end) for p in plan]
    assert found == planned_by_reading(options)


def slow_plan(limit, sizes):
    """Cursors at which slices end, document by document."""
    ends, characters, document_id, is_open = [], 0, 0, False
    for file_number, of_file in enumerate(sizes):
        for number, size in enumerate(of_file, 1):
            is_open = True
            if size <= slice_plan.REJECTED:
                continue
            document_id += 1
            characters += int(size)
            if characters >= limit:
                ends.append(Cursor(file_number, number, document_id))
                characters, is_open = 0, False
    return [*ends, Cursor(len(sizes), 0, document_id)] if is_open else ends


@pytest.mark.parametrize("seed", range(40))
def test_random_plans_equal_the_slow_one_and_cover_every_item_once(seed):
    generator = np.random.default_rng(seed)
    sizes = [
        # Below 0 are rejected documents, and some have no characters.
        generator.integers(-4, 12, generator.integers(0, 9))
        for _ in range(generator.integers(1, 7))
    ]
    limit = int(generator.integers(1, 25))
    plan = list(slice_plan.plan_slices(limit, sizes))
    assert [planned.end for planned in plan] == slow_plan(limit, sizes)
    assert [p.begin for p in plan] == [Cursor(), *(p.end for p in plan)][: len(plan)]
    done = {p.number for p in plan if generator.random() < 0.3}
    parts = slice_plan.parts_of_files(plan, [len(of_file) for of_file in sizes], done)
    read = [
        (file_number, item)
        for file_number, of_file in sorted(parts.items())
        for part in of_file
        for item in range(part.first, part.last)
    ]
    owners = {}
    for planned in plan:
        for file_number, of_file in enumerate(sizes):
            for item in range(len(of_file)):
                begin = (planned.begin.file_number, planned.begin.items_read)
                end = (planned.end.file_number, planned.end.items_read)
                if begin <= (file_number, item) < end:
                    owners[file_number, item] = planned.number
    assert read == [place for place in sorted(owners) if owners[place] not in done]
    assert sorted(owners) == [
        (f, i) for f, s in enumerate(sizes) for i in range(len(s))
    ]


# --- Builds ---------------------------------------------------------------------


def test_beam_builds_what_the_local_engine_builds(corpus, built, tmp_path, in_process):
    build(corpus, tmp_path, in_process)
    assert contents(tmp_path) == contents(built)
    manifest = Manifest.load(tmp_path / "documents")
    assert len(manifest.splits["train"]) > 5
    # In 4 files: a broken line, no field, no piece; and an empty file.
    assert sum(manifest.rejected.values()) == 13


def test_each_slice_is_gathered_in_order_whatever_order_it_comes_in(corpus, tmp_path):
    options = options_of(corpus)
    place = beam_output.Place(tmp_path, tmp_path)
    sources = document_building.list_sources(options)
    slices = [
        t.payload for t in document_slices.read_slices(options, sources, Cursor(), 0)
    ]
    begin = Cursor()
    plan = []
    for one in slices:
        plan.append(slice_plan.PlannedSlice(one.number, begin, one.next))
        begin = one.next
    parts = slice_plan.parts_of_files(plan, [12, 4, 1, 63, 8], set())
    groups = {}
    for number, (name, path) in enumerate(sources.items()):
        if number in parts:
            source = beam_steps.SourceFile(
                *(number, name, path, path.stat().st_size), parts=tuple(parts[number])
            )
            for key, value in beam_steps.ReadItems(options, place)(source):
                groups.setdefault(key, []).append(value)
    generator = random.Random(2)
    for key, values in groups.items():
        generator.shuffle(values)
        assert beam_steps.gather_slice(key, values) == slices[key[0]]
    assert len(groups) == len(slices)


def test_a_validation_input_and_words_build_the_same(corpus, tmp_path, in_process):
    (tmp_path / "words.txt").write_text("<eos>\n<unk>\nthe\nship\nman\n")
    (tmp_path / "held_out").mkdir()
    shutil.copy(corpus / "text" / "a.jsonl", tmp_path / "held_out" / "a.jsonl")
    options = options_of(
        corpus,
        tokenizer="whitespace",
        vocab_file=str(tmp_path / "words.txt"),
        validation_input=str(tmp_path / "held_out"),
        validation_fraction=None,
        slice_megabytes=0.01,
    )
    for name, engine in (("local", LocalEngine()), ("beam", in_process)):
        document_build.build_documents(options, tmp_path / name, engine=engine)
    assert contents(tmp_path / "local") == contents(tmp_path / "beam")


@pytest.mark.parametrize("beam_is_first", [True, False])
def test_an_engine_goes_on_with_what_the_other_left(
    corpus, built, tmp_path, monkeypatch, in_process, beam_is_first
):
    engines = [in_process, LocalEngine()]
    first, second = engines if beam_is_first else reversed(engines)
    done = []
    publish, run = beam_output.Place.publish, document_building.make_slice

    def published(self, folder, report):
        if report.startswith("task") and len(done) == 4:
            raise OSError("the disk is full")
        done.append(report) if report.startswith("task") else None
        publish(self, folder, report)

    def made(payload):
        if len(done) == 4:
            raise OSError("the disk is full")
        done.append(payload.number)
        return run(payload)

    with monkeypatch.context() as patch:
        patch.setattr(beam_output.Place, "publish", published)
        patch.setattr(document_building, "make_slice", made)
        with pytest.raises((BuildError, OSError), match="the disk is full"):
            build(corpus, tmp_path, first)
    progress = tmp_path / "documents" / ".progress"
    assert len(list(progress.glob(sharded_build.REPORTS))) == 4
    kept = {path: path.stat().st_ino for path in progress.parent.glob("train-*")}
    assert len(kept) >= 8
    build(corpus, tmp_path, second)
    assert contents(tmp_path) == contents(built)
    # What was finished was not made again.
    finished = [p for p in kept if p.suffix == ".tfrecord"][:4]
    assert all(path.stat().st_ino == kept[path] for path in finished)


def test_what_cleaning_drops_is_the_same(corpus, tmp_path, in_process, monkeypatch):
    """Duplicates lie in other slices and files than what they repeat."""
    text = tmp_path / "text"
    shutil.copytree(corpus / "text", text)
    lines = (text / "d.jsonl").read_text().splitlines()
    repeated = [*lines[5:9], *(line.replace("the", "a", 1) for line in lines[20:30])]
    (text / "f.jsonl").write_text("".join(f"{line}\n" for line in repeated))
    settings = {
        "input": str(text),
        "cleaning": CleaningOptions(
            min_line_words=4,
            min_document_words=10,
            duplicates="near",
            duplicate_threshold=0.5,
        ),
    }
    build(corpus, tmp_path / "local", LocalEngine(), **settings)
    # A search that was left unfinished is gone on with too.
    with monkeypatch.context() as patch:
        patch.setattr(signature_files, "find_duplicates", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            build(corpus, tmp_path / "beam", LocalEngine(), **settings)
    build(corpus, tmp_path / "beam", in_process, **settings)
    build(corpus, tmp_path / "anew", in_process, **settings)
    expected = contents(tmp_path / "local")
    assert contents(tmp_path / "beam") == contents(tmp_path / "anew") == expected
    found = Manifest.load(tmp_path / "local" / "documents").cleaning["steps"]
    assert found["duplicates"]["documents"] >= 4
    assert found["short_lines"]["paragraphs"]


def _interrupt(*_):
    raise KeyboardInterrupt


def test_two_processes_of_which_one_is_killed(
    corpus, built, tmp_path, monkeypatch, in_process
):
    monkeypatch.setattr(beam_steps, "MakeDocuments", dying_steps.DiesInTheMiddle)
    original = dying_steps.DiesInTheMiddle.__init__

    def with_marker(self, options, place, duplicates=None):
        original(self, options, place, duplicates)
        self.marker = tmp_path / "has_died"

    monkeypatch.setattr(dying_steps.DiesInTheMiddle, "__init__", with_marker)
    engine = beam_engine.BeamEngine(TWO_PROCESSES)
    with pytest.raises(BuildError, match=r"worker process died.*same command again"):
        build(corpus, tmp_path / "out", engine)
    assert not (tmp_path / "out" / "documents" / "manifest.json").exists()
    # Worker processes take their time to start; those here have shown that they work.
    build(corpus, tmp_path / "out", in_process)
    assert contents(tmp_path / "out") == contents(built)


def test_no_worker_outlives_the_process_that_runs_the_job(beam, tmp_path, monkeypatch):
    # Workers need longer than this to come so far that they kill it.
    monkeypatch.setattr(beam_jobs, "_POLL_SECONDS", 0.1)
    step = dying_steps.KillsTheCoordinator(os.getpid(), tmp_path)
    job = functools.partial(beam_engine._map_job, [1], "kill", step)
    failure = beam_jobs.run(job, TWO_PROCESSES)
    # Two workers, which a shell may have started.
    assert len(list(tmp_path.iterdir())) >= 2
    alive = []
    for path in tmp_path.iterdir():
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(int(path.name))
            if process.status() != psutil.STATUS_ZOMBIE:
                alive.append(process.cmdline())
                process.kill()
    assert not alive
    assert failure == "a worker process died (out of memory, or killed)"


def test_shards_without_a_report_are_made_again(
    corpus, built, tmp_path, monkeypatch, in_process
):
    monkeypatch.setattr(
        dying_steps.DiesBeforeTheReport, "marker", tmp_path / "m", raising=False
    )
    with monkeypatch.context() as patch:
        patch.setattr(beam_steps, "MakeDocuments", dying_steps.DiesBeforeTheReport)
        with pytest.raises(BuildError, match="died"):
            build(corpus, tmp_path / "out", in_process)
    assert (tmp_path / "out" / "documents" / "train-00003.tfrecord").exists()
    build(corpus, tmp_path / "out", in_process)
    assert contents(tmp_path / "out") == contents(built)


def test_a_step_done_twice_at_a_time_leaves_one_result(corpus, built, tmp_path):
    options = options_of(corpus)
    place = beam_output.Place(tmp_path / "out", tmp_path / "out" / ".progress")
    place.progress_dir.mkdir(parents=True)
    one, other = (beam_steps.MakeDocuments(options, place) for _ in range(2))
    (task, *_) = document_slices.read_slices(
        options, document_building.list_sources(options), Cursor(), 0
    )
    one._make(0, task.payload)
    before = contents(tmp_path)
    # The second had looked for a report before there was one.
    (place.progress_dir / sharded_build.report_name(0)).unlink()
    other._make(0, task.payload)
    assert contents(tmp_path) == before
    name = "train-00000.tfrecord"
    assert contents(tmp_path / "out")[name] == contents(built / "documents")[name]


def test_a_strict_build_stops_with_the_document(corpus, tmp_path, in_process):
    with pytest.raises(BuildError, match=r"a\.jsonl, line 1: .*as --strict wants$"):
        build(corpus, tmp_path, in_process, strict=True)
    with pytest.raises(BuildError, match="as --strict wants"):
        build(corpus, tmp_path / "local", LocalEngine(), strict=True)


def test_workers_need_neither_vocabulary_nor_parameters(corpus, tmp_path):
    from seg_tf.text.punkt_parameters import PunktParameters

    copy, parameters = tmp_path / "vocab.txt", tmp_path / "parameters.json"
    shutil.copy(corpus / "vocab.txt", copy)
    dataclasses.replace(PunktParameters.english(), name="copy").save(parameters)
    options = options_of(
        corpus, vocab_file=str(copy), sentence_parameters=str(parameters)
    )
    place = beam_output.Place(tmp_path / "out", tmp_path / "out" / ".progress")
    place.progress_dir.mkdir(parents=True)
    step = beam_steps.MakeDocuments(options, place)
    copy.unlink()
    parameters.unlink()
    (task, *_) = document_slices.read_slices(
        options, document_building.list_sources(options), Cursor(), 0
    )
    step._make(0, task.payload)
    assert (place.output_dir / "train-00000.tfrecord").stat().st_size


def test_without_beam_the_message_says_what_to_do(monkeypatch):
    real = builtins.__import__

    def without_beam(name, *arguments, **keywords):
        if name.startswith("apache_beam"):
            raise ImportError("No module named 'apache_beam'")
        return real(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", without_beam)
    with pytest.raises(BuildError, match=r"needs Apache Beam.*make setup-corpora"):
        beam_engine.BeamEngine(IN_PROCESS)


@pytest.mark.parametrize(
    "beam_options, message",
    [
        (["--runner=FlinkRuner"], "`--runner` .*FlinkRunner.*: --runner=FlinkRuner$"),
        # Of a runner given twice the last counts, for Beam too.
        ([*IN_PROCESS, "--runner=Spak"], "`--runner` .*: --runner=Spak$"),
        (["--runner=no.Such"], "`--runner` .*No module named 'no'"),
        (["--runner=json.JSONDecoder"], "`--runner` .*another class"),
        (
            [*IN_PROCESS, "--direct_num_workers=two"],
            "`--` .*argument --direct_num_workers: invalid int value: 'two'",
        ),
        (
            [*IN_PROCESS, "--direct_running_mode=processes"],
            "`--` .*--direct_running_mode: invalid choice.*multi_processing",
        ),
        (["--runner=DataflowRunner"], "`--` .*Missing required option: project"),
    ],
)
def test_runners_and_options_that_beam_has_not_are_refused_at_once(
    beam, capfd, beam_options, message
):
    with pytest.raises(ValueError, match=message):
        beam_engine.BeamEngine(beam_options)
    written = capfd.readouterr()
    assert "usage" not in written.out + written.err


@pytest.mark.parametrize(
    "beam_options",
    [
        TWO_PROCESSES,
        # What the job server knows, and Beam does not.
        ["--runner=FlinkRunner", "--flink_master=host:1", "--checkpointingInterval=9"],
        ["--runner=spark", "--spark_job_server_jar=a.jar"],
        ["--runner=PortableRunner", "--job_endpoint=host:8099"],
        [
            *(
                "--runner=DataflowRunner",
                "--project=a-project",
                "--region=europe-west1",
            ),
            "--temp_location=gs://bucket/temp",
        ],
    ],
)
def test_options_of_all_runners_are_taken(beam, beam_options):
    beam_engine.BeamEngine(beam_options)


def test_options_that_beam_does_not_know_are_told(beam, caplog):
    beam_engine.BeamEngine(IN_PROCESS)
    assert caplog.text == ""
    beam_engine.BeamEngine([*IN_PROCESS, "--max_num_wokers=3"])
    assert "no option --max_num_wokers;" in caplog.text


# --- The command ----------------------------------------------------------------


def run_command(corpus, output_dir, *arguments):
    command = [
        *(sys.executable, "-m", "data_pipelines.build_records", "--format=json_lines"),
        *(f"--input={corpus / 'text'}", f"--vocab_file={corpus / 'vocab.txt'}"),
        *("--validation_fraction=0.1", "--slice_megabytes=0.0025"),
        "--max_rejected_share=1",
        *(f"--output_dir={output_dir}", "--window_length=32", *arguments),
    ]
    return subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, check=False
    )


def test_the_command_takes_options_of_beam(corpus, built, tmp_path, beam):
    result = run_command(
        *(corpus, tmp_path, "--engine=beam", "--runner=DirectRunner"),
        *("--", "--direct_num_workers=2", "--direct_running_mode=multi_threading"),
    )
    assert result.returncode == 0, result.stderr
    assert contents(tmp_path) == contents(built)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--runner=FlinkRunner"], "`--runner` is for `--engine=beam`"),
        (["--", "--flink_master=x"], "`--` is for `--engine=beam`"),
        (["--engine=beam", "--num_workers=2"], "`--num_workers` is for"),
        (["--engine=beam", "--runner=FlinkRuner"], "`--runner` must be a runner"),
        (["--engine=beam", "--", "--direct_num_workers=two"], "invalid int value"),
    ],
)
def test_wrong_flags_of_engines_are_refused(corpus, tmp_path, arguments, message):
    if "--engine=beam" in arguments and "--num_workers=2" not in arguments:
        pytest.importorskip("apache_beam", exc_type=ImportError)
    result = run_command(corpus, tmp_path / "out", *arguments)
    assert result.returncode == 1
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert "usage" not in result.stderr
    assert not (tmp_path / "out").exists()
