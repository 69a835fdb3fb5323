"""Pretrains a text encoder on records that data_pipelines.build_records made.

  python run_pretraining.py --config=configs/segabert_tiny.py --records_dir=records

A config is a Python file; its docstring says what the run needs and yields. Any
field can be overridden, nested ones too:

  --config.optimizer.learning_rate=3e-4 --config.training.num_updates=10000
  --config.optimizer.warmup_updates=500 --config.training.clip_norm=None
  --config.model.index_tables.token_index=512
  --config.model.index_tables="{'position_index': 512}"

To see what a run would do (updates, tokens, parameters, memory, deviations from the
paper) without touching anything, add --dry_run.

A run writes checkpoints, log.jsonl, events for TensorBoard and loss_curve.png below
--output_dir (default: runs/<name of the config>). Killed or stopped (Ctrl-C, SIGTERM),
it goes on when the same command is given again, and ends with the same weights, bit
for bit, as a run that was never stopped.

On several processes, of one host or of many (BUILD.md), say before it how many:

  horovodrun -np 2 python run_pretraining.py --config=…
  horovodrun -np 16 -H host1:8,host2:8 python run_pretraining.py --config=…

config.training.batch_size is the batch of all processes together, and the learning
rate that of such a batch; config.training.micro_batch_size is what one process
computes at once.

  tensorboard --logdir=runs
  python -m seg_tf.training.plot_runs --runs=runs/bert_tiny,runs/segabert_tiny
"""

import os
import pathlib
import sys
from collections.abc import Sequence

# Before TensorFlow is imported; without a GPU its only error is that there is none.
os.environ.setdefault(
    "TF_CPP_MIN_LOG_LEVEL", "2" if os.path.exists("/dev/nvidiactl") else "3"
)

from absl import app, flags
from ml_collections import config_flags

from seg_tf import configuration, fidelity, files, output_paths
from seg_tf.training import (
    checkpoint,
    checkpoint_names,
    config_overrides,
    devices,
    distribution,
    plan,
    pretraining,
    run_folder,
)
from seg_tf.training.errors import TrainingStopped
from seg_tf.training.run_folder import RunFolder

_CONFIG = config_flags.DEFINE_config_file(
    "config", None, "Config file; its fields are flags too: --config.training.seed=1."
)
_RECORDS_DIR = flags.DEFINE_string(
    "records_dir", None, "Folder that data_pipelines.build_records made."
)
_OUTPUT_DIR = flags.DEFINE_string(
    "output_dir", None, "Folder to write to. Default: runs/<name of the config>."
)
_INITIAL_CHECKPOINT = flags.DEFINE_string(
    "initial_checkpoint",
    None,
    "Checkpoint, or output folder of a run, whose weights a new run starts from: only "
    "the weights, as for the second phase of a recipe.",
)
_DRY_RUN = flags.DEFINE_bool("dry_run", False, "Print the plan and touch nothing.")
_RESUME = flags.DEFINE_bool(
    "resume",
    True,
    "Go on from the checkpoints in --output_dir. With --noresume it is an error if "
    "there are any.",
)
_OVERWRITE = flags.DEFINE_bool(
    "overwrite", False, "Remove the run in --output_dir first, and start anew."
)


def main(argv: Sequence[str]) -> None:
    if len(argv) > 1:
        sys.exit(f"error: unexpected argument {argv[1]!r}; all options are flags")
    try:
        processes = distribution.join()
        config = configuration.from_config_dict(_CONFIG.value)
        folder = RunFolder(
            output_paths.local_path(
                _OUTPUT_DIR.value or f"runs/{config.name}", "output_dir"
            )
        )
        initial = _initial_checkpoint()
        run = run_folder.describe_run(
            config,
            _manifest_checksum(),
            checkpoint.weights_checksum(initial) if initial else None,
        )
        choice = {"resume": _RESUME.value, "overwrite": _OVERWRITE.value}
        if processes.is_chief:
            run_folder.check(folder, run, **choice)
        devices.set_determinism(
            config.training, print if processes.is_chief else lambda line: None
        )
        inputs = pretraining.build_inputs(config, _RECORDS_DIR.value, processes)
        pretrainer = pretraining.build_pretrainer(config, inputs, processes)
        deviations = fidelity.describe(config)
    except (ValueError, OSError, TrainingStopped) as error:
        sys.exit(f"error: {error}")

    if processes.is_chief:
        print(plan.describe(plan.make_plan(config, inputs, pretrainer), inputs))
        print(deviations, flush=True)
    if _DRY_RUN.value:
        if processes.is_chief:
            print(
                f"Nothing was written; without --dry_run the run goes to {folder.path}"
            )
        return
    try:
        result = pretraining.pretrain(
            config,
            inputs,
            pretrainer,
            folder,
            run,
            initial_checkpoint=initial,
            **choice,
        )
    except TrainingStopped as stop:
        if processes.is_chief or not stop.is_common:
            print(stop, file=sys.stderr)
        sys.exit(stop.exit_code)
    if processes.is_chief:
        print(_ending(result, folder))


def _initial_checkpoint() -> pathlib.Path | None:
    if not _INITIAL_CHECKPOINT.value:
        return None
    return checkpoint.find_checkpoint(
        pathlib.Path(_INITIAL_CHECKPOINT.value), "--initial_checkpoint"
    )


def _manifest_checksum() -> str:
    if not _RECORDS_DIR.value:
        raise ValueError(
            "`--records_dir` must be given: a folder that `python -m "
            "data_pipelines.build_records` made"
        )
    path = pathlib.Path(_RECORDS_DIR.value) / "manifest.json"
    if not path.is_file():
        raise ValueError(
            "`--records_dir` must be a folder that `python -m "
            f"data_pipelines.build_records` made. Found no {path}"
        )
    return files.checksum(path)


def _ending(result: pretraining.Result, folder: RunFolder) -> str:
    best = folder.checkpoints_folder / checkpoint_names.name(result.best_updates)
    return f"""
Done after {result.updates:,} updates.
  validation loss  {result.validation["loss"]:.4f} (best: {result.best_loss:.4f})
  best checkpoint  {best}
  loss curve       {folder.curve_file}
  log              {folder.log_file}

What to do next:
  look at the curves    tensorboard --logdir={folder.path}
  compare runs          python -m seg_tf.training.plot_runs --runs={folder.path},…
  use the encoder       from seg_tf.training.pretrained import load_encoder
                        encoder, config = load_encoder("{folder.path}")
  train it for longer   the same command with --config.training.num_updates=… and
                        another --output_dir"""


if __name__ == "__main__":
    flags.mark_flag_as_required("config")
    app.run(main, flags_parser=config_overrides.parse_flags)
