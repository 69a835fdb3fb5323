"""Gradients in float16 beside those in float32, however large the global batch is."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from seg_tf.training import build
from seg_tf.training.distribution import Distribution
from seg_tf.training.learner import Learner
from seg_tf.training.step import DynamicLossScale, nearest_power_of_two
from tests.training.stand_ins import ArithmeticInputs, small_config
from tests.training.test_step import BATCH, gradient_by_hand, make_step, toy

pytestmark = pytest.mark.slow

NUM_ROWS = 32


class Crowd(Distribution):
    """This process as one of many, of which all have the same rows.

    Attributes:
        travelled: the gradients that were to travel as float16, of an eager step.
    """

    def __init__(self, size):
        self._size = size
        self.travelled = []

    @property
    def size(self):
        return self._size

    def sum(self, tensors, name, as_float16=False):
        if not as_float16:
            return [tensor * self._size for tensor in tensors]
        self.travelled = [tensor.numpy() for tensor in tensors]
        halves = [tf.cast(tensor, tf.float16) * self._size for tensor in tensors]
        return [tf.cast(half, tf.float32) for half in halves]


class Recorder(keras.optimizers.SGD):
    """Keeps the gradients that it should apply."""

    def build(self, variables):
        super().build(variables)
        self.gradients = [tf.Variable(tf.zeros(one.shape)) for one in variables]

    def apply(self, grads, trainable_variables=None):
        for kept, gradient in zip(self.gradients, grads, strict=True):
            kept.assign(gradient)


def gradients_of(dtype_policy, num_processes, **training):
    """Gradients that the optimizer gets, and the targets of the global batch."""
    config = small_config(
        dropout=0.0,
        batch_size=NUM_ROWS,
        clip_norm=None,
        dtype_policy=dtype_policy,
        **training,
    )
    crowd = Crowd(num_processes)
    inputs = ArithmeticInputs()
    batch = next(iter(inputs.train_dataset(NUM_ROWS)))
    built = build.build_learner_from_batch(config, inputs.vocab_size, batch, crowd)
    learner = Learner(
        built.encoder, built.objectives, Recorder(0.0), batch, options=built.options
    )
    make_step(learner, batch)
    targets = num_processes * batch["masked_weights"].numpy().sum()
    return [one.numpy() for one in learner.optimizer.gradients], targets


@pytest.fixture(scope="module")
def exact():
    return gradients_of("float32", 1, micro_batch_size=16)[0]


def test_float16_keeps_gradients_of_batches_of_millions_of_targets(exact):
    found, targets = gradients_of("mixed_float16", 40_000, micro_batch_size=16)
    assert 2.4e6 < targets < 2.6e6
    norms = [np.linalg.norm(gradient) for gradient in exact]
    errors = [
        np.linalg.norm(half - full) / norm
        for half, full, norm in zip(found, exact, norms, strict=True)
        # The bias of the keys of attention has no gradient but for rounding.
        if norm > 1e-6 * max(norms)
    ]
    assert len(errors) > 10
    assert np.median(errors) < 0.002
    assert max(errors) < 0.02


def test_float32_update_has_the_same_bits_in_a_crowd(exact):
    found, _ = gradients_of("float32", 4_096, micro_batch_size=16)
    np.testing.assert_equal(found, exact)


def test_gradients_travel_with_the_size_of_a_micro_batch():
    # Not divided by the micro-batches of a process they would overflow in float16;
    # divided by those of all processes they would be 16 times as small.
    crowd, scale = Crowd(16), 2.0**9
    learner = toy(
        micro_batch_size=1,
        clip_norm=None,
        compress_gradients=True,
        distribution=crowd,
        loss_scale=DynamicLossScale(scale, growth_interval=100, floor=1.0),
    )
    table = learner.encoder.table.numpy()
    expected = gradient_by_hand(table)
    finite, _ = learner.train_step(BATCH)
    assert finite
    # Of 96 micro-batches, for which F is 128, a process has six, divided by eight.
    np.testing.assert_allclose(
        crowd.travelled[0], expected * scale * 128 / (16 * 8), rtol=1e-5
    )
    np.testing.assert_allclose(
        learner.encoder.table.numpy(), table - 0.1 * expected, rtol=1e-3
    )


@pytest.mark.parametrize(
    ("number", "power"),
    [(1, 1), (3, 4), (5, 4), (6, 8), (0.75, 1), (4e9, 2**32)],
)
def test_factors_are_exact_powers_of_two(number, power):
    found = nearest_power_of_two(tf.constant(number, tf.float64))
    assert (found.dtype, float(found)) == (tf.float32, power)
