"""Training of a probe: with early stopping on dev, for each strength of its penalty."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np

from seg_tf.finetuning.probing.probe import (
    Labelled,
    make_probe,
    pass_function,
    predict,
)
from seg_tf.tasks.discoeval import ProbeSettings


@dataclasses.dataclass(frozen=True)
class TrainedProbe:
    """A probe, and how its training went.

    Attributes:
        model: with the weights that were best on dev.
        l2: strength of its penalty.
        dev_accuracy: the best one.
        accuracies: that of each evaluation on dev.
        losses: mean loss, the penalty included, of the passes before each.
    """

    model: keras.Model
    l2: float
    dev_accuracy: float
    accuracies: tuple[float, ...]
    losses: tuple[float, ...]


def train_probe(
    train: Labelled,
    dev: Labelled,
    num_classes: int,
    settings: ProbeSettings,
    seed: int,
    callbacks: Sequence[keras.callbacks.Callback] = (),
) -> list[TrainedProbe]:
    """Trains a probe with each of the settings' `l2`.

    All start from the same weights and see the examples in the same order, as in the
    benchmark's code.

    Args:
        train: what is learnt from, in a new order in each pass.
        dev: what each training is ended by.
        num_classes: number of labels.
        settings: how.
        seed: of first weights and orders.
        callbacks: hear of all as one training, whose epochs are what lies between two
            evaluations, with `loss`, `dev_accuracy` and `l2` in their logs. They
            cannot end it.

    Returns:
        Trained probes, best first; of equally good ones that of the `l2` named first.
    """
    num_features = train.features.shape[1]
    models = [
        make_probe(num_features, num_classes, settings.hidden_size, l2, seed)
        for l2 in settings.l2
    ]
    num_batches = -(-len(train.labels) // settings.batch_size)
    listeners = keras.callbacks.CallbackList(
        list(callbacks),
        model=models[0],
        epochs=max_evaluations(settings),
        steps=num_batches * settings.passes_per_evaluation,
        verbose=0,
    )
    epochs = itertools.count()
    listeners.on_train_begin()
    trained, best_weights = [], []
    for model, l2 in zip(models, settings.l2, strict=True):
        listeners.set_model(model)
        losses, kept = [], []
        accuracies = until_dev_says_so(
            settings,
            _epoch(model, train, dev, settings, seed, losses, epochs, listeners, l2),
            lambda model=model, kept=kept: kept.append(model.get_weights()),
        )
        best_weights.append(kept[-1])
        trained.append(
            TrainedProbe(model, l2, max(accuracies), tuple(accuracies), tuple(losses))
        )
    listeners.on_train_end()
    # Last, since a callback may have set other weights.
    for probe, weights in zip(trained, best_weights, strict=True):
        probe.model.set_weights(weights)
    return sorted(trained, key=lambda probe: -probe.dev_accuracy)


def max_evaluations(settings: ProbeSettings) -> int:
    """The most evaluations on dev, of all strengths of the penalty together."""
    # The last is of passes begun when `max_passes` had been made, and not more.
    of_each = settings.max_passes // settings.passes_per_evaluation + 1
    return of_each * len(settings.l2)


def until_dev_says_so(
    settings: ProbeSettings, train: Callable[[], float], keep: Callable[[], Any]
) -> list[float]:
    """The order of events of a training: see `seg_tf.tasks.discoeval.probes`.

    Args:
        settings: of them, passes and tenacity.
        train: makes as many passes as lie between evaluations; the accuracy on dev.
        keep: is called when that was the best one so far.

    Returns:
        The accuracy of each evaluation.
    """
    accuracies, num_passes, num_failures = [], 0, 0
    while num_passes <= settings.max_passes and num_failures <= settings.tenacity:
        accuracy = train()
        num_passes += settings.passes_per_evaluation
        if accuracy > max(accuracies, default=-1.0):
            keep()
        else:
            # In all: a rise in between does not make them fewer.
            num_failures += 1
        accuracies.append(accuracy)
    return accuracies


def _epoch(
    model: keras.Model,
    train: Labelled,
    dev: Labelled,
    settings: ProbeSettings,
    seed: int,
    losses: list[float],
    epochs: Iterator[int],
    listeners: keras.callbacks.CallbackList,
    l2: float,
) -> Callable[[], float]:
    """Makes a function that trains some passes and returns the accuracy on dev."""
    make_pass = pass_function(model, train, settings.batch_size)
    generator = np.random.default_rng(seed)

    def train_and_evaluate() -> float:
        number = next(epochs)
        listeners.on_epoch_begin(number)
        of_passes = [
            make_pass(generator.permutation(len(train.labels)))
            for _ in range(settings.passes_per_evaluation)
        ]
        losses.append(float(np.mean(of_passes)))
        accuracy = float(np.mean(predict(model, dev.features) == dev.labels))
        logs = {"loss": losses[-1], "dev_accuracy": accuracy, "l2": l2}
        listeners.on_epoch_end(number, logs)
        return accuracy

    return train_and_evaluate
