"""A trial: one training of a task, with one setting and one seed."""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import keras


@dataclasses.dataclass(frozen=True)
class Setting:
    """Hyperparameters that papers try several values of.

    Attributes:
        learning_rate: its highest value.
        batch_size: examples of an update.
        epochs: passes over the training data.
    """

    learning_rate: float
    batch_size: int
    epochs: int


class TaskRunner(Protocol):
    """Trains models of one task, from one checkpoint.

    Made once for all trials: files are read and texts encoded once.

    Attributes:
        name: that of the task, as in "glue/mrpc".
        main_metric: which score chooses among settings.
        baseline: scores of what needs no model.
        baseline_name: what that is, as in "most frequent label".
        in_percent: whether scores are percentages; else they are shares.
        num_examples: those trained on.
    """

    name: str
    main_metric: str
    baseline: Mapping[str, float]
    baseline_name: str
    in_percent: bool
    num_examples: int

    def describe(self) -> dict[str, Any]:
        """Further inputs that scores depend on, beside checkpoint and options.

        Returns:
            JSON-able values, above all checksums of files.
        """

    def run(
        self,
        setting: Setting,
        seed: int,
        folder: pathlib.Path,
        callbacks: Sequence[keras.callbacks.Callback] = (),
    ) -> dict[str, float]:
        """Trains one model and returns its scores on the dev split.

        Args:
            setting: what to train with.
            seed: of new weights, dropout and the order of examples.
            folder: existing folder for predictions, written aside and renamed.
            callbacks: for Keras's `fit`. A runner that scores every epoch has put
                those scores into the epoch's logs before, under `dev_<score>`.

        Raises:
            TrainingDiverged: if the model's outputs are no numbers any more.
        """
