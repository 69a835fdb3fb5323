"""Finds the samples that make a loss infinite or not a number."""

from collections.abc import Callable

import tensorflow as tf

from seg_tf.training.step import Features, Results, pack_sums


def samples_without_finite_loss(
    forward: Callable[[Features], Results], features: Features
) -> list[int]:
    """Tries the samples of a batch one by one, without dropout.

    Args:
        forward: from features of some rows to the result of each objective.
        features: a batch.

    Returns:
        The numbers of those samples whose loss is not finite by itself.
    """

    @tf.function(autograph=False, reduce_retracing=True)
    def is_finite(row: Features) -> tf.Tensor:
        return tf.reduce_all(tf.math.is_finite(pack_sums(forward(row))))

    found = []
    for number, sample in enumerate(features["sample_number"].numpy().tolist()):
        row = {name: value[number : number + 1] for name, value in features.items()}
        if not is_finite(row):
            found.append(sample)
    return found
