"""The study's plan, its test and its measures, next to slow computations."""

import itertools
import types

import numpy as np
import pytest
from scipy import special, stats

from benchmarks import study, study_measures, study_objectives, study_report
from benchmarks.study import Run
from seg_tf.checkpoints.pretrained import build_encoder


def test_arms_of_a_trunk_have_equal_parameters():
    counts = {}
    for run in study.RUNS.values():
        kind = getattr(run.model, "trunk", "reat")
        encoder = build_encoder(run.model, 8_192)
        counts.setdefault(kind, []).append(encoder.count_params())
    for numbers in counts.values():
        assert max(numbers) <= 1.01 * min(numbers)


def test_the_best_of_three_rates_gets_more_seeds():
    known = {}
    while (task := next(study.missing(known), None)) is not None:
        run, is_trained = task
        assert is_trained == (run in known)
        if is_trained:
            known[run]["loss_at"] = {}
        else:
            # The highest rate is the best.
            known[run] = {"validation_losses": [[1, 9.0], [2, -run.learning_rate]]}
    for arms, num_rates, num_seeds in study.STAGES:
        for arm in arms:
            rates, seeds = study.rates(arm, num_rates), range(num_seeds)
            assert {run for run in known if run.arm == arm} == {
                *(Run(arm, rate, 0) for rate in rates),
                *(Run(arm, max(rates), seed) for seed in seeds),
            }
            assert list(study_report.measured(arm, known)) == list(seeds)


def test_holm_rejects_what_its_steps_reject():
    for p_values in itertools.product([0.0101, 0.0201, 0.026, 0.051, 0.6], repeat=3):
        adjusted = study_report.holm(p_values)
        for level in (0.03, 0.05, 0.1, 0.2):
            rejected = [False] * 3
            for step, number in enumerate(np.argsort(p_values)):
                if p_values[number] > level / (3 - step):
                    break
                rejected[number] = True
            assert [p <= level for p in adjusted] == rejected
    assert study_report.holm([]) == []


def test_distances_count_to_the_last_position_of_a_stretch():
    groups = np.array([[3, 3, 3, 1, 1, 3], [0, 1, 1, 1, 1, 1]])
    expected = [[2, 1, 0, 1, 0, 0], [0, 4, 3, 2, 1, 0]]
    np.testing.assert_array_equal(study_measures.distances_to_ends(groups), expected)


def test_comparisons_pair_runs_by_seed_and_are_tested_together():
    losses = {"bert": [5.0, 5.2, 5.1], "segabert": [4.9, 5.15, 4.9]}
    losses |= dict.fromkeys(("rotary", "slm"), (4.0, 4.1, 4.0))
    losses |= dict.fromkeys(("tables", "levels"), (4.2, 3.9, 4.0))
    known = {
        Run(arm, 1.0, seed): {
            "validation_losses": [[1, 5.0]],
            "loss_at": {"128": loss},
            "probes": {"sp": loss / 10, "bso": loss / 20},
        }
        for arm, values in losses.items()
        for seed, loss in enumerate(values)
    }
    _, row, other, of_probes = study_report.primary(known, num_seeds=3)
    assert row[:2] == ["segabert − bert", "3"]
    differences = np.subtract(losses["segabert"], losses["bert"])
    error = differences.std(ddof=1) / 3**0.5
    assert row[4] == f"{differences.mean():.3f} ± {error:.3f}"
    expected = 2 * stats.t.sf(abs(differences.mean()) / error, df=2)
    assert float(row[5]) == pytest.approx(expected, abs=5e-5)
    assert float(row[6]) == pytest.approx(3 * expected, abs=2e-4)
    assert other[4] == "0.000 ± 0.115"
    assert of_probes[2] == f"{np.mean([4.0, 4.1, 4.0]) * 7.5:.3f} ± 0.250"
    assert [row[5:] for row in study_report.primary(known)[1:]] == [["–", "–"]] * 3


@pytest.fixture
def encoder():
    return types.SimpleNamespace(hidden_size=4)


def test_sentence_order_knows_which_part_comes_first(encoder):
    features = {"position_index": np.array([[0, 1, 2], [0, 3, 1], [0, 2, 1]])}
    objective = study_objectives.SentenceOrder(encoder)
    sequence = np.random.default_rng(0).normal(size=(3, 3, 4)).astype("float32")
    loss, weight = objective(sequence, features).loss
    kernel, bias = map(np.asarray, objective.dense.weights)
    logits = sequence[:, 0] @ kernel + bias
    expected = special.logsumexp(logits, axis=1) - logits[range(3), [0, 1, 1]]
    np.testing.assert_allclose(loss, expected.sum(), rtol=1e-5)
    assert weight == objective.count(features) == 3


def test_next_window_contrasts_all_windows_of_a_batch(encoder):
    windows = np.array([[1, 1, 1, 2, 2, 0], [1, 1, 2, 2, 2, 2], [1, 1, 1, 1, 2, 2]])
    features = dict.fromkeys(("paragraph_index", "token_index"), np.zeros_like(windows))
    # The second window of the last row begins a document.
    features["sentence_index"] = np.where(windows == 2, [[1], [5], [0]], 0)
    features["window_number"] = windows
    objective = study_objectives.NextWindow(encoder)
    sequence = np.random.default_rng(0).normal(size=(3, 6, 4)).astype("float32")
    loss, weight = objective(sequence, features).loss
    kernel, bias = map(np.asarray, objective.dense.weights)
    vectors = [sequence[row, at] for row, at in enumerate((3, 2, 4)) for at in (0, at)]
    total = 0.0
    for number in range(4):
        half = slice(4) if number % 2 == 0 else slice(4, 8)
        predicted = vectors[number] @ kernel[:, half] + bias[half]
        logits = {
            other: predicted @ vector / 2
            for other, vector in enumerate(vectors)
            if other != number
        }
        total += special.logsumexp([*logits.values()]) - logits[number ^ 1]
    np.testing.assert_allclose(loss, total, rtol=1e-5)
    assert weight == objective.count(features) == 4
