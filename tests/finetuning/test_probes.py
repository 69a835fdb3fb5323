"""Probes: Adam in NumPy, PyTorch's initial weights, scikit-learn's optimum."""

import dataclasses
import random

import keras
import numpy as np
import pytest
import sklearn.linear_model

from seg_tf.finetuning import probing
from seg_tf.finetuning.probing import (
    Labelled,
    make_probe,
    max_evaluations,
    pass_function,
    predict,
    train_probe,
    train_with_early_stopping,
)
from seg_tf.tasks.discoeval import ProbeSettings

pytestmark = pytest.mark.slow


def some_data(num_examples, num_features, num_classes, seed, noise=1.0):
    """Vectors, and labels that a linear rule gives them, but for noise."""
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(num_examples, num_features))
    rule = np.random.default_rng(9).normal(size=(num_features, num_classes))
    logits = features @ rule + noise * generator.gumbel(
        size=(num_examples, num_classes)
    )
    return Labelled(features.astype(np.float32), logits.argmax(axis=1).astype(np.int32))


def slow_softmax(logits):
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


def slow_adam(weights, gradients_of, batches, l2):
    """Adam as PyTorch has it: the penalty's gradient is scaled like the loss's."""
    weights = [weight.astype("float64") for weight in weights]
    means = [np.zeros_like(weight) for weight in weights]
    squares = [np.zeros_like(weight) for weight in weights]
    for step, batch in enumerate(batches, start=1):
        for number, gradient in enumerate(gradients_of(weights, batch)):
            gradient = gradient + l2 * weights[number]
            means[number] = 0.9 * means[number] + 0.1 * gradient
            squares[number] = 0.999 * squares[number] + 0.001 * gradient**2
            mean = means[number] / (1 - 0.9**step)
            square = squares[number] / (1 - 0.999**step)
            weights[number] = weights[number] - 1e-3 * mean / (np.sqrt(square) + 1e-8)
    return weights


def gradients_of_probe(data):
    """Of the mean cross-entropy of a batch, by the chain rule."""

    def gradients(weights, numbers):
        inputs = data.features[numbers].astype("float64")
        hidden = inputs
        if len(weights) == 4:
            hidden = 1 / (1 + np.exp(-(inputs @ weights[0] + weights[1])))
        errors = slow_softmax(hidden @ weights[-2] + weights[-1])
        errors[np.arange(len(numbers)), data.labels[numbers]] -= 1
        errors /= len(numbers)
        of_classifier = [hidden.T @ errors, errors.sum(axis=0)]
        if len(weights) == 2:
            return of_classifier
        back = errors @ weights[2].T * hidden * (1 - hidden)
        return [inputs.T @ back, back.sum(axis=0), *of_classifier]

    return gradients


@pytest.mark.parametrize("hidden_size", [0, 7])
@pytest.mark.parametrize("l2", [1e-9, 0.5])
def test_passes_are_adam_in_plain_numpy(hidden_size, l2):
    # 3 batches, the last of which is short.
    data = some_data(10, 6, 3, seed=1)
    probe = make_probe(6, 3, hidden_size, l2, seed=2)
    before = probe.get_weights()
    make_pass = pass_function(probe, data, batch_size=4)
    orders = [np.random.default_rng(number).permutation(10) for number in range(20)]
    for order in orders:
        make_pass(order)
    batches = [order[begin : begin + 4] for order in orders for begin in (0, 4, 8)]
    expected = slow_adam(before, gradients_of_probe(data), batches, l2)
    for found, weight, old in zip(probe.get_weights(), expected, before, strict=True):
        errors = np.abs(found - weight)
        assert np.median(errors) < 1e-5
        # Adam makes a step of a gradient however small it is, rounding and all.
        assert errors.max() < 1e-3
        assert np.abs(found - old).max() > 1e-2


def test_the_loss_is_the_mean_with_the_penalty():
    data = some_data(9, 6, 3, seed=1)
    probe = make_probe(6, 3, 0, 0.5, seed=2)
    kernel, bias = probe.get_weights()
    chances = slow_softmax(data.features @ kernel + bias)
    entropy = -np.log(chances[np.arange(9), data.labels]).mean()
    penalty = 0.25 * ((kernel**2).sum() + (bias**2).sum())
    loss = pass_function(probe, data, batch_size=9)(np.arange(9))
    np.testing.assert_allclose(loss, entropy + penalty, rtol=1e-5)


@pytest.mark.parametrize("hidden_size", [0, 400])
def test_first_weights_are_uniform_below_the_root_of_inputs(hidden_size):
    weights = make_probe(900, 40, hidden_size, 1e-9, seed=1).get_weights()
    inputs = [900, 900, hidden_size, hidden_size] if hidden_size else [900, 900]
    for weight, fan_in in zip(weights, inputs, strict=True):
        bound = fan_in**-0.5
        assert 0.85 * bound < np.abs(weight).max() <= bound
        np.testing.assert_allclose(np.std(weight), bound / 3**0.5, rtol=0.25)
    # A bias is no copy of the kernel's beginning.
    assert (weights[0].ravel()[:40] != weights[1][:40]).any()


def test_first_weights_hang_on_the_seed_alone():
    one, same, other = (
        make_probe(5, 3, 0, 1e-9, seed).get_weights() for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one[0], same[0])
    assert (one[0] != other[0]).any()


def test_after_many_passes_it_is_the_regression_of_scikit_learn():
    """With a column of ones in place of the intercept the two losses are the same.

    So is then the optimum. Adam's steps, at most 1e-3 each, have to lead there; without
    batches nothing makes them go round it. In float64 4,000 of them end within 0.0003.
    """
    l2 = 0.1
    data = some_data(300, 5, 3, seed=1)
    ones = np.ones((300, 1), np.float32)
    data = Labelled(np.concatenate([data.features, ones], axis=1), data.labels)
    oracle = sklearn.linear_model.LogisticRegression(
        C=1 / (l2 * 300), fit_intercept=False, tol=1e-10, max_iter=10_000
    ).fit(data.features, data.labels)

    probe = make_probe(6, 3, 0, l2, seed=2)
    probe.layers[0].bias.assign([0.0, 0.0, 0.0])
    probe.layers[0].bias.trainable = False
    make_pass = pass_function(probe, data, batch_size=300)
    order = np.arange(300)
    for _ in range(4000):
        loss = make_pass(order)
    kernel = probe.layers[0].kernel.numpy()
    chances = slow_softmax(data.features @ kernel)
    expected = oracle.predict_proba(data.features)
    np.testing.assert_allclose(kernel.T, oracle.coef_, atol=0.002)
    np.testing.assert_allclose(chances, expected, atol=0.002)
    best = -np.log(expected[order, data.labels]).mean() + l2 / 2 * np.sum(
        oracle.coef_**2
    )
    np.testing.assert_allclose(loss, best, atol=1e-5)
    np.testing.assert_array_equal(predict(probe, data.features), chances.argmax(axis=1))


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

    found = train_with_early_stopping(rules, train, lambda: kept.append(numbers[-1]))
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

    monkeypatch.setattr(probing, "pass_function", set_weights_to_the_next)
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

    monkeypatch.setattr(probing, "pass_function", remember)
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
