"""Defines the flags that several commands share and builds objects from them."""

import dataclasses
import inspect
import pathlib
import re
import typing
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from absl import app, flags

from data_pipelines import BuildError
from data_pipelines.builds.sharded_build import REPORT_FILE
from data_pipelines.readers import FORMATS, options_of, parse_options
from seg_tf.text import encoding

if TYPE_CHECKING:
    from data_pipelines.builds.beam_engine import BeamEngine
    from data_pipelines.builds.local_engine import LocalEngine


def define_text_flags() -> None:
    """Defines `--format`, `--input` and `--reader_options`."""
    options = "; ".join(
        f"{name}: {' '.join(f'{key}={value}' for key, value in defaults.items())}"
        for name in sorted(FORMATS)
        if (defaults := options_of(name))
    )
    flags.DEFINE_string(
        "format",
        None,
        "How the text is stored. "
        + " ".join(f"{name}: {line}" for name, line in FORMATS.items())
        + " Or package.module:Reader for a custom format.",
        required=True,
    )
    flags.DEFINE_string(
        "input",
        "",
        "File, folder (searched recursively) or glob, local or a URL such as "
        "gs://bucket/folder. Separate several inputs with commas. For datasets and "
        "tfds, a dataset name such as wiki40b/en[train]. Optional for python_docs. "
        "See docs/sources.md.",
    )
    flags.DEFINE_list(
        "reader_options",
        [],
        "Comma-separated options of the format, such as text_field=body. The options "
        f"and their defaults: {options}. See docs/sources.md.",
    )


def reader_options() -> dict[str, str]:
    """Returns `--reader_options` as a dict of strings. See `parse_options`."""
    return parse_options(flags.FLAGS.reader_options)


def define_tokenizer_flag() -> None:
    kinds = " ".join(f"{name}: {line}" for name, line in encoding.TOKENIZERS.items())
    flags.DEFINE_enum(
        "tokenizer",
        encoding.WORD_PIECES,
        list(encoding.TOKENIZERS),
        f"Kind of tokens. {kinds}",
    )


def define_records_flag() -> None:
    flags.DEFINE_string(
        "records_dir", None, "Folder with manifest.json.", required=True
    )


def define_option_flags(options: type, *names: str) -> None:
    """Defines flags for the fields in `names`, or for all fields if `names` is empty.

    `options` is a dataclass, whose docstring contains the help texts. Flags of fields
    without a default are required.
    """
    text = (inspect.getdoc(options) or "").partition("Attributes:\n")[2]
    helps = dict(re.findall(r"^    (\w+): (.+?)(?=^    \w|\Z)", text, re.M | re.S))
    kinds = typing.get_type_hints(options)
    define = {
        bool: flags.DEFINE_bool,
        int: flags.DEFINE_integer,
        float: flags.DEFINE_float,
        str: flags.DEFINE_string,
    }
    for field in dataclasses.fields(options):
        if names and field.name not in names:
            continue
        help_text = " ".join(helps[field.name].split())
        is_required = field.default is dataclasses.MISSING
        kind = (typing.get_args(kinds[field.name]) or [kinds[field.name]])[0]
        define[kind](
            field.name,
            None if is_required else field.default,
            help_text[0].upper() + help_text[1:],
            required=is_required,
        )


def options_from_flags(options: type, **values: Any) -> Any:
    """Builds an instance of the class `options` from flags. `values` override flags."""
    names = {field.name for field in dataclasses.fields(options)} - values.keys()
    return options(**values, **{name: flags.FLAGS[name].value for name in names})


def define_run_flags() -> None:
    """Defines the build flags that do not affect the records."""
    flags.DEFINE_string(
        "output_dir",
        None,
        "Output folder, local or a URL such as s3://bucket/records. With a URL, the "
        "build works in the user's cache folder ($XDG_CACHE_HOME) and uploads the "
        "result at the end.",
        required=True,
    )
    flags.DEFINE_enum(
        "engine",
        "local",
        ["local", "beam"],
        "Build engine. local: --num_workers processes on this machine. beam: Apache "
        "Beam with the given --runner. Pass options of Beam and the runner after --, "
        "as in `--engine=beam --runner=FlinkRunner -- "
        "--flink_master=host:8081`. Both engines give the same result.",
    )
    flags.DEFINE_integer(
        "num_workers", 1, "Worker processes for --engine=local.", lower_bound=1
    )
    flags.DEFINE_string(
        "runner",
        None,
        "With --engine=beam: DirectRunner (this machine, for trials; the default), "
        "FlinkRunner, SparkRunner, DataflowRunner, PortableRunner.",
    )
    flags.DEFINE_multi_string(
        "beam_option", [], "Option for Beam, like those after --. Repeatable."
    )
    flags.DEFINE_bool("overwrite", False, "Remove an existing build in --output_dir.")
    flags.DEFINE_bool(
        "report",
        False,
        f"Write a report on the corpus, {REPORT_FILE}, to --output_dir.",
    )


def _parse(argv: Sequence[str]) -> list[str]:
    """Parses flags and returns the rest. `--beam_option` gets arguments after `--`."""
    argv, beam_options = list(argv), []
    if "--" in argv:
        position = argv.index("--")
        argv, beam_options = argv[:position], argv[position + 1 :]
    rest = app.parse_flags_with_usage(argv)
    values = flags.FLAGS
    values["beam_option"].value = [*values.beam_option, *beam_options]
    return rest


RUN_BUILD = {
    "errors": (ValueError, OSError, BuildError),
    "goes_on": True,
    "parse_flags": _parse,
}
"""`RUN` of the commands that build records. See `seg_tf.command_line.run_command`."""


def engine_from_flags() -> "LocalEngine | BeamEngine":
    """Returns the engine that `--engine` selects.

    Raises ValueError if a flag of the other engine is set, and BuildError if Beam is
    selected but not installed.
    """
    values = flags.FLAGS
    if values.engine == "local":
        for name, value in (("--runner", values.runner), ("--", values.beam_option)):
            if value:
                raise ValueError(
                    f"`{name}` is for `--engine=beam`. Received: --engine=local"
                )
        from data_pipelines.builds.local_engine import LocalEngine

        return LocalEngine(values.num_workers)
    if values["num_workers"].present:
        raise ValueError(
            "`--num_workers` is for `--engine=local`; Beam's runners have options such "
            f"as `-- --parallelism=64`. Received: --num_workers={values.num_workers}"
        )
    from data_pipelines.builds.beam_engine import BeamEngine

    # Beam's DirectRunner tries to download and start Prism before it falls back to
    # FnApiRunner, which is installed.
    runner = values.runner or "DirectRunner"
    runner = "FnApiRunner" if runner == "DirectRunner" else runner
    return BeamEngine([f"--runner={runner}", *values.beam_option])


def write_requested_report(
    output_dir: pathlib.Path, documents_dir: pathlib.Path | None = None
) -> None:
    """Writes a report to `output_dir` if `--report` is set, and prints its path."""
    if flags.FLAGS.report:
        # Imported late because it imports TensorFlow.
        from data_pipelines.report import write_report

        path = output_dir / REPORT_FILE
        write_report(output_dir, path, documents_dir=documents_dir)
        print(f"the report is {path}")
