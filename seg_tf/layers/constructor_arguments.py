"""Arguments by name: configs of Keras objects, and errors for unknown arguments."""

import difflib
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

import keras

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")

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


def checked_names(
    function: Callable[_Parameters, _Result],
) -> Callable[_Parameters, _Result]:
    """Makes a class method refuse unknown arguments and suggest the nearest name.

    Args:
        function: the method, below `@classmethod`.

    Raises:
        ValueError: when it is called, if it has no argument of a given name.
    """
    known = list(inspect.signature(function).parameters)[1:]

    @functools.wraps(function)
    def checked(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        for name, value in kwargs.items():
            if name not in known:
                close = difflib.get_close_matches(name, known, n=1)
                hint = f"Did you mean `{close[0]}`? " if close else ""
                owner: Any = args[0]
                raise ValueError(
                    f"`{name}` must be one of the arguments of `{owner.__name__}."
                    f"{function.__name__}`: {', '.join(known)}. {hint}"
                    f"Received: {name}={value!r}"
                )
        return function(*args, **kwargs)

    return checked
