"""Pretrains a text encoder on records that data_pipelines.build_records made.

  python run_pretraining.py --config=configs/segabert.py:tiny --records_dir=records

A config is a Python file, with a variant of it after a colon; those of configs/ are
tiny without one, and known by their names as well: --config=segabert_tiny. The file's
docstring says what each variant needs and yields, and `python -m seg_tf.configs` lists
them. Any field can be overridden, nested ones too:

  --config.optimizer.learning_rate=3e-4 --config.training.num_updates=10000
  --config.optimizer.warmup_updates=500 --config.training.clip_norm=None
  --config.model.index_tables.token_index=512
  --config.model.index_tables="{'position_index': 512}"

To see what a run would do (updates, tokens, FLOPs, parameters, memory, deviations from
the paper) without touching anything, add --dry_run; --dry_run --measure=5 also makes
five updates, of which nothing is kept, and says how long the run will take.

A run writes checkpoints, log.jsonl, events for TensorBoard and loss_curve.png below
--output_dir (default: runs/<name of the config>). Killed or stopped (Ctrl-C, SIGTERM),
it resumes when the same command is given again, and ends with the same weights, bit
for bit, as a run that was never stopped. With a larger --config.training.num_updates
the same command trains it for longer, at the rates of the longer run from there on
(docs/pretraining.md).

On several processes, of one host or of many (docs/clusters.md), say before it how many:

  horovodrun -np 2 python run_pretraining.py --config=…
  horovodrun -np 16 -H host1:8,host2:8 python run_pretraining.py --config=…

config.training.batch_size is the batch of all processes together, and the learning
rate that of such a batch; config.training.micro_batch_size is what one process
computes at once.

Records may be a mixture of folders with weights. Of 6 consecutive rows

  --records_dir=records/wikipedia:3,records/books:1,records/domain:2

takes 3 from wikipedia, 1 from books and 2 from domain. Each is validated apart too.

--engine=jax computes on JAX instead of TensorFlow, with the same results but for
rounding and dropout (docs/training_engine.md). On several hosts every process is
started by itself, and told of the others:

  python run_pretraining.py --engine=jax --coordinator_address=host1:9876 \
      --num_processes=2 --process_id=0 --config=…

A profile of some updates, for TensorBoard: --profile_updates=100:110

  tensorboard --logdir=runs
  python -m seg_tf.commands.plot_runs --runs=runs/bert_tiny,runs/segabert_tiny

--wandb=PROJECT and --mlflow=EXPERIMENT send the log to Weights & Biases or to MLflow as
well. Keras callbacks of your own are named by functions that make them
(docs/pretraining.md):

  --config.training.callbacks=package.module:function
  --config.training.callbacks="('package.module:one', 'package.module:other')"
"""

