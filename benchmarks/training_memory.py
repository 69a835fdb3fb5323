r"""Memory and speed of a training step by what it holds for the backward pass.

  python -m benchmarks.training_memory
  python -m benchmarks.training_memory --length=2048 --rows=2
  python -m benchmarks.training_memory --length=16384 --rows=1 --layers=1 \
      --hidden_size=256 --num_heads=4

Sides are one BERT with dropout on attention weights; without, so that these are not
held (`model.attention_dropout=0`); with layers that are recomputed
(`training.recompute_layers`); and with both. Peak memory is what a separate process
takes more than before while it makes the model and two steps. A side that needs more
than is free is left out, and that is said. Steps are timed in turn in one process.
"""

import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

# Read when TensorFlow is imported.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from absl import flags

from benchmarks import paired, peak_memory
from seg_tf import command_line

_LENGTH = flags.DEFINE_integer("length", 512, "Positions of a row.")
_ROWS = flags.DEFINE_integer("rows", 8, "Rows of a batch.")
_LAYERS = flags.DEFINE_integer("layers", 4, "Transformer layers.")
_HIDDEN_SIZE = flags.DEFINE_integer("hidden_size", 768, "Width; the inner is 4 times.")
_NUM_HEADS = flags.DEFINE_integer("num_heads", 12, "Attention heads.")
_ROUNDS = flags.DEFINE_integer("rounds", 5, "Counted rounds.")
_MEMORY = flags.DEFINE_bool("memory", True, "Also peak memory, in four processes.")
_JIT_COMPILE = flags.DEFINE_bool("jit_compile", False, "Compile all sides by XLA.")

_VOCAB_SIZE = 8_192
_HELD = "all is held"
# Settings of the model and of training.
_SIDES: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    _HELD: ({}, {}),
    "attention_dropout=0": ({"attention_dropout": 0.0}, {}),
    "recompute_layers": ({}, {"recompute_layers": True}),
    "both": ({"attention_dropout": 0.0}, {"recompute_layers": True}),
}


def _config(side: str) -> Any:
    from seg_tf import configuration

    of_model, of_training = _SIDES[side]
    return configuration.RunConfig(
        name=side,
        paper="bert_base",
        model=configuration.EncoderConfig(
            index_tables={"position_index": _LENGTH.value},
            num_layers=_LAYERS.value,
            hidden_size=_HIDDEN_SIZE.value,
            num_heads=_NUM_HEADS.value,
            intermediate_size=4 * _HIDDEN_SIZE.value,
            approximate_gelu=True,
            **of_model,
        ),
        inputs=configuration.WindowInputsConfig(
            window_length=_LENGTH.value,
            masking=configuration.MaskingConfig(
                max_predictions=math.ceil(_LENGTH.value * 0.15)
            ),
        ),
        training=configuration.TrainingConfig(
            batch_size=_ROWS.value, jit_compile=_JIT_COMPILE.value, **of_training
        ),
    )


def _step(side: str) -> Callable[[], object]:
    """Makes a step of a side and returns a function that makes more."""
    from benchmarks import made_batches, run_step

    config = _config(side)
    batch = made_batches.make_batch(config, _VOCAB_SIZE, _ROWS.value)
    step = run_step.training_step(config, _VOCAB_SIZE, batch)
    step()
    return step


def _peak_memory(side: str, arguments: Sequence[str]) -> int:
    """Bytes that two steps of a side take; called in a separate process."""
    # Imported before, so that it is not counted.
    from benchmarks import run_step  # noqa: F401

    flags.FLAGS(arguments)
    return peak_memory.added_by(lambda: _step(side)())


def _memory(side: str) -> int | None:
    """The same, or None where it is likely to be more than is free."""
    config = _config(side)
    numbers = config.model.row_activations(
        config.inputs, _VOCAB_SIZE, config.training.recompute_layers
    )
    needed = 4 * _ROWS.value * numbers
    if needed > 0.9 * peak_memory.available():
        print(
            f"  {side:32s} left out: needs about {needed / 2**30:,.1f} GiB of the "
            f"{peak_memory.available() / 2**30:,.1f} that are free"
        )
        return None
    if not _MEMORY.value:
        return 0
    return peak_memory.in_own_process(_peak_memory, side, sys.argv)


def main(_: Sequence[str]) -> None:
    paired.print_machine()
    print(
        f"{_LAYERS.value} layers of width {_HIDDEN_SIZE.value}, {_NUM_HEADS.value} "
        f"heads, {_ROWS.value} rows of {_LENGTH.value:,} positions"
    )
    memory = {side: _memory(side) for side in _SIDES}
    for side, taken in memory.items():
        if taken:
            print(f"  {side:32s} {taken / 2**20:10,.0f} MiB")
    steps = {side: _step(side) for side, taken in memory.items() if taken is not None}
    rates = paired.interleave(
        {side: paired.repeated(step, 1) for side, step in steps.items()},
        _ROUNDS.value,
    )
    against = _HELD if _HELD in rates else next(iter(rates))
    for side in rates:
        if side != against:
            paired.report(rates, of=side, against=against, unit="steps/s")
    paired.print_machine()


if __name__ == "__main__":
    command_line.run(main)
