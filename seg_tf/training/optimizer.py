"""The optimizers a run's config can name."""

import keras

from seg_tf.training import schedule

# What BERT does not decay: every bias, and the scale and offset of every LayerNorm.
# Keras searches for it in the name of the TensorFlow variable, which is the path of
# the layers down to it and a number: "encoder/layer_norm/gamma:0".
NO_WEIGHT_DECAY = r"(^|/)(gamma|beta|\w*bias)(:\d+)?$"


def build_adamw(
    *,
    num_updates: int,
    learning_rate: float,
    warmup_updates: int | None = None,
    decay_updates: int | None = None,
    decay_power: float = 1.0,
    end_learning_rate: float = 0.0,
    weight_decay: float = 0.01,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    epsilon: float = 1e-6,
) -> keras.optimizers.AdamW:
    """AdamW as BERT trains with it, on a warm-up and decay schedule.

    The optimizer's `iterations` is the one counter of updates; the schedule
    reads nothing else.

    Args:
        num_updates: updates of the whole run.
        learning_rate: the effective, global peak rate.
        warmup_updates: updates of linear warm-up; None takes 1 % of the run.
        decay_updates: updates after which `end_learning_rate` is reached; None
            takes the whole run.
        decay_power: power of the polynomial decay.
        end_learning_rate: the rate after the decay.
        weight_decay: decoupled decay, times the rate; none on LayerNorm and bias.
        beta_1: decay of the first moment.
        beta_2: decay of the second moment.
        epsilon: added to the root of the second moment.
    """
    if warmup_updates is None:
        warmup_updates = schedule.default_warmup(num_updates)
    optimizer = keras.optimizers.AdamW(
        learning_rate=schedule.WarmupPolynomialDecay(
            peak_learning_rate=learning_rate,
            decay_updates=num_updates if decay_updates is None else decay_updates,
            warmup_updates=warmup_updates,
            end_learning_rate=end_learning_rate,
            power=decay_power,
        ),
        weight_decay=weight_decay,
        beta_1=beta_1,
        beta_2=beta_2,
        epsilon=epsilon,
        name="adamw",
    )
    optimizer.exclude_from_weight_decay(var_names=[NO_WEIGHT_DECAY])
    return optimizer
