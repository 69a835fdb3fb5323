"""A corpus with a validation file: the splits are those of the inputs."""

import json
import os
import random

import pytest

from data_pipelines import BuildError, check_records
from data_pipelines.builds.documents import build_documents
from data_pipelines.builds.makers import SliceMaker
from seg_tf import files
from seg_tf.data import examples
from seg_tf.data.manifest import Manifest
from tests.data_pipelines import small_corpus
from tests.data_pipelines.small_corpus import contents, interrupted, noted

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
    """Two files per split, of the same names in both, each with a bad line."""
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
        "validation_input": str(corpus / "validation"),
        "tokenizer": "whitespace",
        **overrides,
    }
    return small_corpus.options_of(corpus / "train", corpus / "words.txt", **settings)


@pytest.fixture(scope="module")
def built(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("built")
    build_documents(options(corpus), folder)
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
    """Numbers of the shards of a split that are not empty."""
    shards = Manifest.load(folder).splits[split]
    return {number for number, shard in enumerate(shards) if shard.records}


def test_each_input_is_its_split(corpus, texts, built):
    expected = [
        "".join(f"{paragraph} <eos> " for paragraph in document).strip()
        for document in texts["train"] + texts["validation"]
    ]
    train, validation = (documents_of(built, s) for s in ("train", "validation"))
    assert train + validation == list(enumerate(expected))
    assert len(train) == NUM_TRAIN
    assert not list(check_records.check_folder(built))
    # Sources of the same name stay distinct, and no place is named.
    sources = Manifest.load(built).sources
    assert [source["file"] for source in sources] == [
        *("train/a.jsonl", "train/b.jsonl"),
        *("validation/a.jsonl", "validation/b.jsonl"),
    ]
    for source in sources:
        assert source["sha256"] == files.checksum(corpus / source["file"])
    lines = map(json.loads, (built / "rejected.jsonl").read_text().splitlines())
    assert [line["source"] for line in lines] == [
        "train/b.jsonl",
        "validation/b.jsonl",
    ]
    text = (built / "manifest.json").read_text()
    assert str(corpus) not in text
    assert "validation_input" not in text


@pytest.mark.parametrize("where", ["in the slice of both", "in validation"])
def test_bytes_are_the_same_after_an_interrupted_build(corpus, built, tmp_path, where):
    train, validation = (
        sorted(shards_with(built, split)) for split in ("train", "validation")
    )
    # One slice has documents of both: else this test would miss the case.
    assert len({*train} & {*validation}) == 1
    stopped_at = validation[0 if where == "in the slice of both" else 2]
    with interrupted(SliceMaker, stopped_at):
        build_documents(options(corpus), tmp_path)
    with pytest.raises(BuildError, match="an unfinished build with another"):
        build_documents(options(corpus, validation_input=None), tmp_path)
    with noted(SliceMaker) as numbers:
        build_documents(options(corpus), tmp_path)
    assert numbers == list(range(stopped_at, validation[-1] + 1))
    assert contents(tmp_path) == contents(built)


# --- Errors -----------------------------------------------------------------------


def test_a_file_in_both_inputs_is_refused(corpus, tmp_path):
    """Also through a link."""
    os.symlink(corpus / "train" / "a.jsonl", tmp_path / "other.jsonl")
    for path, name in (
        (corpus / "train" / "b.jsonl", r"b\.jsonl"),
        (tmp_path / "*.jsonl", r"other\.jsonl"),
    ):
        settings = options(corpus, validation_input=str(path))
        with pytest.raises(ValueError, match=f"no file of `input`.*{name}"):
            build_documents(settings, tmp_path / "out")
    assert not (tmp_path / "out").exists()
