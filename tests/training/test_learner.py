import keras
import numpy as np
import pytest
import tensorflow as tf

from seg_tf.objectives.base import ObjectiveOutput
from seg_tf.training.learner import Learner
from tests.training.stand_ins import (
    ArithmeticInputs,
    make_updates,
    small_learner,
    validate,
)

pytestmark = pytest.mark.slow

DIM = 3
ROWS = 7


class Table(keras.layers.Layer):
    """An encoder whose gradient comes as rows of a table, some of them twice."""

    def build(self, features_shape=None):
        self.table = self.add_weight(
            shape=(ROWS, DIM), initializer="ones", name="table"
        )

    def call(self, features, training=None):
        return tf.nn.embedding_lookup(self.table.value, features["token_ids"])


class Squares(keras.layers.Layer):
    """Sum of squares over `weights`; the metric has another weight than the loss."""

    def __init__(self, loss_weight=1.0, **kwargs):
        super().__init__(**kwargs)
        self.loss_weight = loss_weight

    def count(self, features):
        return tf.reduce_sum(features["weights"])

    def call(self, sequence, features, training=None):
        weights = features["weights"]
        squares = tf.reduce_sum(sequence**2, axis=-1)
        return ObjectiveOutput(
            loss=(tf.reduce_sum(squares * weights), tf.reduce_sum(weights)),
            metrics={"ones": (tf.reduce_sum(weights), tf.constant(2.0))},
        )


class ThoroughSquares(Squares):
    """Measures more where that costs nobody a gradient."""

    def call(self, sequence, features, training=None):
        result = super().call(sequence, features)
        if training:
            return result
        largest = (tf.reduce_max(sequence), tf.constant(1.0))
        return result._replace(metrics={"largest": largest, **result.metrics})


class ExponentialSquares(Squares):
    """Derives one more metric from its loss."""

    def derived_metrics(self, results):
        return {"perplexity": keras.ops.exp(results["loss"])}


def rows(token_ids, weights):
    token_ids = np.array(token_ids, "int32")
    return {
        "token_ids": token_ids,
        "weights": np.array(weights, "float32"),
        "padding_mask": token_ids > 0,
        "sample_number": np.arange(len(token_ids)),
    }


BATCHES = (
    rows([[1, 1, 2]], [[1.0, 1.0, 0.5]]),
    rows([[3, 0, 0]], [[4.0, 0.0, 0.0]]),
    rows([[5, 6, 0]], [[0.0, 0.0, 0.0]]),  # nothing to predict
)


def toy(optimizer=None, **objectives):
    objectives = objectives or {"squares": Squares()}
    return Learner(
        Table(), objectives, optimizer or keras.optimizers.SGD(0.0), BATCHES[0]
    )


def set_rows(learner):
    """Gives row r of the table the value r, so that its square sums to 3 r²."""
    table = np.arange(ROWS, dtype="float32")[:, None] * np.ones((1, DIM), "float32")
    learner.encoder.table.assign(table)


def test_metrics_over_unequal_batches_are_sums_over_counts():
    learner = toy()
    set_rows(learner)
    results = validate(learner, BATCHES)
    loss_sum = (1 * 3 + 1 * 3 + 0.5 * 12) + 4 * 27
    expected = loss_sum / (2.5 + 4.0)
    np.testing.assert_allclose(results["loss"], expected, rtol=1e-6)
    np.testing.assert_allclose(results["squares_loss"], expected, rtol=1e-6)
    np.testing.assert_allclose(results["squares_ones"], 6.5 / 6.0, rtol=1e-6)


def test_validation_may_measure_more_than_training():
    learner = toy(plain=Squares(), thorough=ThoroughSquares())
    set_rows(learner)
    in_training = {"loss"} | {
        f"{objective}_{metric}"
        for objective in ("plain", "thorough")
        for metric in ("loss", "ones")
    }
    learner.train_step(BATCHES[0])
    results = validate(learner, [BATCHES[1]])
    assert results.keys() == in_training | {"thorough_largest"}
    assert results["thorough_loss"] == pytest.approx(27)
    assert results["thorough_ones"] == results["plain_ones"] == 4 / 2
    assert results["thorough_largest"] == 3
    intervals = learner.interval_results()
    assert intervals.keys() == in_training | {"gradient_norm"}
    assert intervals["thorough_loss"] == pytest.approx(12 / 2.5)
    assert intervals["thorough_ones"] == 2.5 / 2


def test_derived_metrics_are_of_an_objective_s_own_whole_results():
    learner = toy(words=ExponentialSquares(0.5), squares=Squares())
    set_rows(learner)
    for features in BATCHES[:2]:
        learner.train_step(features)
    results = learner.interval_results()
    # Neither that of the weighted loss nor a mean over batches.
    expected = np.exp(((3 + 3 + 6) + 4 * 27) / (2.5 + 4.0))
    np.testing.assert_allclose(float(results["words_perplexity"]), expected, rtol=1e-6)
    assert [name for name in results if "perplexity" in name] == ["words_perplexity"]
    results = validate(learner, [BATCHES[1]])
    np.testing.assert_allclose(results["words_perplexity"], np.exp(27), rtol=1e-6)


def test_update_descends_the_loss_divided_by_its_own_weight():
    learner = toy(keras.optimizers.SGD(0.1))
    set_rows(learner)
    learner.train_step(BATCHES[0])
    expected = np.arange(ROWS, dtype="float64")[:, None] * np.ones((1, DIM))
    expected[1] -= 0.1 * (2 * 1 * 2.0) / 2.5  # row 1 stands twice in the batch
    expected[2] -= 0.1 * (2 * 2 * 0.5) / 2.5
    np.testing.assert_allclose(learner.encoder.table.numpy(), expected, rtol=1e-6)


def test_building_and_validating_use_no_random_state_and_training_does():
    learner = small_learner()
    states = learner.random_states
    assert len(states) == 4
    fresh = [state.numpy() for state in states]
    inputs = ArithmeticInputs()
    validate(learner, inputs.validation_dataset(4))
    assert all(state.numpy()[1] == 0 for state in states)
    assert [s.numpy().tolist() for s in states] == [f.tolist() for f in fresh]
    make_updates(learner, inputs.train_dataset(4), 1)
    assert not any(
        s.numpy().tolist() == f.tolist() for s, f in zip(states, fresh, strict=True)
    )


def test_learner_without_objective_is_refused():
    with pytest.raises(ValueError, match="`objectives` must name at least one"):
        Learner(Table(), {}, keras.optimizers.SGD(0.0), BATCHES[0])
