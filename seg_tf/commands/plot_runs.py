r"""Plots the validation losses, or other metrics, of several runs, as a PNG.

  seg-tf plot-runs --runs=runs/bert_tiny,runs/segabert_tiny --output=curves.png

A run is the --output_dir of run_pretraining.py, whose name it has. --training also
draws the values of training. If runs have different objectives, or weights, the
losses of the shared objectives are drawn instead of totals.

--metric selects metrics of the runs' log.jsonl, a panel each. The score of guessing is
dashed, if the log has it:

  seg-tf plot-runs --runs=runs/slm_tiny --output=unshuffling.png \
    --metric=masked_lm_loss,sentence_unshuffling_pointer_accuracy
"""

import pathlib
import sys
from collections.abc import Sequence

from absl import app, flags

from seg_tf.training import plots

_RUNS = flags.DEFINE_list("runs", None, "Output folders of runs, comma-separated.")
_OUTPUT = flags.DEFINE_string("output", "curves.png", "The PNG to write.")
_METRIC = flags.DEFINE_list(
    "metric", [plots.LOSS], "Metrics to draw, comma-separated, a panel each."
)
_TRAINING = flags.DEFINE_bool(
    "training", False, "Whether to draw the values of training too."
)


def main(_: Sequence[str]) -> None:
    folders = [pathlib.Path(run) for run in _RUNS.value]
    names = [folder.resolve().name for folder in folders]
    if len(set(names)) < len(names):  # then the whole paths tell them apart
        names = [str(folder) for folder in folders]
    try:
        plots.save_curves(
            dict(zip(names, folders, strict=True)),
            pathlib.Path(_OUTPUT.value),
            metrics=_METRIC.value,
            show_training=_TRAINING.value,
        )
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")
    print(f"Written: {_OUTPUT.value}")


if __name__ == "__main__":
    flags.mark_flag_as_required("runs")
    app.run(main)
