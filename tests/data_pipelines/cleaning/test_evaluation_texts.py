"""Copies of evaluation texts are found, whatever case and punctuation they have."""

import random

import pytest

from data_pipelines.cleaning import evaluation_texts
from data_pipelines.cleaning.cleaning_options import CleaningOptions
from data_pipelines.cleaning.evaluation_texts import EvaluationTexts
from seg_tf.commands import evaluation_texts as command
from seg_tf.data.manifest import Manifest
from tests import command_calls
from tests.data_pipelines.cleaning import corpora
from tests.data_pipelines.cleaning.test_duplicates import kept_ids
from tests.finetuning import tiny_squad
from tests.tasks.test_glue import write


def some_words(generator, count):
    """Of few kinds, so that runs of some words often occur twice."""
    return generator.choices(["a", "b", "c", "Ähre", "7", "d"], k=count)


def slow_find(words, texts, length):
    """The first run of words that a text has, by plain comparison."""
    runs = {
        tuple(text[begin : begin + length])
        for text in texts
        for begin in range(len(text) - length + 1)
    }
    for begin in range(len(words) - length + 1):
        if tuple(words[begin : begin + length]) in runs:
            return " ".join(words[begin : begin + length])
    return None


@pytest.mark.parametrize("length", [1, 2, 5])
def test_runs_are_found_as_by_plain_comparison(length):
    generator = random.Random(length)
    texts = [some_words(generator, generator.randint(0, 40)) for _ in range(6)]
    lower = [[word.lower() for word in text] for text in texts]
    found = EvaluationTexts(map(" ".join, texts), length)
    assert found.num_texts == 6
    assert found.num_short == sum(len(text) < length for text in texts)
    answers = []
    for _ in range(200):
        words = [word.lower() for word in some_words(generator, 8)]
        answers.append(slow_find(words, lower, length))
        assert found.find(" ".join(words)) == answers[-1]
    assert length < 5 or {None} < {*answers}


def test_case_punctuation_and_forms_hide_nothing():
    found = EvaluationTexts(["The “ﬁrst” mill , it turns ."], 5)
    assert found.find('It said: THE FIRST\nmill; it "turns"!') == (
        "the first mill it turns"
    )
    assert found.find("The first mills, it turns.") is None


@pytest.mark.slow
def test_documents_with_a_copy_are_dropped_and_named(tmp_path, capsys):
    documents = dict(enumerate(corpora.write(tmp_path)))
    words = " ".join(documents[20]).split()
    texts = [" ".join(words[3:16]).upper(), "a man", " ".join(documents[30]) + "!"]
    path = tmp_path / "evaluation.txt"
    path.write_text("\n".join([*texts, ""]))
    options = CleaningOptions(evaluation_texts=str(path))
    corpora.build(tmp_path, tmp_path / "built", options)
    said = capsys.readouterr().err
    assert "copies of 2 evaluation texts; 1 more have fewer than 13 words" in said
    split = evaluation_texts.split_words
    runs = {
        number: slow_find(split("\n".join(text)), list(map(split, texts)), 13)
        for number, text in documents.items()
    }
    copied = {number: run for number, run in runs.items() if run}
    assert {20, 30} <= copied.keys() < documents.keys()
    assert documents.keys() - kept_ids(tmp_path / "built") == copied.keys()
    manifest = Manifest.load(tmp_path / "built")
    found = manifest.cleaning["steps"]["evaluation_texts"]
    assert found["documents"] == len(copied)
    assert all(e["why"] == copied[e["document_id"]] for e in found["examples"])
    # The file may lie elsewhere.
    moved = CleaningOptions(evaluation_texts=str(path.rename(tmp_path / "moved.txt")))
    assert corpora.build(tmp_path, tmp_path / "built", moved) == manifest


def test_the_command_collects_what_there_is(tmp_path, capsys):
    header = "index\tsentence1\tsentence2"
    write(tmp_path / "WNLI" / "train.tsv", f"{header}\tlabel", "0\tnot\tthis\t1")
    write(tmp_path / "WNLI" / "dev.tsv", f"{header}\tlabel", "0\ta b\tx\t1")
    write(tmp_path / "WNLI" / "test.tsv", header, "7\ta  b\ty")
    content = tiny_squad.random_file(0, 1, "v2.0")
    tiny_squad.write_files(tmp_path, "v2.0", dev=content)
    output = tmp_path / "evaluation.txt"
    sets = (f"--data_dir={tmp_path}", f"--squad={tmp_path}/dev-v2.0.json")
    command_calls.run(command, *sets, f"--output={output}")
    (passage,) = (p for one in content["data"] for p in one["paragraphs"])
    asked = [question["question"] for question in passage["qas"]]
    spaced = (" ".join(text.split()) for text in (passage["context"], *asked))
    expected = ["a b", "x", "y", *spaced]
    assert output.read_text().splitlines() == list(dict.fromkeys(expected))
    printed = capsys.readouterr().out
    assert "glue/wnli test: 2 texts, 1 of them new" in printed
    with pytest.raises(ValueError, match="must name folders and files of evaluation"):
        command_calls.run(command, f"--data_dir={tmp_path}/none", f"--output={output}")
