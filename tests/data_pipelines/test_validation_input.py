"""A corpus with a validation file of its own: the splits are as given."""

import json
import os
import random

import pytest

from data_pipelines import build_windows, check_records
from data_pipelines.builds import document_build, document_slices
from data_pipelines.builds.document_options import DocumentOptions
from data_pipelines.builds.errors import BuildError
from data_pipelines.builds.text_worker import SliceMaker
from data_pipelines.builds.window_building import WindowOptions
from seg_tf import files
from seg_tf.data import examples
from seg_tf.data.lane_inputs import LaneInputs
from seg_tf.data.manifest import Manifest
from tests import command_calls
from tests.data_pipelines import small_corpus
from tests.data_pipelines.builders import read_split
from tests.data_pipelines.interruptions import interrupted, noted
from tests.data_pipelines.small_corpus import contents

pytestmark = pytest.mark.slow

WORDS = [f"w{number}" for number in range(50)]
NUM_TRAIN, NUM_VALIDATION = 40, 20


def write_documents(path, documents):
    lines = [json.dumps({"text": "\n".join(document)}) for document in documents]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def texts():
    """The documents of each split, lists of paragraphs."""
    generator = random.Random(0)

    def paragraph():
        return " ".join(generator.choices(WORDS, k=generator.randint(1, 30)))

    return {
        split: [[paragraph(), paragraph()] for _ in range(count)]
        for split, count in (("train", NUM_TRAIN), ("validation", NUM_VALIDATION))
    }


@pytest.fixture(scope="module")
def corpus(texts, tmp_path_factory):
    """Two files a split, of the same names in both, each with a bad line."""
    folder = tmp_path_factory.mktemp("corpus")
    for split, documents in texts.items():
        half = len(documents) // 2
        for name, part in (("a", documents[:half]), ("b", documents[half:])):
            write_documents(folder / split / f"{name}.jsonl", part)
        with open(folder / split / "b.jsonl", "a") as file:
            file.write("{broken\n")
    (folder / "words.txt").write_text("\n".join(["<eos>", "<unk>", *WORDS]) + "\n")
    small_corpus.write_vocabulary(folder, letters="w0123456789")
    return folder


def options(corpus, **overrides):
    settings = {
        "format": "json_lines",
        "input": str(corpus / "train"),
        "validation_input": str(corpus / "validation"),
        "vocab_file": str(corpus / "words.txt"),
        "tokenizer": "whitespace",
        "slice_megabytes": 0.001,
    }
    return DocumentOptions(**{**settings, **overrides})


