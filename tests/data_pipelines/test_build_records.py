"""Building records: the same bytes whatever happens, and nothing lost."""

import contextlib
import dataclasses
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest

from data_pipelines import (
    build_windows,
    check_records,
    inspect_records,
)
from data_pipelines.builds import (
    document_build,
    document_building,
    document_slices,
    sharded_build,
    window_building,
)
from data_pipelines.builds.document_options import DocumentOptions
from data_pipelines.builds.errors import BuildError
from data_pipelines.builds.window_building import WindowOptions
from data_pipelines.records import tree_shards
from data_pipelines.records.manifest import Manifest, text_preparation
from seg_tf.text.punkt import SentenceSplitter
from seg_tf.text.punkt_parameters import PunktParameters, load_parameters
from seg_tf.text.vocabulary import Vocabulary
from seg_tf.text.word_pieces import WordPieces
from tests import command_calls
from tests.data_pipelines.builders import read_split
from tests.data_pipelines.builds.test_window_cutting import slow_full_windows
from tests.data_pipelines.interruptions import interrupted, noted

pytestmark = pytest.mark.slow

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
TEXT = "the a man woman ship sailed came saw went home away now then 1842 Mr. Dr."
WORDS = TEXT.split()
NUM_DOCUMENTS = 120
WINDOW_OPTIONS = WindowOptions(window_length=32)
CUT_SENTENCES = WindowOptions(window_length=32, cut_sentences=True)


def random_paragraph(generator):
    sentences = []
    for _ in range(generator.randint(1, 6)):
        words = [generator.choice(WORDS) for _ in range(generator.randint(1, 12))]
        sentences.append(" ".join(words).capitalize() + generator.choice(".!?"))
    return " ".join(sentences)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A folder of JSON lines, some of them bad, and a vocabulary."""
    folder = tmp_path_factory.mktemp("corpus")
    text = folder / "text"
    text.mkdir()
    generator = random.Random(0)
    lines = []
    for _ in range(NUM_DOCUMENTS):
        paragraphs = [
            random_paragraph(generator) for _ in range(generator.randint(1, 5))
        ]
        lines.append(json.dumps({"text": "\n".join(paragraphs)}))
    lines.insert(7, "{broken")
    lines.insert(50, json.dumps({"text": "\x01\x02"}))
    for number, begin in enumerate(range(0, len(lines), 30)):
        part = "\n".join(lines[begin : begin + 30]) + "\n"
        (text / f"part-{number}.jsonl").write_text(part)
    letters = "abcdefghijklmnopqrstuvwxyz0123456789.!?"
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "man", "ship"]
    pieces += [*letters, *(f"##{letter}" for letter in letters)]
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")
    return folder


def document_options(corpus, **overrides):
    settings = {
        "format": "json_lines",
        "input": str(corpus / "text"),
        "vocab_file": str(corpus / "vocab.txt"),
        "validation_fraction": 0.1,
        "slice_megabytes": 0.003,
    }
    return DocumentOptions(**{**settings, **overrides})


def build(
    corpus, output_dir, num_workers=1, window_options=WINDOW_OPTIONS, **overrides
):
    document_build.build_documents(
        document_options(corpus, **overrides),
        output_dir / "documents",
        num_workers=num_workers,
    )
    build_windows.build_windows(
        window_options,
        output_dir / "documents",
        output_dir,
        num_workers=num_workers,
    )


def contents(folder):
    """Every file below a folder and its bytes."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def built(corpus, tmp_path_factory):
    output_dir = tmp_path_factory.mktemp("built")
    build(corpus, output_dir)
    return output_dir


@pytest.fixture(scope="module")
def cut_built(corpus, built, tmp_path_factory):
    """The same documents, but windows that cut sentences."""
    output_dir = tmp_path_factory.mktemp("cut_built")
    shutil.copytree(built / "documents", output_dir / "documents")
    build(corpus, output_dir, window_options=CUT_SENTENCES)
    return output_dir


def test_the_build_has_several_slices_and_no_leftovers(built):
    names = contents(built).keys()
    assert len([n for n in names if n.startswith("train-") and "tfrecord" in n]) > 5
    assert not [n for n in names if "aside" in n or "progress" in n]


