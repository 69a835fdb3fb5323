r"""Gradients in float16 against float32, at the batches of the two-phase recipe.

  python -m benchmarks.float16_gradients

Takes one micro-batch of real text as one of the thousands that make an update of
NVIDIA's recipe: the step is told that all processes together have 2,048 (phase 1) or
4,096 (phase 2) micro-batches alike, so that its loss is over more than a million
targets. The model is a SegaBERT without dropout, trained for some updates in float32
first: only then are most words improbable. Compared are the gradients that the
optimizer gets:

* flushed: share of the entries that are 0 in float16 and are not in float32;
* error: norm of the difference over the norm in float32, of each variable.
"""

import dataclasses
import os
import pathlib
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

# Read when TensorFlow is imported.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from absl import flags

from benchmarks import sample_data
from seg_tf import command_line

_LAYERS = flags.DEFINE_integer("layers", 4, "Transformer layers.")
_HIDDEN_SIZE = flags.DEFINE_integer("hidden_size", 128, "Width; the inner is 4 times.")
_NUM_HEADS = flags.DEFINE_integer("num_heads", 2, "Attention heads.")
_UPDATES = flags.DEFINE_integer(
    "updates", 300, "Updates of 32 rows of 128 positions that train the model first."
)
_COMPRESS = flags.DEFINE_bool(
    "compress_gradients", False, "Let gradients of float16 travel as float16."
)


@dataclasses.dataclass(frozen=True)
class _Phase:
    """One phase of the recipe, with the micro-batches that its config gives for V100.

    Attributes:
        length: positions of a row.
        predictions: of a row at most.
        batch_size: rows of an update.
        micro_batch_size: rows that a process computes at once.
    """

    length: int
    predictions: int
    batch_size: int
    micro_batch_size: int


_PHASES = {
    "phase 1": _Phase(128, 20, 65_536, 32),
    "phase 2": _Phase(512, 80, 32_768, 8),
}


_HEADER = "batch     targets     flushed   median error   largest error   lost"


def _run_config(phase: _Phase, dtype_policy: str) -> Any:
    from seg_tf import configuration

    return configuration.RunConfig(
        name="float16_gradients",
        paper="segabert_base",
        model=configuration.EncoderConfig(
            num_layers=_LAYERS.value,
            hidden_size=_HIDDEN_SIZE.value,
            num_heads=_NUM_HEADS.value,
            intermediate_size=4 * _HIDDEN_SIZE.value,
            dropout=0.0,
        ),
        inputs=configuration.WindowInputsConfig(
            window_length=phase.length,
            masking=configuration.MaskingConfig(max_predictions=phase.predictions),
        ),
        optimizer=configuration.AdamWConfig(learning_rate=1e-3, warmup_updates=50),
        training=configuration.TrainingConfig(
            # The rows of this process; the others are only counted.
            batch_size=phase.micro_batch_size,
            clip_norm=None,
            dtype_policy=dtype_policy,
            compress_gradients=_COMPRESS.value and dtype_policy == "mixed_float16",
            deterministic_ops=False,
        ),
    )


def _trained_weights(folder: pathlib.Path) -> list[Any]:
    """Weights after some updates in float32, which fit either phase."""
    from seg_tf.training import pretraining

    config = _run_config(_PHASES["phase 1"], "float32")
    inputs = pretraining.build_inputs(config, str(folder))
    pretrainer = pretraining.build_pretrainer(config, inputs)
    dataset = inputs.train_dataset(config.training.batch_size)
    if _UPDATES.value:
        pretrainer.fit(
            dataset, steps_per_epoch=_UPDATES.value, shuffle=False, verbose=0
        )
        print(f"trained to a loss of {pretrainer.interval_results()['loss']:.2f}")
    return [variable.numpy() for variable in pretrainer.trainable_variables]


def _gradients(
    phase: _Phase, dtype_policy: str, weights: Sequence[Any], folder: pathlib.Path
) -> tuple[list[Any], int]:
    """The gradients of all variables that the optimizer gets, and the targets."""
    import keras
    import tensorflow as tf

    from seg_tf.training import pretraining
    from seg_tf.training.distribution import Distribution

    class OneOfMany(Distribution):
        """Counts this process's micro-batch as many times as an update has some."""

        targets = None

        def sum(
            self, tensors: Sequence[Any], name: str, as_float16: bool = False
        ) -> list[Any]:
            if name == "counts":
                number = phase.batch_size // phase.micro_batch_size
                tensors = [tensor * number for tensor in tensors]
                self.targets = int(tensors[0][0])
            if as_float16:
                halves = [tf.cast(tensor, tf.float16) for tensor in tensors]
                tensors = [tf.cast(half, tf.float32) for half in halves]
            return list(tensors)

    class Recorder(keras.optimizers.SGD):
        """Keeps what it should apply."""

        def apply(self, grads: Any, trainable_variables: Any = None) -> None:
            self.gradients = [gradient.numpy() for gradient in grads]

    config = _run_config(phase, dtype_policy)
    inputs = pretraining.build_inputs(config, str(folder))
    processes = OneOfMany()
    pretrainer = pretraining.build_pretrainer(config, inputs, processes)
    recorder = Recorder(0.0)
    pretrainer.compile(optimizer=recorder, auto_scale_loss=False)
    batch = next(iter(inputs.train_dataset(phase.micro_batch_size)))
    pretrainer.build_from(batch)
    for variable, value in zip(pretrainer.trainable_variables, weights, strict=True):
        variable.assign(value)
    pretrainer.train_step(batch)  # eagerly: the gradients are read at once
    return recorder.gradients, processes.targets


def _compare(exact: Sequence[Any], rounded: Sequence[Any]) -> dict[str, float]:
    import numpy as np

    pairs = list(zip(exact, rounded, strict=True))
    flushed = sum(np.count_nonzero((half == 0) & (full != 0)) for full, half in pairs)
    norms = [np.linalg.norm(full) for full in exact]
    errors = [
        np.linalg.norm(half - full) / norm
        for (full, half), norm in zip(pairs, norms, strict=True)
        # The bias of the keys of attention has no gradient but for rounding.
        if norm > 1e-6 * max(norms)
    ]
    return {
        "flushed": flushed / sum(np.count_nonzero(one) for one in exact),
        "median": float(np.median(errors)),
        "largest": max(errors),
        "lost": sum(error >= 1 for error in errors),
        "variables": len(errors),
    }


def main(_: Sequence[str]) -> None:
    weights = None
    for name, phase in _PHASES.items():
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            sample_data.build_wikipedia_windows(folder, phase.length)
            weights = weights or _trained_weights(folder)
            exact, targets = _gradients(phase, "float32", weights, folder)
            rounded, _ = _gradients(phase, "mixed_float16", weights, folder)
        found = _compare(exact, rounded)
        if phase is _PHASES["phase 1"]:
            print(_HEADER)
        print(
            f"{name}   {targets:>9,}   {found['flushed']:8.3%}   "
            f"{found['median']:12.3%}   {found['largest']:13.2%}   "
            f"{found['lost']:.0f} of {found['variables']:.0f}"
        )


if __name__ == "__main__":
    sys.exit(command_line.run(main))
