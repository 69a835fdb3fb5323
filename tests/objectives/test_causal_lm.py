"""The causal language modelling loss, against plain NumPy."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from seg_tf.models.encoder import Encoder
from seg_tf.objectives.causal_lm import CausalLM
from tests import adaptive_reference
from tests.numpy_reference import set_random_weights
from tests.word_encoder import WordEncoder

SIZES = {
    "vocab_size": 13,
    "hidden_size": 6,
    "embedding_size": 8,
    "cutoffs": (4, 5, 9),
    "tail_divisor": 2,
}


def build_objective(static_shapes=False, dtype=None):
    encoder = WordEncoder(SIZES, dtype=dtype)
    encoder.build()
    objective = CausalLM(encoder, static_shapes=static_shapes, dtype=dtype)
    objective.build((None, None, 6))
    return set_random_weights(objective, scale=0.7, seed=6)


def random_batch():
    features = {
        "token_ids": np.array([[1, 4, 12, 6], [6, 7, 0, 0], [5, 0, 3, 11]], "int32"),
        "target_ids": np.array([[4, 12, 6, 0], [7, 3, 0, 0], [9, 8, 2, 5]], "int32"),
        "padding_mask": np.array([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]], bool),
    }
    hidden = np.random.default_rng(7).normal(size=(3, 4, 6)).astype("float32")
    return hidden, features


@pytest.mark.parametrize("static_shapes", [False, True])
def test_loss_is_the_sum_over_the_words_to_predict(static_shapes):
    objective = build_objective(static_shapes)
    hidden, features = random_batch()
    logs = adaptive_reference.log_probabilities(
        adaptive_reference.softmax_weights(objective.softmax),
        hidden,
        vocab_size=13,
        cutoffs=(4, 5, 9),
    )
    losses = adaptive_reference.losses(logs, features["target_ids"])
    result = objective(hidden, features, training=True)
    expected = losses[0].sum() + losses[1, :2].sum()
    np.testing.assert_allclose(result.loss, (expected, 6), rtol=1e-5)
    assert float(objective.count(features)) == 6
    assert result.metrics == {}
    np.testing.assert_allclose(objective.log_probabilities(hidden), logs, atol=1e-5)


@pytest.mark.parametrize("static_shapes", [False, True])
def test_batch_without_predictions_has_zero_loss_and_zero_gradients(static_shapes):
    objective = build_objective(static_shapes)
    hidden, features = random_batch()
    features["padding_mask"][:] = False
    variables = objective.softmax.trainable_variables
    with tf.GradientTape() as tape:
        result = objective(hidden, features)
    gradients = tape.gradient(
        result.loss[0],
        [variable.value for variable in variables],
        unconnected_gradients="zero",
    )
    assert [float(value) for value in result.loss] == [0, 0]
    assert all((np.asarray(gradient) == 0).all() for gradient in gradients)


def test_perplexity_is_derived_from_the_mean_loss():
    derived = build_objective().derived_metrics({"loss": np.log(17)})
    assert derived.keys() == {"perplexity"}
    np.testing.assert_allclose(derived["perplexity"], 17, rtol=1e-6)


def test_an_encoder_without_adaptive_embedding_is_refused():
    encoder = Encoder(13, {"token_index": 4}, 1, 4, 2, 8)
    with pytest.raises(ValueError, match=r"`encoder`.*Received: token_embedding=<Rev"):
        CausalLM(encoder)
    with pytest.raises(ValueError, match=r"`AdaptiveEmbedding`.*token_embedding=None"):
        CausalLM(keras.layers.Dense(3))
