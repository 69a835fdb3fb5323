"""Records hold the text of a corpus, whatever builds them."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

from data_pipelines.builds import (
    document_build,
)
from data_pipelines.builds.errors import BuildError
from data_pipelines.builds.local_engine import LocalEngine
from seg_tf.data import examples
from seg_tf.data.manifest import Manifest, text_preparation
from seg_tf.text.punkt import SentenceSplitter
from seg_tf.text.punkt_parameters import PunktParameters
from seg_tf.text.splitters import load_parameters
from seg_tf.text.vocabulary import Vocabulary
from seg_tf.text.word_pieces import WordPieces
from tests import command_calls
from tests.data_pipelines.builders import read_split
from tests.data_pipelines.builds.test_window_cutting import slow_full_windows
from tests.data_pipelines.random_corpus import (
    CUT_SENTENCES,
    NUM_DOCUMENTS,
    build,
    command,
    document_options,
)
from tests.data_pipelines.small_corpus import contents

pytestmark = pytest.mark.slow


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
            for tree, number, _ in examples.read_trees(path, manifest.number_widths):
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


def test_the_manifest_says_whether_sentences_are_cut(built, cut_built):
    plain, cut = Manifest.load(built).options, Manifest.load(cut_built).options
    assert plain["cut_sentences"] is False
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


def test_sentences_may_be_those_of_a_function(corpus, tmp_path, monkeypatch):
    """As records hold it, the function is the one that later readers of text use."""
    (tmp_path / "sentences_of_a_build.py").write_text(
        "def words(paragraph):\n    return paragraph.split()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    name = "function:sentences_of_a_build:words"
    records = tmp_path / "out"
    build(corpus, records, sentence_parameters=name)
    build(corpus, tmp_path / "english")
    manifest, english = map(Manifest.load, (records, tmp_path / "english"))
    assert manifest.sentence_splitter["name"] == name
    assert manifest.count("sentences") > 2 * english.count("sentences")
    held = text_preparation(manifest, records).sentence_parameters
    assert held == load_parameters(name).to_bytes()
    before = contents(records)
    build(corpus, records, sentence_parameters=name)
    assert contents(records) == before
    path = str(records / "sentence_parameters.json")
    with pytest.raises(ValueError, match="a function that only a file names is not"):
        build(corpus, tmp_path / "another", sentence_parameters=path)


def test_parameters_edited_during_a_build_change_nothing(corpus, tmp_path):
    own = tmp_path / "own.json"
    parameters = PunktParameters(abbreviation_types=frozenset({"man", "ship"}))

    class EditingEngine(LocalEngine):
        def make_documents(self, *arguments):
            load_parameters("english").save(own)
            return super().make_documents(*arguments)

    parameters.save(own)
    options = document_options(corpus, sentence_parameters=str(own))
    document_build.build_documents(options, tmp_path / "left_alone")
    document_build.build_documents(
        options, tmp_path / "edited", engine=EditingEngine(1)
    )
    assert load_parameters(str(own)) != parameters
    assert contents(tmp_path / "edited") == contents(tmp_path / "left_alone")


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
