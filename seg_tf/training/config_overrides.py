"""Command lines whose `--config.…` flags are wrong end in a line that says how."""

import difflib
import pathlib
import re
import runpy
import sys
from collections.abc import Sequence

import ml_collections
from absl import app

_CONFIG = re.compile(r"--?config=(.+)", re.DOTALL)
_OVERRIDE = re.compile(r"--?(?:no)?config\.([\w.]+)(?:=.*)?", re.DOTALL)


def parse_flags(argv: Sequence[str]) -> list[str]:
    """For `app.run(main, flags_parser=parse_flags)`; needs a flag named `config`."""
    try:
        return app.parse_flags_with_usage(argv)
    # What ml_collections lets through for a field, or a file, that does not exist.
    except (AttributeError, KeyError, TypeError, OSError) as error:
        sys.exit(f"error: {_explain(argv) or error}")


def _explain(argv: Sequence[str]) -> str | None:
    paths = [match[1] for match in map(_CONFIG.fullmatch, argv) if match]
    if not paths:
        return None
    path = pathlib.Path(paths[-1])
    if not path.is_file():
        return f"`--config` must be a Python file. Received: {path}, which is not there"
    config = runpy.run_path(str(path))["get_config"]()
    overrides = [match[1] for match in map(_OVERRIDE.fullmatch, argv) if match]
    explanations = (unknown_field(config, override) for override in overrides)
    return next(filter(None, explanations), None)


def unknown_field(config: ml_collections.ConfigDict, path: str) -> str | None:
    """What is wrong with `path`, or None if the config has such a field."""
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
