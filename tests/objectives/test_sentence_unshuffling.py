"""Sentence unshuffling: its decoding, gradients and errors."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from seg_tf.models.encoder import Encoder
from seg_tf.objectives.sentence_unshuffling import SentenceUnshuffling
from tests import candidate_batches
from tests.numpy_reference import set_random_weights

pytestmark = pytest.mark.slow
SIZES = {
    "vocab_size": 29,
    "index_tables": {"position_index": 12, "sentence_id": 7},
    "num_layers": 1,
    "hidden_size": 8,
    "num_heads": 2,
    "intermediate_size": 16,
    "layer_norm_epsilon": 1e-3,
}
# Measured are rows 0 and 3; the others are not shuffled, or padding, or trivial.
ORDERS = ([2, 4, 1, 3, 5], [1, 2, 3], None, [2, 1], [1])
IS_SHUFFLED = (True, False, True, True, True)
NUM_CANDIDATES = 7
LENGTH = candidate_batches.row_length(NUM_CANDIDATES)


def build_objective(**arguments):
    encoder = Encoder(**{**SIZES, **arguments})
    objective = SentenceUnshuffling(encoder, num_layers=2, dtype=arguments.get("dtype"))
    objective.build((None, None, SIZES["hidden_size"]))
    return set_random_weights(objective, scale=0.4, seed=15)


def random_batch(orders=ORDERS, is_shuffled=IS_SHUFFLED, seed=16):
    features = candidate_batches.candidate_features(orders, NUM_CANDIDATES, is_shuffled)
    shape = (len(orders), LENGTH, SIZES["hidden_size"])
    sequence = np.random.default_rng(seed).normal(size=shape).astype("float32")
    return sequence, features


def test_training_decodes_nothing():
    objective = build_objective(dropout=0.0)
    result = objective(*random_batch(), training=True)
    assert list(result.metrics) == [
        "pointer_accuracy",
        "pointer_chance",
        "pointer_longest_first",
    ]
    expected = objective(*random_batch(), training=False)
    np.testing.assert_array_equal(result.loss, expected.loss)


def test_only_candidates_are_read_and_only_they_get_gradients():
    objective = build_objective()
    sequence, features = random_batch()
    sequence = tf.constant(sequence)
    with tf.GradientTape() as tape:
        tape.watch(sequence)
        total, _ = objective(sequence, features, training=False).loss
    gradient = np.abs(tape.gradient(total, sequence)).max(axis=-1)
    is_candidate = np.zeros((len(ORDERS), LENGTH), bool)
    for row, mask in enumerate(features["candidate_mask"]):
        is_candidate[row, features["candidate_positions"][row][mask]] = True
    np.testing.assert_array_equal(gradient > 0, is_candidate)
    others = np.where(is_candidate[:, :, None], sequence, 5.0).astype("float32")
    result, expected = objective(others, features), objective(sequence, features)
    for one, other in zip(
        keras.tree.flatten(result), keras.tree.flatten(expected), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_batch_of_zeros_has_zero_loss_and_zero_gradients():
    objective = build_objective()
    sequence, features = random_batch()
    features = {name: np.zeros_like(value) for name, value in features.items()}
    with tf.GradientTape() as tape:
        result = objective(sequence, features)
    gradients = tape.gradient(result.loss[0], objective.reconstructor.trainable_weights)
    assert not any(float(value) for value in keras.tree.flatten(result))
    assert float(objective.count(features)) == 0
    assert all((np.asarray(gradient) == 0).all() for gradient in gradients)


def test_batch_of_other_inputs_is_refused():
    objective = build_objective()
    sequence, features = random_batch()
    del features["is_shuffled"], features["gold_candidates"]
    message = (
        r"`inputs` must hold the features .* lacks "
        r"\['gold_candidates', 'is_shuffled'\]. Received: \['candidate_mask'"
    )
    with pytest.raises(ValueError, match=message):
        objective(sequence, features)
