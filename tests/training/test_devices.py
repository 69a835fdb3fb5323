"""What a GPU changes, and variables that code compiled for it could not read."""

import inspect

import keras
import pytest
import tensorflow as tf

from seg_tf.config import (
    AdamWConfig,
    LambConfig,
    TrainingConfig,
    build_from,
    optimizers,
)
from seg_tf.finetuning.optimizer import finetuning_optimizer
from seg_tf.layers.common import mark_hidden_matrix
from seg_tf.training import checkpoint, engine
from seg_tf.training.tensorflow_engine import TensorFlowEngine
from tests.training.stand_ins import small_config, small_learner


@pytest.fixture
def enabled(monkeypatch):
    """The calls that turn deterministic kernels on, none of which does."""
    calls = []
    monkeypatch.setattr(
        tf.config.experimental, "enable_op_determinism", lambda: calls.append(1)
    )
    return calls


@pytest.mark.parametrize(
    ("has_gpu", "wanted", "is_enabled", "is_said"),
    [
        (False, None, True, False),
        (False, True, True, False),
        (False, False, False, False),
        (True, None, False, True),
        (True, False, False, False),
    ],
)
def test_kernels_are_deterministic_by_default_where_there_is_no_gpu(
    enabled, monkeypatch, has_gpu, wanted, is_enabled, is_said
):
    monkeypatch.setattr(TensorFlowEngine, "has_gpu", lambda _: has_gpu)
    settings = TrainingConfig(deterministic_ops=wanted)
    lines = []
    engine.current().set_determinism(settings, lines.append)
    assert len(enabled) == is_enabled
    assert len(lines) == is_said
    assert all("Deterministic kernels are off" in line for line in lines)


def test_xla_compiles_by_default_where_there_is_a_gpu(monkeypatch):
    def compiles(**settings):
        return engine.current().compiles(TrainingConfig(**settings))

    assert not compiles()
    assert compiles(jit_compile=True)
    monkeypatch.setattr(TensorFlowEngine, "has_gpu", lambda _: True)
    assert compiles()
    assert not compiles(deterministic_ops=True)
    assert not compiles(jit_compile=False)


def test_compiled_and_deterministic_is_refused_on_a_gpu(enabled, monkeypatch):
    monkeypatch.setattr(TensorFlowEngine, "has_gpu", lambda _: True)
    both = TrainingConfig(deterministic_ops=True, jit_compile=True)
    with pytest.raises(ValueError, match=r"`deterministic_ops`.*`jit_compile`"):
        engine.current().set_determinism(both, print)
    assert not enabled
    engine.current().set_determinism(TrainingConfig(deterministic_ops=True), print)
    assert enabled


def all_optimizers():
    """Every optimizer that a config can name, and that of fine-tuning."""
    configs = [
        value
        for _, value in inspect.getmembers(optimizers, inspect.isclass)
        if value.__module__ == optimizers.__name__ and value.__name__[0] != "_"
    ]
    assert {AdamWConfig, LambConfig} < set(configs)
    made = {
        one.__name__: lambda one=one: build_from(one(), num_updates=10_000)
        for one in configs
    }
    return {**made, "finetuning": lambda: finetuning_optimizer(0.1, 10)}


@pytest.mark.parametrize("make", all_optimizers().values(), ids=all_optimizers())
def test_optimizers_and_schedules_read_no_int32_variable(make):
    optimizer = keras.optimizers.LossScaleOptimizer(make())
    weights = [keras.Variable([1.0, 2.0]), keras.Variable([[1.0, 2.0]])]
    mark_hidden_matrix(weights[1])
    optimizer.build(weights)
    gradients = [tf.ones(weight.shape) for weight in weights]
    update = tf.function(lambda: optimizer.apply(gradients, weights))
    read = update.get_concrete_function().graph.variables
    assert read
    # TensorFlow's Adam takes the handles of moments, which count as no reading.
    found = (*read, *optimizer.variables)
    assert tf.int32 not in {tf.as_dtype(variable.dtype) for variable in found}


def test_state_of_pretraining_has_no_int32_variable():
    learner = small_learner(small_config(dtype_policy="mixed_float16"))
    variables = checkpoint.all_variables(learner) + learner.random_states
    assert len(variables) > 20
    assert "int32" not in {variable.dtype for variable in variables}
