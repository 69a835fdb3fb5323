"""Validation of a mixture: each source as if alone, and their weighted mean."""

import types

import keras
import numpy as np
import pytest

from seg_tf.training.distribution import Distribution
from seg_tf.training.validation import IntervalValidation, validation_datasets
from tests.training.stand_ins import ArithmeticInputs, small_config, small_learner

pytestmark = pytest.mark.slow


class Shifted(ArithmeticInputs):
    """Other rows, and of another number."""

    num_validation_samples = 7

    def _features(self, samples):
        return super()._features(samples + 77)


class Mixed(ArithmeticInputs):
    """A mixture of rows by arithmetic."""

    sources = types.MappingProxyType(
        {
            "far": types.SimpleNamespace(weight=3, inputs=Shifted()),
            "near": types.SimpleNamespace(weight=1, inputs=ArithmeticInputs()),
        }
    )


@pytest.fixture(scope="module")
def learner():
    return small_learner()


def measure(learner, inputs, callbacks=()):
    settings = small_config().training
    return IntervalValidation(learner, inputs, settings, callbacks).measure()


def test_results_of_a_source_are_those_of_it_alone(learner):
    found = measure(learner, Mixed())
    far = measure(learner, Shifted())
    near = measure(learner, ArithmeticInputs())
    assert far["loss"] != near["loss"]
    assert far.keys() == near.keys() > {"loss", "masked_lm_accuracy"}
    for name in far:
        assert found.pop(f"far/{name}") == far[name]
        assert found.pop(f"near/{name}") == near[name]
        assert found.pop(name) == pytest.approx((3 * far[name] + near[name]) / 4)
    assert not found


def test_datasets_are_named_after_the_sources_and_empty_without_validation():
    settings = small_config().training
    found = validation_datasets(Mixed(), settings, Distribution())
    assert [*found] == ["far", "near"]
    rows = {
        name: np.concatenate([batch["sample_number"] for batch in dataset])
        for name, dataset in found.items()
    }
    assert {name: len(of) for name, of in rows.items()} == {"far": 7, "near": 12}
    assert [*validation_datasets(ArithmeticInputs(), settings, Distribution())] == [""]
    without = small_config(validation_interval=0).training
    assert validation_datasets(Mixed(), without, Distribution()) == {}


def test_callbacks_hear_of_every_batch_and_logs_get_the_results(learner):
    class Batches(keras.callbacks.Callback):
        count = 0

        def on_test_batch_end(self, batch, logs=None):
            self.count += 1

    batches = Batches()
    settings = small_config().training
    validation = IntervalValidation(learner, Mixed(), settings, [batches])
    logs = {"loss": 1.0}
    validation.on_epoch_end(0, logs)
    # Of 7 and of 12 rows, 4 at a time.
    assert batches.count == 2 + 3
    assert logs.pop("loss") == 1.0
    assert {f"val_{name}" for name in validation.measure()} == logs.keys()
