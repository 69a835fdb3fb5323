import functools

import keras
import pytest
import tensorflow as tf

from seg_tf.training import fitting
from seg_tf.training.distribution import Distribution
from seg_tf.training.step import StepOptions
from tests.training.stand_ins import ArithmeticInputs, small_config

pytestmark = pytest.mark.slow


class Recorder(keras.Model):
    """Writes down the samples of every batch it is trained and tested on."""

    def __init__(self, updates, settings, distribution):
        super().__init__()
        self.events = []
        self.samples = updates * settings.batch_size
        self.step_options = StepOptions(distribution=distribution)
        self.compile()

    metrics = ()  # the logs are those of the last batch

    def train_step(self, features):
        return self._record("train", features)

    def test_step(self, features):
        return self._record("test", features)

    def _record(self, kind, features):
        def record(samples):
            self.events.append((kind, samples.numpy().tolist()))

        tf.py_function(record, [features["sample_number"]], [])
        return {"loss": tf.constant(1.0)}


class Counter(keras.callbacks.Callback):
    """As much of the supervisor as `fit` needs."""

    def __init__(self, settings, updates):
        super().__init__()
        self.settings = settings
        self.updates = updates
        self.validations = []

    def on_train_batch_end(self, batch, logs=None):
        self.updates += 1
        self.model.samples += self.settings.batch_size
        if self.updates >= self.settings.num_updates:
            self.model.stop_training = True

    def on_epoch_end(self, epoch, logs=None):
        if not self.settings.validation_interval:
            assert "val_loss" not in logs
            return
        assert logs["val_loss"] == 1.0
        self.validations.append((epoch, self.updates))


def run(updates=0, distribution=None, callbacks=(), **training):
    settings = small_config(**training).training
    model = Recorder(updates, settings, distribution or Distribution())
    counter = Counter(settings, updates)
    fitting.fit(model, ArithmeticInputs(), settings, counter, callbacks)
    return model, counter


def train_samples(model):
    return [
        number for kind, batch in model.events if kind == "train" for number in batch
    ]


@pytest.mark.parametrize(
    "num_updates, interval, validations",
    [
        pytest.param(6, 3, [(0, 3), (1, 6)], id="whole intervals"),
        pytest.param(7, 3, [(0, 3), (1, 6), (2, 7)], id="last one short"),
        pytest.param(2, 5, [(0, 2)], id="less than one"),
    ],
)
def test_every_sample_comes_once_and_in_order(num_updates, interval, validations):
    model, counter = run(num_updates=num_updates, validation_interval=interval)
    # Across Keras epochs, whatever the dataset had prefetched at their ends.
    assert train_samples(model) == list(range(4 * num_updates))
    assert counter.validations == validations


@pytest.mark.parametrize("updates", [0, 2])
def test_without_validation_the_run_is_one_stretch(updates):
    model, counter = run(updates, num_updates=5, validation_interval=0)
    assert train_samples(model) == list(range(4 * updates, 20))
    assert {kind for kind, _ in model.events} == {"train"}
    assert counter.validations == []


@functools.cache
def unbroken_run():
    return run(num_updates=7, validation_interval=3)


@pytest.mark.parametrize("updates", range(8))
def test_run_taken_up_anywhere_does_what_an_unbroken_one_does(updates):
    whole, whole_counter = unbroken_run()
    rest, counter = run(updates, num_updates=7, validation_interval=3)
    assert train_samples(rest) == train_samples(whole)[4 * updates :]
    expected = [done for done in whole_counter.validations if done[1] > updates]
    assert counter.validations == expected
    if updates not in (0, 7):
        # Not only the samples: what comes between them too.
        assert rest.events == whole.events[-len(rest.events) :]


class Part(Distribution):
    """One process of several that need not sum anything."""

    rank = size = None

    def __init__(self, rank, size):
        self.rank, self.size = rank, size


def test_ranks_share_the_batches():
    first, _ = run(num_updates=3, distribution=Part(0, 2))
    second, _ = run(num_updates=3, distribution=Part(1, 2))
    assert train_samples(first) == [0, 1, 4, 5, 8, 9]
    assert train_samples(second) == [2, 3, 6, 7, 10, 11]


def test_ranks_share_micro_batches_as_evenly_as_they_can():
    ranks = [
        run(num_updates=2, batch_size=8, micro_batch_size=2, distribution=Part(r, 3))[0]
        for r in range(3)
    ]
    assert [train_samples(model) for model in ranks] == [
        [0, 1, 8, 9],
        [2, 3, 10, 11],
        [4, 5, 6, 7, 12, 13, 14, 15],
    ]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_ranks_validate_the_same_samples_in_equally_many_batches(size):
    ranks = [
        run(
            num_updates=2,
            batch_size=6,
            micro_batch_size=1,
            validation_interval=2,
            distribution=Part(rank, size),
        )[0]
        for rank in range(size)
    ]
    batches = [[b for kind, b in m.events if kind == "test"] for m in ranks]
    assert {len(of_rank) for of_rank in batches} == {-(-18 // size)}
    together = [sample for of_rank in batches for batch in of_rank for sample in batch]
    assert sorted(together) == list(range(5000, 5018))


def test_validation_reads_the_same_samples_each_time():
    model, _ = run(num_updates=6, validation_interval=3, validation_batches=2)
    tests = [batch for kind, batch in model.events if kind == "test"]
    assert tests == [[5000, 5001, 5002, 5003], [5004, 5005, 5006, 5007]] * 2


def test_keras_callbacks_work_and_can_stop_the_run():
    history = keras.callbacks.History()
    stop = keras.callbacks.EarlyStopping("val_loss", patience=1)
    _, counter = run(
        updates=1,
        num_updates=50,
        validation_interval=4,
        callbacks=[history, stop],
    )
    # The loss never improves: seen at update 4, again at 8, given up there. The
    # call of `fit` that ends at update 4 is one of its own, so count from 8.
    assert counter.updates == 12
    assert history.history["val_loss"] == [1.0, 1.0, 1.0]