def test_trees_equal_splitting_and_encoding_by_hand(corpus, built):
    vocabulary = Vocabulary.from_file(corpus / "vocab.txt")
    pieces = WordPieces(vocabulary)
    splitter = SentenceSplitter()
    expected = []
    for path in sorted((corpus / "text").iterdir()):
        for line in path.read_text().splitlines():
            if line == "{broken":
                continue
            tree = [
                [pieces.encode([sentence])[0].tolist() for sentence in found]
                for paragraph in json.loads(line)["text"].split("\n")
                if (found := splitter.split(paragraph))
            ]
            expected.append([sentences for sentences in tree if any(sentences)])
    found = {}
    manifest = Manifest.load(built / "documents")
    for split, shards in manifest.splits.items():
        for shard in shards:
            path = built / "documents" / shard.file
            for tree, number, _ in tree_shards.read_trees(path, manifest.number_widths):
                sentences = np.split(tree.token_ids, np.cumsum(tree.sentence_lengths))
                ends = np.cumsum(tree.paragraph_lengths)
                found[number] = [
                    [s.tolist() for s in sentences[end - count : end]]
                    for end, count in zip(ends, tree.paragraph_lengths, strict=True)
                ]
                assert split == ("validation" if number % 10 == 1 else "train")
    assert len(found) == NUM_DOCUMENTS
    for number, tree in enumerate(expected):
        assert found.get(number, []) == tree


@pytest.mark.parametrize("kind", ["built", "cut_built"])
def test_windows_hold_the_same_pieces_as_the_documents(kind, request):
    folder = request.getfixturevalue(kind)
    for split in ("train", "validation"):
        documents = read_split(folder / "documents", split)
        windows = read_split(folder, split)
        np.testing.assert_array_equal(
            np.concatenate([tree.token_ids for tree in windows]),
            np.concatenate([tree.token_ids for tree in documents]),
        )


def test_cut_sentences_make_fewer_windows_with_true_indices(
    corpus, built, cut_built, tmp_path
):
    assert Manifest.load(cut_built).count("records") < Manifest.load(built).count(
        "records"
    )
    shutil.copytree(built / "documents", tmp_path / "documents")
    options = dataclasses.replace(CUT_SENTENCES, short_window_rate=0.0)
    build(corpus, tmp_path, window_options=options)
    for split in ("train", "validation"):
        windows = iter(read_split(tmp_path, split))
        for document in read_split(tmp_path / "documents", split):
            for expected in slow_full_windows(document, options.capacity):
                found = next(windows)
                assert expected == (
                    found.token_ids.tolist(),
                    found.sentence_lengths.tolist(),
                    found.paragraph_lengths.tolist(),
                    found.first_index,
                )
        assert not list(windows)


def test_the_manifest_names_cut_sentences_only_where_windows_do(built, cut_built):
    plain, cut = Manifest.load(built).options, Manifest.load(cut_built).options
    # An earlier version did not name the option.
    assert "cut_sentences" not in plain
    assert cut == {**plain, "cut_sentences": True}


def test_manifest_counts_and_lists_what_was_left_out(built):
    manifest = Manifest.load(built)
    assert manifest.rejected == {"malformed_json": 1, "no_word_pieces": 1}
    listed = (built / "documents" / "rejected.jsonl").read_text().splitlines()
    first = json.loads(listed[0])
    assert first["source"] == "part-0.jsonl"
    assert "line 8" in first["location"]
    assert manifest.count("documents") == NUM_DOCUMENTS
    assert manifest.count("pieces") == Manifest.load(built / "documents").count(
        "pieces"
    )
    assert len(manifest.sources) == 5


def test_manifest_has_no_trace_of_the_place(corpus, built):
    text = (built / "manifest.json").read_text()
    assert str(corpus) not in text
    assert str(built) not in text


def test_bytes_are_the_same_for_two_workers(corpus, built, tmp_path):
    build(corpus, tmp_path, num_workers=2)
    assert contents(tmp_path) == contents(built)


def test_bytes_of_cut_sentences_are_the_same_for_three_workers(
    corpus, cut_built, tmp_path
):
    arguments = command(corpus, tmp_path, "--cut_sentences", "--num_workers=3")
    finished = command_calls.call(*arguments)
    assert finished.returncode == 0, finished.stderr
    assert contents(tmp_path) == contents(cut_built)


@pytest.mark.parametrize("fail_after", [0, 1, 4])
def test_bytes_are_the_same_after_an_interrupted_build(
    corpus, built, tmp_path, fail_after
):
    with interrupted(document_building, fail_after):
        build(corpus, tmp_path)
    with noted(document_building) as made:
        build(corpus, tmp_path)
    assert made[0] == fail_after  # What was finished is not done again.
    assert contents(tmp_path) == contents(built)


