"""Scores of a splitter against sentences that were marked by hand."""

import pytest

from seg_tf.commands import evaluate_sentences
from seg_tf.commands.evaluate_sentences import BoundaryCounts, GoldParagraph
from seg_tf.text.punkt import SentenceSplitter
from seg_tf.text.punkt_parameters import PunktParameters
from tests import command_calls


def _sentence(text, *, paragraph=False, glued=False):
    misc = "SpaceAfter=No" if glued else "_"
    head = "# newpar id = p\n" if paragraph else ""
    return f"{head}# text = {text}\n1\t{text}" + "\t_" * 7 + f"\t{misc}\n\n"


GOLD = (
    _sentence("Dr. No came.", paragraph=True)
    + _sentence("“Why?”")
    + _sentence("Nobody knew", glued=True)
    + _sentence("- Title")
    + _sentence("Title", paragraph=True)
)

PARAGRAPHS = [
    GoldParagraph("Dr. No came. “Why?” Nobody knew- Title", (12, 19, 31, 38)),
    GoldParagraph("Title", (5,)),
]


@pytest.fixture
def gold(tmp_path):
    path = tmp_path / "gold.conllu"
    path.write_text(GOLD, encoding="utf-8")
    return path


def test_paragraphs_of_a_treebank(gold):
    assert evaluate_sentences.read_gold(gold) == PARAGRAPHS


def test_windows_line_ends(gold):
    gold.write_bytes(GOLD.replace("\n", "\r\n").encode())
    assert evaluate_sentences.read_gold(gold) == PARAGRAPHS


def test_counts_and_scores():
    spans = SentenceSplitter(PunktParameters()).spans
    counts = evaluate_sentences.count_boundaries(spans, PARAGRAPHS)
    # Found: after "Dr.", "came." and "“Why?”"; missed: after "knew", without a mark.
    assert counts == BoundaryCounts(right=2, predicted=3, gold=3, num_paragraphs=2)
    assert counts.scores(paragraph_ends=False) == pytest.approx((2 / 3, 2 / 3, 2 / 3))
    assert counts.scores(paragraph_ends=True) == pytest.approx((4 / 5, 4 / 5, 4 / 5))


def test_nothing_to_find_is_no_error():
    counts = evaluate_sentences.count_boundaries(
        SentenceSplitter().spans, PARAGRAPHS[1:]
    )
    assert counts.scores(paragraph_ends=False) == (1.0, 1.0, 1.0)
    assert counts.scores(paragraph_ends=True) == (1.0, 1.0, 1.0)


def test_command(gold, capsys):
    command_calls.run(
        evaluate_sentences,
        f"--gold={gold}",
        "--sentence_parameters=universal,english",
        "--errors=1",
    )
    printed = capsys.readouterr().out
    assert "5 sentences, 2 paragraphs" in printed
    assert "universal: 1 wrong, 1 missed" in printed
    assert "english: 0 wrong, 1 missed" in printed
    assert "precision 66.7, recall 66.7, F1 66.7" in printed
    assert "precision 100.0, recall 66.7, F1 80.0" in printed
    assert "  + 'Dr.' ' No came." in printed
    assert printed.count("\n  + ") + printed.count("\n  - ") == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must hold sentences"),
        ("# newpar\n1\tWord\n\n", "whose sentences have a line.*begins '# newpar'"),
    ],
)
def test_a_file_that_is_no_treebank(gold, text, message):
    gold.write_text(text)
    with pytest.raises(ValueError, match=message):
        evaluate_sentences.read_gold(gold)
