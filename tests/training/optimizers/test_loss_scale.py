import keras
import numpy as np
import tensorflow as tf

from seg_tf.training.step import DynamicLossScale


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
