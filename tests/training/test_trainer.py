"""Order of samples and validations in the loop, with a scripted learner."""

import functools
import pathlib
import types

import keras
import numpy as np
import pytest

from seg_tf.training import run_folder
from seg_tf.training.distribution import Distribution
from seg_tf.training.run_folder import RunFolder
from seg_tf.training.step import LaneMemory, StepOptions
from seg_tf.training.trainer import Trainer
from tests.training.stand_ins import ArithmeticInputs, small_config

pytestmark = pytest.mark.slow


class Part(Distribution):
    """One process of several that need not sum anything, and is not the chief."""

    is_chief = rank = size = None

    def __init__(self, rank=0, size=1):
        self.rank, self.size = rank, size


class Recorder:
    """Writes down the samples of every batch it is trained and validated on."""

    memory = LaneMemory()
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


def run(updates=0, distribution=None, callbacks=(), **training):
    """What the learner of a run was trained and validated on, in order."""
    config = small_config(**training)
    learner = Recorder(updates, config.training, distribution or Part())
    trainer = trainer_of(config, ArithmeticInputs(), learner)
    trainer.callback_factories = [lambda _, one=one: one for one in callbacks]
    # The state of the chief, which this process would receive.
    if updates:
        trainer._validation = (updates, {"loss": 1.0})
    trainer.train()
    return learner.events


def trainer_of(config, inputs, learner):
    folder = RunFolder(pathlib.Path("never/written"))
    described = run_folder.describe_run(config, {})
    return Trainer(config, inputs, learner, folder, described, report=str)


def samples_of(kind, events):
    return [number for found, batch in events if found == kind for number in batch]


@pytest.mark.parametrize(
    ("num_updates", "interval", "ends"),
    [(6, 3, [3, 6]), (7, 3, [3, 6, 7]), (2, 5, [2])],
)
def test_samples_come_once_and_in_order_between_validations(
    num_updates, interval, ends
):
    events = run(num_updates=num_updates, validation_interval=interval)
    assert samples_of("train", events) == list(range(4 * num_updates))
    kinds = [kind for kind, _ in events]
    expected = []
    for updates in range(1, num_updates + 1):
        expected += ["train"] + ["test"] * 3 * (updates in ends)
    assert kinds == expected


@functools.cache
def unbroken_run():
    return run(num_updates=7, validation_interval=3)


@pytest.mark.parametrize("updates", range(8))
def test_a_run_resumed_anywhere_does_what_an_unbroken_one_does(updates):
    rest = run(updates, num_updates=7, validation_interval=3)
    assert samples_of("train", rest) == list(range(4 * updates, 28))
    # The validations between them too.
    assert rest == unbroken_run()[len(unbroken_run()) - len(rest) :]


class Calls(keras.callbacks.Callback):
    """Writes down how it is called."""

    def __init__(self):
        super().__init__()
        self.found = []

    def on_train_begin(self, logs=None):
        self.found.append("begin")

    def on_train_batch_end(self, batch, logs=None):
        self.found.append((batch, self.model.updates, logs["loss"]))

    def on_epoch_end(self, epoch, logs=None):
        self.found.append((epoch, logs["val_loss"]))

    def on_train_end(self, logs=None):
        self.found.append("end")


def test_keras_callbacks_are_called_and_can_end_the_run():
    calls, stop = Calls(), keras.callbacks.EarlyStopping("val_loss", patience=1)
    events = run(num_updates=50, validation_interval=2, callbacks=[calls, stop])
    assert samples_of("train", events) == list(range(4 * 4))
    assert calls.found == [
        "begin",
        *[(0, 1, 2.0), (1, 2, 2.0), (0, 1.0)],
        *[(2, 3, 2.0), (3, 4, 2.0), (1, 1.0), "end"],
    ]