@pytest.fixture(scope="module")
def built(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("built")
    document_build.build_documents(options(corpus), folder)
    return folder


def documents_of(folder, split):
    """(number, text) of every document: words, with an <eos> after each paragraph."""
    manifest = Manifest.load(folder)
    tokens = (folder / "vocab.txt").read_text().split()
    return [
        (number, " ".join(tokens[token_id] for token_id in tree.token_ids))
        for shard in manifest.splits[split]
        for tree, number, _ in examples.read_trees(
            folder / shard.file, manifest.number_widths
        )
    ]


def shards_with(folder, split):
    """Numbers of the shards of a split that hold anything."""
    shards = Manifest.load(folder).splits[split]
    return {number for number, shard in enumerate(shards) if shard.records}


def test_each_input_is_its_split(texts, built):
    found = documents_of(built, "train") + documents_of(built, "validation")
    expected = [
        "".join(f"{paragraph} <eos> " for paragraph in document).strip()
        for document in texts["train"] + texts["validation"]
    ]
    assert found == list(enumerate(expected))
    assert Manifest.load(built).count("documents", "train") == NUM_TRAIN
    assert not list(check_records.check_folder(built))


def test_a_slice_may_hold_documents_of_both(built):
    """Else the tests of this file would miss the case."""
    train, validation = (shards_with(built, s) for s in ("train", "validation"))
    assert len(train & validation) == 1
    assert len(train) > 4
    assert len(validation) > 2


def test_sources_of_the_same_name_do_not_collide(corpus, built):
    sources = Manifest.load(built).sources
    assert [source["file"] for source in sources] == [
        *("train/a.jsonl", "train/b.jsonl"),
        *("validation/a.jsonl", "validation/b.jsonl"),
    ]
    for source in sources:
        assert source["sha256"] == files.checksum(corpus / source["file"])
    rejected = (built / "rejected.jsonl").read_text().splitlines()
    named = [
        (json.loads(line)["source"], json.loads(line)["reason"]) for line in rejected
    ]
    assert named == [
        ("train/b.jsonl", "malformed_json"),
        ("validation/b.jsonl", "malformed_json"),
    ]


def test_the_manifest_has_no_trace_of_the_place(corpus, built):
    text = (built / "manifest.json").read_text()
    assert str(corpus) not in text
    assert "validation_input" not in text
    assert Manifest.load(built).options["validation_fraction"] is None


def test_names_of_folders_do_not_decide(corpus, texts, tmp_path):
    """Inputs the other way round, and files named like the splits."""
    write_documents(tmp_path / "in" / "validation" / "x.jsonl", texts["train"])
    write_documents(tmp_path / "train" / "train.jsonl", texts["validation"])
    given = options(
        corpus,
        input=str(tmp_path / "in"),
        validation_input=str(tmp_path / "train" / "*.jsonl"),
    )
    manifest = document_build.build_documents(given, tmp_path / "out")
    assert manifest.count("documents", "train") == NUM_TRAIN
    assert manifest.count("documents", "validation") == NUM_VALIDATION
    assert [source["file"] for source in manifest.sources] == [
        "train/validation/x.jsonl",
        "validation/train.jsonl",
    ]


def test_bytes_are_the_same_for_two_workers(corpus, built, tmp_path):
    document_build.build_documents(options(corpus), tmp_path, num_workers=2)
    assert contents(tmp_path) == contents(built)


@pytest.mark.parametrize("where", ["in the slice of both", "in validation"])
def test_bytes_are_the_same_after_an_interrupted_build(corpus, built, tmp_path, where):
    validation = sorted(shards_with(built, "validation"))
    stopped_at = validation[0 if where == "in the slice of both" else 2]
    with interrupted(SliceMaker, stopped_at):
        document_build.build_documents(options(corpus), tmp_path)
    with pytest.raises(BuildError, match="an unfinished build with another"):
        document_build.build_documents(options(corpus, validation_input=None), tmp_path)
    with noted(SliceMaker) as made:
        document_build.build_documents(options(corpus), tmp_path)
    assert made == list(range(stopped_at, validation[-1] + 1))
    assert contents(tmp_path) == contents(built)


def test_a_finished_build_is_left_as_it_is(corpus, built, monkeypatch):
    monkeypatch.delattr(document_slices, "read_slices")
    document_build.build_documents(options(corpus), built)


@pytest.mark.parametrize(
    "overrides",
    [
        pytest.param({"validation_input": None}, id="without"),
        pytest.param(
            {"validation_input": "train", "input": "validation"}, id="swapped"
        ),
    ],
)
def test_other_inputs_are_another_build(corpus, built, overrides):
    before = contents(built)
    paths = {key: value and str(corpus / value) for key, value in overrides.items()}
    with pytest.raises(BuildError, match=r"finished build with (an)?other "):
        document_build.build_documents(options(corpus, **paths), built)
    assert contents(built) == before


def test_a_build_without_it_holds_documents_out(corpus, tmp_path):
    manifest = document_build.build_documents(
        options(corpus, validation_input=None), tmp_path
    )
    assert manifest.options == {
        "format": "json_lines",
        "reader_options": {},
        "validation_fraction": 0.01,
        "slice_megabytes": 0.001,
        "cleaning": {},
    }
    assert [source.keys() for source in manifest.sources] == [
        {"file", "bytes", "sha256"}
    ] * 2
    assert [source["file"] for source in manifest.sources] == ["a.jsonl", "b.jsonl"]
    assert [number for number, _ in documents_of(tmp_path, "validation")] == [1]


def test_training_reads_what_was_given(texts, built):
    """A split of few shards, whose first ones are empty, is a stream all the same."""
    inputs = LaneInputs(target_length=7, validation_lanes=1, records_dir=built, seed=0)
    tokens = (built / "vocab.txt").read_text().split()
    stream = " ".join(
        f"{paragraph} <eos>"
        for document in texts["validation"]
        for paragraph in document
    ).split()
    predicted = [
        tokens[token_id]
        for batch in inputs.validation_dataset(1)
        for token_id in batch["target_ids"].numpy()[batch["padding_mask"].numpy()]
    ]
    assert predicted == stream[1:]


# --- The scripts ------------------------------------------------------------------


def run(module, corpus, output_dir, *more):
    return command_calls.call(
        *(f"data_pipelines.{module}", "--format=json_lines"),
        *(f"--input={corpus / 'train'}", f"--output_dir={output_dir}", *more),
        *("--slice_megabytes=0.001", f"--validation_input={corpus / 'validation'}"),
    )


def test_records_of_windows_take_it(corpus, tmp_path):
    """Both steps by the script are the two functions, byte for byte."""
    vocab_file = str(corpus / "vocab.txt")
    given = options(corpus, tokenizer="word_pieces", vocab_file=vocab_file)
    expected = tmp_path / "expected"
    document_build.build_documents(given, expected / "documents")
    build_windows.build_windows(
        WindowOptions(window_length=32), expected / "documents", expected
    )
    done = run(
        "build_records",
        corpus,
        tmp_path / "out",
        *(f"--vocab_file={vocab_file}", "--window_length=32"),
    )
    assert done.returncode == 0, done.stderr
    assert contents(tmp_path / "out") == contents(expected)
    for split, count in (("train", NUM_TRAIN), ("validation", NUM_VALIDATION)):
        documents = read_split(tmp_path / "out" / "documents", split)
        windows = read_split(tmp_path / "out", split)
        assert len(documents) == count
        assert sum(len(tree.token_ids) for tree in windows) == sum(
            len(tree.token_ids) for tree in documents
        )


def test_both_flags_are_refused_by_the_script(corpus, tmp_path):
    """The default, too, when it is given."""
    done = run(
        "build_documents",
        corpus,
        tmp_path / "out",
        *(f"--vocab_file={corpus / 'words.txt'}", "--tokenizer=whitespace"),
        "--validation_fraction=0.01",
    )
    assert done.returncode == 1
    assert "`validation_fraction` must not be given" in done.stderr.splitlines()[-1]
    assert not (tmp_path / "out").exists()


# --- What is refused --------------------------------------------------------------


@pytest.mark.parametrize("fraction", [0.0, 0.01, 0.5])
def test_a_fraction_beside_it_is_refused(corpus, fraction):
    with pytest.raises(ValueError, match=r"must not be given with `validation_input`"):
        options(corpus, validation_fraction=fraction)


def test_a_file_in_both_inputs_is_refused(corpus, tmp_path):
    """By whatever way it is reached."""
    inside = options(corpus, validation_input=str(corpus / "train" / "b.jsonl"))
    os.symlink(corpus / "train" / "a.jsonl", tmp_path / "other.jsonl")
    linked = options(corpus, validation_input=str(tmp_path / "*.jsonl"))
    for given, name in ((inside, r"b\.jsonl"), (linked, r"other\.jsonl")):
        with pytest.raises(ValueError, match=f"no file that `input` holds.*{name}"):
            document_build.build_documents(given, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_input_without_a_document_is_refused_before_the_other_is_read(
    corpus, tmp_path
):
    (tmp_path / "bad.jsonl").write_text("{broken\n")
    given = options(corpus, validation_input=str(tmp_path / "bad.jsonl"))
    with pytest.raises(ValueError, match=r"must hold a document.*bad\.jsonl.*json_l"):
        document_build.build_documents(given, tmp_path / "out")
    missing = options(corpus, validation_input=str(tmp_path / "missing"))
    with pytest.raises(FileNotFoundError, match="missing"):
        document_build.build_documents(missing, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("split", ["train", "validation"])
def test_a_split_without_a_word_is_refused_with_its_list(corpus, tmp_path, split):
    """Documents of control characters alone are found by the workers only."""
    write_documents(tmp_path / "empty.jsonl", [["\x01\x02"]])
    key = {"train": "input", "validation": "validation_input"}[split]
    given = options(corpus, tokenizer="words", **{key: str(tmp_path / "empty.jsonl")})
    message = rf"in '.*empty\.jsonl'.*1 no_words; first {split}/empty\.jsonl, line 1"
    with pytest.raises(BuildError, match=message):
        document_build.build_documents(given, tmp_path / "out")
    assert not list((tmp_path / "out").glob("*.tfrecord"))
    listed = (tmp_path / "out" / "rejected.jsonl").read_text()
    assert f'"source": "{split}/empty.jsonl"' in listed
    assert not (tmp_path / "out" / "manifest.json").exists()
