"""When a training ends, what it leaves, and what it is worth beside scikit-learn's."""

import dataclasses
import random

import keras
import numpy as np
import pytest
import sklearn.linear_model

from seg_tf.finetuning.probing import probe_training
from seg_tf.finetuning.probing.probe import Labelled, predict
from seg_tf.finetuning.probing.probe_training import (
    max_evaluations,
    train_probe,
    until_dev_says_so,
)
from seg_tf.tasks.discoeval import ProbeSettings
from tests.finetuning.probing.test_probe import some_data

pytestmark = pytest.mark.slow


def settings(**changed):
    return ProbeSettings(features="only", **changed)


def slow_protocol(accuracies, max_passes, passes_per_evaluation, tenacity):
    """The benchmark's rules, step by step: number of evaluations, and the kept one."""
    passes, evaluation, best, kept, count = 0, 0, -1, None, 0
    stop = False
    while not stop and passes <= max_passes:
        passes += passes_per_evaluation
        accuracy = accuracies[evaluation]
        if accuracy > best:
            best, kept = accuracy, evaluation
        else:
            if count >= tenacity:
                stop = True
            count += 1
        evaluation += 1
    return evaluation, kept


def scripted(accuracies, rules):
    """A training whose evaluations come out so: those made, and the kept one."""
    numbers, kept = [], []

    def train():
        numbers.append(len(numbers))
        return accuracies[numbers[-1]]

    found = until_dev_says_so(rules, train, lambda: kept.append(numbers[-1]))
    return found, kept[-1]


@pytest.mark.parametrize(
    ("max_passes", "passes_per_evaluation", "tenacity"),
    [(200, 4, 5), (200, 15, 8), (15, 1, 5), (20, 4, 0), (3, 4, 2)],
)
def test_trainings_end_as_in_the_benchmark(max_passes, passes_per_evaluation, tenacity):
    rules = settings(
        max_passes=max_passes,
        passes_per_evaluation=passes_per_evaluation,
        tenacity=tenacity,
    )
    generator = random.Random(1)
    lengths = set()
    for _ in range(100):
        # Of few values, so that some are equal; they rise now and then.
        accuracies = [
            generator.randrange(4) + rise // 3 for rise in range(max_passes + 2)
        ]
        found, kept = scripted(accuracies, rules)
        expected, expected_kept = slow_protocol(
            accuracies, max_passes, passes_per_evaluation, tenacity
        )
        assert found == accuracies[:expected]
        assert len(found) <= max_evaluations(rules)
        assert kept == expected_kept
        lengths.add(expected)
    assert len(lengths) > 1 or max_passes == 3


def test_failures_count_in_all_and_passes_are_one_evaluation_over():
    """Two things that an early stopping of Keras would do otherwise."""
    rules = settings(max_passes=8, passes_per_evaluation=4, tenacity=2)
    assert scripted([1, 2, 3, 4, 5], rules) == ([1, 2, 3], 2)
    assert max_evaluations(rules) == 3
    assert max_evaluations(dataclasses.replace(rules, l2=(1e-5, 1e-4))) == 6
    rules = settings(passes_per_evaluation=1, tenacity=2)
    assert scripted([5, 4, 6, 5, 7, 6, 8, 7], rules) == ([5, 4, 6, 5, 7, 6], 4)


def test_probes_are_as_good_as_scikit_learns_by_the_protocol():
    """On dev, within 2 of 100 examples.

    Both see the same 600 examples, but one ends before its optimum. The two agree on
    all but those near the border, of which there are as many on either side: a share
    of 0.05 of 2,000 would move the accuracy by 0.005 as its standard error.
    """
    train, dev = (some_data(number, 20, 4, number, noise=2) for number in (600, 2000))
    best, *_ = train_probe(train, dev, 4, settings(l2=(1e-4, 1e-2)), seed=1)
    oracle = sklearn.linear_model.LogisticRegression(C=1 / (best.l2 * 600))
    expected = oracle.fit(train.features, train.labels).score(dev.features, dev.labels)
    assert 0.5 < expected < 0.9
    assert abs(best.dev_accuracy - expected) < 0.02


