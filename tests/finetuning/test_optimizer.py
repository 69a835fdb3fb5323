"""The optimizer of fine-tuning against slow NumPy, and a model that is used again."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from seg_tf.checkpoints.encoder_copies import seeded
from seg_tf.finetuning.optimizer import (
    LinearWarmupDecay,
    ReusableModel,
    scheduled_optimizer,
)
from seg_tf.tasks.finetuning_settings import OptimizerSettings
from seg_tf.training.optimizers import WarmupDecay

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("num_updates", "warmup"), [(1, 0), (4, 0), (10, 1), (37, 4)])
def test_schedule_is_that_of_pretraining_with_a_tenth_of_warmup(num_updates, warmup):
    expected = WarmupDecay(3e-4, num_updates, warmup)
    steps = range(num_updates + 2)
    schedule = LinearWarmupDecay(3e-4, num_updates)
    np.testing.assert_allclose(
        [schedule(step) for step in steps], [expected(step) for step in steps], 1e-6
    )


def test_schedule_that_was_set_anew_is_followed_by_what_was_compiled():
    schedule = LinearWarmupDecay(1.0, 10)
    compiled = tf.function(schedule, input_signature=[tf.TensorSpec([], tf.int64)])
    assert compiled(0) == 1.0
    schedule.set(0.5, 40)
    assert [float(compiled(step)) for step in (0, 3, 4, 22, 40)] == pytest.approx(
        [0.125, 0.5, 0.5, 0.25, 0.0]
    )
    assert LinearWarmupDecay.from_config(schedule.get_config())(3) == 0.5


def slow_adamw(weight, gradients, rate, decay, epsilon=1e-6):
    """Updates of AdamW whose gradients have a norm of at most 1."""
    mean, square = np.zeros_like(weight), np.zeros_like(weight)
    for step, gradient in enumerate(gradients, start=1):
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        weight = weight - rate * decay * weight
        mean_hat, square_hat = mean / (1 - 0.9**step), square / (1 - 0.999**step)
        weight = weight - rate * mean_hat / (np.sqrt(square_hat) + epsilon)
    return weight


def test_weights_decay_biases_do_not_and_gradients_are_clipped():
    layer = keras.layers.Dense(1)
    layer.build((None, 2))
    kernel, bias = (np.array([[2.0], [-1.0]]), np.array([0.5]))
    layer.set_weights([kernel, bias])
    # The schedule falls from the first update to the last: two updates of one rate.
    schedule = LinearWarmupDecay(0.1, 10**6)
    schedule._warmup_updates.assign(0)
    optimizer = scheduled_optimizer(schedule)
    # Of norm 5 first, which is clipped to 1, and then of less than 1.
    gradients = [([[3.0], [0.0]], [4.0]), ([[0.1], [0.2]], [0.3])]
    for of_kernel, of_bias in gradients:
        optimizer.apply_gradients(
            zip(
                [tf.constant(of_kernel), tf.constant(of_bias)],
                layer.trainable_variables,
                strict=True,
            )
        )
    clipped = [(np.array([[0.6], [0.0]]), np.array([0.8]))]
    clipped.append(tuple(map(np.array, gradients[1])))
    expected = (
        slow_adamw(kernel, [one for one, _ in clipped], 0.1, 0.01),
        slow_adamw(bias, [one for _, one in clipped], 0.1, 0.0),
    )
    for found, wanted in zip(layer.get_weights(), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4)


def test_other_settings_are_kept_to():
    layer = keras.layers.Dense(1, use_bias=False)
    layer.build((None, 1))
    layer.set_weights([np.array([[2.0]])])
    settings = OptimizerSettings(
        warmup_share=0.0, weight_decay=0.0, epsilon=0.5, clip_norm=2.0
    )
    schedule = LinearWarmupDecay(0.1, 10**6, settings.warmup_share)
    optimizer = scheduled_optimizer(schedule, settings)
    # The norm of the first is above the limit; one of 1 would cut both.
    for gradient in (5.0, 1.5):
        gradients = [tf.constant([[gradient]])]
        optimizer.apply_gradients(zip(gradients, layer.weights, strict=True))
    expected = slow_adamw(2.0, [2.0, 1.5], 0.1, 0.0, epsilon=0.5)
    np.testing.assert_allclose(layer.get_weights()[0], [[expected]], rtol=1e-4)
    assert optimizer.weight_decay == 0.0


# === Reusable model ===


INPUTS = np.random.default_rng(1).normal(size=(12, 3)).astype("float32")
TARGETS = INPUTS.sum(axis=1, keepdims=True) ** 2


def small(seed):
    with seeded(seed):
        layers = [keras.layers.Dense(8, "tanh"), keras.layers.Dropout(0.5)]
        model = keras.Sequential([keras.Input((3,)), *layers, keras.layers.Dense(1)])
    return model


def train(reusable, seed, learning_rate=0.03, epochs=3):
    """Weights and losses of a training."""
    model = reusable.start(seed, learning_rate, num_updates=3 * epochs)
    history = model.fit(
        INPUTS, TARGETS, batch_size=4, epochs=epochs, shuffle=False, verbose=0
    )
    return model.get_weights(), history.history["loss"]


def reusable(make=small, **arguments):
    return ReusableModel(make, lambda _: keras.losses.MeanSquaredError(), **arguments)


def test_a_training_does_not_depend_on_those_before():
    dtype_policy = "mixed_float16"  # whose loss scale is state, too
    used = reusable(dtype_policy=dtype_policy)
    first, _ = train(used, seed=1, learning_rate=0.1, epochs=2)
    again, losses_again = train(used, seed=2)
    new, losses_new = train(reusable(dtype_policy=dtype_policy), seed=2)
    assert losses_again == losses_new
    np.testing.assert_equal(again, new)
    assert any((one != other).any() for one, other in zip(first, again, strict=True))


def test_graph_is_traced_once():
    traced = []

    class CountedError(keras.losses.MeanSquaredError):
        def call(self, *arguments):
            traced.append(1)
            return super().call(*arguments)

    used = ReusableModel(small, lambda _: CountedError())
    train(used, seed=1, epochs=1)
    before = len(traced)
    train(used, seed=2, learning_rate=0.1, epochs=2)
    assert len(traced) == before > 0
