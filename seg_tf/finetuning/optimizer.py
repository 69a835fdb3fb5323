"""The optimizer of fine-tuning, which one compiled model can use for many trainings."""

import functools
from typing import Any

import keras
from keras import ops

from seg_tf.training.optimizers import optimizer
from seg_tf.training.optimizers.adamw import AdamW

# As BERT's published code, and SLM (appendix A, table 7), fine-tune. Segatron has what
# the Hugging Face library had (section 4.2), without its values.
WARMUP_SHARE = 0.1
CLIP_NORM = 1.0
DEFAULT_LEARNING_RATE = 3e-5


@keras.saving.register_keras_serializable(package="seg_tf")
class LinearWarmupDecay(keras.optimizers.schedules.LearningRateSchedule):
    """A rate that rises over the first tenth of the updates and falls to 0 at the end.

    As `seg_tf.training.optimizers.schedule.WarmupPolynomialDecay`, but its numbers are
    variables: set for another training, whatever was compiled with it stays good.

    Args:
        learning_rate: float. The highest rate.
        num_updates: int. Updates of the whole training.
    """

    def __init__(self, learning_rate: float, num_updates: int):
        super().__init__()
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
        self._warmup_updates.assign(round(WARMUP_SHARE * num_updates))

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
        }


def finetuning_optimizer(learning_rate: float, num_updates: int) -> AdamW:
    """AdamW as BERT is fine-tuned with it, for `compile`.

    The rate rises over the first tenth of the updates and falls to 0. Weights decay by
    0.01 of it, but for LayerNorm and bias; gradients are cut to a global norm of 1.

    Args:
        learning_rate: the highest rate.
        num_updates: updates of the whole training: batches times epochs.
    """
    return scheduled_optimizer(LinearWarmupDecay(learning_rate, num_updates))


def scheduled_optimizer(schedule: LinearWarmupDecay) -> AdamW:
    """As `finetuning_optimizer`, with a schedule that can be set for other trainings.

    Args:
        schedule: of the learning rate.
    """
    return optimizer.build_scheduled(
        AdamW,
        lambda **_: schedule,
        num_updates=1,
        learning_rate=0.0,
        global_clipnorm=CLIP_NORM,
        name="adamw",
    )


def _ratio(count: Any, of: Any) -> Any:
    return ops.cast(count, "float32") / ops.cast(ops.maximum(of, 1), "float32")
