"""Builds by Apache Beam: the same bytes as those of the local engine."""

import builtins
import dataclasses
import json
import random
import shutil

import numpy as np
import pytest

from data_pipelines import build_windows
from data_pipelines.builds import (
    beam_engine,
    beam_jobs,
    beam_steps,
    document_build,
    document_building,
    document_slices,
    sharded_build,
    slice_plan,
)
from data_pipelines.builds.document_slices import Cursor
from data_pipelines.builds.duplicate_search import FingerprintMaker
from data_pipelines.builds.errors import BuildError
from data_pipelines.builds.local_engine import LocalEngine
from data_pipelines.builds.sharded_build import ShardedBuild
from data_pipelines.builds.text_worker import SliceMaker
from data_pipelines.builds.window_building import WindowOptions
from data_pipelines.cleaning.cleaning_options import CleaningOptions
from seg_tf import files
from seg_tf.data.manifest import Manifest
from tests import command_calls
from tests.data_pipelines import small_corpus
from tests.data_pipelines.interruptions import interrupted
from tests.data_pipelines.random_corpus import document_line
from tests.data_pipelines.small_corpus import contents

pytestmark = pytest.mark.slow

IN_PROCESS = ("--runner=FnApiRunner",)
TWO_THREADS = ("--direct_num_workers=2", "--direct_running_mode=multi_threading")


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
        lines = [document_line(generator) for _ in range(num_documents)]
        if name != "c":
            lines = ["{broken", *lines, json.dumps({"text": "\x01\x02"}), '{"x": 1}']
        (text / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    small_corpus.write_vocabulary(folder, "the", "man", "ship")
    return folder


def options_of(corpus, **overrides):
    settings = {
        "validation_fraction": 0.1,
        "slice_megabytes": 0.0025,
        "max_rejected_share": 1.0,
        **overrides,
    }
    return small_corpus.options_of(corpus / "text", corpus / "vocab.txt", **settings)


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


def source_files(options, output_dir):
    sources = document_building.list_sources(options)
    return [
        beam_steps.SourceFile(
            *(number, name, path, path.stat().st_size, {}, output_dir)
        )
        for number, (name, path) in enumerate(sources.items())
    ]


def read_slices(options):
    """The tasks of the engine that reads everything in order."""
    sources = document_building.list_sources(options)
    return document_slices.read_slices(options, sources, Cursor(), 0)


@pytest.fixture(scope="module")
def sizes(corpus, tmp_path_factory):
    """Of each file's documents, as the step measures them."""
    folder = tmp_path_factory.mktemp("measured")
    measure = beam_steps.MeasureSource(options_of(corpus), folder)
    sources = source_files(options_of(corpus), folder)
    for source in sources:
        measure(source)
    return [
        [item if isinstance(item, int) else None for item in items]
        for items, _ in (measure.of_source(source.number) for source in sources)
    ]


@pytest.mark.parametrize("megabytes", [1e-7, 0.0001, 0.0007, 0.0025, 0.02, 9.0])
def test_the_plan_is_what_reading_in_order_finds(corpus, sizes, megabytes):
    options = options_of(corpus, slice_megabytes=megabytes)
    plan = slice_plan.plan_slices(options.slice_characters, sizes)
    assert [(p.number, p.begin.document_id, p.end) for p in plan] == [
        (t.number, t.payload.first_document_id, t.payload.next)
        for t in read_slices(options)
    ]


@pytest.mark.parametrize("seed", range(40))
def test_random_plans_fill_slices_and_cover_every_item_once(seed):
    generator = np.random.default_rng(seed)
    sizes = [
        # None are rejected documents, and some have no characters.
        [
            None if size < 0 else int(size)
            for size in generator.integers(-4, 12, generator.integers(0, 9))
        ]
        for _ in range(generator.integers(1, 7))
    ]
    limit = int(generator.integers(1, 25))
    plan = list(slice_plan.plan_slices(limit, sizes))
    places = {planned.number: [] for planned in plan}
    for file_number, slices in slice_plan.slices_of_files(plan).items():
        of_file = sizes[file_number] if file_number < len(sizes) else []
        for planned in slices:
            first, last = planned.range_in(file_number)
            places[planned.number] += [
                (file_number, item) for item in range(len(of_file))[first:last]
            ]
    assert [place for number in sorted(places) for place in places[number]] == [
        (f, i) for f, of_file in enumerate(sizes) for i in range(len(of_file))
    ]
    document_id = 0
    for planned in plan:
        assert planned.begin.document_id == document_id
        *before, last = [sizes[f][i] for f, i in places[planned.number]]
        size_before = sum(size or 0 for size in before)
        document_id += sum(size is not None for size in (*before, last))
        assert size_before < limit
        # Rejected documents after the last full slice are one of their own.
        is_full = last is not None and size_before + last >= limit
        assert is_full or planned is plan[-1]
        assert planned.end.document_id == document_id


# --- Builds ---------------------------------------------------------------------


def test_each_slice_is_gathered_in_order_whatever_order_it_comes_in(
    corpus, sizes, tmp_path
):
    options = options_of(corpus)
    slices = [task.payload for task in read_slices(options)]
    plan = slice_plan.plan_slices(options.slice_characters, sizes)
    wanted = [planned for planned in plan if planned.number % 3]
    groups = {}
    sources = source_files(options, tmp_path)
    for number, of_file in slice_plan.slices_of_files(wanted).items():
        if number < len(sources):
            source = dataclasses.replace(sources[number], slices=tuple(of_file))
            for key, value in beam_steps.ReadItems(options)(source):
                groups.setdefault(key, []).append(value)
    generator = random.Random(2)
    for key, values in groups.items():
        generator.shuffle(values)
        assert beam_steps.gather_slice(key, values) == slices[key[0]]
    assert len(groups) == len(wanted) > 5


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
    write_json = files.write_json

    def written(path, value):
        # Shards lie there when their report is written.
        if path.name.startswith("task"):
            if len(done) == 4:
                raise OSError("the disk is full")
            done.append(path)
        write_json(path, value)

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_json", written)
        said = r"^the Beam job failed: .*the disk is full.*same command again"
        with pytest.raises(
            BuildError if beam_is_first else OSError,
            match=said if beam_is_first else "the disk is full",
        ):
            build(corpus, tmp_path, first)
    progress = tmp_path / "documents" / ".progress"
    assert len(list(progress.glob(sharded_build.REPORTS))) == 4
    kept = {path: path.stat().st_ino for path in progress.parent.glob("train-*")}
    assert len(kept) >= 10
    # Half a shard of a process that was killed.
    (progress / ".aside-left").mkdir()
    (progress / ".aside-left" / "train-00003.tfrecord").write_bytes(b"half")
    build(corpus, tmp_path, second)
    assert contents(tmp_path) == contents(built)
    # What was finished was not made again.
    numbers = [path.stem.split("-")[1] for path in done[:4]]
    for path in (progress.parent / f"train-{number}.tfrecord" for number in numbers):
        assert path.stat().st_ino == kept[path]


def test_what_cleaning_drops_is_the_same(corpus, tmp_path, in_process):
    """Duplicates lie in other slices and files than what they repeat."""
    text = tmp_path / "text"
    shutil.copytree(corpus / "text", text)
    lines = (text / "d.jsonl").read_text().splitlines()
    repeated = lines[5:15]
    (text / "f.jsonl").write_text("".join(f"{line}\n" for line in repeated))
    settings = {
        "input": str(text),
        "cleaning": CleaningOptions(
            min_line_words=4,
            min_document_words=10,
            duplicates="exact",
        ),
    }
    build(corpus, tmp_path / "local", LocalEngine(), **settings)
    # A search that was left unfinished is gone on with too.
    with interrupted(FingerprintMaker, 3):
        build(corpus, tmp_path / "beam", LocalEngine(), **settings)
    build(corpus, tmp_path / "beam", in_process, **settings)
    assert contents(tmp_path / "beam") == contents(tmp_path / "local")
    found = Manifest.load(tmp_path / "local" / "documents").cleaning["steps"]
    assert found["duplicates"]["documents"] >= 4
    assert found["short_lines"]["paragraphs"]


def test_near_duplicates_are_refused(corpus, tmp_path, in_process):
    near = CleaningOptions(duplicates="near")
    with pytest.raises(ValueError, match=r"'exact' with --engine=beam.*datatrove"):
        build(corpus, tmp_path, in_process, cleaning=near)


def step_and_slice(options, output_dir):
    """The step that makes documents, opened for a build, and the first slice."""
    (task, *_) = read_slices(options)
    sharded = ShardedBuild(output_dir, {})
    sharded.progress_dir.mkdir(parents=True)
    # A build infers these from the vocabulary before it starts.
    options = dataclasses.replace(options, lower_case=True, split_ideographs=True)
    carried = beam_engine._with_files_beside(sharded, options)
    step = beam_steps.MakeShards(
        output_dir, sharded.progress_dir, lambda: SliceMaker(carried)
    )
    return step, task.payload


def test_a_step_done_twice_at_a_time_leaves_one_result(corpus, built, tmp_path):
    step, payload = step_and_slice(options_of(corpus), tmp_path)
    step(payload)
    before = contents(tmp_path)
    # The second had looked for a report before there was one.
    (step.progress_dir / sharded_build.report_name(0)).unlink()
    dataclasses.replace(step)(payload)
    assert contents(tmp_path) == before
    name = "train-00000.tfrecord"
    assert before[name] == contents(built / "documents")[name]


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
    step, payload = step_and_slice(options, tmp_path / "out")
    copy.unlink()
    parameters.unlink()
    step(payload)
    assert (tmp_path / "out" / "train-00000.tfrecord").stat().st_size


def fail(_):
    raise BuildError("a.jsonl: the file has changed. Restore it")


def test_what_ends_a_job_is_said_in_our_own_words(beam):
    with pytest.raises(
        BuildError, match=r"^a\.jsonl: the file has changed. Restore it$"
    ):
        beam_jobs.run(IN_PROCESS, [1], "fail" >> beam.Map(fail))
    # As runners with workers elsewhere hand it on.
    name = "data_pipelines.builds.errors.BuildError"
    said = f"Traceback\n  File a\n{name}: a.jsonl: Not so. [while running 'b']\nEnd"
    assert beam_jobs._reason(RuntimeError(said)) == "a.jsonl: Not so."


def test_workers_that_write_elsewhere_are_told(corpus, tmp_path, in_process):
    in_process._run = lambda *_: None
    with pytest.raises(BuildError, match=r"without the size of a\.jsonl.*very folder"):
        build(corpus, tmp_path, in_process)


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
        (
            [*IN_PROCESS, "--direct_running_mode=multi_processing"],
            "`--` .*multi_processing Beam waits.*`--engine=local --num_workers=",
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
        [*IN_PROCESS, *TWO_THREADS],
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
        *("data_pipelines.build_records", "--format=json_lines"),
        *(f"--input={corpus / 'text'}", f"--vocab_file={corpus / 'vocab.txt'}"),
        *("--validation_fraction=0.1", "--slice_megabytes=0.0025"),
        "--max_rejected_share=1",
        *(f"--output_dir={output_dir}", "--window_length=32", *arguments),
    ]
    return command_calls.call(*command)


def test_the_command_builds_with_beam_what_the_local_engine_builds(
    corpus, built, tmp_path, beam
):
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
        (["--engine=beam", "--runner=FlinkRuner"], "`--runner` must be a runner"),
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
