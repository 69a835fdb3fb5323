"""Probes: features against slow loops; settings of the protocol, each task's own."""

import dataclasses

import numpy as np
import pytest

from seg_tf import tasks
from seg_tf.tasks.discoeval import discoeval_tasks, probes

# The protocol, a row a kind of task: features, hidden layer, passes at most and between
# evaluations, tenacity, L2.
PROTOCOL = {
    "sp": ("first_and_differences", 0, 200, 4, 5, (1e-5, 1e-4, 1e-3, 1e-2)),
    "bso": ("pair_and_difference", 0, 200, 4, 5, (1e-5, 1e-4, 1e-3, 1e-2)),
    "dc": ("concatenated", 2000, 200, 15, 8, (1e-9,)),
    "ssp": ("only", 0, 200, 4, 5, (1e-9,)),
    "pdtb": ("pair_product_and_distance", 0, 15, 1, 5, (1e-9,)),
    "rst": ("pair_product_and_distance", 0, 15, 1, 5, (1e-9,)),
}


@pytest.mark.parametrize("task", discoeval_tasks.TASKS, ids=lambda task: task.name)
def test_settings_are_the_protocol(task):
    settings = probes.settings_of(task)
    assert (
        settings.features,
        settings.hidden_size,
        settings.max_passes,
        settings.passes_per_evaluation,
        settings.tenacity,
        settings.l2,
    ) == PROTOCOL[task.name.split("/")[1]]
    assert settings.batch_size == 64


def test_no_task_can_change_another():
    settings = probes.settings_of(tasks.get("discoeval/dc/chat"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.hidden_size = 0
    assert probes.settings_of(tasks.get("discoeval/ssp")).hidden_size == 0


def slow_features(name, texts):
    """Features of one example, number by number."""
    first, *others = texts
    if name in ("only", "concatenated"):
        return [number for text in texts for number in text]
    found = list(first)
    if name == "first_and_differences":
        for other in others:
            found += [a - b for a, b in zip(first, other, strict=True)]
        return found
    (second,) = others
    found += list(second)
    pairs = list(zip(first, second, strict=True))
    if name == "pair_and_difference":
        return found + [a - b for a, b in pairs]
    return found + [a * b for a, b in pairs] + [abs(a - b) for a, b in pairs]


@pytest.mark.parametrize("task", discoeval_tasks.TASKS, ids=lambda task: task.name)
def test_features_are_those_of_slow_loops(task):
    name = probes.settings_of(task).features
    vectors = np.random.default_rng(1).normal(size=(3, task.num_texts, 4))
    expected = [slow_features(name, example) for example in vectors.tolist()]
    np.testing.assert_array_equal(probes.combine_vectors(name, vectors), expected)


def test_swapped_examples_of_bso_have_the_features_of_the_protocol():
    """a, b, a - b for label 1; b, a, b - a for label 0."""
    a, b = np.array([1.0, 2.0]), np.array([5.0, 3.0])
    found = probes.combine_vectors("pair_and_difference", np.array([[a, b], [b, a]]))
    expected = [[1, 2, 5, 3, -4, -1], [5, 3, 1, 2, 4, 1]]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "name, shape, message",
    [
        ("sum", (2, 2, 4), "`features` must be one of only, .*'sum'"),
        ("only", (2, 2, 4), r"\(num_examples, 1, size\) for 'only'.*\(2, 2, 4\)"),
        ("pair_and_difference", (2, 3, 4), r"\(num_examples, 2, size\)"),
        ("concatenated", (2, 4), r"shape \(2, 4\)"),
    ],
)
def test_wrong_vectors_are_refused(name, shape, message):
    with pytest.raises(ValueError, match=message):
        probes.combine_vectors(name, np.zeros(shape))


def test_wrong_settings_are_refused():
    with pytest.raises(ValueError, match="`features` must be one of"):
        probes.ProbeSettings(features="sum")
    with pytest.raises(ValueError, match=r"of DiscoEval.*'glue/rte'"):
        probes.settings_of(tasks.get("glue/rte"))
