"""The optimizer for fine-tuning, and a compiled model for several training runs."""

import functools
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from seg_tf.finetuning.trials import Callbacks, Trial
from seg_tf.layers.common import under_dtype_policy
from seg_tf.tasks.finetuning_settings import OptimizerSettings
from seg_tf.training.optimizers import NO_WEIGHT_DECAY, AdamW
from seg_tf.training.tensorflow_engine import TensorFlowEngine

BERT_SETTINGS = OptimizerSettings()
DEFAULT_LEARNING_RATE = 3e-5


@keras.saving.register_keras_serializable(package="seg_tf")
class LinearWarmupDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Learning rate schedule with linear warmup and linear decay to 0.

    Args:
        learning_rate: float. Peak learning rate.
        num_updates: int. Total number of updates.
        warmup_share: float. Fraction of the updates in which the rate rises.
        for_one_fit: bool. Whether `TextClassifier.fit` created the schedule. If so, the
            next call of `fit` replaces it.
    """

    def __init__(
        self,
        learning_rate: float,
        num_updates: int,
        warmup_share: float = BERT_SETTINGS.warmup_share,
        for_one_fit: bool = False,
    ):
        super().__init__()
        self.warmup_share = warmup_share
        self.for_one_fit = for_one_fit
        make = functools.partial(keras.Variable, trainable=False)
        # Not int32: TensorFlow keeps such variables on the host, where code compiled
        # for a GPU cannot read them.
        self._peak = make(0.0, dtype="float32", name="peak_learning_rate")
        self._num_updates = make(1, dtype="int64", name="num_updates")
        self._warmup_updates = make(0, dtype="int64", name="warmup_updates")
        self.set(learning_rate, num_updates)

    def set(self, learning_rate: float, num_updates: int) -> None:
        """Changes the peak rate and length of the schedule, even after `compile`."""
        self._peak.assign(learning_rate)
        self._num_updates.assign(num_updates)
        self._warmup_updates.assign(round(self.warmup_share * num_updates))

    def __call__(self, step: Any) -> Any:
        """Returns the float32 learning rate of update `step`, counted from 0."""

        def ratio(count: Any, total: Any) -> Any:
            total = ops.cast(ops.maximum(total, 1), "float32")
            return ops.cast(count, "float32") / total

        done = ops.cast(step, "int64")
        warmup, last = self._warmup_updates.value, self._num_updates.value
        rising = ratio(done + 1, warmup)
        falling = ratio(ops.maximum(last - done, 0), last - warmup)
        return self._peak.value * ops.where(done < warmup, rising, falling)

    def get_config(self) -> dict[str, Any]:
        return {
            "learning_rate": float(self._peak),
            "num_updates": int(self._num_updates),
            "warmup_share": self.warmup_share,
            "for_one_fit": self.for_one_fit,
        }


def finetuning_optimizer(learning_rate: float, num_updates: int) -> AdamW:
    """Creates AdamW with BERT's fine-tuning settings, for `compile`.

    The learning rate rises over the first tenth of the updates and then falls to 0. The
    weight decay is 0.01, except for biases and LayerNorm. Gradients are clipped to a
    global norm of 1.

    Args:
        learning_rate: float. Peak learning rate.
        num_updates: int. Total number of updates: batches per epoch times epochs.
    """
    return scheduled_optimizer(LinearWarmupDecay(learning_rate, num_updates))


def scheduled_optimizer(
    schedule: LinearWarmupDecay, settings: OptimizerSettings = BERT_SETTINGS
) -> AdamW:
    """Creates AdamW from a schedule and settings. Ignores `settings.warmup_share`."""
    return AdamW(
        schedule,
        undecayed=[NO_WEIGHT_DECAY],
        weight_decay=settings.weight_decay,
        epsilon=settings.epsilon,
        global_clipnorm=settings.clip_norm,
        name="adamw",
    )


class ReusableModel:
    """A model that is compiled once, and reset before every training run.

    Tracing a training step takes longer than some trials, and TensorFlow never frees
    traced graphs. `make` creates a model from a seed, and `make_loss` returns the loss
    of a model, or its losses by output. `dtype_policy` defaults to the current policy.
    """

    def __init__(
        self,
        make: Callable[[int], keras.Model],
        make_loss: Callable[[keras.Model], Any],
        dtype_policy: str | None = None,
        optimizer: OptimizerSettings = BERT_SETTINGS,
    ):
        self._make = make
        self._optimizer_settings = optimizer
        self._make_loss = make_loss
        self._policy = dtype_policy or keras.config.dtype_policy()
        self._schedule = LinearWarmupDecay(0.0, 1, optimizer.warmup_share)
        self._model: keras.Model | None = None

    def start(self, seed: int, learning_rate: float, num_updates: int) -> keras.Model:
        """Returns the model with new weights from `seed` and a new optimizer state."""
        with under_dtype_policy(self._policy):
            new = self._make(seed)
        if self._model is None:
            self._model = new
            new.compile(
                scheduled_optimizer(self._schedule, self._optimizer_settings),
                self._make_loss(new),
                # Compiling every row length takes a CPU longer than it saves.
                jit_compile=TensorFlowEngine().has_gpu(),
            )
            # In float16, the optimizer is wrapped in a loss-scaling optimizer.
            new.optimizer.build(new.trainable_variables)
            self._optimizer_state = [
                (variable, variable.numpy()) for variable in new.optimizer.variables
            ]
        # Reset the weights and the seed generators of dropout.
        for value, variable in zip(new.variables, self._model.variables, strict=True):
            variable.assign(value)
        for variable, value in self._optimizer_state:
            variable.assign(value)
        self._schedule.set(learning_rate, num_updates)
        return self._model

    def train(
        self, batches: Any, trial: Trial, callbacks: Callbacks
    ) -> tuple[keras.Model, list[dict[str, float]]]:
        """Resets and trains the model. Returns it and a list of each epoch's logs."""
        setting = trial.setting
        num_updates = len(batches) * setting.epochs
        model = self.start(trial.seed, setting.learning_rate, num_updates)
        history = model.fit(
            batches, epochs=setting.epochs, verbose=0, callbacks=callbacks
        ).history
        return model, [
            dict(zip(history, map(float, values), strict=True))
            for values in zip(*history.values(), strict=True)
        ]
