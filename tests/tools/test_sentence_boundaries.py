"""Scores of a splitter against sentences that were marked by hand."""

import pytest

from benchmarks import sentence_boundaries
from benchmarks.sentence_boundaries import GoldParagraph, boundary_scores
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
    assert sentence_boundaries.read_gold(gold) == PARAGRAPHS


def test_scores():
    spans = SentenceSplitter(PunktParameters()).spans
    # Found: after "Dr.", "came." and "“Why?”"; missed: after "knew", without a mark.
    assert boundary_scores(spans, PARAGRAPHS) == pytest.approx((2 / 3, 2 / 3, 2 / 3))
    scores = boundary_scores(spans, PARAGRAPHS, paragraph_ends=True)
    assert scores == pytest.approx((4 / 5, 4 / 5, 4 / 5))
    # Nothing to find is no error.
    assert boundary_scores(spans, PARAGRAPHS[1:]) == (1.0, 1.0, 1.0)


def test_command(gold, capsys):
    command_calls.run(
        sentence_boundaries,
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


def test_a_file_that_is_no_treebank(gold):
    gold.write_text("# newpar\n1\tWord\n\n")
    with pytest.raises(ValueError, match=r"have a line.*begins '# newpar'"):
        sentence_boundaries.read_gold(gold)
