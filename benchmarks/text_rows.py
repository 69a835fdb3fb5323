r"""Fill of rows of texts, for both lengths that ReAT is trained with.

  python -m benchmarks.text_rows
  python -m benchmarks.text_rows --records_dir=records/wikipedia_16384

The rows of `configs/reat.py:base`, in which short sentences share blocks, are compared
with two other layouts of the same texts: the paper's array of sentences × positions,
and sentences in groups of like length, each padded to the longest of its group.
Target: 0.8.
"""

import dataclasses
import os
import pathlib
import tempfile
from collections.abc import Sequence

# Read when TensorFlow is imported.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from absl import flags

from benchmarks import paired, sample_data
from seg_tf import command_line

_RECORDS = flags.DEFINE_string(
    "records_dir",
    None,
    "Records of windows of 16,384 positions. Default: made of some of the sample text.",
)
_GROUP = flags.DEFINE_integer("group", 16, "Step from a group of lengths to the next.")


def _report(folder: pathlib.Path, *, long: bool) -> None:
    from data_pipelines.loading import text_packing
    from data_pipelines.records import window_lengths
    from seg_tf.configs import reat
    from seg_tf.training import pretraining

    base = reat.RUNS["base"]
    of_base = base.inputs
    config = dataclasses.replace(
        base,
        inputs=dataclasses.replace(of_base, long_rate=1.0 if long else 0.0),
    )
    inputs = pretraining.build_inputs(config, folder)
    shape = (
        text_packing.TextShape(of_base.long_sentence_length, of_base.long_max_sentences)
        if long
        else text_packing.TextShape(
            of_base.short_sentence_length, of_base.short_max_sentences
        )
    )
    lengths = window_lengths.read_sentences(inputs.manifest.splits["train"], folder)
    row = text_packing.RowShape(
        of_base.row_length // base.model.block_length,
        base.model.block_length,
        of_base.sentences_per_row,
    )
    texts = text_packing.cut_texts(*lengths, shape, row)
    real = texts.positions.sum(dtype=np.int64)
    padded = len(texts) * shape.max_sentences * shape.sentence_length
    groups = -(-texts.positions.astype(np.int64) // _GROUP.value) * _GROUP.value
    grouped = np.minimum(groups, shape.sentence_length).sum()
    print(
        f"up to {shape.max_sentences} sentences of {shape.sentence_length} positions: "
        f"{len(texts):,} texts, {len(texts.positions):,} sentences\n"
        f"  rows of {of_base.row_length:,}   {inputs.fill:.3f}\n"
        f"  groups of length {real / grouped:.3f}\n"
        f"  padded array     {real / padded:.3f}"
    )


def main(_: Sequence[str]) -> None:
    paired.print_machine()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(_RECORDS.value or scratch)
        if not _RECORDS.value:
            sample_data.build_wikipedia_windows(folder, window_length=16_384)
        for long in (False, True):
            _report(folder, long=long)


if __name__ == "__main__":
    command_line.run(main)
