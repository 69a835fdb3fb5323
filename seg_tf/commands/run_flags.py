"""Flags of runs: `--config` with its fields, and experiment trackers.

Nothing here imports TensorFlow, so that wrong flags are reported at once.
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

# Commands that define them show them in their --help.
flags.disclaim_key_flags()

CONFIGS = pathlib.Path(__file__).resolve().parents[1] / "configs"
"""The folder of the included runs."""
_TRACKERS = {
    "wandb": "Weights & Biases: --wandb=PROJECT, or --wandb for $WANDB_PROJECT",
    "mlflow": "MLflow: --mlflow=EXPERIMENT, or --mlflow for $MLFLOW_EXPERIMENT_NAME",
}


def parse_flags(argv: Sequence[str]) -> list[str]:
    """For `app.run(main, flags_parser=parse_flags)`; needs a flag named `config`."""
    # The value may be the next argument.
    joined = re.sub(r"(^|\0)--?config[=\0]", r"\1--config=", "\0".join(argv))
    arguments = joined.split("\0")
    for number, argument in enumerate(arguments):
        if argument.startswith("--config="):
            file = config_file(argument.removeprefix("--config="))
            load_config(file)  # ml_collections would print a stack trace.
            arguments[number] = f"--config={file}"
    try:
        return app.parse_flags_with_usage(arguments)
    # What ml_collections raises for a field that does not exist.
    except (AttributeError, KeyError, TypeError, ValueError, OSError) as error:
        sys.exit(f"error: `--config`: {' '.join(str(error).split())}")


def config_file(value: str) -> str:
    """The `FILE:VARIANT` of an included run such as `segabert_tiny`.

    `value` names a run, a family, or `FAMILY:VARIANT`; anything else stays unchanged.
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
    """The config of `FILE` or `FILE:VARIANT`; one line and exit 1 if there is none."""
    name, colon, variant = value.partition(":")
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
    """Value of a flag that may be given without one: `--name`, `--name=value`."""

    def parse(self, argument: str) -> str | None:
        # What absl passes for a flag without a value.
        return {"true": "", "false": None}.get(argument, argument)


def define_tracker_flags() -> None:
    """Defines a flag for each tracker; `chosen_trackers` reads them."""
    for name, text in _TRACKERS.items():
        text = f"Also send the log to {text}."
        flag = flags.Flag(_OptionalValue(), None, name, None, text, boolean=True)
        flags.DEFINE_flag(flag)


def chosen_trackers() -> dict[str, str]:
    """Project or experiment by tracker, for those in use; "" is the default."""
    values = {name: flags.FLAGS[name].value for name in _TRACKERS}
    chosen = {name: value for name, value in values.items() if value is not None}
    for name in chosen:
        if importlib.util.find_spec(name) is None:
            raise ValueError(
                f"`--{name}` needs the package {name}, which is not installed: "
                f'pip install "seg_tf[{name}]"'
            )
    return chosen
