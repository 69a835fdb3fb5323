"""Transformer layers equal keras-hub's, and can be computed again."""

import os
import subprocess
import sys

import h5py
import keras
import keras_hub
import numpy as np
import pytest
import tensorflow as tf

from seg_tf.layers.transformer import TransformerEncoder
from tests.layers import recomputed_models
from tests.layers.recomputed_models import MODELS

LENGTH, WIDTH = 6, 8


def build_pair(dropout):
    """Our layer and keras-hub's, each from the same seed."""
    keras.utils.set_random_seed(3)
    ours = TransformerEncoder(
        intermediate_size=12,
        num_heads=2,
        dropout=dropout,
        attention_dropout=dropout,
        layer_norm_epsilon=1e-3,
        initializer_range=0.5,
        name="layer",
    )
    ours.build((None, LENGTH, WIDTH))
    keras.utils.set_random_seed(3)
    theirs = keras_hub.layers.TransformerEncoder(
        intermediate_dim=12,
        num_heads=2,
        dropout=dropout,
        activation="gelu",
        layer_norm_epsilon=1e-3,
        kernel_initializer=keras.initializers.TruncatedNormal(stddev=0.5),
        name="layer",
    )
    theirs.build((None, LENGTH, WIDTH))
    return ours, theirs


@pytest.fixture(name="hidden")
def _hidden():
    shape = (3, LENGTH, WIDTH)
    return np.random.default_rng(0).normal(size=shape).astype("float32")


@pytest.fixture(name="group")
def _group():
    return np.array([[1, 1, 2, 2, 3, 0]] * 3, "int32")


def test_first_weights_and_their_names_are_those_of_keras_hub(tmp_path):
    of_files = []
    for number, layer in enumerate(build_pair(dropout=0.25)):
        path = tmp_path / f"{number}.weights.h5"
        inputs = keras.Input((LENGTH, WIDTH))
        groups = (keras.Input((LENGTH,), dtype="int32"),) * 2 if number == 0 else ()
        keras.Model([inputs, *groups[:1]], layer(inputs, *groups)).save_weights(path)
        found = {}
        with h5py.File(path) as file:
            file.visititems(
                lambda name, item, found=found: found.update(
                    {name: np.asarray(item)} if isinstance(item, h5py.Dataset) else {}
                )
            )
        of_files.append(found)
    ours, theirs = of_files
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)


@pytest.mark.parametrize("training", [False, True])
def test_numbers_are_those_of_keras_hub(hidden, group, training):
    ours, theirs = build_pair(dropout=0.25)
    mask = group[:, :, None] == group[:, None, :]
    np.testing.assert_array_equal(
        ours(hidden, group, group, training=training),
        theirs(hidden, attention_mask=mask, training=training),
    )
    ours, theirs = build_pair(dropout=0.0)
    np.testing.assert_allclose(
        ours(hidden, group, group, training=training),
        theirs(hidden, attention_mask=mask, training=training),
        atol=2e-6,
    )


def test_attention_weights_are_those_of_keras_hub(hidden):
    ours, theirs = build_pair(dropout=0.25)
    group = np.ones((3, 1), "int32")
    np.testing.assert_array_equal(
        ours.attention_weights(hidden, group, np.ones((3, LENGTH), "int32")),
        theirs(hidden, return_attention_scores=True)[1],
    )


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
