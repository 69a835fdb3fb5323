"""Counts that show whether vocabulary and sentence splitter fit a text."""

import json
import logging

import numpy as np
import pytest

from data_pipelines.builds import document_build
from data_pipelines.builds.document_options import DocumentOptions
from data_pipelines.builds.text_counts import LONG_SENTENCE, TextCounter
from data_pipelines.report import page
from seg_tf import files
from seg_tf.data import examples, shards
from seg_tf.data.manifest import Manifest, shard_paths, text_preparation
from seg_tf.text.normalization import CASED, UNCASED, Normalization
from seg_tf.text.tree import DocumentTree
from seg_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary, WordVocabulary

PIECES = Vocabulary([*SPECIAL_TOKENS, "play", "##ing", "##s", "on", "."])
UNKNOWN, PLAY, ING, ON = 1, 5, 6, 8
COUNTED = ("words", "unknown_words", "unsplit_pieces")


def tree(paragraphs):
    """A tree of lists of sentences, each a list of ids."""
    sentences = [sentence for paragraph in paragraphs for sentence in paragraph]
    return DocumentTree(
        np.array([token for sentence in sentences for token in sentence]),
        np.array([len(sentence) for sentence in sentences]),
        np.array([len(paragraph) for paragraph in paragraphs]),
    )


@pytest.fixture
def corpus(tmp_path):
    """Options of a build of given paragraphs, with a vocabulary of Latin letters."""
    vocabulary = tmp_path / "vocab.txt"
    letters = "abcdefghijklmnopqrstuvwxyz"
    tokens = [*SPECIAL_TOKENS, ".", *letters, *(f"##{letter}" for letter in letters)]
    vocabulary.write_text("".join(f"{token}\n" for token in tokens))

    def options(*paragraphs, vocab_file=vocabulary, **overrides):
        text = tmp_path / "text.jsonl"
        text.write_text(json.dumps({"text": "\n".join(paragraphs)}) + "\n")
        return DocumentOptions(
            format="json_lines",
            input=str(text),
            vocab_file=str(vocab_file),
            validation_fraction=0.0,
            **overrides,
        )

    return options


def test_words_begin_where_pieces_do_not_continue_one():
    first = tree([[[PLAY, ING, ON], [UNKNOWN]], [[PLAY, ING, ING]]])
    second = tree([[[UNKNOWN, UNKNOWN]]])
    counted = TextCounter(PIECES).count([first, second])
    assert counted == {"words": 6, "unknown_words": 3, "unsplit_pieces": 0}


def test_ends_of_paragraphs_are_no_words_and_words_begin_with_anything():
    vocabulary = WordVocabulary(["<eos>", "##a", "<unk>", "b"])
    document = tree([[[1, 3, 2, 0]], [[3, 0]]])
    counted = TextCounter(vocabulary).count([document])
    assert counted == {"words": 4, "unknown_words": 1, "unsplit_pieces": 0}


def test_only_long_sentences_that_are_a_paragraph_are_unsplit():
    long, limit = [ON] * (LONG_SENTENCE + 1), [ON] * LONG_SENTENCE
    document = tree([[long], [limit], [long, [ON]], [[ON], long], [long]])
    counted = TextCounter(PIECES).count([document])
    assert counted["unsplit_pieces"] == 2 * len(long)


def test_no_documents_have_counts_of_zero():
    assert TextCounter(PIECES).count([]) == dict.fromkeys(COUNTED, 0)


def test_a_build_counts_and_warns_of_an_unknown_script(corpus, tmp_path, caplog):
    options = corpus("a ship came home.", "они дома.")
    with caplog.at_level(logging.WARNING):
        manifest = document_build.build_documents(options, tmp_path / "out")
    assert manifest.text_counts() == {
        "words": 8,
        "unknown_words": 2,
        "unsplit_pieces": 0,
    }
    values = files.read_json(tmp_path / "out" / "manifest.json")
    assert values["counts"]["unknown_words"] == 2
    assert values["counts"]["train"]["words"] == 8
    assert "25.0% of all words (2 of 8) are unknown" in caplog.text
    assert "data_pipelines.build_vocab" in caplog.text
    assert "2 (25.00%) unknown" in document_build.summary(manifest)
    text = page.text_fit(manifest)
    assert "25.0 %" in text
    assert "are unknown to the vocabulary" in text


