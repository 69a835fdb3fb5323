"""Registers, checks and serializes configs, and builds the objects they configure.

A config class is registered under its name, from which a saved run restores it. The
class that it configures is decorated with `configured_by` where it is defined, so no
central list of components is needed.
"""

import dataclasses
import difflib
import functools
import json
import math
import types
import typing
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, NamedTuple, TypeVar

import ml_collections

_TYPE_KEY = "type"
_REGISTRY: dict[str, type] = {}
_MAX_INT = 2**31 - 1
_MAX_FLOAT = 2.0**127

_Class = TypeVar("_Class", bound=type)
_Implementation = TypeVar("_Implementation", bound=Callable[..., Any])


def register_config(cls: _Class) -> _Class:
    """Class decorator that registers a config class under its name."""
    _REGISTRY[cls.__name__] = cls
    return cls


def configured_by(config: Any) -> Callable[[_Implementation], _Implementation]:
    """Returns a decorator for the class or function that `build_from` calls.

    `config` is a config class. Its subclasses use the same implementation by default.
    """

    def decorate(implementation: _Implementation) -> _Implementation:
        config.implementation = implementation
        return implementation

    return decorate


def build_from(config: Any, **extra: Any) -> Any:
    """Builds the object that `config` configures. `extra` arguments take precedence.

    Raises ValueError if no class or function is `configured_by` the config's class.
    """
    implementation = getattr(type(config), "implementation", None)
    if implementation is None:
        raise ValueError(
            "`config` must be of a class that some class is `configured_by`; import "
            f"the module with that class first. Received: {type(config).__name__}"
        )
    fields = {
        field.name: getattr(config, field.name) for field in dataclasses.fields(config)
    }
    return implementation(**{**fields, **extra})


# Ranges of numbers in a config. They are declared in its type hints: a field
# `num_layers: Count` is an int of at least 1.


class Range(NamedTuple):
    """The numbers from `low` to `high`, inclusive. Error messages contain `rule`."""

    rule: str
    low: float
    high: float = _MAX_INT


_ABOVE_0, _BELOW_1 = math.nextafter(0, 1), math.nextafter(1, 0)
Count = Annotated[int, Range("be at least 1", 1)]
Whole = Annotated[int, Range("be at least 0", 0)]
Seed = Annotated[int, Range("lie between 0 and 2**32 - 1", 0, 2**32 - 1)]
NonNegative = Annotated[float, Range("be at least 0", 0, _MAX_FLOAT)]
Positive = Annotated[float, Range("be above 0", _ABOVE_0, _MAX_FLOAT)]
Rate = Annotated[float, Range("lie between 0 and 1", 0, 1)]
Share = Annotated[float, Range("be above 0 and at most 1", _ABOVE_0, 1)]
Fraction = Annotated[float, Range("be above 0 and below 1", _ABOVE_0, _BELOW_1)]
Dropout = Annotated[float, Range("be at least 0 and below 1", 0, _BELOW_1)]


def check_ranges(config: Any) -> None:
    """Raises ValueError if a field is not a number in the range of its type hint."""
    for name, allowed, is_optional in _ranges(config.__class__):
        value = getattr(config, name)
        if value is None and is_optional:
            continue
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not allowed.low <= value <= allowed.high:
            raise ValueError(
                f"`{name}` must {allowed.rule}. Received: {name}={value!r}"
            )


class Ranged:
    """Base class of dataclasses whose fields are checked against their ranges."""

    def __post_init__(self) -> None:
        check_ranges(self)


def check_choice(name: str, value: Any, choices: Collection[str]) -> None:
    """Raises ValueError unless the `value` of argument `name` is one of `choices`."""
    if value not in choices:
        close = difflib.get_close_matches(str(value), choices, n=1)
        hint = f". Did you mean {close[0]!r}?" if close else ""
        raise ValueError(
            f"`{name}` must be one of {', '.join(choices)}. Received: {value!r}{hint}"
        )


@functools.cache
def _ranges(cls: type) -> tuple[tuple[str, Range, bool], ...]:
    """Returns (name, range, whether None is allowed) for each field with a range."""
    hints = typing.get_type_hints(cls, include_extras=True)
    return tuple(
        (field.name, allowed, types.NoneType in _alternatives(hints[field.name]))
        for field in dataclasses.fields(cls)
        for hint in _alternatives(hints[field.name])
        for allowed in getattr(hint, "__metadata__", ())
    )


