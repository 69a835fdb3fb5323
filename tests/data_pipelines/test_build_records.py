"""Records contain the text of a corpus, whatever builds them."""

import dataclasses
import json

import numpy as np
import pytest

from data_pipelines.builds.documents import build_documents, summary
from data_pipelines.builds.local_engine import LocalEngine
from seg_tf.data import examples
from seg_tf.data.manifest import Manifest, text_preparation
from seg_tf.text.punkt import SentenceSplitter
from seg_tf.text.punkt_parameters import PunktParameters
from seg_tf.text.splitters import load_parameters
from seg_tf.text.vocabulary import Vocabulary
from seg_tf.text.word_pieces import WordPieces
from tests import command_calls
from tests.data_pipelines.small_corpus import (
    NUM_DOCUMENTS,
    build,
    command,
    contents,
    document_options,
)

pytestmark = pytest.mark.slow


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
                [pieces.encode([sentence])[0].tolist() for sentence in sentences]
                for paragraph in json.loads(line)["text"].split("\n")
                if (sentences := splitter.split(paragraph))
            ]
            expected.append([sentences for sentences in tree if any(sentences)])
    trees = {}
    manifest = Manifest.load(built / "documents")
    for split, shards in manifest.splits.items():
        for shard in shards:
            path = built / "documents" / shard.file
            for tree, number, _ in examples.read_trees(path, manifest.number_widths):
                sentences = np.split(tree.token_ids, np.cumsum(tree.sentence_lengths))
                ends = np.cumsum(tree.paragraph_lengths)
                trees[number] = [
                    [s.tolist() for s in sentences[end - count : end]]
                    for end, count in zip(ends, tree.paragraph_lengths, strict=True)
                ]
                assert split == ("validation" if number % 10 == 1 else "train")
    assert len(trees) == NUM_DOCUMENTS
    for number, tree in enumerate(expected):
        assert trees.get(number, []) == tree


def test_the_manifest_counts_what_was_left_out_and_names_no_place(corpus, built):
    manifest = Manifest.load(built)
    assert manifest.rejected == {"malformed_json": 1, "no_word_pieces": 1}
    lines = (built / "documents" / "rejected.jsonl").read_text().splitlines()
    first = json.loads(lines[0])
    assert first.keys() == {"source", "location", "reason", "message"}
    assert first["source"] == "part-0.jsonl"
    assert "line 8" in first["location"]
    assert manifest.count("documents") == NUM_DOCUMENTS
    documents = Manifest.load(built / "documents")
    assert manifest.count("pieces") == documents.count("pieces")
    assert len(manifest.sources) == 5
    text = (built / "manifest.json").read_text()
    assert str(corpus) not in text
    assert str(built) not in text


@pytest.mark.parametrize(
    ("kind", "flags"),
    [
        ("built", ["--num_workers=2"]),
        ("cut_built", ["--num_workers=3", "--cut_sentences"]),
    ],
)
def test_bytes_are_the_same_for_any_number_of_workers(
    corpus, request, tmp_path, kind, flags
):
    finished = command_calls.call(*command(corpus, tmp_path, *flags))
    assert finished.returncode == 0, finished.stderr
    assert contents(tmp_path) == contents(request.getfixturevalue(kind))


# --- Sentences --------------------------------------------------------------------


def test_records_keep_the_parameters_of_their_splitter(corpus, tmp_path):
    parameters = PunktParameters(abbreviation_types=frozenset({"bzw"}), name="other")
    path = tmp_path / "parameters.json"

    class EditingEngine(LocalEngine):
        """Edits the file during the build, which changes nothing."""

        def prepare(self, *arguments):
            path.write_bytes(load_parameters("english").to_bytes())
            return super().prepare(*arguments)

    records = tmp_path / "out"
    path.write_bytes(parameters.to_bytes())
    build(corpus, records, sentence_parameters=str(path), engine=EditingEngine())
    assert load_parameters(str(path)) != parameters
    assert str(tmp_path) not in (records / "manifest.json").read_text()
    manifest = Manifest.load(records)
    assert manifest.sentence_splitter["parameters_sha256"] == parameters.checksum
    stored = text_preparation(manifest, records).sentence_parameters
    assert stored == parameters.to_bytes()
    path = records / "sentence_parameters.json"
    path.write_bytes(load_parameters("english").to_bytes())
    with pytest.raises(ValueError, match=r"sentence_parameters\.json: not the param"):
        text_preparation(manifest, records)


def test_sentences_may_come_from_a_function(corpus, built, tmp_path, monkeypatch):
    """Later readers of text use the function that records name."""
    (tmp_path / "sentences_of_a_build.py").write_text(
        "def words(paragraph):\n    return paragraph.split()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    name = "function:sentences_of_a_build:words"
    records = tmp_path / "out"
    build(corpus, records, sentence_parameters=name)
    manifest, english = map(Manifest.load, (records, built))
    assert manifest.sentence_splitter["name"] == name
    assert manifest.count("sentences") > 2 * english.count("sentences")
    stored = text_preparation(manifest, records).sentence_parameters
    assert stored == load_parameters(name).to_bytes()
    path = str(records / "sentence_parameters.json")
    with pytest.raises(ValueError, match="a function that only a file names is not"):
        build(corpus, tmp_path / "another", sentence_parameters=path)


# --- Validation and errors --------------------------------------------------------


def test_two_documents_are_enough_to_validate_but_one_is_not(corpus, tmp_path):
    options = document_options(corpus, validation_fraction=0.01)
    splits = [options.split_of(i, "a.jsonl") for i in (0, 1, 2, 100, 101)]
    assert splits == ["train", "validation", "train", "train", "validation"]
    for fraction in (0.4, 0.15):
        options = document_options(corpus, validation_fraction=fraction)
        splits = [options.split_of(i, "a.jsonl") for i in range(200)]
        assert splits.count("validation") == 200 * fraction
    options = document_options(corpus, validation_fraction=0.01)
    text = tmp_path / "one.jsonl"
    text.write_text('{"text": "The only document. It is short."}\n')
    for input_path, is_warned in ((text, True), (corpus / "text", False)):
        options = dataclasses.replace(options, input=str(input_path))
        manifest = build_documents(options, tmp_path / str(is_warned))
        assert ("warning: no documents are held out" in summary(manifest)) == is_warned
