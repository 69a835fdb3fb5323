"""Apache Beam on this machine: checked options, and jobs."""

import contextlib
import io
import logging
import os
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from data_pipelines import BuildError

RESUME = "Finished work is kept: run the same command again to resume"


def check_options(beam_options: Sequence[str]) -> None:
    """Checks options of Beam and its runner before there is a job.

    Unknown options only lead to a warning: a runner's job server may know them.

    Raises:
        BuildError: if Apache Beam is not installed.
        ValueError: if there is no such runner, an option has an invalid value, or Beam
            would start processes of this machine.
    """
    try:
        with _quiet():
            from apache_beam.options import pipeline_options, pipeline_options_validator
    except ImportError as error:
        raise BuildError(
            "`--engine=beam` needs Apache Beam, which is not installed: "
            f"make setup-corpora ({error})"
        ) from error

    def refuse(reason: str) -> ValueError:
        return ValueError(
            f"The options after `--` must be options of Beam: {reason}. Received: "
            f"{' '.join(beam_options)}"
        )

    output = io.StringIO()
    try:
        with _quiet(), contextlib.redirect_stderr(output):
            options = pipeline_options.PipelineOptions(list(beam_options))
            # Beam parses lazily; this is everything, including unknown options.
            values = options.get_all_options(retain_unknown_options=True)
            unknown = sorted(values.keys() - options.get_all_options().keys())
    except SystemExit as error:
        if not error.code:  # `-- --help`
            raise
        # The last of the usage: "script.py: error: argument --name: what is wrong".
        reason = output.getvalue().strip().rpartition(": error: ")[2]
        raise refuse(reason) from error
    if unknown:
        logging.warning(
            "Beam has no option %s; only a runner's job server may know it",
            ", ".join(f"--{name}" for name in unknown),
        )
    if values.get("direct_running_mode") == "multi_processing":
        raise refuse(
            "with --direct_running_mode=multi_processing Beam waits forever for a "
            "worker that was killed. For processes of this machine use "
            "`--engine=local --num_workers=…`"
        )
    runner = _find_runner(options.view_as(pipeline_options.StandardOptions).runner)
    with _quiet():
        validator = pipeline_options_validator.PipelineOptionsValidator(options, runner)
        problems = validator.validate()
    if problems:
        raise refuse("; ".join(problem.strip().rstrip(".") for problem in problems))


def _find_runner(name: str) -> Any:
    from apache_beam.runners.runner import PipelineRunner, create_runner

    try:
        with _quiet():
            runner = create_runner(name)
        if not isinstance(runner, PipelineRunner):
            raise ValueError(f"{name} is another class")
    except Exception as error:  # Among others, errors of missing modules.
        raise ValueError(
            f"`--runner` must be a runner that Beam has. {str(error).rstrip('.')}. "
            f"Received: --runner={name}"
        ) from error
    return runner


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hides that Beam logs each missing Google client library when imported."""
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
        # Later Beam logs each port that it opens.
        logging.getLogger("apache_beam").setLevel(logging.WARNING)


def run(beam_options: Sequence[str], elements: Collection[Any], *steps: Any) -> None:
    """Runs transforms on `elements` in sequence and waits for the end of the job.

    Raises BuildError if it does not succeed.
    """
    if not elements:
        return
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    # Otherwise workers log each step. The last of repeated options counts.
    options = ["--default_sdk_harness_log_level=WARNING", *beam_options]
    print(f"Beam job: {steps[-1].label} ({len(elements):,} inputs)", file=sys.stderr)
    try:
        pipeline = beam.Pipeline(options=PipelineOptions(options))
        collection = pipeline | beam.Create(elements) | beam.Reshuffle()
        for step in steps:
            collection = collection | step
        result = pipeline.run()
        state = result.wait_until_finish() or result.state
    except Exception as error:  # Each runner has its own.
        if os.environ.get("SEG_TF_TRACEBACK"):
            raise
        raise BuildError(_reason(error)) from error
    if state != "DONE":
        raise BuildError(f"the Beam job ended as {state}. {RESUME}")


def _reason(error: Exception) -> str:
    """The message of a BuildError inside a worker's traceback; else the last line."""
    text = f"{type(error).__name__}: {error}".strip()
    if match := re.search(r"BuildError: (.+?)( \[while running .*)?$", text, re.M):
        return match[1]
    return f"the Beam job failed: {text.splitlines()[-1].strip()}. {RESUME}"
