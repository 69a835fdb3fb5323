"""A run that is small enough for tests: inputs by arithmetic, a one-layer model."""

import contextlib
import dataclasses
import os
import signal
import types
from unittest import mock

import keras
import numpy as np
import tensorflow as tf

from seg_tf.config import AdamWConfig, EncoderConfig, RunConfig, TrainingConfig
from seg_tf.data import sample_order
from seg_tf.data.inputs import MaskingConfig, WindowInputsConfig
from seg_tf.training import build, checkpoint, run_folder
from seg_tf.training.run_folder import RunFolder
from seg_tf.training.trainer import Trainer

VOCAB_SIZE = 50
LENGTH = 12
NUM_PREDICTIONS = 3


class ArithmeticInputs:
    """Row `k` of a run is arithmetic on `k`; every third is half padding."""

    vocab_size = VOCAB_SIZE
    vocab_checksum = "of fifty pieces"
    text_preparation = None
    num_train_samples = 1_000
    num_validation_samples = 20
    fill = 5 / 6
    sources = types.MappingProxyType({})

    def train_dataset(
        self,
        batch_size,
        first_sample=0,
        rank=0,
        num_ranks=1,
        micro_batch_size=None,
    ):
        share = sample_order.share_of_rank(
            batch_size, rank, num_ranks, micro_batch_size
        )

        def samples(step):
            return sample_order.rank_samples(step, first_sample, share)

        return self._batches(tf.data.Dataset.counter(), samples).prefetch(3)

    def validation_dataset(self, batch_size, max_samples=None, rank=0, num_ranks=1):
        num_samples = min(self.num_validation_samples, max_samples or 10**9)
        rows = batch_size // num_ranks

        def samples(step):
            numbers = step * batch_size + rank * rows + tf.range(rows, dtype=tf.int64)
            return 5_000 + tf.boolean_mask(numbers, numbers < num_samples)

        return self._batches(
            tf.data.Dataset.range(-(-num_samples // batch_size)), samples
        )

    def describe_sample(self, sample):
        return f"sample {sample}"

    def _batches(self, steps, samples):
        # As in `window_inputs`.
        make_batch = tf.autograph.experimental.do_not_convert(
            lambda step: self._features(samples(step))
        )
        return steps.map(make_batch)

    def _features(self, samples):
        position = tf.range(LENGTH, dtype=tf.int64)[tf.newaxis, :]
        mixed = (samples[:, tf.newaxis] * 7_919 + position * 104_729) % 9_973
        token_ids = tf.cast(5 + mixed % (VOCAB_SIZE - 5), tf.int32)
        length = tf.where(samples % 3 == 0, LENGTH // 2, LENGTH)[:, tf.newaxis]
        masked = tf.tile([[1, 3, 5]], [tf.shape(samples)[0], 1])
        # A row has one to three predictions, so that batches weigh differently.
        weights = tf.sequence_mask(1 + samples % NUM_PREDICTIONS, NUM_PREDICTIONS)
        return {
            "token_ids": token_ids,
            "padding_mask": position < tf.cast(length, tf.int64),
            "position_index": tf.zeros_like(token_ids) + tf.range(LENGTH),
            "masked_positions": masked,
            "masked_ids": tf.gather(token_ids, masked, batch_dims=1),
            "masked_weights": tf.cast(weights, tf.float32),
            "sample_number": samples,
        }


def small_config(dropout=0.1, **training) -> RunConfig:
    """Config of a run on `ArithmeticInputs`."""
    settings = {
        "num_updates": 20,
        "batch_size": 4,
        "log_interval": 3,
        "validation_interval": 8,
        "validation_batches": 3,
        "checkpoint_interval": 5,
        "deterministic_ops": False,
        **training,
    }
    return RunConfig(
        name="small",
        paper="bert_base",
        model=EncoderConfig(
            index_tables={"position_index": LENGTH},
            num_layers=1,
            hidden_size=8,
            num_heads=2,
            intermediate_size=16,
            dropout=dropout,
        ),
        inputs=WindowInputsConfig(
            window_length=LENGTH,
            masking=MaskingConfig(max_predictions=NUM_PREDICTIONS),
        ),
        optimizer=AdamWConfig(learning_rate=1e-2),
        training=TrainingConfig(**settings),
    )


def small_learner(config=None, **changes):
    """A built learner of `small_config`, or of that with changes of the run."""
    config = dataclasses.replace(config or small_config(), **changes)
    return build.build_learner(config, ArithmeticInputs())


@contextlib.contextmanager
def no_draws():
    """Has weights start from zeros, where draws of every shape take longest."""

    def zeros(self, shape, dtype=None):
        return np.zeros(shape, dtype)

    drawn = keras.initializers.RandomNormal, keras.initializers.TruncatedNormal
    with contextlib.ExitStack() as stack:
        for one in drawn:
            stack.enter_context(mock.patch.object(one, "__call__", zeros))
        yield


_BUILT = {}
_build_learner = build.build_learner


def as_built(config, inputs, distribution=None):
    """A learner in the state in which it is built, for a run at a time.

    Runs that differ in what the loop does between updates share one, and its graphs.
    """
    settings = dataclasses.replace(
        config.training,
        log_interval=1,
        validation_interval=1,
        checkpoint_interval=1,
        keep_checkpoints=1,
    )
    key = repr(dataclasses.replace(config, training=settings))
    if key not in _BUILT:
        built = _build_learner(config, inputs, distribution)
        variables = checkpoint.all_variables(built)
        _BUILT[key] = built, [variable.numpy().copy() for variable in variables]
    learner, values = _BUILT[key] = _BUILT.pop(key)
    if len(_BUILT) > 2:  # graphs take memory: the two used last are kept
        del _BUILT[next(iter(_BUILT))]
    variables = checkpoint.all_variables(learner)
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
    learner.memory.share()
    learner._in_flight, learner._skipped = None, 0
    return learner


def make_updates(learner, batches, number):
    """Makes that many updates from the first batches."""
    batches = iter(batches)
    for _ in range(number):
        learner.make_update(batches)


def validate(learner, batches):
    """Results of a validation on batches."""
    learner.take_validation_results()
    for features in batches:
        learner.validate(features)
    return learner.take_validation_results()


def pretrain(folder, config, inputs, *events, learner=None, records=None, **choice):
    """Trains a run in `folder` to its end; returns the learner and the result."""
    learner = learner or as_built(config, inputs)
    run = run_folder.describe_run(config, records or {"manifest_checksum": "abc"})
    choice = {"report": str, **choice}
    trainer = Trainer(config, inputs, learner, RunFolder(folder), run, **choice)
    with contextlib.ExitStack() as stack:
        for event in events:
            stack.enter_context(event.on(learner))
        return learner, trainer.train()


class At:
    """Does something once, when a given update, or its validation, begins."""

    def __init__(self, updates, action, during="train"):
        self.updates = updates
        self.action = action
        self.during = during

    @contextlib.contextmanager
    def on(self, learner):
        is_train = self.during == "train"
        name = "start_update" if is_train else "validate"
        begin = getattr(learner, name)

        def act_and_begin(argument):
            if learner.updates + is_train == self.updates:
                self.updates = None
                self.action(learner)
            begin(argument)

        with mock.patch.object(learner, name, act_and_begin):
            yield


def terminate(learner):
    os.kill(os.getpid(), signal.SIGTERM)
