"""Differences between two descriptions of settings, such as two runs' configs."""

import json
from collections.abc import Collection, Mapping
from typing import Any


def differing_settings(
    before: Mapping[str, Any], now: Mapping[str, Any], free: Collection[str] = ()
) -> list[str]:
    """`name: value before, value now` of every setting that differs.

    Args:
        before: settings as they were read; mappings within give names with dots.
        now: settings as they are.
        free: names of settings that may differ.
    """
    # Through JSON, so that a tuple equals the list it is read back as.
    old, new = flat(before), flat(json.loads(json.dumps(now)))
    return [
        f"{name}: {old.get(name, 'absent')} there, {new.get(name, 'absent')} now"
        for name in sorted(old.keys() | new.keys())
        if name not in free and old.get(name) != new.get(name)
    ]


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Settings within settings by their dotted names."""
    found = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found.update(flat(value, f"{prefix}{name}."))
        else:
            found[f"{prefix}{name}"] = value
    return found
