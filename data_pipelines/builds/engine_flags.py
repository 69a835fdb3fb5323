"""Flags of every script that builds shards: what makes them, and on which machines."""

import pathlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn, Protocol

from absl import app, flags

from data_pipelines.builds.document_options import DocumentOptions
from data_pipelines.builds.errors import BuildError
from data_pipelines.builds.local_engine import LocalEngine
from data_pipelines.builds.sharded_build import ShardedBuild
from data_pipelines.builds.window_building import WindowOptions
from data_pipelines.report import report_flag
from seg_tf import command_line

# So that `command_line.run` shows flags as those of the script that calls `run`.
flags.disclaim_key_flags()


class Engine(Protocol):
    """Makes the shards of a build: `LocalEngine` or Beam's."""

    def make_documents(
        self,
        build: ShardedBuild,
        options: DocumentOptions,
        sources: Mapping[str, pathlib.Path],
    ) -> tuple[dict[int, dict], list[dict]]: ...

    def make_windows(
        self, build: ShardedBuild, options: WindowOptions, documents_dir: pathlib.Path
    ) -> dict[int, dict]: ...


def define_run_flags() -> None:
    """Flags that change nothing in the result."""
    flags.DEFINE_enum(
        "engine",
        "local",
        ["local", "beam"],
        "Engine of the build. local: processes of this machine, --num_workers. beam: "
        "Apache Beam, on the --runner; options of Beam and of the runner follow "
        "after --, as in `--engine=beam --runner=FlinkRunner -- "
        "--flink_master=host:8081`. The result is the same.",
    )
    flags.DEFINE_integer(
        "num_workers", 1, "Worker processes of --engine=local.", lower_bound=1
    )
    flags.DEFINE_string(
        "runner",
        None,
        "With --engine=beam: DirectRunner (this machine, for trials; the default), "
        "FlinkRunner, SparkRunner, DataflowRunner, PortableRunner.",
    )
    flags.DEFINE_multi_string(
        "beam_option", [], "One of what may follow after --, for scripts."
    )
    flags.DEFINE_bool("overwrite", False, "Remove a build that lies in --output_dir.")
    report_flag.define_flag()


def run(main: Callable[[Sequence[str]], None]) -> NoReturn:
    """Runs the `main` of a script that builds shards, and exits."""
    sys.exit(command_line.run(main, BuildError, goes_on=True, parse_flags=_parse))


def _parse(argv: Sequence[str]) -> list[str]:
    """Reads the flags; what follows after `--` becomes `--beam_option`s."""
    argv = list(argv)
    own, beam = argv, []
    if "--" in argv:
        position = argv.index("--")
        own, beam = argv[:position], argv[position + 1 :]
    rest = app.parse_flags_with_usage(own)
    values = flags.FLAGS
    values["beam_option"].value = [*values.beam_option, *beam]
    return rest


def engine_from_flags() -> Engine:
    """The engine that the flags name.

    Raises:
        ValueError: if a flag of the other engine is given, or Beam has no such runner
            or option's value.
        BuildError: if Apache Beam is wanted and not installed.
    """
    values = flags.FLAGS
    if values.engine == "local":
        for name, is_given in (
            ("--runner", values.runner is not None),
            ("--", bool(values.beam_option)),
        ):
            if is_given:
                raise ValueError(
                    f"`{name}` is for `--engine=beam`. Received: --engine=local"
                )
        return LocalEngine(values.num_workers)
    if values["num_workers"].present:
        raise ValueError(
            "`--num_workers` is for `--engine=local`; with Beam the runner has an "
            "option of its own, such as `-- --parallelism=64` for Flink. Received: "
            f"--num_workers={values.num_workers}"
        )
    from data_pipelines.builds.beam_engine import BeamEngine

    # Beam's DirectRunner tries to download and start a program, Prism, before it takes
    # this one, which it has.
    runner = values.runner or "DirectRunner"
    runner = "FnApiRunner" if runner == "DirectRunner" else runner
    return BeamEngine([f"--runner={runner}", *values.beam_option])
