"""Exchange sentence prediction, against plain NumPy."""

import numpy as np
import pytest

from seg_tf.models.reat import ReAT
from seg_tf.objectives.exchange_sentence import ExchangeSentence
from tests.models.test_reat import SIZES, TEXTS, rows_of
from tests.numpy_reference import set_random_weights

pytestmark = pytest.mark.slow


def build_objective(**arguments):
    objective = ExchangeSentence(ReAT(**{**SIZES, **arguments}))
    objective.build((None, None, SIZES["alpha_hidden_size"]))
    return set_random_weights(objective)


def random_batch():
    generator = np.random.default_rng(7)
    features = rows_of([TEXTS, [TEXTS[1]], []])
    shape = features["sentence_mask"].shape
    features["can_move"] = features["sentence_mask"] & (generator.random(shape) < 0.8)
    features["is_moved"] = features["can_move"] & (generator.random(shape) < 0.4)
    size = (*features["token_ids"].shape, SIZES["alpha_hidden_size"])
    return generator.normal(size=size).astype("float32"), features


def test_an_exchange_is_read_off_the_pooled_first_tokens_alone():
    """The place that the lists of `seg_tf.papers` name."""
    objective = build_objective()
    sequence, features = random_batch()
    is_start = np.zeros(sequence.shape[:2], bool)
    np.put_along_axis(is_start, features["sentence_starts"], True, axis=1)
    expected = float(objective(sequence, features).loss[0])
    others = np.where(is_start[:, :, None], sequence, 9.0)
    assert float(objective(others, features).loss[0]) == expected
    starts = np.where(is_start[:, :, None], 9.0, sequence)
    assert float(objective(starts, features).loss[0]) != pytest.approx(expected)
    # Through the pooler: without it, only the classifier's bias is left.
    for weight in objective.encoder.pooler.trainable_weights:
        weight.assign(0 * weight)
    bias = np.asarray(objective.classifier.bias, "float64")
    labels = features["is_moved"][features["can_move"]].astype(int)
    losses = np.log(np.exp(bias).sum()) - bias[labels]
    assert float(objective(sequence, features).loss[0]) == pytest.approx(losses.sum())
