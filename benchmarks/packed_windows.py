r"""Compares packed rows with one window per row: fill, loading and training speed.

  python -m benchmarks.packed_windows
  python -m benchmarks.packed_windows --layers=4 --hidden_size=768 --num_heads=12 \
      --batch_size=4 --records_dir=records
  python -m benchmarks.packed_windows --records_dir=records_cut \
      --unpacked_records_dir=records

Both sides read the same windows through the input pipeline and train the same model,
with SegaBERT's three tables, from the same weights, in float32 and with dropout. Speed
is in real tokens, positions without padding. Their number is computed from the fill of
the whole split, because a step takes the same time for any rows. The highest fill that
any packing of these windows could reach is printed too.

With `--unpacked_records_dir`, the sides read two sets of windows of the same documents,
for example packed windows built with `--cut_sentences` and unpacked whole sentences.
`--max_windows_per_row=1` shows the cost of the attention mask alone.
"""

import os
import pathlib
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

# Read when TensorFlow is imported.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from absl import flags

from benchmarks import paired, sample_data
from seg_tf import command_line

_RECORDS = flags.DEFINE_string(
    "records_dir", None, "Window records. Default: made from some of the sample text."
)
_UNPACKED_RECORDS = flags.DEFINE_string(
    "unpacked_records_dir",
    None,
    "Window records of the side with one window a row, of the same length. Default: "
    "the other side's records.",
)
_MAX_WINDOWS = flags.DEFINE_integer("max_windows_per_row", 8, "Of the packed rows.")
_BATCH = flags.DEFINE_integer("batch_size", 8, "Rows of a batch.")
_LAYERS = flags.DEFINE_integer("layers", 2, "Transformer layers.")
_HIDDEN_SIZE = flags.DEFINE_integer("hidden_size", 256, "Width; the inner is 4 times.")
_NUM_HEADS = flags.DEFINE_integer("num_heads", 4, "Attention heads.")
_STEPS = flags.DEFINE_integer("steps", 4, "Training steps of a round.")
_BATCHES = flags.DEFINE_integer("batches", 1_000, "Loaded batches of a round.")
_ROUNDS = flags.DEFINE_integer("rounds", 9, "Counted rounds.")

_PACKED, _UNPACKED = "packed", "one window a row"


def _configs(length: int) -> dict[str, Any]:
    """Returns the run of each side."""
    from seg_tf.config import EncoderConfig, RunConfig, TrainingConfig
    from seg_tf.data.configs import PackedWindowInputsConfig, WindowInputsConfig

    inputs = {
        _PACKED: PackedWindowInputsConfig(
            window_length=length, max_windows_per_row=_MAX_WINDOWS.value
        ),
        _UNPACKED: WindowInputsConfig(window_length=length),
    }
    model = EncoderConfig(
        num_layers=_LAYERS.value,
        hidden_size=_HIDDEN_SIZE.value,
        num_heads=_NUM_HEADS.value,
        intermediate_size=4 * _HIDDEN_SIZE.value,
    )
    training = TrainingConfig(batch_size=_BATCH.value, deterministic_ops=False)
    return {
        name: RunConfig(
            name=name,
            paper="segabert_base",
            model=model,
            inputs=side,
            training=training,
        )
        for name, side in inputs.items()
    }


def _loading(inputs: Any, real_tokens: float) -> Callable[[], float]:
    batches = iter(inputs.train_dataset(_BATCH.value))
    return paired.repeated(lambda: next(batches), _BATCHES.value, real_tokens)


def _training(config: Any, inputs: Any, real_tokens: float) -> Callable[[], float]:
    from seg_tf.training import build

    learner = build.build_learner(config, inputs)
    batches = iter(inputs.train_dataset(_BATCH.value))

    def step() -> int:
        learner.make_update(batches)
        return learner.updates  # reading it waits for the weights

    return paired.repeated(step, _STEPS.value, real_tokens)


def _largest_fill(manifest: Any, folder: pathlib.Path) -> float:
    """Returns the highest possible fill. Windows over half a row never share a row."""
    from seg_tf.data import record_schema
    from seg_tf.data.manifest import NUM_SPECIAL_TOKENS

    lengths = record_schema.WINDOWS.read(manifest.splits["train"], folder)
    lengths = lengths.astype(int) + NUM_SPECIAL_TOKENS
    rows = lengths.sum() / manifest.window_length
    return rows / max(rows, (lengths > manifest.window_length / 2).sum())


def main(_: Sequence[str]) -> None:
    from seg_tf.data.manifest import Manifest
    from seg_tf.training import build

    scratch = tempfile.TemporaryDirectory()
    folder = pathlib.Path(_RECORDS.value or scratch.name)
    if not _RECORDS.value:
        sample_data.build_wikipedia_windows(folder)
    folders = {
        _PACKED: folder,
        _UNPACKED: pathlib.Path(_UNPACKED_RECORDS.value or folder),
    }
    manifest = Manifest.load(folder)
    length = manifest.window_length
    configs = _configs(length)
    paired.print_machine()
    with scratch:
        inputs = {
            name: build.build_inputs(config, folders[name])
            for name, config in configs.items()
        }
        print(
            f"fill at {length}: packed {inputs[_PACKED].fill:.3f} (no packing reaches "
            f"more than {_largest_fill(manifest, folder):.3f}; target 0.97), "
            f"one window a row {inputs[_UNPACKED].fill:.3f}, ratio "
            f"{inputs[_PACKED].fill / inputs[_UNPACKED].fill:.3f}"
        )
        real_tokens = {
            name: _BATCH.value * length * side.fill for name, side in inputs.items()
        }
        sides = {name: _loading(inputs[name], real_tokens[name]) for name in configs}
        print(f"loading, batch {_BATCH.value}, all cores")
        _report(paired.interleave(sides, _ROUNDS.value), target=None)
        sides = {
            name: _training(config, inputs[name], real_tokens[name])
            for name, config in configs.items()
        }
        print(
            f"training, {_LAYERS.value} layers of width {_HIDDEN_SIZE.value}, batch "
            f"{_BATCH.value}"
        )
        _report(paired.interleave(sides, _ROUNDS.value), target=1.25)
        paired.print_machine()


def _report(rates: dict[str, paired.Rates], target: float | None) -> None:
    paired.report(
        rates,
        of=_PACKED,
        against=_UNPACKED,
        unit="k real tokens/s",
        scale=1e-3,
        target=target,
    )


if __name__ == "__main__":
    sys.exit(command_line.run(main))
