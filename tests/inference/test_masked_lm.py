"""Pseudo-log-likelihoods, against the model on one masked sentence at a time."""

import json

import numpy as np
import pytest

from seg_tf.checkpoints.pretrained import load_pretrained
from seg_tf.inference import masked_lm
from seg_tf.inference.masked_lm import (
    MaskFiller,
    SentenceScorer,
    evaluate_minimal_pairs,
)
from seg_tf.tasks import blimp
from seg_tf.tasks.blimp import MinimalPair
from tests.inference.tiny_slm import VOCABULARY, sentence

pytestmark = pytest.mark.slow


def slow_score(filler, text):
    """Every probability from the text itself, with [MASK] in place of a word."""
    words = text.replace(".", " .").split()
    score = 0.0
    for place, word in enumerate(words):
        masked = " ".join([*words[:place], "[MASK]", *words[place + 1 :]])
        ((fillings,),) = filler.predict([masked], num_best=VOCABULARY.size)
        score += np.log(dict(fillings)[word.lower()])
    return score


def test_scores_are_those_of_each_mask_alone(pretrained, monkeypatch):
    generator = np.random.default_rng(0)
    texts = [sentence(generator, count) for count in (3, 9, 1)]
    filler = MaskFiller(pretrained)
    expected = [slow_score(filler, text) for text in texts]
    for tokens_per_batch in (1, 100):
        monkeypatch.setattr(masked_lm, "_TOKENS_PER_BATCH", tokens_per_batch)
        found = SentenceScorer(pretrained).score(texts)
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_equal_scores_are_chance_and_phenomena_count_equally():
    class Scorer:
        def score(self, sentences, on_progress):
            return np.array([float(len(text)) for text in sentences])

    def pairs(lengths, field, phenomenon):
        return [
            MinimalPair("a" * good, "b" * bad, field, phenomenon)
            for good, bad in lengths
        ]

    equal = pairs([(3, 3)] * 5, "syntax", "x")
    assert evaluate_minimal_pairs(Scorer(), equal) == {
        "accuracy": 0.5,
        "syntax": 0.5,
        "x": 0.5,
    }
    mixed = [
        *pairs([(3, 2)] * 3 + [(2, 3)], "syntax", "y"),
        *pairs([(5, 4)], "semantics", "z"),
    ]
    found = evaluate_minimal_pairs(Scorer(), [*equal, *mixed])
    assert (found["x"], found["y"], found["z"]) == (0.5, 0.75, 1.0)
    assert (found["syntax"], found["semantics"]) == (0.625, 1.0)
    assert found["accuracy"] == 0.75


def test_files_are_read_up_to_a_limit(tmp_path):
    folder = tmp_path / "blimp"
    folder.mkdir()
    rows = [
        {"sentence_good": f"g{n}", "sentence_bad": "b", "field": "syntax", "UID": "one"}
        for n in range(3)
    ]
    lines = "\n".join(map(json.dumps, rows))
    (folder / "one.jsonl").write_text(lines)
    (folder / "two.jsonl").write_text(lines.replace('"one"', '"two"'))
    found = blimp.read(tmp_path, limit=2)
    assert [(pair.good, pair.phenomenon) for pair in found] == [
        ("g0", "one"),
        ("g1", "one"),
        ("g0", "two"),
        ("g1", "two"),
    ]
    assert len(blimp.read(folder)) == 6
    (folder / "two.jsonl").write_text('{"sentence_good": 1}')
    with pytest.raises(ValueError, match=r"two\.jsonl:1: expected a JSON object"):
        blimp.read(folder)
    with pytest.raises(ValueError, match="`data_dir` must be the folder of BLiMP"):
        blimp.read(tmp_path / "none")


def test_sentences_that_no_row_takes_are_refused(run_dir):
    scorer = SentenceScorer(load_pretrained(run_dir))
    for text in ("w1 " * 300, "", "\u200b"):
        with pytest.raises(ValueError, match="`sentences` must have 1 to"):
            scorer.score(["w1", text])