def test_text_that_fits_gets_no_warning(corpus, tmp_path, caplog):
    options = corpus("a ship came home. it sank.")
    with caplog.at_level(logging.WARNING):
        manifest = document_build.build_documents(options, tmp_path / "out")
    assert not caplog.records
    assert "0 (0.00%) unknown" in document_build.summary(manifest)


def test_text_without_ends_of_sentences_is_warned_of(corpus, tmp_path, caplog):
    options = corpus("a b " * LONG_SENTENCE, "a b.")
    with caplog.at_level(logging.WARNING):
        manifest = document_build.build_documents(options, tmp_path / "out")
    assert manifest.text_counts()["unsplit_pieces"] == 2 * LONG_SENTENCE
    assert "--sentence_parameters" in caplog.text
    assert "seg_tf.commands.train_punkt" in caplog.text


def test_rare_words_are_left_out_of_word_vocabularies_without_a_warning(
    corpus, tmp_path, caplog
):
    words = tmp_path / "words.txt"
    words.write_text("<eos>\n<unk>\na\n")
    options = corpus("a " * 19 + "b", vocab_file=words, tokenizer="words")
    with caplog.at_level(logging.WARNING):
        manifest = document_build.build_documents(options, tmp_path / "out")
    assert manifest.text_counts()["unknown_words"] == 1
    assert not caplog.records


@pytest.mark.parametrize(
    ("flags", "expected", "pieces"),
    [
        # The row 中国, more than 1 % of this table, is one of whole ideographs.
        ({}, Normalization(True, False, split_ideographs=False), ["été", "中国"]),
        (
            {"split_ideographs": True},
            Normalization(True, strip_accents=False),
            ["été", "中", "国"],
        ),
        (
            {"split_ideographs": True, "strip_accents": True},
            UNCASED,
            ["ete", "中", "国"],
        ),
        (
            {"split_ideographs": True, "lower_case": False},
            CASED,
            ["Été", "中", "国"],
        ),
    ],
)
def test_the_normalization_of_records_is_described(
    corpus, tmp_path, flags, expected, pieces
):
    path = tmp_path / "accents.txt"
    tokens = [*SPECIAL_TOKENS, "été", "ete", *"中国人口", "中国"]
    tokens += [*"abcdefgh", *(f"##{letter}" for letter in "abcdefgh")]
    if expected == CASED:
        tokens.append("Été")
    path.write_text("".join(f"{token}\n" for token in tokens), encoding="utf-8")
    manifest = document_build.build_documents(
        corpus("Été 中国", vocab_file=path, **flags), tmp_path / "out"
    )
    assert Normalization.from_described(manifest.vocabulary) == expected
    assert Manifest.load(tmp_path / "out") == manifest
    preparation = text_preparation(manifest, tmp_path / "out")
    assert preparation.normalization == expected
    ids = [tokens.index(piece) for piece in pieces]
    assert manifest.count("pieces") == len(ids)
    (reader,) = [shards.RecordReader(shard_paths(manifest, tmp_path / "out", "train"))]
    tree, _, _ = examples.decode(reader[0], manifest.number_widths)
    assert tree.token_ids.tolist() == ids


def test_a_cased_vocabulary_is_not_lower_cased(corpus, tmp_path, capsys):
    cased = tmp_path / "cased.txt"
    cased.write_text("".join(f"{t}\n" for t in [*SPECIAL_TOKENS, "Rome", "fell", "."]))
    options = corpus("Rome fell.", vocab_file=cased)
    manifest = document_build.build_documents(options, tmp_path / "out")
    assert manifest.vocabulary["lower_case"] is False
    assert manifest.text_counts()["unknown_words"] == 0
    assert "1 of the 3 ordinary rows" in capsys.readouterr().err