import os
import re
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
    "Config, FILE or FILE:VARIANT or the name of a run that comes along, such as "
    "segabert_tiny; its fields are flags too: --config.training.seed=1.",
)
_RECORDS_DIR = flags.DEFINE_string(
    "records_dir",
    None,
    "Folder of records (data_pipelines.build_records), or several with weights: "
    "wikipedia:3,books:1; or their URLs (s3://bucket/records). Default: "
    "config.records_dir.",
)
_CACHE_GIGABYTES = flags.DEFINE_float(
    "cache_gigabytes",
    None,
    "The most that shards of records at a URL may take on the disk of this machine, in "
    "$XDG_CACHE_HOME/seg_tf. Default: 50, or what was said last. Where they are more "
    "than that, have them read in blocks: --config.inputs.block_rows=8192.",
    lower_bound=0.001,
)
_OUTPUT_DIR = flags.DEFINE_string(
    "output_dir", None, "Folder to write to. Default: runs/<name of the config>."
)
_INITIAL_CHECKPOINT = flags.DEFINE_string(
    "initial_checkpoint",
    None,
    "Checkpoint, or output folder of a run, whose weights a new run starts from: only "
    "the weights, as for the second phase of a recipe. Or weights of another program, "
    "in a folder or as hf://organisation/name: they are converted once, as "
    "import_weights does, into the folder initial_checkpoint of --output_dir.",
)
_DRY_RUN = flags.DEFINE_bool("dry_run", False, "Print the plan and touch nothing.")
_MEASURE = flags.DEFINE_integer(
    "measure",
    None,
    "With --dry_run: make so many updates, after a first one that is not counted, and "
    "say how long the run will take. Nothing is kept of them.",
    lower_bound=1,
)
_ENGINE = flags.DEFINE_enum(
    "engine",
    "tensorflow",
    engine.NAMES,
    "What computes: TensorFlow, on several processes by Horovod, or JAX, on all "
    'devices of one host or of several (`pip install "seg_tf[jax]"`). Checkpoints are '
    "the same: a run may be resumed on the other.",
)
_COORDINATOR_ADDRESS = flags.DEFINE_string(
    "coordinator_address",
    None,
    "With --engine=jax on several processes: host:port on which process 0 waits for "
    "the others. Default: $JAX_COORDINATOR_ADDRESS.",
)
_NUM_PROCESSES = flags.DEFINE_integer(
    "num_processes",
    None,
    "Their number. Default: $JAX_NUM_PROCESSES, or what Slurm or Open MPI says.",
    lower_bound=1,
)
_PROCESS_ID = flags.DEFINE_integer(
    "process_id",
    None,
    "Which of them this one is, from 0. Default: $JAX_PROCESS_ID, or likewise.",
    lower_bound=0,
)
_RESUME = flags.DEFINE_bool(
    "resume",
    True,
    "Go on from the checkpoints in --output_dir. With --noresume it is an error if "
    "there are any.",
)
_OVERWRITE = flags.DEFINE_bool(
    "overwrite", False, "Remove the run in --output_dir first, and start anew."
)
_PROFILE_UPDATES = flags.DEFINE_string(
    "profile_updates",
    None,
    "First and last update, as in 100:110, of which to write a profile for TensorBoard "
    "(`make setup-profile` installs its page for them). Of several processes rank 0 is "
    "profiled.",
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
        profiled = None
        if _PROFILE_UPDATES.value is not None:
            profiled = _parse_updates(
                _PROFILE_UPDATES.value, config.training.num_updates
            )
    except ValueError as error:
        sys.exit(f"error: {error}")
    # TensorFlow takes seconds to import; what is wrong with the flags is said before.
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
            resume=_RESUME.value,
            overwrite=_OVERWRITE.value,
            profile_updates=profiled,
            cache_gigabytes=_CACHE_GIGABYTES.value,
            trackers=chosen_trackers,
        ),
    )


def _name_processes() -> None:
    """Puts what flags say of other processes where the engine looks for it.

    Raises:
        ValueError: if the engine has no use for it.
    """
    for flag in (_COORDINATOR_ADDRESS, _NUM_PROCESSES, _PROCESS_ID):
        if flag.value is None:
            continue
        if _ENGINE.value != "jax":
            raise ValueError(
                f"`--{flag.name}` is of --engine=jax; horovodrun starts TensorFlow's "
                f"processes. Received: --engine={_ENGINE.value}"
            )
        os.environ[f"JAX_{flag.name.upper()}"] = str(flag.value)


def _parse_updates(text: str, num_updates: int) -> range:
    """Reads "100:110" as updates 100 to 110, both included; the first one is 1."""
    problem = None
    match = re.fullmatch(r"(\d+):(\d+)", text)
    if not match:
        problem = "must be two numbers of updates, FIRST:LAST, as in 100:110"
    elif not 1 <= int(match[1]) <= int(match[2]):
        problem = "must not end before it begins, and the first update is 1"
    elif int(match[2]) > num_updates:
        problem = f"must lie within the run, which ends with update {num_updates:,}"
    if problem:
        raise ValueError(f"`--profile_updates` {problem}. Received: {text}")
    return range(int(match[1]), int(match[2]) + 1)


if __name__ == "__main__":
    flags.mark_flag_as_required("config")
    app.run(main, flags_parser=config_overrides.parse_flags)
