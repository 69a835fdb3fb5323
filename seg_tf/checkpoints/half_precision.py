"""Checkpoints to hand on: weights in half precision, without the optimizer."""

import pathlib

import numpy as np

from seg_tf.checkpoints import contents
from seg_tf.checkpoints.encoder_copies import under_dtype_policy
from seg_tf.checkpoints.pretrained import Pretrained, assemble


def write_half_precision(pretrained: Pretrained, folder: pathlib.Path) -> None:
    """Writes a model as a checkpoint of a seventh of the size of a run's.

    Whatever takes a checkpoint takes it, except that no run continues from it: a new
    one can start from its weights. They are rounded to float16, and are of float32
    again in a model that is made of them.

    Args:
        pretrained: the model.
        folder: an empty folder; what else is in it becomes part of the checkpoint.

    Raises:
        ValueError: if a weight is beyond the range of float16.
    """
    source = pretrained.folder
    with under_dtype_policy("float16"):
        encoder, objectives = assemble(pretrained.config, pretrained.encoder.vocab_size)
    # Of the files, since what has been loaded may have been trained on.
    contents.restore(source, encoder, objectives, cast=True)
    for variable in [
        *encoder.weights,
        *contents.objective_variables(encoder, objectives),
    ]:
        if not np.isfinite(np.asarray(variable.value)).all():
            raise ValueError(
                "Weights must be within ±65,504 to be written in half precision. "
                f"Received: {source}, whose {variable.path} is beyond that"
            )
    state = {
        **contents.read_state(source),
        "finetuning_learning_rate": pretrained.finetuning_learning_rate,
    }
    # Vocabulary and sentence parameters; what an import kept.
    others = {
        name: (source / name).read_bytes()
        for name in state["checksums"]
        if name not in contents.WEIGHT_FILES
    }
    contents.write(folder, encoder, objectives, state, others, compress=True)
