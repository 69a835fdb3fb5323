"""Functions of users, imported by their names."""

import importlib
import importlib.util
import pathlib
import types
from collections.abc import Callable

# Files that a folder of others has, if all of one line are in it.
_MARKS = {
    "a checkpoint": ("state.json", "encoder.weights.h5"),
    "records": ("manifest.json", "sentence_parameters.json"),
    "a run": ("checkpoints/update-*",),
}


def load_function(name: str, argument: str) -> Callable[[str], object]:
    """The function that `module:function` names.

    Modules below the folder of a checkpoint, a run or records are never imported: such
    folders come from others.

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
        module = _import(module_name)
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


def _import(module_name: str) -> types.ModuleType:
    """Imports a module; each package's place is checked before its code runs."""
    parts = module_name.split(".")
    for end in range(1, len(parts) + 1):
        spec = importlib.util.find_spec(".".join(parts[:end]))
        if spec is None:
            break  # The import says what is missing.
        places = [*(spec.submodule_search_locations or ())]
        if spec.has_location and spec.origin:
            places.append(spec.origin)
        for place in map(pathlib.Path, places):
            for path in {place.absolute(), place.resolve()}:
                _check_folders(path)
    return importlib.import_module(module_name)


def _check_folders(path: pathlib.Path) -> None:
    for folder in (path, *path.parents):
        for kind, patterns in _MARKS.items():
            if all(any(folder.glob(pattern)) for pattern in patterns):
                raise ImportError(
                    f"{path} is in {folder}, the folder of {kind}, from which no code "
                    "is imported"
                )
