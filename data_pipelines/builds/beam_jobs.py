"""Runs one Apache Beam job to its end, whatever happens to its workers."""

import contextlib
import io
import logging
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any

import psutil

from data_pipelines.builds.errors import BuildError

# Adds a job's steps to a pipeline.
Job = Callable[[Any], None]

_WORKER_DIED = 70
_POLL_SECONDS = 1.0
# What a kill takes at most; a process may hang in the system.
_KILL_SECONDS = 10.0


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
        ValueError: if there is no such runner, or an option has no such value.
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


def run(job: Job, beam_options: Sequence[str]) -> str | None:
    """Runs a job and waits for its end.

    Args:
        job: adds the steps to a pipeline. Has to pickle.
        beam_options: options of Beam and its runner, as on a command line.

    Returns:
        What went wrong; None if nothing.
    """
    if _has_worker_processes(beam_options):
        return _run_in_child(job, beam_options)
    return _run_here(job, beam_options)


def _has_worker_processes(beam_options: Sequence[str]) -> bool:
    """Whether Beam itself starts processes on this machine."""
    from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions

    options = PipelineOptions(list(beam_options)).view_as(DirectOptions)
    return options.direct_running_mode == "multi_processing"


def _run_here(job: Job, beam_options: Sequence[str]) -> str | None:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    # Workers log each step otherwise. Of an option given twice the last counts.
    options = ["--default_sdk_harness_log_level=WARNING", *beam_options]
    try:
        pipeline = beam.Pipeline(options=PipelineOptions(options))
        job(pipeline)
        result = pipeline.run()
        state = result.wait_until_finish() or result.state
    except Exception as error:  # Each runner has its own.
        if os.environ.get("SEG_TF_TRACEBACK"):
            raise
        return f"the Beam job failed: {_last_line(error)}"
    return None if state == "DONE" else f"the Beam job ended as {state}"


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1]}" if lines else type(error).__name__


# --- With worker processes ------------------------------------------------------


def _run_in_child(job: Job, beam_options: Sequence[str]) -> str | None:
    """Runs a job in a process that ends, with its workers, when a worker dies.

    Beam's own runner waits for a dead worker for ever, and nothing ends its threads.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(job, beam_options, sender))
    child.start()
    sender.close()
    coordinator = psutil.Process(child.pid)
    # Where the child is killed, they stay, and nothing else says whose they were.
    workers: set[psutil.Process] = set()
    try:
        while child.is_alive():
            workers.update(_started_by(coordinator))
            child.join(_POLL_SECONDS)
    finally:
        if child.exitcode != 0:
            workers.update(_started_by(coordinator))
            child.kill()
            child.join()
            _end(workers)
    if child.exitcode == 0:
        return receiver.recv()
    return "a worker process died (out of memory, or killed)"


def _child(job: Job, beam_options: Sequence[str], sender: Connection) -> None:
    threading.excepthook = _end_at_death_of_worker
    threading.Thread(target=_end_without_parent, daemon=True).start()
    check_beam()
    sender.send(_run_here(job, beam_options))
    sender.close()


def _end_at_death_of_worker(arguments: threading.ExceptHookArgs) -> None:
    # A thread of this name waits for each worker process and raises if it fails. What
    # other threads raise follows from that, or is logged by Beam.
    if arguments.thread is not None and arguments.thread.name == "run_worker":
        _end_and_exit()


def _end_without_parent() -> None:
    parent = multiprocessing.parent_process()
    while parent.is_alive():
        time.sleep(_POLL_SECONDS)
    _end_and_exit()


def _end_and_exit() -> None:
    _end(_started_by(psutil.Process()))
    os._exit(_WORKER_DIED)


def _started_by(process: psutil.Process) -> list[psutil.Process]:
    """All that a process has started, and what that has; none if it has ended."""
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _end(processes: Collection[psutil.Process]) -> None:
    """Kills processes and waits for it; their work is safe at any moment.

    A later process that has the id of one of them is left alone.
    """
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    patience = time.monotonic() + _KILL_SECONDS
    while any(map(_is_running, processes)) and time.monotonic() < patience:
        time.sleep(_KILL_SECONDS / 100)


def _is_running(process: psutil.Process) -> bool:
    """Whether it still holds memory; a zombie does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
