"""Runs a check's `probe` in a child process, which may fail in any way."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

FINISHED, RAISED, KILLED, HUNG = "finished", "raised", "killed", "hung"

# Enough of the end of a log to hold what a library said before it failed.
_LOG_BYTES = 200_000
_SECONDS_TO_END = 3.0
_MESSAGE_CHARACTERS = 600
_NESTED = "Traceback (most recent call last)"

# What horovodrun, mpirun and Slurm tell a process about its place. A child that
# inherited it would wait for the other processes of the run.
_PLACE = re.compile(
    r"HOROVOD_(RANK|SIZE|LOCAL_|CROSS_|GLOO_(RENDEZVOUS|IFACE)|HOSTNAME|ELASTIC"
    r"|CONTROLLER)|OMPI_COMM_WORLD|PMIX?_|SLURM_"
)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a child ended, and what it had reported by then.

    Attributes:
        values: what the probe reported.
        ending: "finished", "raised", "killed" (by a signal) or "hung".
        error: the exception, the signal or the time limit.
        step: what the probe was about to do when it ended.
        log: the end of what it and its libraries printed.
    """

    values: Mapping[str, Any]
    ending: str = FINISHED
    error: str = ""
    step: str = ""
    log: str = ""

    @property
    def failure(self) -> str:
        """One sentence on how the child failed; "" if it did not."""
        where = f" while {self.step}" if self.step else ""
        return {
            FINISHED: "",
            RAISED: f"{self.error}{where}",
            KILLED: f"the process was killed by {self.error}{where}",
            HUNG: f"nothing came within {self.error}{where}",
        }[self.ending]


_NOTHING = {"values": {}, "step": "starting", "error": "", "complete": False}


class Report:
    """What a probe writes its facts to; kept even if the process dies.

    Args:
        path: file that holds the facts after every call.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self._path = pathlib.Path(path)
        self._content: dict[str, Any] = {**_NOTHING, "step": ""}

    def step(self, text: str) -> None:
        """Says what comes next, as in "importing tensorflow"."""
        self._content["step"] = text
        self._write()

    def add(self, **values: Any) -> None:
        self._content["values"] = {**self._content["values"], **values}
        self._write()

    def fail(self, error: BaseException) -> None:
        if _NESTED in str(error) and error.__context__ is not None:
            # TensorFlow puts the whole story of the first error into the second.
            error = error.__context__
        message = " ".join(f"{type(error).__name__}: {error}".split())
        self._content["error"] = message.rstrip(":")[:_MESSAGE_CHARACTERS]
        self._write()

    def end(self) -> None:
        """Says that all was reported, and that a success may be believed."""
        self._content.update(step="", complete=True)
        self._write()

    def _write(self) -> None:
        temporary = self._path.with_suffix(".tmp")
        temporary.write_text(json.dumps(self._content, default=str), encoding="utf-8")
        os.replace(temporary, self._path)


def environment() -> dict[str, str]:
    """This process's environment without its place in a distributed run."""
    return {name: value for name, value in os.environ.items() if not _PLACE.match(name)}


def run_probe(
    check: str,
    time_limit: float,
    *,
    launcher: Sequence[str] = (),
    **variables: str,
) -> Outcome:
    """Runs `probe` of the module `seg_tf.doctor.<check>` in a child process.

    Args:
        check: name of the module.
        time_limit: seconds until it counts as hung.
        launcher: command that starts the child, such as horovodrun and its flags.
        **variables: environment variables for the child.
    """
    with tempfile.TemporaryDirectory(prefix="seg_tf_doctor_") as folder:
        report = pathlib.Path(folder, "report.json")
        log = pathlib.Path(folder, "log.txt")
        child = [sys.executable, "-m", "seg_tf.doctor.child", check, str(report)]
        status = run_command(
            [*launcher, *child], log, time_limit, {**environment(), **variables}
        )
        return read_outcome(status, report, log, time_limit)


def run_command(
    command: Sequence[str], log: pathlib.Path, time_limit: float, env: Mapping[str, str]
) -> int | None:
    """Exit status of a command whose output goes to `log`; None if it hung."""
    with open(log, "wb") as stream:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env=dict(env),
            start_new_session=True,
        )
        try:
            return process.wait(time_limit)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and those it started, politely first."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None and number == signal.SIGTERM:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_SECONDS_TO_END)


def read_outcome(
    status: int | None, report: pathlib.Path, log: pathlib.Path, time_limit: float
) -> Outcome:
    """The outcome of a child that ended with `status` (None: it hung)."""
    try:
        content = json.loads(report.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        content = _NOTHING
    with open(log, "rb") as stream:
        stream.seek(max(0, log.stat().st_size - _LOG_BYTES))
        text = stream.read().decode("utf-8", "replace")
    facts = {"values": content["values"], "step": content["step"], "log": text}
    if status is None:
        return Outcome(**facts, ending=HUNG, error=f"{time_limit:g} s")
    if status < 0:
        return Outcome(**facts, ending=KILLED, error=_signal_name(-status))
    if status == 0 and content["complete"]:
        return Outcome(**facts)
    error = content["error"] or last_line(text) or f"exit status {status}"
    return Outcome(**facts, ending=RAISED, error=error)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def last_line(text: str) -> str:
    """The last line that is not blank."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
