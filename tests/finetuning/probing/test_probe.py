"""The probe: Adam in plain NumPy, PyTorch's first weights, scikit-learn's optimum."""

import numpy as np
import pytest
import sklearn.linear_model

from seg_tf.finetuning.probing.probe import (
    Labelled,
    make_probe,
    pass_function,
    predict,
)

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
