"""Runs the tests of each file in a process of its own, forked from the worker.

What a file builds (graphs, compiled code, flags, patched modules) ends with its
process: no worker grows, and no file sees another's state. Only workers of pytest-xdist
do so; without `--numprocesses` all files share one process, where a debugger works.
"""

import multiprocessing
import os
import sys
import tempfile
import traceback
import warnings
from multiprocessing.connection import Connection

import pytest
from _pytest import runner


def pytest_configure(config: pytest.Config) -> None:
    """Has the workers of pytest-xdist run files in processes."""
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(_ForkedFiles(), "forked_files")


class _ForkedFiles:
    """Hands each test to the process of its file, and reports what comes back."""

    def __init__(self):
        self._process: _FileProcess | None = None
        self._computed = ""

    @pytest.hookimpl
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if not self._computed and _tensorflow_has_threads():
            self._computed = report.nodeid

    @pytest.hookimpl
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        # Whoever asks first empties the folder: not one of the processes. These leave
        # the code that TensorFlow generates, which goes with the folder.
        folder = session.config._tmp_path_factory.getbasetemp()
        tempfile.tempdir = os.fspath(folder)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> bool:
        hook = item.ihook
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        if nextitem is not None and nextitem.path != item.path:
            nextitem = None
        for report in self._reports(item, nextitem):
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _reports(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> list[pytest.TestReport]:
        if self._computed:
            return [
                _failure(
                    item,
                    f"{self._computed} computes with TensorFlow while it is imported, "
                    "and so no file can have a process of its own: let a fixture or a "
                    "function do that",
                )
            ]
        if self._process is None:
            self._process = _FileProcess(item.session)
        reports = self._process.run(item, nextitem)
        if nextitem is None or not self._process.is_alive:
            self._process.join()
            self._process = None
        return reports


def _tensorflow_has_threads() -> bool:
    """Is true once TensorFlow computed: a process forked then may wait for ever."""
    if "tensorflow" not in sys.modules:
        return False
    from tensorflow.python.eager import context

    known = context.context_safe()
    return known is not None and known._context_handle is not None


def _failure(item: pytest.Item, reason: str) -> pytest.TestReport:
    return pytest.TestReport(item.nodeid, item.location, {}, "failed", reason, "call")


class _FileProcess:
    """The process of a file, and the pipe to it."""

    def __init__(self, session: pytest.Session):
        self._config = session.config
        self._pipe, other = multiprocessing.Pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        # From 3.12 on Python warns of threads: the worker's only waits for messages.
        with warnings.catch_warnings(action="ignore"):
            self._process_id = os.fork()
        if not self._process_id:
            self._pipe.close()
            _serve(session, other)
        other.close()
        self.is_alive = True

    def run(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> list[pytest.TestReport]:
        """Has a test run; the reports of its phases, or one of the process's end."""
        try:
            self._pipe.send((item.nodeid, nextitem and nextitem.nodeid))
            reports = self._pipe.recv()
        except (EOFError, ConnectionError):
            self.is_alive = False
            name = item.path.name
            return [
                _failure(
                    item, f"the process of {name} ended in this test: see its output"
                )
            ]
        return [
            self._config.hook.pytest_report_from_serializable(
                config=self._config, data=data
            )
            for data in reports
        ]

    def join(self) -> None:
        """Waits for the process to end."""
        self._pipe.close()
        os.waitpid(self._process_id, 0)


def _serve(session: pytest.Session, pipe: Connection) -> None:
    """Runs the tests that are asked for, in the process of the file."""
    try:
        items = {item.nodeid: item for item in session.items}
        config = session.config
        while True:
            node_id, next_id = pipe.recv()
            reports = runner.runtestprotocol(
                items[node_id], log=False, nextitem=next_id and items[next_id]
            )
            pipe.send(
                [
                    config.hook.pytest_report_to_serializable(
                        config=config, report=report
                    )
                    for report in reports
                ]
            )
            if next_id is None:
                break
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
