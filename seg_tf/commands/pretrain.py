r"""Pretrains a text encoder on a folder of text or on records.

  seg-tf pretrain my_folder --minutes=60
  seg-tf pretrain --config=segabert_tiny --records_dir=records

With a folder, all settings are chosen for the text and the time, and printed with the
flags that change them. Without --minutes, the command builds the records and prints the
settings for 10, 60 and 480 minutes, but does not train. See docs/one_command.md.

A config is an included run (`seg-tf configs` lists them) or a Python file, optionally
followed by a colon and a variant. Any field can be overridden:

  --config.optimizer.learning_rate=3e-4 --config.training.clip_norm=None
  --config.model.index_tables.token_index=512

A run writes checkpoints, log.jsonl, TensorBoard events and loss_curve.png to
--output_dir. After a kill, Ctrl-C or SIGTERM, the same command resumes the run. On a
CPU, the result is bit-identical to an uninterrupted run. --dry_run only prints the
plan (and builds the records of a folder); with --measure=5, it also times five updates.

Records can be a weighted mixture of folders: --records_dir=wikipedia:3,books:1. With
several processes (docs/clusters.md), config.training.batch_size is the global size.
"""

import re
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

from absl import flags
from ml_collections import config_flags

from data_pipelines import BuildError
from seg_tf.commands import pretrain_folder, run_flags
from seg_tf.config import from_config_dict
from seg_tf.training import engine
from seg_tf.training.errors import TrainingStopped


def parse_flags(argv: Sequence[str]) -> list[str]:
    """Parses flags. If there is a folder but no `--config`, adds a default config."""
    if argv[1:] and not argv[1].startswith("-") and not _names_config(argv):
        argv = [*argv[:2], f"--config={pretrain_folder.RECIPE}", *argv[2:]]
    return run_flags.parse_flags(argv)


def _names_config(argv: Sequence[str]) -> bool:
    return any(re.match("--?config(=|$)", argument) for argument in argv)


# Errors of a run are shown with their traceback.
RUN = {"errors": (), "takes_arguments": True, "parse_flags": parse_flags}


def define_flags() -> None:
    config_flags.DEFINE_config_file(
        "config", None, "Included run, FILE or FILE:VARIANT; its fields are flags."
    )
    flags.DEFINE_string(
        "records_dir",
        None,
        "Folder or URL of records, or several, comma-separated, with weights. Default: "
        "config.records_dir.",
    )
    flags.DEFINE_float(
        "cache_gigabytes",
        None,
        "Cache size for records at a URL. Default: the previous value, or 50.",
        lower_bound=0.001,
    )
    flags.DEFINE_string("output_dir", None, "Default: runs/<config name>.")
    flags.DEFINE_string(
        "initial_checkpoint",
        None,
        "Checkpoint, run, or model of another library (a folder or hf://…), whose "
        "weights initialize a new run.",
    )
    flags.DEFINE_bool("dry_run", False, "Print the plan only.")
    flags.DEFINE_integer(
        "measure", None, "With --dry_run, run N updates and print the time.", 1
    )
    flags.DEFINE_enum(
        "engine",
        "tensorflow",
        engine.NAMES,
        "TensorFlow (with Horovod for several processes) or JAX.",
    )
    flags.DEFINE_bool("overwrite", False, "Delete the run in --output_dir first.")
    run_flags.define_tracker_flags()
    pretrain_folder.define_flags()


def main(argv: Sequence[str]) -> None:
    values = flags.FLAGS
    folder = argv[1] if len(argv) > 1 and sys.argv[1:2] == argv[1:] else None
    if folder is None and len(argv) > 1:
        sys.exit(
            f"error: unexpected argument {argv[1]!r}; all options are flags, except a "
            "folder of text, which is the only one and comes first"
        )
    unfit = ("records_dir", "initial_checkpoint", "measure")
    for name in unfit if folder else ("minutes", *pretrain_folder.TEXT_CHOICES):
        if values[name].present:
            rule = "must not be given with" if folder else "needs"
            sys.exit(f"error: `--{name}` {rule} a folder of text")
    if values.measure is not None and not values.dry_run:
        sys.exit("error: `--measure` needs --dry_run")
    if not folder and values.config is None:
        sys.exit("error: a folder of text must come first, or --config name a run")
    try:
        engine.choose(values.engine)
        chosen_trackers = run_flags.chosen_trackers()
        config: Any = None if folder else from_config_dict(values.config)
    except ValueError as error:
        sys.exit(f"error: {error}")
    records_dir, output_dir = values.records_dir, values.output_dir
    if folder:
        try:
            prepared = pretrain_folder.prepare(folder, _names_config(sys.argv))
        except (ValueError, OSError, KeyError, BuildError, TrainingStopped) as error:
            sys.exit(textwrap.fill(f"error: {error}", 79, break_long_words=False))
        except KeyboardInterrupt:
            sys.exit("interrupted. Run the same command again to continue")
        if prepared is None:
            return
        config, records_dir, output_dir = prepared
    # Importing TensorFlow takes seconds, so invalid flags are reported first.
    from seg_tf.inference.probes import Probes
    from seg_tf.interop import convert
    from seg_tf.training import command

    end = command.run(
        config,
        command.RunOptions(
            records_dir=config.records_dir if records_dir is None else records_dir,
            output_dir=output_dir or f"runs/{config.name}",
            initial_checkpoint=values.initial_checkpoint,
            find_initial=convert.find_initial,
            make_probes=Probes,
            asked=frozenset(config_flags.get_override_values(values["config"])),
            dry_run=values.dry_run,
            measure=values.measure,
            overwrite=values.overwrite,
            cache_gigabytes=values.cache_gigabytes,
            trackers=chosen_trackers,
        ),
    )
    if folder and end and values.engine == "tensorflow":
        print(f"  a page on the run     {pretrain_folder.write_page(output_dir, end)}")
