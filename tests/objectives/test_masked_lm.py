"""The masked language modelling loss with a padded vocabulary."""

import numpy as np
import pytest
import tensorflow as tf

from seg_tf.models.encoder import Encoder
from seg_tf.objectives.masked_lm import MaskedLM
from tests.numpy_reference import set_random_weights

SIZES = {
    "vocab_size": 29,
    "index_tables": {"token_index": 9},
    "num_layers": 1,
    "hidden_size": 8,
    "num_heads": 2,
    "intermediate_size": 16,
    "layer_norm_epsilon": 1e-3,
}


def build_objective(**arguments):
    encoder = Encoder(**{**SIZES, **arguments})
    objective = MaskedLM(encoder, dtype=arguments.get("dtype"))
    objective.build((None, None, SIZES["hidden_size"]))
    return set_random_weights(objective, scale=0.4, seed=6)


def random_batch(batch=3, length=7, predictions=4):
    generator = np.random.default_rng(7)
    sequence = generator.normal(size=(batch, length, 8)).astype("float32")
    features = {
        "masked_positions": np.array([[1, 3, 4, 6], [2, 0, 0, 0], [0, 0, 0, 0]]),
        "masked_ids": generator.integers(0, 29, (batch, predictions)),
        "masked_weights": np.array(
            [[1, 1, 1, 1], [1, 0, 0, 0], [0, 0, 0, 0]], "float32"
        ),
    }
    return sequence, features


@pytest.mark.parametrize("dtype", ["float32", "mixed_float16"])
def test_padded_vocabulary_changes_neither_loss_nor_gradients(dtype):
    objective = build_objective(dtype=dtype)
    sequence, features = random_batch()

    def loss_and_gradients(multiple):
        objective.vocab_multiple = multiple
        hidden = tf.constant(sequence)
        with tf.GradientTape() as tape:
            tape.watch(hidden)
            result = objective(tf.cast(hidden, objective.compute_dtype), features)
        weights = [one.value for one in objective.trainable_variables]
        found = tape.gradient(result.loss[0], [hidden, *weights])
        found = [None if one is None else tf.convert_to_tensor(one) for one in found]
        return result, [one for one in found if one is not None]

    expected, expected_gradients = loss_and_gradients(1)
    result, gradients = loss_and_gradients(8)
    np.testing.assert_allclose(result.loss, expected.loss, rtol=1e-6)
    assert result.metrics["accuracy"][0] == expected.metrics["accuracy"][0]
    assert len(gradients) == len(expected_gradients) > 6
    tolerance = 1e-6 if dtype == "float32" else 2e-3
    for one, other in zip(gradients, expected_gradients, strict=True):
        np.testing.assert_allclose(one, other, atol=tolerance)
    # Whoever asks for scores gets those of the words alone.
    logits = objective.logits(sequence, features["masked_positions"])
    assert logits.shape[-1] == SIZES["vocab_size"]
