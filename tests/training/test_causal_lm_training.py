"""Predicting words as a run does it: steps, micro-batches, XLA, validation."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from seg_tf.objectives.causal_lm import CausalLM
from seg_tf.training.learner import Learner
from seg_tf.training.step import StepOptions
from tests.training.stand_ins import validate
from tests.word_encoder import WordEncoder

pytestmark = pytest.mark.slow

VOCAB_SIZE = 13
SIZES = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 16,
    "embedding_size": 16,
    "cutoffs": (4, 5, 9),
    "tail_divisor": 2,
    "initializer_range": 0.3,
    "projection_range": 0.3,
}


def batch():
    """Every word is followed by that five further; the last row is half padding."""
    token_ids = np.arange(4 * 8).reshape(4, 8) * 5 % VOCAB_SIZE
    padding_mask = np.ones((4, 8), bool)
    padding_mask[3, 4:] = False
    return {
        "token_ids": tf.constant(token_ids, tf.int32),
        "target_ids": tf.constant((token_ids + 5) % VOCAB_SIZE, tf.int32),
        "padding_mask": tf.constant(padding_mask),
        "sample_number": tf.range(4, dtype=tf.int64),
    }


def build_learner(static_shapes=False, **options):
    keras.utils.set_random_seed(1)
    encoder = WordEncoder(SIZES)
    return Learner(
        encoder,
        {"causal_lm": CausalLM(encoder, static_shapes=static_shapes)},
        keras.optimizers.Adam(0.02),
        batch(),
        options=StepOptions(**options),
    )


def train(learner, num_updates):
    step = tf.function(learner.train_step, autograph=False)
    for _ in range(num_updates):
        learner.reset_interval()
        finite, _ = step(batch())
        assert finite
    return learner.interval_results()


def test_a_rule_is_learnt_in_every_part():
    learner = build_learner()
    before = validate(learner, [batch()])
    assert before["causal_lm_perplexity"] > 5
    results = train(learner, 120)
    assert results["loss"] == results["causal_lm_loss"]
    np.testing.assert_allclose(
        results["causal_lm_perplexity"], np.exp(results["loss"]), rtol=1e-6
    )
    # A perplexity of 1 is certainty about every word.
    assert results["causal_lm_perplexity"] < 1.1
    hidden = learner.encoder(batch())
    logs = learner.objectives["causal_lm"].log_probabilities(hidden)
    is_word = np.asarray(batch()["padding_mask"])
    np.testing.assert_array_equal(
        np.argmax(logs, axis=-1)[is_word], np.asarray(batch()["target_ids"])[is_word]
    )


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"micro_batch_size": 1}, id="micro-batches"),
        pytest.param({"static_shapes": True}, id="static"),
        pytest.param({"static_shapes": True, "jit_compile": True}, id="xla"),
    ],
)
def test_weights_after_some_updates_do_not_hang_on_how_they_are_made(options):
    one, other = build_learner(), build_learner(**options)
    results, other_results = train(one, 3), train(other, 3)
    assert other_results == pytest.approx(results, rel=1e-4)
    for weight, other_weight in zip(
        one.trainable_variables, other.trainable_variables, strict=True
    ):
        np.testing.assert_allclose(other_weight, weight, atol=1e-3, err_msg=weight.path)
