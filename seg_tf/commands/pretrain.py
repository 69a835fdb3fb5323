"""Pretrains a text encoder on records from data_pipelines.build_records.

  python run_pretraining.py --config=configs/segabert.py:tiny --records_dir=records

A config is a Python file, with a variant after a colon (default: tiny), or the name of
an included run, such as --config=segabert_tiny. `python -m seg_tf.configs` lists these.
Any field can be overridden, nested ones too:

  --config.optimizer.learning_rate=3e-4 --config.training.num_updates=10000
  --config.optimizer.warmup_updates=500 --config.training.clip_norm=None
  --config.model.index_tables.token_index=512
  --config.model.index_tables="{'position_index': 512}"

--dry_run prints the plan (updates, tokens, FLOPs, parameters, memory, deviations from
the paper) and changes nothing. --dry_run --measure=5 also makes five updates, which are
not kept, and prints how long the run will take.

A run writes checkpoints, log.jsonl, events for TensorBoard and loss_curve.png to
--output_dir (default: runs/<name of the config>). After a kill, Ctrl-C or SIGTERM, the
same command resumes it. On a CPU the result is bit-identical to an uninterrupted run.
With a larger --config.training.num_updates the same command trains it for longer, at
the rates of the longer run (docs/pretraining.md).

On several processes, of one host or of many (docs/clusters.md):

  horovodrun -np 2 python run_pretraining.py --config=…
  horovodrun -np 16 -H host1:8,host2:8 python run_pretraining.py --config=…

config.training.batch_size is the global batch, for which the learning rate is meant;
config.training.micro_batch_size is what one process computes at once.

Records may be a mixture of folders with weights. Of 6 consecutive rows

  --records_dir=records/wikipedia:3,records/books:1,records/domain:2

reads 3 from wikipedia, 1 from books and 2 from domain. Each is also validated
separately.

--engine=jax computes on JAX instead of TensorFlow. Results differ only by rounding and
dropout (docs/training_engine.md). On several hosts, start each process with:

  python run_pretraining.py --engine=jax --coordinator_address=host1:9876 \
      --num_processes=2 --process_id=0 --config=…

  tensorboard --logdir=runs
  python -m seg_tf.commands.plot_runs --runs=runs/bert_tiny,runs/segabert_tiny

--wandb=PROJECT and --mlflow=EXPERIMENT also send the log to Weights & Biases or MLflow.
Functions that make Keras callbacks are named by (docs/pretraining.md):

  --config.training.callbacks=package.module:function
  --config.training.callbacks="('package.module:one', 'package.module:other')"
"""

import os
import sys
from collections.abc import Sequence

# Before TensorFlow is imported; without a GPU its only error is that there is none.
os.environ.setdefault(
    "TF_CPP_MIN_LOG_LEVEL", "2" if os.path.exists("/dev/nvidiactl") else "3"
)

from absl import app, flags
from ml_collections import config_flags

from seg_tf.commands import config_overrides, tracker_flags
from seg_tf.config import from_config_dict
from seg_tf.training import engine

