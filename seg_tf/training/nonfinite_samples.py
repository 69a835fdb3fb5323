"""Finds the samples that make a loss infinite or not a number."""

from collections.abc import Callable
from typing import Any

import numpy as np

from seg_tf.training.step import Features


def samples_without_finite_loss(
    sums: Callable[[Features], Any], features: Features
) -> list[int]:
    """Tries the samples of a batch one by one, without dropout.

    Args:
        sums: from features of some rows to the numbers of `step.pack_sums`.
        features: a batch.

    Returns:
        The numbers of those samples whose loss is not finite by itself.
    """
    found = []
    for number, sample in enumerate(np.asarray(features["sample_number"]).tolist()):
        row = {name: value[number : number + 1] for name, value in features.items()}
        if not np.all(np.isfinite(sums(row))):
            found.append(sample)
    return found
