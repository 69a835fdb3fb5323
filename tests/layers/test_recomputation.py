"""Layers that are recomputed give the gradients of layers that are held."""

import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tests.layers import recomputed_models
from tests.layers.recomputed_models import MODELS

pytestmark = pytest.mark.slow

# LayerNorms inside the layers.
NUM_NORMS = {
    **dict.fromkeys(["Encoder", "Encoder-packed", "Encoder-modern"], 4),
    "ReAT": 2 + 4,
    "TransformerXL": 4,
}


def training_pass(name, recompute_layers, has_dropout, jit_compile=False):
    """Loss, gradients and states of dropout afterwards; and the graph's operators."""
    model, inputs = recomputed_models.build(name, recompute_layers, has_dropout)
    weights = [one.value for one in model.trainable_variables]

    @tf.function(autograph=False, jit_compile=jit_compile)
    def compute():
        with tf.GradientTape() as tape:
            loss = recomputed_models.loss(model, inputs)
        gradients = tape.gradient(loss, weights, unconnected_gradients="zero")
        return [loss, *(tf.convert_to_tensor(one) for one in gradients)]

    found = compute()
    found += [one.value for one in recomputed_models.states_of(model)]
    graph = compute.get_concrete_function().graph.as_graph_def()
    return [np.asarray(one) for one in found], [one.op for one in graph.node]


@pytest.mark.parametrize(
    ("name", "has_dropout"), [("Encoder", False), *((name, True) for name in MODELS)]
)
def test_gradients_and_dropout_are_the_same(name, has_dropout):
    held, held_operators = training_pass(name, False, has_dropout)
    found, operators = training_pass(name, True, has_dropout)
    for one, other in zip(found, held, strict=True):
        np.testing.assert_array_equal(one, other)
    num_norms = operators.count("Rsqrt") - held_operators.count("Rsqrt")
    assert num_norms == NUM_NORMS[name]


def test_compiled_gradients_are_the_same():
    # XLA draws other numbers for dropout.
    held, found = (
        training_pass("Encoder-packed", recomputes, True, jit_compile=True)[0]
        for recomputes in (False, True)
    )
    for one, other in zip(found, held, strict=True):
        size = max(1.0, float(np.abs(other).max()))
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5 * size)


def test_gradients_and_dropout_are_the_same_on_jax(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "tests.layers.recomputed_models", tmp_path / "out.npz"],
        env={
            **os.environ,
            "KERAS_BACKEND": "jax",
            "JAX_PLATFORMS": "cpu",
            # Most of the time would go into optimizing what is computed once.
            "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
        },
        check=True,
    )
    with np.load(tmp_path / "out.npz") as archive:
        found = dict(archive)
    assert len({name.split("/")[0] for name in found}) == len(MODELS)
    for name, value in found.items():
        model, has_dropout, recomputes, array = name.split("/")
        if array == "checkpoints":
            num_layers = 2 if recomputes == "True" else 0
            assert value == num_layers, name
        elif recomputes == "True":
            held = found[f"{model}/{has_dropout}/False/{array}"]
            size = max(1.0, float(np.abs(held).max()))
            np.testing.assert_allclose(value, held, rtol=0, atol=1e-5 * size)
