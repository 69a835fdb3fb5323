r"""Plots the validation losses of several runs over one another, as a PNG.

  python -m seg_tf.training.plot_runs --runs=runs/bert_tiny,runs/segabert_tiny \
    --output=curves.png

A run is the --output_dir of run_pretraining.py and is named after its folder. The
training losses are added with --training.
"""

import pathlib
import sys
from collections.abc import Sequence

from absl import app, flags

from seg_tf.training import plots

_RUNS = flags.DEFINE_list("runs", None, "Output folders of runs, comma-separated.")
_OUTPUT = flags.DEFINE_string("output", "curves.png", "The PNG to write.")
_TRAINING = flags.DEFINE_bool("training", False, "Whether to draw training losses too.")


def main(_: Sequence[str]) -> None:
    folders = [pathlib.Path(run) for run in _RUNS.value]
    names = [folder.resolve().name for folder in folders]
    if len(set(names)) < len(names):  # then the whole paths tell them apart
        names = [str(folder) for folder in folders]
    try:
        plots.save_loss_curve(
            dict(zip(names, folders, strict=True)),
            pathlib.Path(_OUTPUT.value),
            show_training=_TRAINING.value,
        )
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")
    print(f"Written: {_OUTPUT.value}")


if __name__ == "__main__":
    flags.mark_flag_as_required("runs")
    app.run(main)