def test_weights_that_were_best_on_dev_are_kept(monkeypatch):
    scales = iter([-1.0, 2.0, -3.0, -4.0])

    def set_weights_to_the_next(model, *_):
        def make_pass(order):
            scale = next(scales)
            model.set_weights([np.array([[-scale, scale]]), np.zeros(2)])
            return 0.0

        return make_pass

    monkeypatch.setattr(probe_training, "pass_function", set_weights_to_the_next)
    # Right where a label is whether the feature is positive, as for positive scales.
    dev = Labelled(np.array([[1.0], [-2.0], [0.5]], np.float32), np.array([1, 0, 1]))
    once = settings(passes_per_evaluation=1, tenacity=1)
    (probe,) = train_probe(dev, dev, 2, once, seed=1)
    assert probe.accuracies == (0.0, 1.0, 0.0, 0.0)
    assert probe.dev_accuracy == 1.0
    assert predict(probe.model, dev.features).tolist() == [1, 0, 1]
    assert probe.model.get_weights()[0].tolist() == [[-2.0, 2.0]]


def test_the_penalty_is_chosen_on_dev_and_ties_go_to_the_first():
    train, dev = some_data(30, 30, 2, 1, noise=3), some_data(500, 30, 2, 2)
    wide = settings(l2=(10.0, 1e-9, 0.3))
    trained = train_probe(train, dev, 2, wide, seed=1)
    accuracies = [probe.dev_accuracy for probe in trained]
    assert accuracies == sorted(accuracies, reverse=True)
    assert accuracies[0] > accuracies[-1]
    assert {probe.l2 for probe in trained} == set(wide.l2)
    same = dataclasses.replace(wide, l2=(1e-12, 1e-13), max_passes=4)
    assert [one.l2 for one in train_probe(train, dev, 2, same, seed=1)] == [
        1e-12,
        1e-13,
    ]


def test_a_seed_gives_the_same_probe_whatever_others_draw():
    train, dev = some_data(100, 6, 3, 1), some_data(50, 6, 3, 2)
    short = settings(max_passes=4)

    def weights(seed):
        keras.utils.set_random_seed(random.randrange(1000))
        (probe,) = train_probe(train, dev, 3, short, seed)
        return probe.model.get_weights()[0]

    first = weights(1)
    np.testing.assert_array_equal(first, weights(1))
    assert (first != weights(2)).any()


def test_each_pass_has_an_order_of_its_own(monkeypatch):
    train, dev = some_data(40, 6, 3, 1), some_data(50, 6, 3, 2)
    orders = []

    def remember(*_):
        return lambda order: float(orders.append(order.tolist()) or 0)

    monkeypatch.setattr(probe_training, "pass_function", remember)
    short = settings(max_passes=7, l2=(1e-9, 1e-5))
    train_probe(train, dev, 3, short, seed=3)
    assert len(orders) == 16
    assert all(sorted(order) == list(range(40)) for order in orders)
    # Others in each pass, and those of the other penalty again.
    assert len(set(map(tuple, orders))) == 8
    assert orders[:8] == orders[8:]


class Diary(keras.callbacks.Callback):
    """Notes what it hears, and meddles."""

    def __init__(self):
        super().__init__()
        self.notes = []

    def on_train_begin(self, logs=None):
        self.notes.append("begin")

    def on_epoch_begin(self, epoch, logs=None):
        self.notes.append(epoch)

    def on_epoch_end(self, epoch, logs=None):
        self.notes.append((logs["loss"], logs["dev_accuracy"]))
        self.model.stop_training = True

    def on_train_end(self, logs=None):
        self.notes.append("end")
        self.model.set_weights([0 * weight for weight in self.model.get_weights()])


def test_callbacks_hear_of_all_as_one_training_and_change_nothing():
    train, dev = some_data(100, 6, 3, 1), some_data(50, 6, 3, 2)
    diary = Diary()
    short = settings(max_passes=5, l2=(1e-9, 0.5))
    trained = train_probe(train, dev, 3, short, 1, [diary])
    first, second = sorted(trained, key=lambda probe: probe.l2)
    heard = [
        *zip(first.losses, first.accuracies, strict=True),
        *zip(second.losses, second.accuracies, strict=True),
    ]
    numbered = [note for epoch in enumerate(heard) for note in epoch]
    assert len(heard) == 4
    assert diary.notes == ["begin", *numbered, "end"]
    # Two batches in each of four passes.
    assert (diary.params["epochs"], diary.params["steps"]) == (4, 8)
    for probe in trained:
        accuracy = np.mean(predict(probe.model, dev.features) == dev.labels)
        assert accuracy == probe.dev_accuracy
