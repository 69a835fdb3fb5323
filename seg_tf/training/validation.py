"""Validation of a run, of each source apart where its records are a mixture."""

from collections.abc import Iterable
from typing import Any

import keras
import tensorflow as tf

from seg_tf.config import TrainingConfig
from seg_tf.training.distribution import Distribution
from seg_tf.training.inputs import Inputs
from seg_tf.training.pretrainer import Pretrainer


def validation_datasets(
    inputs: Inputs, settings: TrainingConfig, distribution: Distribution
) -> dict[str, tf.data.Dataset]:
    """This process's rows of the validation, a micro-batch at a time.

    The samples are the same for any number of processes, and every process has
    equally many batches.

    Returns:
        A dataset for each source of a mixture; one, of no name, where this is none;
        nothing if the run has no validation.
    """
    if not settings.validation_interval:
        return {}
    micro_batch_size = settings.micro_batch_size or -(
        -settings.batch_size // distribution.size
    )
    parts = {name: source.inputs for name, source in inputs.sources.items()}
    return {
        name: part.validation_dataset(
            batch_size=micro_batch_size * distribution.size,
            max_samples=settings.validation_batches * settings.batch_size,
            rank=distribution.rank,
            num_ranks=distribution.size,
        )
        for name, part in (parts or {"": inputs}).items()
    }


class IntervalValidation(keras.callbacks.Callback):
    """Validates at the end of each Keras epoch and adds the results to its logs.

    Takes the place of Keras's `validation_data`, which is one dataset.

    Args:
        pretrainer: compiled and built.
        inputs: the input pipeline of the run.
        settings: the run's `TrainingConfig`.
        callbacks: called while a validation goes on.
    """

    def __init__(
        self,
        pretrainer: Pretrainer,
        inputs: Inputs,
        settings: TrainingConfig,
        callbacks: Iterable[keras.callbacks.Callback],
    ):
        super().__init__()
        self._pretrainer = pretrainer
        self._weights = {name: one.weight for name, one in inputs.sources.items()}
        self._datasets = validation_datasets(
            inputs, settings, pretrainer.step_options.distribution
        )
        self._callbacks = list(callbacks)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if logs is not None and self._datasets:
            logs |= {f"val_{name}": value for name, value in self.measure().items()}

    def measure(self) -> dict[str, float]:
        """Results of a validation.

        Of a mixture those of each source, named `SOURCE/loss` and so on, equal to those
        of a validation on it alone, and the mean of each by weight, named `loss` and so
        on.
        """
        found = {
            name: self._pretrainer.evaluate(
                dataset, callbacks=self._callbacks, return_dict=True, verbose=0
            )
            for name, dataset in self._datasets.items()
        }
        if not self._weights:
            return found[""]
        means = {
            metric: sum(found[name][metric] * self._weights[name] for name in found)
            / sum(self._weights.values())
            for metric in next(iter(found.values()))
        }
        return means | {
            f"{name}/{metric}": value
            for name, results in found.items()
            for metric, value in results.items()
        }
