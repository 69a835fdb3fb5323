"""The optimizer of fine-tuning, which one compiled model can use for many trainings."""

import functools
from typing import Any

import keras
from keras import ops

from seg_tf.tasks.finetuning_settings import OptimizerSettings
from seg_tf.training.optimizers import optimizer
from seg_tf.training.optimizers.adamw import AdamW

BERT_SETTINGS = OptimizerSettings()
DEFAULT_LEARNING_RATE = 3e-5


@keras.saving.register_keras_serializable(package="seg_tf")
class LinearWarmupDecay(keras.optimizers.schedules.LearningRateSchedule):
    """A rate that rises over the first updates and falls to 0 at the end.

    As `seg_tf.training.optimizers.schedule.WarmupPolynomialDecay`, but its numbers are
    variables: set for another training, whatever was compiled with it stays good.

    Args:
        learning_rate: float. The highest rate.
        num_updates: int. Updates of the whole training.
        warmup_share: float. Share of them in which the rate rises.
        for_one_fit: bool. Whether the next call of `fit` replaces the schedule by its
            own.
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
        # Not int32: TensorFlow keeps such variables on the host, where what is
        # compiled for a GPU cannot read them.
        self._peak = make(0.0, dtype="float32", name="peak_learning_rate")
        self._num_updates = make(1, dtype="int64", name="num_updates")
        self._warmup_updates = make(0, dtype="int64", name="warmup_updates")
        self.set(learning_rate, num_updates)

    def set(self, learning_rate: float, num_updates: int) -> None:
        """Makes it the schedule of another training; arguments as of the class."""
        self._peak.assign(learning_rate)
        self._num_updates.assign(num_updates)
        self._warmup_updates.assign(round(self.warmup_share * num_updates))

    def __call__(self, step: Any) -> Any:
        """Rate of the next update after `step` of them. Returns a float32 scalar."""
        done = ops.cast(step, "int64")
        warmup, last = self._warmup_updates.value, self._num_updates.value
        rising = _ratio(done + 1, warmup)
        falling = _ratio(ops.maximum(last - done, 0), last - warmup)
        return self._peak.value * ops.where(done < warmup, rising, falling)

    def get_config(self) -> dict[str, Any]:
        return {
            "learning_rate": float(self._peak),
            "num_updates": int(self._num_updates),
            "warmup_share": self.warmup_share,
            "for_one_fit": self.for_one_fit,
        }


def finetuning_optimizer(
    learning_rate: float,
    num_updates: int,
    settings: OptimizerSettings = BERT_SETTINGS,
) -> AdamW:
    """AdamW as BERT is fine-tuned with it, for `compile`.

    The rate rises over the first tenth of the updates and falls to 0. Weights decay by
    0.01 of it, but for LayerNorm and bias; gradients are cut to a global norm of 1.

    Args:
        learning_rate: the highest rate.
        num_updates: updates of the whole training: batches times epochs.
        settings: others than BERT's.
    """
    schedule = LinearWarmupDecay(learning_rate, num_updates, settings.warmup_share)
    return scheduled_optimizer(schedule, settings)


def scheduled_optimizer(
    schedule: LinearWarmupDecay, settings: OptimizerSettings = BERT_SETTINGS
) -> AdamW:
    """As `finetuning_optimizer`, with a schedule that can be set for other trainings.

    Args:
        schedule: of the learning rate.
        settings: the other settings.
    """
    return optimizer.build_scheduled(
        AdamW,
        lambda **_: schedule,
        num_updates=1,
        learning_rate=0.0,
        weight_decay=settings.weight_decay,
        epsilon=settings.epsilon,
        global_clipnorm=settings.clip_norm,
        name="adamw",
    )


def _ratio(count: Any, of: Any) -> Any:
    return ops.cast(count, "float32") / ops.cast(ops.maximum(of, 1), "float32")
