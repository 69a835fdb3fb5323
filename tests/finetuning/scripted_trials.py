"""Runners whose scores are scripted, and finished trials made up."""

import pathlib

import keras
import numpy as np

from seg_tf.finetuning.trials import Trial, check_finite
from seg_tf.tasks.finetuning_settings import Setting


class ScriptedRunner:
    """Calls callbacks like `fit`, with the same dev scores for every trial.

    Args:
        dev_scores: main metric after each epoch.
        dies_in: numbers of runs, from 0, that a cut-off ends in their last epoch.
        diverges_in: numbers of runs that diverge there.
    """

    name = "scripted/task"
    main_metric = "f1"

    def __init__(self, dev_scores=(0.25, 0.5, 0.75), dies_in=(), diverges_in=()):
        self.dev_scores = dev_scores
        self.dies_in = dies_in
        self.diverges_in = diverges_in
        self.runs = []

    def run(self, trial, folder, callbacks=()):
        number = len(self.runs)
        setting = trial.setting
        self.runs.append(trial)
        (folder / "predictions.txt").write_text(str(number))
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        watching = keras.callbacks.CallbackList(
            list(callbacks), model=model, epochs=setting.epochs, steps=4
        )
        model.stop_training = False
        logs = []
        watching.on_train_begin()
        for epoch in range(setting.epochs):
            if number in self.dies_in and epoch == setting.epochs - 1:
                raise KeyboardInterrupt
            if number in self.diverges_in and epoch == setting.epochs - 1:
                check_finite(np.array([1.0, np.nan]), "scripted examples")
            model.set_weights([np.array([[epoch + 1.0]]), np.array([0.0])])
            row = {"loss": 1.0 / (1 + epoch), "dev_f1": self.dev_scores[epoch]}
            logs.append(row)
            watching.on_epoch_end(epoch, dict(row))
            if model.stop_training:
                break
        watching.on_train_end()
        self.last_epoch_of_weights = int(model.get_weights()[0][0, 0])
        score = self.dev_scores[self.last_epoch_of_weights - 1]
        return {"f1": score, "accuracy": 0.5}, logs


def finished(f1, seed=1, learning_rate=1e-4, epochs=2, **scores):
    """A trial that gave this."""
    logs = [{"loss": 0.5, "dev_f1": f1}] * 2
    setting = Setting(learning_rate, 16, epochs)
    return Trial(setting, seed, {"f1": f1, **scores}, logs, pathlib.Path("trials"))
