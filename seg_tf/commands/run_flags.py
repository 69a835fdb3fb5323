"""Flags for the config of a run and for experiment trackers.

This module does not import TensorFlow, so that invalid flags are reported quickly.
"""

import importlib.util
import os
import pathlib
import re
import runpy
import sys
from collections.abc import Sequence

import ml_collections
from absl import app, flags

CONFIGS = pathlib.Path(__file__).resolve().parents[1] / "configs"
"""Folder of the included configs."""
_TRACKERS = {
    "wandb": "Weights & Biases: --wandb=PROJECT, or --wandb for $WANDB_PROJECT",
    "mlflow": "MLflow: --mlflow=EXPERIMENT, or --mlflow for $MLFLOW_EXPERIMENT_NAME",
}


def parse_flags(argv: Sequence[str]) -> list[str]:
    """Parses flags for `app.run`, or exits with a one-line error about `--config`."""
    # The value may be in the next argument.
    joined = re.sub(r"(^|\0)--?config[=\0]", r"\1--config=", "\0".join(argv))
    arguments = joined.split("\0")
    for number, argument in enumerate(arguments):
        if argument.startswith("--config="):
            value = argument.removeprefix("--config=")
            load_config(value)  # ml_collections would print a stack trace.
            arguments[number] = f"--config={config_file(value)}"
    try:
        return app.parse_flags_with_usage(arguments)
    except (AttributeError, KeyError) as error:  # A field that does not exist.
        # The text of one error is the `repr` of another.
        text = re.sub(r"[\\']", "", str(error.args[0]).replace("\\n", ". "))
        text = " ".join(text.split())
        sys.exit(f"error: `--config` does not have this field: {text}")
    except BrokenPipeError:
        raise
    except (TypeError, ValueError, OSError) as error:
        sys.exit(f"error: `--config`: {' '.join(str(error).split())}")


def config_file(value: str) -> str:
    """Resolves an included run, such as `segabert_tiny`, to `FILE:VARIANT`.

    `value` is a run, a family or `FAMILY:VARIANT`. Other values are returned as is.
    """
    name, colon, variant = value.partition(":")
    families = [] if pathlib.Path(name).is_file() else CONFIGS.glob("[!_]*.py")
    for family in sorted((path.stem for path in families), key=len, reverse=True):
        file = str(CONFIGS / f"{family}.py")
        if name == family:
            return file + colon + variant
        if name.startswith(f"{family}_") and not colon:
            return f"{file}:{name.removeprefix(f'{family}_')}"
    return value


def load_config(value: str) -> ml_collections.ConfigDict:
    """Loads the config that `--config=value` names, or exits with a one-line error."""
    name, colon, variant = config_file(value).partition(":")
    if not pathlib.Path(name).is_file():
        sys.exit(
            "error: `--config` must be a Python file, FILE:VARIANT, or the name of an "
            f"included run (`seg-tf configs`). Received: {value}"
        )
    get_config = runpy.run_path(name)["get_config"]
    try:
        return get_config(variant) if colon else get_config()
    except (TypeError, ValueError) as error:
        if os.environ.get("SEG_TF_TRACEBACK"):
            raise
        sys.exit(f"error: --config={value}: {error}")


class _OptionalValue(flags.ArgumentParser[str | None]):
    """Parser for flags with an optional value: `--name` or `--name=value`."""

    def parse(self, argument: str) -> str | None:
        # absl passes "true" for `--name` and "false" for `--noname`.
        return {"true": "", "false": None}.get(argument, argument)


def define_tracker_flags() -> None:
    for name, text in _TRACKERS.items():
        text = f"Also send the log to {text}."
        flag = flags.Flag(_OptionalValue(), None, name, None, text, boolean=True)
        flags.DEFINE_flag(flag)


def chosen_trackers() -> dict[str, str]:
    """Returns the requested trackers, each with its project or experiment.

    "" means the tracker's default. Raises a ValueError if a package is not installed.
    """
    values = {name: flags.FLAGS[name].value for name in _TRACKERS}
    chosen = {name: value for name, value in values.items() if value is not None}
    for name in chosen:
        if importlib.util.find_spec(name) is None:
            raise ValueError(
                f"`--{name}` needs the package {name}, which is not installed: "
                f'pip install "seg_tf[{name}]"'
            )
    return chosen
