"""A model that is used again is as good as new."""

import pathlib
import random
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from seg_tf.checkpoints.encoder_copies import seeded
from seg_tf.finetuning.reusable_model import ReusableModel

pytestmark = pytest.mark.slow

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


@pytest.mark.parametrize("dtype_policy", ["float32", "mixed_float16"])
def test_a_training_does_not_depend_on_those_before(dtype_policy):
    used = reusable(dtype_policy=dtype_policy)
    first, _ = train(used, seed=1, learning_rate=0.1, epochs=2)
    again, losses_again = train(used, seed=2)
    new, losses_new = train(reusable(dtype_policy=dtype_policy), seed=2)
    assert losses_again == losses_new
    for one, other in zip(again, new, strict=True):
        np.testing.assert_array_equal(one, other)
    assert any((one != other).any() for one, other in zip(first, again, strict=True))


def test_setting_and_seed_count():
    used = reusable()
    losses = [
        tuple(train(used, **arguments)[1])
        for arguments in ({"seed": 1}, {"seed": 2}, {"seed": 1, "learning_rate": 0.1})
    ]
    assert len(set(losses)) == 3


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


def test_policy_holds_for_the_model_alone():
    model = reusable(dtype_policy="mixed_bfloat16").start(1, 0.1, 9)
    assert model.layers[0].compute_dtype == "bfloat16"
    assert keras.config.dtype_policy().name == "float32"


@pytest.mark.parametrize("dtype_policy", ["float32", "mixed_float16"])
def test_step_reads_no_int32_variable(dtype_policy):
    model = reusable(dtype_policy=dtype_policy).start(1, 0.1, 9)
    step = tf.function(lambda: model.train_step((INPUTS, TARGETS)))
    read = step.get_concrete_function().graph.variables
    assert {"num_updates", "warmup_updates"} <= {
        variable.name.split(":")[0].split("/")[-1] for variable in read
    }
    assert tf.int32 not in {variable.dtype for variable in read}


def test_compiled_step_runs_where_int32_variables_stay_on_the_host():
    done = subprocess.run(
        [sys.executable, "-m", "tests.finetuning.second_device"],
        cwd=pathlib.Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["float32", "True", "mixed_float16", "True"]


def test_other_layers_are_an_error():
    used = reusable(lambda seed: keras.Sequential([keras.Input((3,)), dense(seed)]))
    used.start(1, 0.1, 9)
    with pytest.raises(ValueError, match=r"`make`.*\(3, 2\)"):
        used.start(2, 0.1, 9)


def dense(units):
    random.seed(0)
    return keras.layers.Dense(units)
