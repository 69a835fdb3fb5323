r"""Plots validation losses or other metrics of several runs as a PNG.

  seg-tf plot-runs --runs=runs/slm_tiny --output=unshuffling.png \
    --metric=masked_lm_loss,sentence_unshuffling_pointer_accuracy

Each --metric, a field of log.jsonl, has its own panel. A dashed line shows the score of
guessing. Runs with different objectives have different total losses: use --metric.
"""

import pathlib
from collections.abc import Sequence

from absl import flags

from seg_tf import file_listing
from seg_tf.training import plots


def define_flags() -> None:
    flags.DEFINE_list(
        "runs", None, "Comma-separated output folders of runs.", required=True
    )
    flags.DEFINE_string("output", "curves.png", "PNG file to write.")
    flags.DEFINE_list("metric", [plots.LOSS], "Comma-separated metrics to draw.")
    flags.DEFINE_bool("training", False, "Also draw training values.")


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