_CONFIG = config_flags.DEFINE_config_file(
    "config",
    None,
    "Config: FILE, FILE:VARIANT or the name of an included run, such as segabert_tiny. "
    "Its fields are flags too: --config.training.seed=1.",
)
_RECORDS_DIR = flags.DEFINE_string(
    "records_dir",
    None,
    "Folder of records (data_pipelines.build_records), several with weights "
    "(wikipedia:3,books:1), or their URLs (s3://bucket/records). Default: "
    "config.records_dir.",
)
_CACHE_GIGABYTES = flags.DEFINE_float(
    "cache_gigabytes",
    None,
    "Size of the cache of records at a URL, in $XDG_CACHE_HOME/seg_tf. Default: 50, or "
    "the last value. For larger records, use --config.inputs.block_rows=8192.",
    lower_bound=0.001,
)
_OUTPUT_DIR = flags.DEFINE_string(
    "output_dir", None, "Folder to write to. Default: runs/<name of the config>."
)
_INITIAL_CHECKPOINT = flags.DEFINE_string(
    "initial_checkpoint",
    None,
    "Checkpoint, or output folder of a run, whose weights a new run starts from, as in "
    "the second phase of a recipe. Or weights of another program, in a folder or as "
    "hf://organisation/name: they are converted once, as by import_weights, into a "
    "cache.",
)
_DRY_RUN = flags.DEFINE_bool("dry_run", False, "Print the plan and touch nothing.")
_MEASURE = flags.DEFINE_integer(
    "measure",
    None,
    "With --dry_run: make this many updates, after one that is not counted, and "
    "print how long the run will take.",
    lower_bound=1,
)
_ENGINE = flags.DEFINE_enum(
    "engine",
    "tensorflow",
    engine.NAMES,
    "TensorFlow, with Horovod between processes, or JAX, on all devices of one or "
    'several hosts (`pip install "seg_tf[jax]"`). A run may resume on the other.',
)
_COORDINATOR_ADDRESS = flags.DEFINE_string(
    "coordinator_address",
    None,
    "With --engine=jax on several processes: host:port of process 0. Default: "
    "$JAX_COORDINATOR_ADDRESS.",
)
_NUM_PROCESSES = flags.DEFINE_integer(
    "num_processes",
    None,
    "Number of processes. Default: $JAX_NUM_PROCESSES, or set by Slurm or Open MPI.",
    lower_bound=1,
)
_PROCESS_ID = flags.DEFINE_integer(
    "process_id",
    None,
    "Number of this process, from 0. Default: $JAX_PROCESS_ID, Slurm's or Open MPI's.",
    lower_bound=0,
)
_OVERWRITE = flags.DEFINE_bool(
    "overwrite", False, "Remove the run in --output_dir first."
)
tracker_flags.define_tracker_flags()


def main(argv: Sequence[str]) -> None:
    if len(argv) > 1:
        sys.exit(f"error: unexpected argument {argv[1]!r}; all options are flags")
    if _MEASURE.value is not None and not _DRY_RUN.value:
        sys.exit(
            "error: `--measure` needs --dry_run, which keeps nothing of the updates"
        )
    try:
        engine.choose(_ENGINE.value)
        _name_processes()
        chosen_trackers = tracker_flags.chosen_trackers()
        config = from_config_dict(_CONFIG.value)
    except ValueError as error:
        sys.exit(f"error: {error}")
    # TensorFlow takes seconds to import, so wrong flags are reported before.
    from seg_tf.interop import convert
    from seg_tf.training import command

    command.run(
        config,
        command.RunOptions(
            records_dir=(
                config.records_dir if _RECORDS_DIR.value is None else _RECORDS_DIR.value
            ),
            output_dir=_OUTPUT_DIR.value or f"runs/{config.name}",
            initial_checkpoint=_INITIAL_CHECKPOINT.value,
            find_initial=convert.find_initial,
            asked=config_overrides.overridden(flags.FLAGS["config"]),
            dry_run=_DRY_RUN.value,
            measure=_MEASURE.value,
            overwrite=_OVERWRITE.value,
            cache_gigabytes=_CACHE_GIGABYTES.value,
            trackers=chosen_trackers,
        ),
    )


def _name_processes() -> None:
    """Sets the environment variables of the flags about other processes."""
    for flag in (_COORDINATOR_ADDRESS, _NUM_PROCESSES, _PROCESS_ID):
        if flag.value is None:
            continue
        if _ENGINE.value != "jax":
            raise ValueError(
                f"`--{flag.name}` needs --engine=jax; horovodrun starts TensorFlow's "
                f"processes. Received: --engine={_ENGINE.value}"
            )
        os.environ[f"JAX_{flag.name.upper()}"] = str(flag.value)


if __name__ == "__main__":
    flags.mark_flag_as_required("config")
    app.run(main, flags_parser=config_overrides.parse_flags)
