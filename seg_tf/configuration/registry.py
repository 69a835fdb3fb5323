"""Registry of config classes: what each builds, and its form as plain values."""

import dataclasses
import importlib
import types
import typing
from collections.abc import Mapping
from typing import Any

import ml_collections

_TYPE_KEY = "type"
_REGISTRY: dict[str, type] = {}


def register(cls: type) -> type:
    """Class decorator: lets a config of this class be read back by its name."""
    _REGISTRY[cls.__name__] = cls
    return cls


def build(config: Any, **extra: Any) -> Any:
    """Builds what `config` configures, from its fields and `extra` arguments.

    Args:
        config: a config dataclass with an `implementation` of the form
            `"package.module:Name"`.
        **extra: arguments known only at run time. They win over fields.

    Returns:
        `Name(**fields, **extra)`.
    """
    fields = {
        field.name: getattr(config, field.name) for field in dataclasses.fields(config)
    }
    return find(config.implementation)(**{**fields, **extra})


def find(reference: str) -> Any:
    """Imports the module of a reference `"package.module:Name"`, and returns `Name`."""
    module_name, _, attribute = reference.partition(":")
    return getattr(importlib.import_module(module_name), attribute)


def to_config_dict(config: Any) -> ml_collections.ConfigDict:
    """The same config as a `ConfigDict`, whose fields flags can override."""
    return ml_collections.ConfigDict(_overridable(config), sort_keys=False)


def _overridable(config: Any) -> Any:
    """`to_dict`, but fields that may be None stay open to None and to values."""
    if isinstance(config, Mapping):
        return {name: _overridable(value) for name, value in config.items()}
    if not dataclasses.is_dataclass(config):
        return config
    hints = typing.get_type_hints(type(config))
    values = {_TYPE_KEY: type(config).__name__}
    for field in dataclasses.fields(config):
        value = _overridable(getattr(config, field.name))
        if types.NoneType in _alternatives(hints[field.name]):
            # A ConfigDict gives a field the type of its value for good, so None
            # could not be overridden, nor anything with None.
            value = ml_collections.FieldReference(value, field_type=object)
        values[field.name] = value
    return values


def to_dict(config: Any) -> Any:
    """The same config as JSON holds it; each dataclass leaves its name as `type`."""
    if dataclasses.is_dataclass(config):
        fields = {
            field.name: to_dict(getattr(config, field.name))
            for field in dataclasses.fields(config)
        }
        return {_TYPE_KEY: type(config).__name__, **fields}
    if isinstance(config, Mapping):
        return {name: to_dict(value) for name, value in config.items()}
    return list(config) if isinstance(config, tuple) else config


def from_config_dict(values: Any) -> Any:
    """The frozen config that `values`, maybe overridden, describes.

    Args:
        values: what `to_config_dict` or `to_dict` returned.

    Raises:
        ValueError: if a `type` is unknown, a field is unknown, or the values
            contradict one another.
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
    unknown = set(fields) - {field.name for field in dataclasses.fields(cls)}
    if unknown:
        raise ValueError(
            f"`{type_name}` has no field {sorted(unknown)}; it has "
            f"{[field.name for field in dataclasses.fields(cls)]}"
        )
    missing = [
        field.name
        for field in dataclasses.fields(cls)
        if field.name not in fields
        and field.default is field.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise ValueError(f"`{type_name}` must have the fields {missing}")
    hints = typing.get_type_hints(cls)
    return cls(
        **{name: typed(name, value, hints[name]) for name, value in fields.items()}
    )


def typed(name: str, value: Any, hint: Any) -> Any:
    """`value`, if it is what a field's type hint allows; int passes for float.

    Raises:
        ValueError: if it is anything else.
    """
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
    # A mapping, or a config of a subclass. A bool is no int.
    if isinstance(value, kinds) and not isinstance(value, bool):
        return value
    if float in kinds and type(value) is int:
        return float(value)
    expected = " or ".join(
        "None" if kind is types.NoneType else kind.__name__ for kind in kinds
    )
    raise ValueError(f"`{name}` must be {expected}. Received: {name}={value!r}")


def _alternatives(hint: Any) -> tuple[Any, ...]:
    """The types of a hint such as `int | None`."""
    is_union = typing.get_origin(hint) in (types.UnionType, typing.Union)
    return typing.get_args(hint) if is_union else (hint,)
