"""The features of a batch that a model reads."""

from collections.abc import Iterable, Mapping
from typing import Any


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
