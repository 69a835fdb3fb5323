"""Flags of experiment trackers, `--wandb[=PROJECT]` and `--mlflow[=EXPERIMENT]`.

Nothing here imports TensorFlow, so that a package that is missing is said at once.
"""

import importlib.util

from absl import flags

# They are flags of the command that has them defined, in its --help.
flags.disclaim_key_flags()

# Names of flag, package and extra.
_TRACKERS = ("wandb", "mlflow")


class _OptionalValue(flags.ArgumentParser[str | None]):
    """Value of a flag that may be given without one: `--name`, `--name=value`."""

    def parse(self, argument: str) -> str | None:
        # Absl's words for a flag without a value.
        return {"true": "", "false": None}.get(argument, argument)


def define_tracker_flags() -> None:
    """Defines a flag for each tracker; `chosen_trackers` reads them."""
    for name, text in (
        (
            "wandb",
            "Send the log to Weights & Biases as well: --wandb=PROJECT, or --wandb for "
            "the project of WANDB_PROJECT. WANDB_MODE=offline keeps it in files for "
            "`wandb sync`",
        ),
        (
            "mlflow",
            "Send the log to MLflow as well: --mlflow=EXPERIMENT, or --mlflow for that "
            "of MLFLOW_EXPERIMENT_NAME. MLFLOW_TRACKING_URI names the server or the "
            "database",
        ),
    ):
        flags.DEFINE_flag(
            flags.Flag(
                _OptionalValue(),
                None,
                name,
                None,
                f'{text}. Needs `pip install "seg_tf[{name}]"`. A resumed run '
                "continues there.",
                boolean=True,
            )
        )


def chosen_trackers() -> dict[str, str]:
    """Project or experiment by the name of each tracker asked for; "" is its default.

    Raises:
        ValueError: if its package is not installed, naming the extra.
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
