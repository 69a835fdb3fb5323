"""Training state: all that the next update depends on, as checkpoints hold it."""

import math
import pathlib
from typing import Any

import tensorflow as tf

from seg_tf.checkpoints import contents
from seg_tf.training.pretrainer import Pretrainer


def groups(pretrainer: Pretrainer) -> dict[str, list[Any]]:
    """Variables besides the weights, by their group in `training_state.npz`."""
    return {
        "metrics": [
            variable
            for metric in pretrainer.interval_metrics
            for variable in metric.variables
        ],
        "optimizer": pretrainer.optimizer.variables,
        "loss_scale": pretrainer.step_options.loss_scale.variables,
        "memory": pretrainer.memory.variables,
    }


def all_variables(pretrainer: Pretrainer) -> list[Any]:
    """Everything that the next update depends on, in an order that the model fixes."""
    encoder, objectives = pretrainer.encoder, pretrainer.objectives
    found = [*encoder.weights, *contents.objective_variables(encoder, objectives)]
    return found + [one for group in groups(pretrainer).values() for one in group]


def size_in_bytes(pretrainer: Pretrainer) -> int:
    """About how many bytes a checkpoint takes."""
    return 2**20 + sum(
        math.prod(variable.shape) * tf.as_dtype(variable.dtype).size
        for variable in all_variables(pretrainer)
    )


def restore(folder: pathlib.Path, pretrainer: Pretrainer) -> None:
    """Gives the variables of a built pretrainer the values they have in `folder`.

    Args:
        folder: a checkpoint.
        pretrainer: of the same model.

    Raises:
        CheckpointError: if the folder is of another model.
    """
    contents.restore(
        folder, pretrainer.encoder, pretrainer.objectives, groups(pretrainer)
    )
    # What a process held of its lanes before is not of this checkpoint.
    pretrainer.memory.share()
