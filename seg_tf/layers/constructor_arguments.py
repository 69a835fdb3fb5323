"""Config of Keras objects whose attributes are their constructor's arguments."""

import inspect
from collections.abc import Mapping
from typing import Any

import keras

# Part of the base class's config.
_OF_KERAS = ("dtype", "kwargs")


def with_arguments(
    config: Mapping[str, Any], instance: Any, cls: type
) -> dict[str, Any]:
    """The config of a base class, and the arguments of the constructor of `cls`.

    They are those attributes of `instance` that have their names.
    """
    names = inspect.signature(cls).parameters
    own = {name: getattr(instance, name) for name in names if name not in _OF_KERAS}
    return {**config, **{name: _plain(value) for name, value in own.items()}}


def _plain(value: Any) -> Any:
    if isinstance(value, keras.initializers.Initializer):
        return keras.initializers.serialize(value)
    return dict(value) if isinstance(value, Mapping) else value
