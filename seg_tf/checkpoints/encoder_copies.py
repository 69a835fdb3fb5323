"""Copies pretrained models for fine-tuning, export and half-precision checkpoints."""

import contextlib
import pathlib
import random
from collections.abc import Iterator

import keras
import numpy as np

from seg_tf.checkpoints import contents
from seg_tf.checkpoints.pretrained import Pretrained, assemble
from seg_tf.layers.common import under_dtype_policy


def copy_encoder(
    pretrained: Pretrained, *, randomly_initialized: bool = False
) -> keras.Model:
    """Copies a pretrained encoder under Keras's current dtype policy.

    The copy reads one window per row. If `randomly_initialized`, weights are random.
    """
    encoder = pretrained.encoder
    config = {**encoder.get_config(), "dtype": keras.config.dtype_policy()}
    if "packed_windows" in config:
        config["packed_windows"] = False
    # Unlike the constructor, this also copies layers among the arguments.
    copy = type(encoder).from_config(config)
    if not randomly_initialized:
        copy.set_weights(encoder.get_weights())
    return copy


@contextlib.contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Context manager that seeds layers created inside it, unless `seed` is None."""
    if seed is None:
        yield
        return
    # Layers without a seed draw one from Python's generator.
    state = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(state)


def write_half_precision(pretrained: Pretrained, folder: pathlib.Path) -> None:
    """Writes a float16 checkpoint, about a sixth of the size of a run's checkpoint.

    The weights are read from `pretrained.folder`. New runs can start from the copy, but
    no run can resume from it. Loading converts weights to float32. Raises a
    `ValueError` if a weight exceeds the range of float16.
    """
    source = pretrained.folder
    with under_dtype_policy("float16"):
        encoder, objectives = assemble(pretrained.config, pretrained.encoder.vocab_size)
    # Read the files, because the loaded model may have been trained further.
    contents.restore(source, encoder, objectives, cast=True)
    heads = contents.objective_variables(encoder, objectives)
    for variable in (*encoder.weights, *heads):
        if not np.isfinite(np.asarray(variable.value)).all():
            raise ValueError(
                "Weights must be within ±65,504 to be written in half precision. "
                f"Received: {source}, whose {variable.path} is beyond that"
            )
    state = {
        **contents.read_state(source),
        "finetuning_learning_rate": pretrained.finetuning_learning_rate,
    }
    other_files = {
        name: (source / name).read_bytes()
        for name in state["checksums"]
        if name not in contents.WEIGHT_FILES
    }
    contents.write(folder, encoder, objectives, state, other_files)
