"""Command lines whose `--config` flags are wrong end in a line that says how."""

import difflib
import os
import pathlib
import re
import runpy
import sys
from collections.abc import Sequence
from typing import Any

import ml_collections
from absl import app, flags
from ml_collections import config_flags

# The value is the same argument's or the next one's.
_CONFIG = re.compile(r"(?:^|\0)--?config[=\0]([^\0]+)")
_CONFIG_FLAG = re.compile(r"--?config")
_CONFIG_VALUE = re.compile(r"(--?config=)(.+)", re.DOTALL)
CONFIGS = pathlib.Path(__file__).resolve().parents[1] / "configs"
"""The folder of the included runs."""
_OVERRIDE = re.compile(r"--?(?:no)?config\.([^=]*)(?:=.*)?", re.DOTALL)


def parse_flags(argv: list[str]) -> list[str]:
    """For `app.run(main, flags_parser=parse_flags)`; needs a flag named `config`."""
    argv = _with_config_files(argv)
    config_arguments = _CONFIG.findall("\0".join(argv))
    # ml_collections would print a stack trace.
    config = load_config(config_arguments[-1]) if config_arguments else None
    try:
        return app.parse_flags_with_usage(argv)
    # What ml_collections lets through for a field, or a file, that does not exist.
    except (AttributeError, KeyError, TypeError, ValueError, OSError) as error:
        sys.exit(f"error: {_explain(config, argv) or error}")


def overridden(flag: flags.Flag[Any]) -> frozenset[str]:
    """Paths of the config's fields that the command line sets: `model.num_layers`."""
    return frozenset(config_flags.get_override_values(flag))


def _with_config_files(argv: Sequence[str]) -> list[str]:
    """The arguments, with the file in place of the name of a run that comes along."""
    arguments: list[str] = []
    for argument in argv:
        prefix, value = "", argument
        if match := _CONFIG_VALUE.fullmatch(argument):
            prefix, value = match.groups()
        elif not (arguments and _CONFIG_FLAG.fullmatch(arguments[-1])):
            arguments.append(argument)
            continue
        arguments.append(prefix + config_file(value))
    return arguments


def config_file(value: str) -> str:
    """The `FILE:VARIANT` of a run by its name, such as `segabert_tiny`.

    Args:
        value: name of a run, of a family, or `FAMILY:VARIANT`, of those in `configs/`;
            anything else is returned unchanged.
    """
    name, colon, variant = value.partition(":")
    if pathlib.Path(name).is_file():
        return value
    families = sorted(
        (path.stem for path in CONFIGS.glob("[!_]*.py")), key=len, reverse=True
    )
    for family in families:
        file = str(CONFIGS / f"{family}.py")
        if name == family:
            return file + colon + variant
        if name.startswith(f"{family}_") and not colon:
            return f"{file}:{name.removeprefix(f'{family}_')}"
    return value


def load_config(value: str) -> ml_collections.ConfigDict:
    """The config that `--config=value` asks for; one line and exit 1 if there is none.

    Args:
        value: str. `FILE` or `FILE:VARIANT`, for `get_config()` or
            `get_config("VARIANT")` of that Python file.
    """
    name, colon, variant = value.partition(":")
    path = pathlib.Path(name)
    if not path.is_file():
        files = sorted(other.name for other in path.parent.glob("[!_]*.py"))
        sys.exit(
            "error: `--config` must be a Python file, FILE:VARIANT, or the name of a "
            f"run that comes along (`python -m seg_tf.configs`). Received: {value}, "
            f"which is not there. {path.parent} has "
            f"{', '.join(files) or 'no Python file'}"
        )
    get_config = runpy.run_path(name)["get_config"]
    try:
        return get_config(variant) if colon else get_config()
    except (TypeError, ValueError) as error:
        if os.environ.get("SEG_TF_TRACEBACK"):
            raise
        sys.exit(f"error: --config={value}: {error}")


def _explain(
    config: ml_collections.ConfigDict | None, argv: Sequence[str]
) -> str | None:
    if config is None:
        return None
    overrides = [match[1] for match in map(_OVERRIDE.fullmatch, argv) if match]
    explanations = (unknown_field(config, override) for override in overrides)
    return next(filter(None, explanations), None)


def unknown_field(config: ml_collections.ConfigDict, path: str) -> str | None:
    """Message for a `path` that is no field of the config; None if it is one."""
    at = "config"
    value = config
    for name in path.split("."):
        if not isinstance(value, ml_collections.ConfigDict):
            return f"`--config.{path}`: `{at}` is {value!r} and has no fields"
        if name not in value:
            known = [key for key in value if key != "type"]
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"Did you mean `{close[0]}`? " if close else ""
            return (
                f"`--config.{path}`: `{at}` has no field `{name}`. {hint}"
                f"It has {', '.join(known)}"
            )
        value = value[name]
        at = f"{at}.{name}"
    return None
