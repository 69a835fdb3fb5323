"""Order of samples, validations and callbacks in the loop, with a scripted learner."""

import functools
import pathlib
import types

import keras
import numpy as np
import pytest

from seg_tf.training import run_folder
from seg_tf.training.distribution import Distribution
from seg_tf.training.inputs import validation_datasets
from seg_tf.training.run_folder import RunFolder
from seg_tf.training.step import NoMemory, StepOptions
from seg_tf.training.trainer import Trainer
from tests.training.stand_ins import (
    ArithmeticInputs,
    small_config,
    small_learner,
    validate,
)

pytestmark = pytest.mark.slow


class Part(Distribution):
    """One process of several that need not sum anything, and is not the chief."""

    is_chief = rank = size = None

    def __init__(self, rank=0, size=1):
        self.rank, self.size = rank, size


class Recorder:
    """Writes down the samples of every batch it is trained and validated on."""

    memory = NoMemory()
    encoder = types.SimpleNamespace(compute_dtype="float32", weights=[])
    objectives: types.MappingProxyType = types.MappingProxyType({})
    counters: tuple = ()
    learning_rate = padding_share = skipped_steps = tokens = 0
    stop_agreed = stop_training = False

    def __init__(self, updates, settings, distribution):
        self.updates = updates
        self.batch_size = settings.batch_size
        self.options = StepOptions(distribution=distribution)
        self.optimizer = types.SimpleNamespace(variables=[])
        self.events = []

    @property
    def samples(self):
        return self.updates * self.batch_size

    def start_update(self, next_batch):
        self._record("train", next_batch())
        self.updates += 1

    def finish_update(self, next_batch):
        pass

    def validate(self, features):
        self._record("test", features)

    def take_validation_results(self):
        return {"loss": 1.0}

    def interval_results(self):
        return {"loss": 2.0}

    def reset_interval(self):
        pass

    def _record(self, kind, features):
        self.events.append((kind, np.asarray(features["sample_number"]).tolist()))


class Epochs(keras.callbacks.Callback):
    """Writes down when epochs end, and what is logged there."""

    def __init__(self):
        super().__init__()
        self.begins, self.ends = [], []

    def on_epoch_begin(self, epoch, logs=None):
        self.begins.append(epoch)

    def on_epoch_end(self, epoch, logs=None):
        self.ends.append((epoch, self.model.updates, logs))


def run(updates=0, distribution=None, callbacks=(), inputs=None, **training):
    config, epochs = small_config(**training), Epochs()
    learner = Recorder(updates, config.training, distribution or Part())
    inputs = inputs or ArithmeticInputs()
    trainer = Trainer(
        config,
        inputs,
        learner,
        RunFolder(pathlib.Path("never/written")),
        run_folder.describe_run(config, {}),
        callbacks=[epochs, *callbacks],
        report=lambda line: None,
    )
    # The state of the chief, which this process would receive.
    if updates:
        trainer._validation = (updates, {"loss": 1.0})
    trainer.train()
    return learner, epochs


def train_samples(learner):
    return [
        number for kind, batch in learner.events if kind == "train" for number in batch
    ]


@pytest.mark.parametrize(
    "num_updates, interval, ends",
    [
        pytest.param(6, 3, [(0, 3), (1, 6)], id="whole intervals"),
        pytest.param(7, 3, [(0, 3), (1, 6), (2, 7)], id="last one short"),
        pytest.param(2, 5, [(0, 2)], id="less than one"),
    ],
)
def test_every_sample_comes_once_and_in_order(num_updates, interval, ends):
    learner, epochs = run(num_updates=num_updates, validation_interval=interval)
    assert train_samples(learner) == list(range(4 * num_updates))
    assert [end[:2] for end in epochs.ends] == ends
    assert all(logs == {"loss": 2.0, "val_loss": 1.0} for *_, logs in epochs.ends)


@functools.cache
def unbroken_run():
    return run(num_updates=7, validation_interval=3)


@pytest.mark.parametrize("updates", range(8))
def test_a_run_resumed_anywhere_does_what_an_unbroken_one_does(updates):
    whole, whole_epochs = unbroken_run()
    rest, epochs = run(updates, num_updates=7, validation_interval=3)
    assert train_samples(rest) == train_samples(whole)[4 * updates :]
    assert epochs.ends == [end for end in whole_epochs.ends if end[1] > updates]
    assert epochs.begins == [epoch for epoch, *_ in epochs.ends]
    # Not only the samples: the validations between them too.
    assert rest.events == whole.events[len(whole.events) - len(rest.events) :]


def test_ranks_share_micro_batches_as_evenly_as_they_can():
    ranks = [
        run(num_updates=2, batch_size=8, micro_batch_size=2, distribution=Part(r, 3))[0]
        for r in range(3)
    ]
    assert [train_samples(learner) for learner in ranks] == [
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


def test_keras_callbacks_work_and_can_stop_the_run():
    history = keras.callbacks.History()
    stop = keras.callbacks.EarlyStopping("val_loss", patience=1)
    learner, _ = run(
        updates=1, num_updates=50, validation_interval=4, callbacks=[history, stop]
    )
    # The loss never improves: seen at update 4, given up at update 8.
    assert learner.updates == 8
    assert history.history["val_loss"] == [1.0, 1.0]


class Batches(keras.callbacks.Callback):
    """Counts calls, and stops the run at a batch."""

    def __init__(self, last):
        super().__init__()
        self.last, self.calls = last, []

    def on_train_batch_end(self, batch, logs=None):
        self.calls.append(("train", batch, logs))
        self.model.stop_training = self.model.updates == self.last

    def on_test_batch_end(self, batch, logs=None):
        self.calls.append(("test", batch, logs))


def test_a_run_that_a_batch_stops_is_validated_first():
    batches = Batches(last=5)
    learner, epochs = run(num_updates=9, validation_interval=4, callbacks=[batches])
    assert learner.updates == 5
    logs = {"loss": 2.0}
    validated = [("test", number, {}) for number in range(3)]
    assert batches.calls == [
        *(("train", number, logs) for number in range(4)),
        *validated,
        ("train", 0, logs),
        *validated,
    ]
    assert [end[:2] for end in epochs.ends] == [(0, 4), (1, 5)]


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


def test_results_of_a_source_are_those_of_it_alone():
    learner, config = small_learner(), small_config(num_updates=1)
    results = {}
    for name, inputs in (
        ("mixed", Mixed()),
        ("far", Shifted()),
        ("near", ArithmeticInputs()),
    ):
        trainer = Trainer(
            config,
            inputs,
            learner,
            RunFolder(pathlib.Path("never/written")),
            run_folder.describe_run(config, {}),
            report=lambda line: None,
        )
        trainer._distribution = Part()
        trainer.updates = 1  # nothing is left to do but the validation
        trainer._run()
        results[name] = trainer._validation[1]
    mixed, far, near = results["mixed"], results["far"], results["near"]
    assert far["loss"] != near["loss"]
    assert far.keys() == near.keys() > {"loss", "masked_lm_accuracy"}
    batches = validation_datasets(Shifted(), config.training, Part())[""]
    assert far == validate(learner, batches)
    for name in far:
        assert mixed.pop(f"far/{name}") == far[name]
        assert mixed.pop(f"near/{name}") == near[name]
        assert mixed.pop(name) == pytest.approx((3 * far[name] + near[name]) / 4)
    assert not mixed