def command(corpus, output_dir, *more):
    return [
        "data_pipelines.build_records",
        "--format=json_lines",
        f"--input={corpus / 'text'}",
        f"--vocab_file={corpus / 'vocab.txt'}",
        f"--output_dir={output_dir}",
        "--validation_fraction=0.1",
        "--slice_megabytes=0.003",
        "--window_length=32",
        *more,
    ]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_build_goes_on_to_the_same_bytes(corpus, built, tmp_path, number):
    with open(tmp_path / "errors.txt", "w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", *command(corpus, tmp_path, "--num_workers=2")],
            cwd=REPOSITORY,
            stderr=errors,
            start_new_session=True,
        )
        progress = tmp_path / "documents" / ".progress"
        wait_until(lambda: list(progress.glob("task-*")))
        # Two workers, the server that starts them, and what tracks semaphores.
        assert len(processes_of_session(process.pid)) >= 4
        # Nobody tells the others.
        process.send_signal(number)
        process.wait()
        wait_until(lambda: not processes_of_session(process.pid))
        errors.seek(0)
        said = errors.read()
    (tmp_path / "errors.txt").unlink()
    if number == signal.SIGTERM:
        assert process.returncode == 128 + signal.SIGTERM
        assert "terminated. Run the same command again to go on" in said
        assert "Traceback" not in said
    assert not (tmp_path / "manifest.json").exists()
    finished = command_calls.call(*command(corpus, tmp_path, "--num_workers=2"))
    assert finished.returncode == 0, finished.stderr
    assert contents(tmp_path) == contents(built)
    assert "120 documents" not in finished.stderr
    assert "malformed_json" in finished.stdout


