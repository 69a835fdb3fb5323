"""Similarity by cosines: the correlations, by SciPy, of cosines of means, by hand."""

import pathlib
from unittest import mock

import numpy as np
import pytest
import scipy.stats

from seg_tf import files
from seg_tf.commands import model_flags
from seg_tf.inference.probes import evaluate_similarity
from seg_tf.inference.sentence_encoder import SentenceEncoder
from seg_tf.tasks.similarity import SimilaritySet
from seg_tf.tasks.task import Example
from tests import command_calls
from tests.finetuning.tiny_models import some_texts, tiny
from tests.inference.test_sentence_encoder import slow_means

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pairs():
    generator = np.random.default_rng(3)
    texts = some_texts(generator, 8, 2)
    # The same sentence in two pairs.
    texts[7] = (texts[0][0], texts[7][1])
    return [
        Example(one, label=float(generator.uniform(0, 5)), identifier=str(number))
        for number, one in enumerate(texts)
    ]


def slow_cosine(kind, pair):
    first, second = (slow_means(kind, (text,))[0] for text in pair.texts)
    return first @ second / np.sqrt((first @ first) * (second @ second))


@pytest.mark.parametrize("kind", ["segabert_slm", "reat"])
def test_correlations_are_those_of_cosines_of_means(kind, pairs):
    sets = {
        "all": SimilaritySet(pairs),
        "some": SimilaritySet(pairs[3:]),
    }
    encoder = SentenceEncoder(tiny(kind))
    seen = []
    results, num_cut = evaluate_similarity(encoder, sets, seen.append)
    assert num_cut == 0
    assert sum(seen) == 15  # Of 16 sentences one occurs twice.
    labels = [pair.label for pair in pairs]
    cosines = [slow_cosine(kind, pair) for pair in pairs]
    for name, first in (("all", 0), ("some", 3)):
        expected = scipy.stats.spearmanr(labels[first:], cosines[first:])[0]
        assert results[name] == {
            "spearman": pytest.approx(expected, abs=1e-12),
            "num_pairs": len(labels[first:]),
        }


def test_the_command_prints_models_and_twins_of_new_weights(pairs, tmp_path):
    folder = tmp_path / "STS-B"
    folder.mkdir()
    lines = [f"{one.label}\t{one.texts[0]}\t{one.texts[1]}" for one in pairs]
    (folder / "dev.tsv").write_text("\n".join(["score\tsentence1\tsentence2", *lines]))
    output = tmp_path / "similarity.json"
    models = [tiny("bert"), tiny("segabert")]
    with mock.patch.object(model_flags, "load_models", return_value=models):
        printed = command_calls.call(
            "evaluate-similarity",
            "--checkpoint=runs/bert,runs/segabert",
            f"--data_dir={tmp_path}",
            "--baseline",
            "--seed=2",  # not 1, which the tiny models themselves are drawn from
            f"--output={output}",
        )
    rows = files.read_json(pathlib.Path(output))
    names = ["tiny_bert", "tiny_bert, new weights"]
    names += [name.replace("bert", "segabert") for name in names]
    assert [row["run"] for row in rows] == names
    scores = [row["sets"]["sts-b"]["spearman"] for row in rows]
    assert len({*scores}) == 4
    for name, score in zip(names, scores, strict=True):
        assert f"{name} {100 * score:.2f}" in " ".join(printed.stdout.split())
    cosines = [slow_cosine("bert", pair) for pair in pairs]
    expected = scipy.stats.spearmanr([pair.label for pair in pairs], cosines)[0]
    assert scores[0] == pytest.approx(expected, abs=1e-12)
