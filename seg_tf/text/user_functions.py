"""Functions of users, imported by their names."""

import importlib
from collections.abc import Callable


def load_function(name: str, argument: str) -> Callable[[str], object]:
    """The function that `module:function` names.

    Args:
        name: its name.
        argument: what names it, for errors.

    Raises:
        ValueError: if there is none, saying what is missing.
    """
    module_name, separator, function_name = name.partition(":")
    if not (separator and module_name and function_name):
        raise ValueError(
            f"`{argument}` must have the form `module:function`. Received: {name!r}"
        )
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ValueError(
            f"`{argument}` must name a module that can be imported. "
            f"Received: {name!r} ({error}). Its folder has to be the current one or in "
            "PYTHONPATH"
        ) from error
    except Exception as error:  # Whatever the module does when it is imported.
        raise ValueError(
            f"`{argument}` must name a module that can be imported. Received: "
            f"{name!r}, whose import fails: {type(error).__name__}: {error}"
        ) from error
    function = getattr(module, function_name, None)
    if not callable(function):
        found = "is missing" if function is None else "is no function"
        raise ValueError(
            f"`{argument}` must name a function of its module. "
            f"Received: {name!r}; {function_name} {found} in {module_name}"
        )
    return function
