r"""Plots the validation losses, or other metrics, of several runs, as a PNG.

  seg-tf plot-runs --runs=runs/slm_tiny --output=unshuffling.png \
    --metric=masked_lm_loss,sentence_unshuffling_pointer_accuracy

Each metric of the runs' log.jsonl has a panel, with the score of guessing dashed. If
the objectives of runs differ, the losses of those that they share are drawn instead of
totals.
"""

import pathlib
from collections.abc import Sequence

from absl import flags

from seg_tf import command_line, file_listing
from seg_tf.training import plots


def define_flags() -> None:
    flags.DEFINE_list(
        "runs", None, "Output folders of runs, comma-separated.", required=True
    )
    flags.DEFINE_string("output", "curves.png", "The PNG to write.")
    flags.DEFINE_list("metric", [plots.LOSS], "Metrics to draw, comma-separated.")
    flags.DEFINE_bool("training", False, "Draw the values of training too.")


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    names = file_listing.short_names(values.runs)
    plots.save_curves(
        dict(zip(names, map(pathlib.Path, values.runs), strict=True)),
        pathlib.Path(values.output),
        metrics=values.metric,
        show_training=values.training,
    )
    print(f"Written: {values.output}")


if __name__ == "__main__":
    define_flags()
    command_line.run(main)
