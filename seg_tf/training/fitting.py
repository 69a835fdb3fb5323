"""Drives Keras's `fit` over the remaining updates of a run."""

from collections.abc import Iterable, Iterator

import keras
import tensorflow as tf

from seg_tf.config import TrainingConfig
from seg_tf.training.distribution import Distribution
from seg_tf.training.inputs import Inputs
from seg_tf.training.pretrainer import Pretrainer
from seg_tf.training.supervisor import Supervisor
from seg_tf.training.validation import IntervalValidation


def fit(
    pretrainer: Pretrainer,
    inputs: Inputs,
    settings: TrainingConfig,
    supervisor: Supervisor,
    callbacks: Iterable[keras.callbacks.Callback] = (),
) -> None:
    """Trains from `supervisor.updates` to the end of the run.

    A Keras epoch is a validation interval, or the whole run if it has none. A run that
    is resumed inside one finishes it in a separate `fit` call. Within a call Keras
    reads one iterator from end to end, so that batches are neither dropped nor seen
    twice.

    Args:
        pretrainer: compiled and built.
        inputs: the input pipeline of the run.
        settings: the run's `TrainingConfig`.
        supervisor: counts the updates, and stops at the last.
        callbacks: further Keras callbacks. A stop they ask for ends the run, and all
            processes of it have to ask for it after the same update.
    """
    distribution = pretrainer.step_options.distribution
    during = [supervisor, *callbacks]
    validation = IntervalValidation(pretrainer, inputs, settings, during)
    for epoch, end_epoch, steps in _fit_calls(supervisor.updates, settings):
        pretrainer.fit(
            train_dataset(inputs, settings, pretrainer.samples, distribution),
            initial_epoch=epoch,
            epochs=end_epoch,
            steps_per_epoch=steps,
            callbacks=[validation, *during],
            shuffle=False,
            verbose=0,
        )
        if pretrainer.stop_training:
            break


def _fit_calls(
    updates: int, settings: TrainingConfig
) -> Iterator[tuple[int, int, int]]:
    """(first epoch, end epoch, steps of an epoch) of the `fit` calls to make."""
    if updates >= settings.num_updates:
        return
    interval = settings.validation_interval or settings.num_updates
    epoch, done = divmod(updates, interval)
    end_epoch = -(-settings.num_updates // interval)
    if done:
        yield epoch, epoch + 1, interval - done
        epoch += 1
    if epoch < end_epoch:
        # The last epoch may be cut short: the supervisor stops it.
        yield epoch, end_epoch, interval


def train_dataset(
    inputs: Inputs,
    settings: TrainingConfig,
    first_sample: int,
    distribution: Distribution,
) -> tf.data.Dataset:
    """This process's rows of the batches from `first_sample` on."""
    return inputs.train_dataset(
        batch_size=settings.batch_size,
        first_sample=first_sample,
        rank=distribution.rank,
        num_ranks=distribution.size,
        micro_batch_size=distribution.rows_at_once(settings.micro_batch_size),
    )
