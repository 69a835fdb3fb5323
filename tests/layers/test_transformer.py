"""Transformer layers: equal to keras-hub's, and recomputed without a difference."""

import h5py
import keras
import keras_hub
import numpy as np
import pytest
import tensorflow as tf

from seg_tf.layers.common import gelu
from seg_tf.layers.transformer import TransformerEncoder
from tests.layers import recomputed_models

pytestmark = pytest.mark.slow
LENGTH, WIDTH = 6, 8
HIDDEN = np.random.default_rng(0).normal(size=(3, LENGTH, WIDTH)).astype("float32")
GROUP = np.array([[1, 1, 2, 2, 3, 0]] * 3, "int32")
# LayerNorms inside the layers.
NUM_NORMS = {"Encoder": 4, "Encoder-modern": 4, "ReAT": 2 + 4, "TransformerXL": 4}


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
        activation=gelu(approximate=False),
        layer_norm_epsilon=1e-3,
        kernel_initializer=keras.initializers.TruncatedNormal(stddev=0.5),
        name="layer",
    )
    theirs.build((None, LENGTH, WIDTH))
    return ours, theirs


def test_initial_weights_and_their_names_are_those_of_keras_hub(tmp_path):
    files = []
    for number, layer in enumerate(build_pair(dropout=0.25)):
        path = tmp_path / f"{number}.weights.h5"
        inputs = keras.Input((LENGTH, WIDTH))
        groups = (keras.Input((LENGTH,), dtype="int32"),) * 2 if number == 0 else ()
        keras.Model([inputs, *groups[:1]], layer(inputs, *groups)).save_weights(path)
        arrays = {}
        with h5py.File(path) as file:
            file.visititems(
                lambda name, item, arrays=arrays: arrays.update(
                    {name: np.asarray(item)} if isinstance(item, h5py.Dataset) else {}
                )
            )
        files.append(arrays)
    ours, theirs = files
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("dropout", [0.25, 0.0])
def test_outputs_are_those_of_keras_hub(training, dropout):
    ours, theirs = build_pair(dropout)
    mask = GROUP[:, :, None] == GROUP[:, None, :]
    np.testing.assert_allclose(
        ours(HIDDEN, GROUP, GROUP, training=training),
        theirs(HIDDEN, attention_mask=mask, training=training),
        rtol=0,
        # Without dropout, ours is the fused attention.
        atol=0 if dropout else 2e-6,
    )
    everything = np.ones((3, LENGTH), "int32")
    np.testing.assert_allclose(
        ours.attention_weights(HIDDEN, everything[:, :1], everything),
        theirs(HIDDEN, return_attention_scores=True)[1],
        atol=1e-6,
    )


def training_pass(name, recompute_layers, jit_compile=False):
    """Loss, gradients and final dropout states; and the graph's operators."""
    model, inputs = recomputed_models.build(name, recompute_layers)
    weights = [weight.value for weight in model.trainable_variables]

    @tf.function(autograph=False, jit_compile=jit_compile)
    def compute():
        with tf.GradientTape() as tape:
            loss = recomputed_models.loss(model, inputs)
        gradients = tape.gradient(loss, weights, unconnected_gradients="zero")
        return [loss, *(tf.convert_to_tensor(gradient) for gradient in gradients)]

    arrays = compute()
    arrays += [state.value for state in recomputed_models.states_of(model)]
    graph = compute.get_concrete_function().graph.as_graph_def()
    return [np.asarray(array) for array in arrays], [node.op for node in graph.node]


def assert_close(array, expected):
    size = max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(array, expected, rtol=0, atol=1e-5 * size)


@pytest.mark.parametrize("name", NUM_NORMS)
def test_gradients_and_dropout_are_the_same(name):
    expected, plain_operators = training_pass(name, False)
    arrays, operators = training_pass(name, True)
    np.testing.assert_equal(arrays, expected)
    num_norms = operators.count("Rsqrt") - plain_operators.count("Rsqrt")
    assert num_norms == NUM_NORMS[name]


def test_compiled_gradients_are_the_same():
    # XLA draws other numbers for dropout.
    expected, arrays = (
        training_pass("Encoder-packed", recomputes, jit_compile=True)[0]
        for recomputes in (False, True)
    )
    for array, other in zip(arrays, expected, strict=True):
        assert_close(array, other)
