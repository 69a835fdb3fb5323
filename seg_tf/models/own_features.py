"""The features of a batch that a model reads."""

from collections.abc import Iterable, Mapping
from typing import Any

import keras

from seg_tf.features import FEATURES, tensor_specs


def own_features(inputs: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Selects the features of `inputs` that are listed in `names`.

    Raises:
        ValueError: if one is missing.
    """
    missing = [name for name in names if name not in inputs]
    if missing:
        raise ValueError(
            f"`inputs` must hold the features {list(names)}. It lacks {missing}. "
            f"Received: {sorted(inputs)}"
        )
    return {name: inputs[name] for name in names}


def feature_inputs(names: Iterable[str]) -> dict[str, Any]:
    """Keras inputs of features of the batch contract, every dimension dynamic."""
    sizes = {letter: None for one in FEATURES.values() for letter in one.shape}
    return {
        name: keras.Input(batch_shape=shape, dtype=dtype, name=name)
        for name, (shape, dtype) in tensor_specs(names, sizes).items()
    }
