"""One compiled model for many trainings, each of which gets it as if it were new."""

from collections.abc import Callable, Sequence
from typing import Any

import keras

from seg_tf.checkpoints.encoder_copies import under_dtype_policy
from seg_tf.finetuning.optimizer import (
    BERT_SETTINGS,
    LinearWarmupDecay,
    scheduled_optimizer,
)
from seg_tf.finetuning.trials.trial import Setting
from seg_tf.tasks.finetuning_settings import OptimizerSettings
from seg_tf.training import devices


class ReusableModel:
    """Compiles a model once, and gives it the state of a new one for every training.

    To trace the graph of a training step takes longer than some trials do, and
    TensorFlow never frees one.

    Args:
        make: from a seed to a new model, always of the same layers.
        loss_of: from a model to what it is trained for: a loss, or one for each
            output by name.
        dtype_policy: under which it is made; None takes the one that holds now.
        optimizer: settings of the optimizer beside the learning rate.
    """

    def __init__(
        self,
        make: Callable[[int], keras.Model],
        loss_of: Callable[[keras.Model], Any],
        dtype_policy: str | None = None,
        optimizer: OptimizerSettings = BERT_SETTINGS,
    ):
        self._make = make
        self._optimizer_settings = optimizer
        self._loss_of = loss_of
        self._policy = dtype_policy or keras.config.dtype_policy()
        self._schedule = LinearWarmupDecay(0.0, 1, optimizer.warmup_share)
        self._model: keras.Model | None = None

    def start(self, seed: int, learning_rate: float, num_updates: int) -> keras.Model:
        """The model, ready for `fit`, equal to one that was just made and compiled.

        Args:
            seed: for `make`.
            learning_rate: the highest one.
            num_updates: updates of the training.
        """
        with under_dtype_policy(self._policy):
            new = self._make(seed)
        if self._model is None:
            self._model = new
            self._compile()
        else:
            _copy(new, self._model)
        for variable, value in self._optimizer_state:
            variable.assign(value)
        self._schedule.set(learning_rate, num_updates)
        return self._model

    def train(
        self, batches: Any, setting: Setting, seed: int, callbacks: Sequence[Any]
    ) -> keras.Model:
        """The model after a training; `callbacks` are for Keras's `fit`."""
        epochs = setting.epochs
        model = self.start(seed, setting.learning_rate, len(batches) * epochs)
        model.fit(batches, epochs=epochs, verbose=0, callbacks=callbacks)
        return model

    def _compile(self) -> None:
        self._model.compile(
            scheduled_optimizer(self._schedule, self._optimizer_settings),
            self._loss_of(self._model),
            # Compiling every length of rows takes a CPU longer than it gains by it.
            jit_compile=devices.has_gpu(),
        )
        optimizer = self._model.optimizer  # perhaps with a loss scale around it
        optimizer.build(self._model.trainable_variables)
        self._optimizer_state = [
            (variable, variable.numpy()) for variable in optimizer.variables
        ]


def _copy(source: keras.Model, target: keras.Model) -> None:
    """Copies all state: weights, and that of the generators of dropout."""
    for new, old in zip(source.variables, target.variables, strict=True):
        if new.shape != old.shape or new.dtype != old.dtype:
            raise ValueError(
                "`make` must make the same layers for every seed. Received: "
                f"{new.path} of {new.shape}, {new.dtype} instead of {old.path} of "
                f"{old.shape}, {old.dtype}"
            )
        old.assign(new)
