"""Flags of experiment trackers, `--wandb[=PROJECT]` and `--mlflow[=EXPERIMENT]`.

Nothing here imports TensorFlow, so that a missing package is reported at once.
"""

import importlib.util

from absl import flags

# Commands that define them show them in their --help.
flags.disclaim_key_flags()

_HELP = {
    "wandb": "Also send the log to Weights & Biases: --wandb=PROJECT, or --wandb for "
    "the project of WANDB_PROJECT. WANDB_MODE=offline keeps it in files for `wandb "
    "sync`",
    "mlflow": "Also send the log to MLflow: --mlflow=EXPERIMENT, or --mlflow for that "
    "of MLFLOW_EXPERIMENT_NAME. MLFLOW_TRACKING_URI names the server or the database",
}


class _OptionalValue(flags.ArgumentParser[str | None]):
    """Value of a flag that may be given without one: `--name`, `--name=value`."""

    def parse(self, argument: str) -> str | None:
        # What absl passes for a flag without a value.
        return {"true": "", "false": None}.get(argument, argument)


def define_tracker_flags() -> None:
    """Defines a flag for each tracker; `chosen_trackers` reads them."""
    for name, text in _HELP.items():
        text += (
            f'. Needs `pip install "seg_tf[{name}]"`. A resumed run continues there.'
        )
        flag = flags.Flag(_OptionalValue(), None, name, None, text, boolean=True)
        flags.DEFINE_flag(flag)


def chosen_trackers() -> dict[str, str]:
    """Project or experiment by tracker, for those in use; "" is the default.

    Raises:
        ValueError: if its package is not installed, naming the extra.
    """
    values = {name: flags.FLAGS[name].value for name in _HELP}
    chosen = {name: value for name, value in values.items() if value is not None}
    for name in chosen:
        if importlib.util.find_spec(name) is None:
            raise ValueError(
                f"`--{name}` needs the package {name}, which is not installed: "
                f'pip install "seg_tf[{name}]"'
            )
    return chosen
