"""The optimizers a run's config can name."""

from typing import Any

import keras

from seg_tf.training import schedule
from seg_tf.training.lamb import Lamb

# What BERT does not decay: every bias, and the scale and offset of every LayerNorm.
# Keras searches for it in the name of the TensorFlow variable, which is the path of
# the layers down to it and a number: "encoder/layer_norm/gamma:0".
NO_WEIGHT_DECAY = r"(^|/)(gamma|beta|\w*bias)(:\d+)?$"


def build_adamw(
    *,
    num_updates: int,
    weight_decay: float = 0.01,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    epsilon: float = 1e-6,
    **schedule_settings: Any,
) -> keras.optimizers.AdamW:
    """AdamW as BERT trains with it, on a warm-up and decay schedule.

    The optimizer's `iterations` is the one counter of updates; the schedule
    reads nothing else. Gradients are clipped before they come here.

    Args:
        num_updates: updates of the whole run.
        weight_decay: decoupled decay, times the rate; none on LayerNorm and bias.
        beta_1: decay of the first moment.
        beta_2: decay of the second moment.
        epsilon: added to the root of the second moment.
        **schedule_settings: arguments of `schedule.for_run`.
    """
    optimizer = keras.optimizers.AdamW(
        learning_rate=schedule.for_run(num_updates, **schedule_settings),
        weight_decay=weight_decay,
        beta_1=beta_1,
        beta_2=beta_2,
        epsilon=epsilon,
        name="adamw",
    )
    optimizer.exclude_from_weight_decay(var_names=[NO_WEIGHT_DECAY])
    return optimizer


def build_lamb(
    *,
    num_updates: int,
    weight_decay: float = 0.01,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    epsilon: float = 1e-6,
    adapt_excluded: bool = True,
    **schedule_settings: Any,
) -> Lamb:
    """LAMB, for batches of tens of thousands, on a warm-up and decay schedule.

    Args:
        num_updates: updates of the whole run.
        weight_decay: decay within the update; none on LayerNorm and bias.
        beta_1: decay of the first moment.
        beta_2: decay of the second moment.
        epsilon: added to the root of the second moment.
        adapt_excluded: whether LayerNorm and bias have a trust ratio too.
        **schedule_settings: arguments of `schedule.for_run`.
    """
    optimizer = Lamb(
        learning_rate=schedule.for_run(num_updates, **schedule_settings),
        weight_decay=weight_decay,
        beta_1=beta_1,
        beta_2=beta_2,
        epsilon=epsilon,
        adapt_excluded=adapt_excluded,
        name="lamb",
    )
    optimizer.exclude_from_weight_decay(var_names=[NO_WEIGHT_DECAY])
    return optimizer
