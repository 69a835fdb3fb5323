"""Counts that show whether vocabulary and sentence splitter fit a text."""

import json

import numpy as np
import pytest

from data_pipelines import report
from data_pipelines.builds.documents import build_documents, summary
from data_pipelines.builds.text_counts import LONG_SENTENCE, TextCounter
from seg_tf import files
from seg_tf.data.manifest import TEXT_COUNTS
from seg_tf.text.tree import DocumentTree
from seg_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary, WordVocabulary
from tests.data_pipelines import small_corpus

PIECES = Vocabulary([*SPECIAL_TOKENS, "play", "##ing", "##s", "on", "."])
UNKNOWN, PLAY, ING, ON = 1, 5, 6, 8
LONG, LIMIT = [ON] * (LONG_SENTENCE + 1), [ON] * LONG_SENTENCE
# "##a" is a word there: only pieces continue one.
WORDS = WordVocabulary(["<eos>", "##a", "<unk>", "b"])


def tree(paragraphs):
    """A tree of lists of sentences, each a list of ids."""
    sentences = [sentence for paragraph in paragraphs for sentence in paragraph]
    return DocumentTree(
        np.array([token for sentence in sentences for token in sentence]),
        np.array([len(sentence) for sentence in sentences]),
        np.array([len(paragraph) for paragraph in paragraphs]),
    )


@pytest.mark.parametrize(
    ("vocabulary", "documents", "expected"),
    [
        (
            PIECES,
            [[[[PLAY, ING, ON], [1]], [[PLAY, ING, ING]]], [[[UNKNOWN, UNKNOWN]]]],
            (6, 3, 0),
        ),
        (WORDS, [[[[1, 3, 2, 0]], [[3, 0]]]], (4, 1, 0)),
        # Only long sentences that are a whole paragraph are unsplit.
        (
            PIECES,
            [[[LONG], [LIMIT], [LONG, [ON]], [[ON], LONG], [LONG]]],
            (5 * LONG_SENTENCE + 6, 0, 2 * len(LONG)),
        ),
        (PIECES, [], (0, 0, 0)),
    ],
)
def test_counts_of_trees(vocabulary, documents, expected):
    counts = TextCounter(vocabulary).count(map(tree, documents))
    assert counts == dict(zip(TEXT_COUNTS, expected, strict=True))


@pytest.fixture
def build(tmp_path):
    """Builds given paragraphs, with a vocabulary of Latin letters."""

    def build_paragraphs(*paragraphs):
        text = tmp_path / "text.jsonl"
        text.write_text(json.dumps({"text": "\n".join(paragraphs)}) + "\n")
        vocabulary = small_corpus.write_vocabulary(tmp_path)
        options = small_corpus.options_of(text, vocabulary, validation_fraction=0.0)
        return build_documents(options, tmp_path / "out")

    return build_paragraphs


def test_a_build_counts_and_warns_of_an_unknown_script(build, tmp_path, caplog):
    manifest = build("a ship came home.", "они дома.")
    counts = {"words": 8, "unknown_words": 2, "unsplit_pieces": 0}
    assert manifest.text_counts() == counts
    values = files.read_json(tmp_path / "out" / "manifest.json")
    assert values["counts"]["unknown_words"] == 2
    assert values["counts"]["train"]["words"] == 8
    assert "25.0% of all words are unknown" in caplog.text
    assert "seg-tf build-vocab" in caplog.text
    assert "2 (25.00%) unknown" in summary(manifest)
    report.write_report(tmp_path / "out", tmp_path / "page.html")
    assert "are unknown to the vocabulary" in (tmp_path / "page.html").read_text()


def test_text_without_ends_of_sentences_leads_to_a_warning(build, caplog):
    manifest = build("a b " * LONG_SENTENCE, "a b.")
    assert manifest.text_counts()["unsplit_pieces"] == 2 * LONG_SENTENCE
    assert "--sentence_parameters" in caplog.text
    assert "seg-tf train-punkt" in caplog.text
