"""Apache Beam on this machine: its options, checked, and jobs."""

import contextlib
import io
import logging
import os
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from data_pipelines.builds.errors import BuildError

GO_ON = "What is finished is kept: run the same command again to go on"


def check_beam() -> None:
    """Makes sure that Apache Beam can be imported.

    Raises:
        BuildError: if not, saying what to do.
    """
    try:
        with _quiet():
            import apache_beam  # noqa: F401
    except ImportError as error:
        raise BuildError(
            "`--engine=beam` needs Apache Beam, which is not installed: "
            f"make setup-corpora ({error})"
        ) from error


def check_options(beam_options: Sequence[str]) -> None:
    """Makes sure that a job can be given these options, before there is one.

    An option of no known name is not told from one of the runner's own, which a job
    server may be the only one to know; a warning tells of it.

    Args:
        beam_options: options of Beam and its runner, as on a command line.

    Raises:
        ValueError: if there is no such runner, or an option has no such value, or has
            Beam start processes of this machine.
    """
    from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
    from apache_beam.options.pipeline_options_validator import PipelineOptionsValidator

    said = io.StringIO()
    try:
        with _quiet(), contextlib.redirect_stderr(said):
            options = PipelineOptions(list(beam_options))
            # Beam parses by and by; this is all that it knows, and adds what it
            # does not know as the runners do.
            given = options.get_all_options(retain_unknown_options=True)
            unknown = sorted(given.keys() - options.get_all_options().keys())
    except SystemExit as error:
        if not error.code:  # `-- --help`
            raise
        # The last of the usage: "script.py: error: argument --name: what is wrong".
        reason = said.getvalue().strip().rpartition(": error: ")[2]
        raise _bad_options(reason, beam_options) from error
    if unknown:
        logging.warning(
            "Beam has no option %s; only a runner's job server may know it",
            ", ".join(f"--{name}" for name in unknown),
        )
    if given.get("direct_running_mode") == "multi_processing":
        raise _bad_options(
            "with --direct_running_mode=multi_processing Beam waits for ever for a "
            "worker that was killed. Processes of this machine are those of "
            "`--engine=local --num_workers=…`",
            beam_options,
        )
    runner = _find_runner(options.view_as(StandardOptions).runner)
    with _quiet():
        problems = PipelineOptionsValidator(options, runner).validate()
    if problems:
        reason = "; ".join(problem.strip().rstrip(".") for problem in problems)
        raise _bad_options(reason, beam_options)


def _bad_options(reason: str, beam_options: Sequence[str]) -> ValueError:
    return ValueError(
        f"What follows after `--` must be options that Beam can use: {reason}. "
        f"Received: {' '.join(beam_options)}"
    )


def _find_runner(name: str) -> Any:
    from apache_beam.runners.runner import PipelineRunner, create_runner

    try:
        with _quiet():
            runner = create_runner(name)
        if not isinstance(runner, PipelineRunner):
            raise ValueError(f"{name} is another class")
    except Exception as error:  # Of modules that are not there, among others.
        raise ValueError(
            f"`--runner` must be a runner that Beam has. {str(error).rstrip('.')}. "
            f"Received: --runner={name}"
        ) from error
    return runner


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Beam's import tells of each Google client library that is not there."""
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
        # Later Beam tells of each port that it opens.
        logging.getLogger("apache_beam").setLevel(logging.WARNING)


def run(beam_options: Sequence[str], elements: Collection[Any], *steps: Any) -> None:
    """Runs a job and waits for its end.

    Args:
        beam_options: options of Beam and its runner, as on a command line.
        elements: what the first step takes, spread over all workers.
        steps: transforms, one after the other.

    Raises:
        BuildError: if the job does not succeed.
    """
    if not elements:
        return
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    # Workers log each step otherwise. Of an option given twice the last counts.
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
        raise BuildError(f"the Beam job ended as {state}. {GO_ON}")


def _reason(error: Exception) -> str:
    """Our own words in an error, which may be a worker's traceback; else its end."""
    said = f"{type(error).__name__}: {error}".strip()
    if own := re.search(r"BuildError: (.+?)( \[while running .*)?$", said, re.M):
        return own[1]
    return f"the Beam job failed: {said.splitlines()[-1].strip()}. {GO_ON}"
