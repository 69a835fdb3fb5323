"""Readers of raw text: one module per format, found by its name.

A format is a module of `formats/` or `wiki/` with a class `Reader` (see `FileReader`),
and has the name of that module. A new format is a new file.
"""

import dataclasses
import importlib
import pkgutil
import types
from collections.abc import Iterable, Mapping
from typing import Any

from data_pipelines.readers import formats, wiki
from data_pipelines.readers.base import (
    COUNTED_REASONS as COUNTED_REASONS,
)
from data_pipelines.readers.base import (
    LEFT_OUT_REASONS as LEFT_OUT_REASONS,
)
from data_pipelines.readers.base import (
    MAX_DOCUMENT_MEGABYTES as MAX_DOCUMENT_MEGABYTES,
)
from data_pipelines.readers.base import (
    Document as Document,
)
from data_pipelines.readers.base import (
    FileReader as FileReader,
)
from data_pipelines.readers.base import (
    RejectedDocument as RejectedDocument,
)
from data_pipelines.readers.base import (
    UnparsedDocument as UnparsedDocument,
)

_TRUTH_VALUES = {"true": True, "1": True, "yes": True} | {
    "false": False,
    "0": False,
    "no": False,
}


def get_reader(format: str, **options: Any) -> FileReader:
    """The reader of a format.

    Args:
        format: a key of `FORMATS`.
        **options: the format's options: the fields of its `Reader`. Strings, such
            as flags hold, are converted to an option's type.

    Raises:
        ValueError: if there is no such format, option or value.
    """
    if format not in FORMATS:
        raise ValueError(
            f"`format` must be one of {sorted(FORMATS)}. Received: {format!r}"
        )
    reader_class = _module(format).Reader
    types_by_name = {
        field.name: field.type for field in dataclasses.fields(reader_class)
    }
    unknown = set(options) - set(types_by_name)
    if unknown:
        raise ValueError(
            f"Format {format!r} has the options {sorted(types_by_name)}. "
            f"Received: {sorted(unknown)}"
        )
    return reader_class(
        **{
            name: _CONVERSIONS.get(types_by_name[name], _unchanged)(name, value)
            for name, value in options.items()
        }
    )


def options_of(format: str) -> dict[str, str]:
    """Names of a format's own options and their defaults, as flags have them."""
    return {
        field.name: str(field.default).lower()
        if isinstance(field.default, bool)
        else str(field.default)
        for field in dataclasses.fields(_module(format).Reader)
        if field.name != "max_document_megabytes"  # Of every format: a flag.
    }


def parse_options(assignments: Iterable[str]) -> dict[str, str]:
    """Options in the form of flags: `["text_field=body"]`."""
    options = {}
    for assignment in assignments:
        name, separator, value = assignment.partition("=")
        if not separator or not name:
            raise ValueError(
                f"An option must have the form `name=value`. Received: {assignment!r}"
            )
        options[name.strip()] = value
    return options


def _to_bool(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if str(value).lower() not in _TRUTH_VALUES:
        raise ValueError(f"`{name}` must be true or false. Received: {value!r}")
    return _TRUTH_VALUES[str(value).lower()]


def _to_positive_float(name: str, value: Any) -> float:
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise ValueError(f"`{name}` must be a positive number. Received: {value!r}")
    return number


def _unchanged(name: str, value: Any) -> Any:
    del name
    return value


_CONVERSIONS = {bool: _to_bool, float: _to_positive_float}


def _module(name: str, package: str = "") -> types.ModuleType:
    return importlib.import_module(f"{package or _PACKAGES[name]}.{name}")


def _find_packages() -> Mapping[str, str]:
    """The package of each module that has a `Reader`, by the module's name."""
    found = {
        module.name: package.__name__
        for package in (formats, wiki)
        for module in pkgutil.iter_modules(package.__path__)
    }
    return {
        name: found[name]
        for name in sorted(found)
        if hasattr(_module(name, found[name]), "Reader")
    }


_PACKAGES = _find_packages()

FORMATS = types.MappingProxyType(
    {
        name: (_module(name).__doc__ or "").strip().partition("\n")[0]
        for name in _PACKAGES
    }
)
"""A line about each format."""