def wait_until(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def processes_of_session(session):
    """The processes that a process started as the first of a session, and itself."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
            if os.getsid(process.pid) == session and (
                process.status() != psutil.STATUS_ZOMBIE
            ):
                found.append(process.pid)
    return found


def test_a_finished_build_is_left_as_it_is(corpus, built, monkeypatch):
    before = {p: p.stat().st_mtime_ns for p in built.rglob("*")}

    def never(*_):
        raise AssertionError("a finished build was made again")

    monkeypatch.setattr(document_slices, "read_slices", never)
    build(corpus, built)
    assert {p: p.stat().st_mtime_ns for p in built.rglob("*")} == before


def test_a_dead_worker_is_reported_and_the_build_goes_on(corpus, built, tmp_path):
    with pytest.raises(BuildError, match="a worker process died"):
        build_with_deadly_worker(corpus, tmp_path)
    build(corpus, tmp_path)
    assert contents(tmp_path) == contents(built)


def die(_):
    os.kill(os.getpid(), signal.SIGKILL)


def build_with_deadly_worker(corpus, output_dir):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(document_building, "make_slice", die)
        build(corpus, output_dir, num_workers=2)


def test_lengths_that_an_earlier_version_did_not_write_are_added(
    corpus, built, tmp_path
):
    folder = copy_of(built, tmp_path)
    for path in folder.glob("*lengths"):
        path.unlink()
    build(corpus, folder)
    assert contents(folder) == contents(built)
    for suffix in (".lengths", ".sentence_lengths"):
        assert [name for name in contents(folder) if name.endswith(suffix)]


def build_three_slices_of_windows(corpus, output_dir, **options):
    make_windows = window_building.make_windows
    made = []

    def interrupted(pair):
        if len(made) == 3:
            raise KeyboardInterrupt
        made.append(pair.number)
        return make_windows(pair)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window_building, "make_windows", interrupted)
        with pytest.raises(KeyboardInterrupt):
            build(corpus, output_dir, **options)


def test_slices_that_an_earlier_version_finished_get_their_lengths(
    corpus, built, tmp_path
):
    build_three_slices_of_windows(corpus, tmp_path)
    removed = list(tmp_path.glob("*lengths"))
    # Two files beside a train and a validation shard of each slice.
    assert len(removed) == 12
    for path in removed:
        path.unlink()
    build(corpus, tmp_path)
    assert contents(tmp_path) == contents(built)


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
    with interrupted(document_building, 0):
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


def test_strict_stops_at_the_first_bad_document(corpus, tmp_path):
    with pytest.raises(BuildError, match=r"part-0\.jsonl.*line 8.*--strict"):
        build(corpus, tmp_path, strict=True)


def test_a_corpus_without_a_readable_document_is_refused_with_its_list(
    corpus, tmp_path
):
    text = tmp_path / "text"
    text.mkdir()
    (text / "a.jsonl").write_text("{broken\n")
    output_dir = tmp_path / "out"
    with pytest.raises(BuildError, match=r"1 malformed_json.*rejected\.jsonl"):
        build(corpus, output_dir, input=str(text))
    assert "malformed" in (output_dir / "documents" / "rejected.jsonl").read_text()
    assert not (output_dir / "documents" / "manifest.json").exists()


def test_parameters_from_a_file_leave_no_path_in_the_manifest(corpus, tmp_path):
    table = tmp_path / "table.json"
    load_parameters("english").save(table)
    build(corpus, tmp_path / "out", sentence_parameters=str(table))
    text = (tmp_path / "out" / "manifest.json").read_text()
    assert str(tmp_path) not in text
    assert load_parameters("english").checksum in text


def test_records_hold_the_parameters_of_their_splitter(corpus, tmp_path):
    parameters = PunktParameters(abbreviation_types=frozenset({"bzw"}), name="own")
    parameters.save(tmp_path / "own.json")
    records = tmp_path / "out"
    build(corpus, records, sentence_parameters=str(tmp_path / "own.json"))
    manifest = Manifest.load(records)
    held = text_preparation(manifest, records).sentence_parameters
    assert held == parameters.to_bytes()
    load_parameters("english").save(records / "sentence_parameters.json")
    with pytest.raises(ValueError, match=r"sentence_parameters\.json: not the param"):
        text_preparation(manifest, records)
    # As of an earlier version.
    (records / "sentence_parameters.json").unlink()
    assert text_preparation(manifest, records).sentence_parameters is None


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
    ("job", "step", "overwrite", "folder"),
    [
        (document_building, "make_slice", overwrite_documents, "documents"),
        (window_building, "make_windows", overwrite_windows, ""),
        # Windows are cut from documents that another build would remove.
        (window_building, "make_windows", overwrite_documents, "documents"),
    ],
)
def test_overwrite_does_not_touch_a_build_that_is_under_way(
    corpus, built, tmp_path, monkeypatch, job, step, overwrite, folder
):
    work, refusals = getattr(job, step), []

    def work_beside_another(payload):
        if payload.number == 3:
            before = contents(tmp_path)
            with pytest.raises(BuildError, match="another process is build") as error:
                overwrite(corpus, tmp_path)
            assert contents(tmp_path) == before
            refusals.append(str(error.value))
        return work(payload)

    monkeypatch.setattr(job, step, work_beside_another)
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


def test_one_document_is_never_enough_to_validate_but_two_are(corpus):
    options = document_options(corpus, validation_fraction=0.01)
    assert [options.split_of(i, "a.jsonl") for i in (0, 1, 2, 100, 101)] == [
        "train",
        "validation",
        "train",
        "train",
        "validation",
    ]


def test_build_that_holds_nothing_out_says_so(corpus, tmp_path):
    text = tmp_path / "one.jsonl"
    text.write_text('{"text": "The only document. It is short."}\n')
    warned = []
    for name, given in (("one", str(text)), ("all", str(corpus / "text"))):
        options = document_options(corpus, input=given, validation_fraction=0.01)
        manifest = document_build.build_documents(options, tmp_path / name)
        summary = document_build.summary(manifest)
        warned.append("warning: nothing is held out" in summary)
        assert warned[-1] == ("--config.training.validation_interval=0" in summary)
    assert warned == [True, False]


def test_user_errors_are_one_line(corpus, tmp_path):
    missing = command(corpus, tmp_path, "--input=/no/such/folder")
    finished = command_calls.call(*missing)
    assert finished.returncode == 1
    assert "Traceback" not in finished.stderr
    assert "/no/such/folder" in finished.stderr.splitlines()[-1]


def test_a_full_disk_is_reported_and_the_build_goes_on(corpus, built, tmp_path):
    # A limit on the size of files stands in for a full disk.
    limited = (
        "import resource, runpy, signal, sys; "
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500)); "
        "sys.argv = sys.argv[1:]; "
        "runpy.run_module('data_pipelines.build_records', run_name='__main__')"
    )
    process = command_calls.python("-c", limited, *command(corpus, tmp_path))
    _, errors = process.communicate()
    assert process.returncode == 1
    assert "could not be written" in errors, errors
    assert "Traceback" not in errors
    assert not list(tmp_path.rglob(".aside-*"))
    assert not (tmp_path / "documents" / "manifest.json").exists()
    build(corpus, tmp_path)
    assert contents(tmp_path) == contents(built)


# --- Checking and inspecting ----------------------------------------------------


def copy_of(built, tmp_path):
    folder = tmp_path / "records"
    shutil.copytree(built, folder)
    return folder


def test_sound_records_have_no_fault(built, cut_built):
    assert list(check_records.check_folder(built)) == []
    assert list(check_records.check_folder(cut_built)) == []
    assert list(check_records.check_folder(built / "documents")) == []


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: os.truncate(f / "train-00002.tfrecord", 40),
         "00002.*expected .* found 40"),
        (lambda f: (f / "train-00001.tfrecord").unlink(),
         "00001.tfrecord: the file is m"),
        (lambda f: shutil.copy(f / "train-00000.tfrecord", f / "train-99999.tfrecord"),
         "99999.*not part of the manifest"),
        (lambda f: shutil.copy(REPOSITORY / "pyproject.toml", f / "vocab.txt"),
         "vocab.txt: not the vocabulary that the records were built with"),
        (lambda f: (f / "train-00001.lengths").unlink(),
         "00001.lengths: the file is missing.*build_windows"),
        (lambda f: os.truncate(f / "train-00001.lengths", 4),
         "00001.lengths: expected .* lengths, found 2"),
        (lambda f: (f / "train-00001.lengths").write_bytes(
            bytes([9]) + (f / "train-00001.lengths").read_bytes()[1:]),
         r"00001.lengths: record 0: expected \d+, found 9"),
        (lambda f: (f / "train-00001.sentence_lengths").unlink(),
         "00001.sentence_lengths: the file is missing.*build_windows"),
        (lambda f: os.truncate(f / "train-00001.sentence_lengths", 4),
         "00001.sentence_lengths: expected .* lengths, found 2"),
        (lambda f: (f / "train-00001.sentence_lengths").write_bytes(
            bytes([99]) + (f / "train-00001.sentence_lengths").read_bytes()[1:]),
         r"00001.sentence_lengths: record 0: expected \d+.*, found 99"),
    ],
)  # fmt: skip
def test_damaged_records_are_found(built, tmp_path, damage, message):
    folder = copy_of(built, tmp_path)
    damage(folder)
    faults = "\n".join(check_records.check_folder(folder))
    assert re.search(message, faults), faults


def test_a_flipped_bit_is_found_with_its_record(built, tmp_path):
    folder = copy_of(built, tmp_path)
    shard = folder / "train-00003.tfrecord"
    damaged = bytearray(shard.read_bytes())
    damaged[-20] ^= 1
    shard.write_bytes(damaged)
    faults = list(check_records.check_folder(folder))
    num_records = Manifest.load(folder).splits["train"][3].records
    assert any(f"record {num_records - 1} " in fault for fault in faults)


def test_a_well_formed_record_with_wrong_content_is_found(built, tmp_path):
    folder = copy_of(built, tmp_path)
    manifest = Manifest.load(folder)
    path = folder / manifest.splits["train"][0].file
    items = list(tree_shards.read_trees(path, manifest.number_widths))
    tree, document_id, permutation = items[0]
    tree.token_ids[0] = manifest.vocabulary["size"]
    permutation[:] = 0
    items[0] = (tree, document_id, permutation)
    tree_shards.write_trees(path, items[:-1], manifest.number_widths)
    faults = "\n".join(check_records.check_folder(folder))
    size = manifest.vocabulary["size"]
    assert f"record 0: expected ids below {size}, found {size}" in faults
    assert "expected a permutation" in faults
    assert f"records, found {len(items) - 1}" in faults


def test_inspection_prints_the_tree_and_where_a_cap_applied(built):
    manifest = Manifest.load(built)
    tokens = (built / "vocab.txt").read_text().splitlines()
    tree = next(t for t in read_split(built, "train") if t.first_index[0] > 0)
    caps = {"paragraph_index": 1, "sentence_index": 2, "token_index": 5}
    text = "\n".join(inspect_records.tree_lines(tree, tokens, caps))
    assert text.startswith(f"paragraph {tree.first_index[0]}\n")
    assert text.count("  sentence ") == len(tree.sentence_lengths)
    assert "have paragraph_index 1 or more" in text
    table = list(inspect_records.token_table(tree, tokens, caps))
    assert len(table) == len(tree.token_ids) + 3
    assert "*" in table[1]  # [CLS] takes the first piece's, capped, paragraph.
    assert manifest.kind == "windows"
