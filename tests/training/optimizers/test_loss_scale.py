import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from seg_tf.config import LossScaleConfig
from seg_tf.training import build
from seg_tf.training.step import DynamicLossScale
from tests.training.stand_ins import ArithmeticInputs, make_updates, small_config

pytestmark = pytest.mark.slow


def trajectory(scale, outcomes):
    values = []
    for finite in outcomes:
        scale.update(tf.constant(finite))
        values.append(float(scale.value))
    return values


def test_scale_doubles_after_good_steps_in_a_row_and_halves_down_to_its_floor():
    scale = DynamicLossScale(8.0, growth_interval=3, floor=2.0)
    good, bad = True, False
    outcomes = [good, good, bad, good, good, good, good, bad, bad, bad, bad]
    expected = [8, 8, 4, 4, 4, 8, 8, 4, 2, 2, 2]
    assert trajectory(scale, outcomes) == expected


def test_scale_goes_as_that_of_keras_above_the_floor():
    outcomes = np.random.default_rng(0).random(60) < 0.8
    keras_optimizer = keras.optimizers.LossScaleOptimizer(
        keras.optimizers.SGD(0.0), initial_scale=2.0**15, dynamic_growth_steps=4
    )
    variable = keras.Variable([1.0])
    expected = []
    for finite in outcomes:
        keras_optimizer.apply([tf.constant([1.0 if finite else np.inf])], [variable])
        expected.append(float(keras_optimizer.dynamic_scale))
    assert min(expected) > 1.0
    ours = DynamicLossScale(2.0**15, growth_interval=4, floor=1.0)
    assert trajectory(ours, outcomes) == expected


def test_scale_stops_where_float32_ends():
    scale = DynamicLossScale(2.0**126, growth_interval=1, floor=1.0)
    assert trajectory(scale, [True] * 3) == [2.0**127] * 3


def float16_config(initial):
    config = small_config(
        dropout=0.0,
        dtype_policy="mixed_float16",
        batch_size=8,
        micro_batch_size=4,
        num_updates=60,
    )
    training = dataclasses.replace(
        config.training,
        loss_scale=LossScaleConfig(initial=initial, growth_interval=50),
    )
    return dataclasses.replace(config, training=training)


def fitted(config, updates):
    learner = build.build_learner(config, ArithmeticInputs())
    dataset = ArithmeticInputs().train_dataset(8)
    make_updates(learner, dataset, updates)
    return learner


def test_float16_finds_its_scale_and_learns():
    # From 2**30 every gradient overflows until the scale has come down; the schedule
    # and the Keras epochs count updates alone.
    config = float16_config(2.0**30)
    learner = fitted(config, updates=15)
    skipped = learner.skipped_steps
    assert 5 < skipped <= 20
    assert learner.updates == 15
    assert learner.samples == 8 * (15 + skipped)
    assert float(learner.options.loss_scale.value) == 2.0 ** (30 - skipped)
    assert learner.learning_rate == pytest.approx(1e-2 * (60 - 14) / 59)
    float32 = fitted(small_config(dropout=0.0, batch_size=8, num_updates=60), 15)
    one, other = (p.interval_results()["loss"] for p in (learner, float32))
    assert one == pytest.approx(other, rel=0.02)
