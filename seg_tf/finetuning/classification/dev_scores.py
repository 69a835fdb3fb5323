"""Scores of the dev split while a model trains."""

from collections.abc import Callable, Mapping
from typing import Any

import keras

PREFIX = "dev_"


class DevScores(keras.callbacks.Callback):
    """Puts scores into the logs of every epoch, as `dev_<score>`.

    They are of all predictions together, which metrics such as F1 need. Callbacks
    behind it, such as `keras.callbacks.EarlyStopping`, see them, and so does the
    history.

    Args:
        score: from the model as it is to its scores.
    """

    def __init__(self, score: Callable[[keras.Model], Mapping[str, float]]):
        super().__init__()
        self._score = score

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        scores = self._score(self.model)
        if logs is not None:
            logs.update({PREFIX + name: value for name, value in scores.items()})