def to_dict(config: Any) -> Any:
    """Converts a config to JSON values, with each dataclass's class name as `type`."""
    if dataclasses.is_dataclass(config):
        fields = {
            field.name: to_dict(getattr(config, field.name))
            for field in dataclasses.fields(config)
        }
        return {_TYPE_KEY: type(config).__name__, **fields}
    if isinstance(config, Mapping):
        return {name: to_dict(value) for name, value in config.items()}
    return list(config) if isinstance(config, tuple) else config


def to_config_dict(config: Any) -> ml_collections.ConfigDict:
    """Converts a config to a `ConfigDict`, whose fields can be overridden by flags."""
    return ml_collections.ConfigDict(_overridable(config), sort_keys=False)


def _overridable(config: Any) -> Any:
    """Converts a config to nested dicts whose optional fields accept any new value."""
    if isinstance(config, Mapping):
        return {name: _overridable(value) for name, value in config.items()}
    if not dataclasses.is_dataclass(config):
        return config
    hints = typing.get_type_hints(type(config))
    values = {_TYPE_KEY: type(config).__name__}
    for field in dataclasses.fields(config):
        value = _overridable(getattr(config, field.name))
        if types.NoneType in _alternatives(hints[field.name]):
            # A ConfigDict restricts a field to the type of its first value.
            value = ml_collections.FieldReference(value, field_type=object)
        values[field.name] = value
    return values


def from_config_dict(values: Any) -> Any:
    """Restores a frozen config from the result of `to_config_dict` or `to_dict`.

    Raises ValueError for an unknown type or field, a missing field or an invalid value.
    """
    if isinstance(values, list):
        return tuple(values)
    if not isinstance(values, (Mapping, ml_collections.ConfigDict)):
        return values
    fields = {name: from_config_dict(value) for name, value in values.items()}
    type_name = fields.pop(_TYPE_KEY, None)
    if type_name is None:
        return types.MappingProxyType(fields)
    if not isinstance(type_name, str) or type_name not in _REGISTRY:
        raise ValueError(
            f"`type` must be one of {sorted(_REGISTRY)}. Received: {type_name!r}"
        )
    cls = _REGISTRY[type_name]
    known = [field.name for field in dataclasses.fields(cls)]
    if unknown := sorted(fields.keys() - {*known}):
        raise ValueError(f"`{type_name}` has no field {unknown}; it has {known}")
    hints = typing.get_type_hints(cls)
    arguments = {
        name: typed(name, value, hints[name]) for name, value in fields.items()
    }
    try:
        return cls(**arguments)
    except TypeError as error:  # The message names the missing fields.
        raise ValueError(f"`{type_name}`: {error}") from error


def typed(name: str, value: Any, hint: Any) -> Any:
    """Returns a value, cast to float if needed. Raises ValueError for a wrong type."""
    is_config = isinstance(hint, type) and dataclasses.is_dataclass(hint)
    if is_config and not isinstance(value, hint):
        raise ValueError(
            f"`{name}` must be a {hint.__name__}, with its name as `{_TYPE_KEY}`. "
            f"Received: {name}={value!r}"
        )
    kinds = tuple(
        dict.fromkeys(typing.get_origin(kind) or kind for kind in _alternatives(hint))
    )
    if type(value) is tuple and tuple in kinds:
        item_hint, *_ = typing.get_args(hint)
        return tuple(typed(f"{name}[…]", item, item_hint) for item in value)
    if Any in kinds or type(value) in kinds:
        return value
    # Subclasses of a mapping or config are accepted. A bool is not an int.
    if isinstance(value, kinds) and not isinstance(value, bool):
        return value
    if float in kinds and type(value) is int:
        return float(value)
    expected = " or ".join(
        "None" if kind is types.NoneType else kind.__name__ for kind in kinds
    )
    raise ValueError(f"`{name}` must be {expected}. Received: {name}={value!r}")


def _alternatives(hint: Any) -> tuple[Any, ...]:
    is_union = typing.get_origin(hint) in (types.UnionType, typing.Union)
    return typing.get_args(hint) if is_union else (hint,)


def differing_settings(
    before: Mapping[str, Any], now: Mapping[str, Any], free: Collection[str] = ()
) -> list[str]:
    """Lists the settings that differ, each as `name: value there, value now`.

    Ignores the settings in `free`. Nested mappings have dotted names.
    """
    # Convert through JSON, so that a tuple equals the list that is read back.
    old, new = flat(before), flat(json.loads(json.dumps(now)))
    return [
        f"{name}: {old.get(name, 'absent')} there, {new.get(name, 'absent')} now"
        for name in sorted(old.keys() | new.keys())
        if name not in free and old.get(name) != new.get(name)
    ]


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flattens nested settings into one dict with dotted names."""
    settings: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            settings |= flat(value, f"{prefix}{name}.")
        else:
            settings[f"{prefix}{name}"] = value
    return settings
