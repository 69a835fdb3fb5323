r"""Cost of sentence unshuffling: training steps with and without it.

  python -m benchmarks.reconstructor_overhead
  python -m benchmarks.reconstructor_overhead --batch_size=8 --micro_batch_size=4
  python -m benchmarks.reconstructor_overhead --layers=2 --hidden_size=128 \
      --num_heads=2 --vocab_size=8192 --batch_size=16 --steps=5

Both sides train the same encoder, of SLM's base size unless flags say otherwise, on the
same full batch: one with masked LM alone, the other with masked LM and a Sequence
Reconstructor of three layers over 20 sentences a row. A step is forward, backward,
clipping, AdamW and the metrics of training, as `fit` takes it; decoding belongs to
validation and is not in it.

The target is 3 % more time, a ratio of 1 / 1.03; the paper (SLM, section 2.1) reports
7.1 %, a ratio of 0.934. Few
rows a step show the update of the reconstructor's own weights, a fixed price of every
step, more than many do.
"""

import os
from collections.abc import Sequence

# Read when TensorFlow is imported.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from absl import flags

from benchmarks import encoder_step, paired
from seg_tf import command_line, configuration

_BATCH_SIZE = flags.DEFINE_integer("batch_size", 4, "Rows of a step.")
_MICRO_BATCH_SIZE = flags.DEFINE_integer(
    "micro_batch_size", None, "Rows at a time. Default: all."
)
_SENTENCES = flags.DEFINE_integer("sentences", 20, "Sentences of a row.")
_DECODER_LAYERS = flags.DEFINE_integer("decoder_layers", 3, "Of the reconstructor.")
_JIT_COMPILE = flags.DEFINE_bool("jit_compile", False, "Compile both sides by XLA.")
_STEPS = flags.DEFINE_integer("steps", 1, "Steps of a round.")
_ROUNDS = flags.DEFINE_integer("rounds", 7, "Counted rounds.")
flags.set_default(encoder_step.LAYERS, 12)
flags.set_default(encoder_step.LENGTH, 512)
flags.set_default(encoder_step.PREDICTIONS, 77)

_ALONE, _BOTH = "masked LM", "masked LM + unshuffling"


def main(argv: Sequence[str]) -> None:
    del argv
    paired.print_machine()
    tables = {
        "position_index": encoder_step.LENGTH.value,
        "sentence_id": _SENTENCES.value + 2,
    }
    unshuffling = configuration.SentenceUnshufflingConfig(
        num_layers=_DECODER_LAYERS.value
    )
    sides = {
        _ALONE: encoder_step.MASKED_LM,
        _BOTH: {**encoder_step.MASKED_LM, "sentence_unshuffling": unshuffling},
    }
    rows = _BATCH_SIZE.value
    steps = {
        name: encoder_step.seg_tf_step(
            encoder_step.run_config(
                tables,
                rows,
                objectives,
                _SENTENCES.value,
                micro_batch_size=_MICRO_BATCH_SIZE.value,
                jit_compile=_JIT_COMPILE.value,
            )
        )
        for name, objectives in sides.items()
    }
    rates = paired.interleave(
        {
            name: paired.repeated(step, _STEPS.value, rows)
            for name, step in steps.items()
        },
        _ROUNDS.value,
    )
    paired.report(rates, of=_BOTH, against=_ALONE, unit="rows/s", target=0.971)
    paired.print_machine()


if __name__ == "__main__":
    command_line.run(main)
