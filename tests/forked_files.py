"""Runs the tests of each file in a process of its own, forked from the worker.

What a file builds (graphs, compiled code, flags, patched modules) ends with its
process: no worker grows, and no file sees another's state. Only workers of pytest-xdist
do so; without `--numprocesses` all files share one process, where a debugger works.
"""

import multiprocessing
import os
import sys
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

    @pytest.hookimpl
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        # Whoever asks first empties the folder: not one of the processes.
        session.config._tmp_path_factory.getbasetemp()
        # A process that is forked while TensorFlow has threads may wait for ever.
        if "tensorflow" in sys.modules:
            from tensorflow.python.eager import context

            if context.context_safe() and context.context()._context_handle:
                raise pytest.UsageError(
                    "a test file computes with TensorFlow while it is imported; let a "
                    "fixture or a function do that"
                )

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> bool:
        hook = item.ihook
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        if nextitem is not None and nextitem.path != item.path:
            nextitem = None
        if self._process is None:
            self._process = _FileProcess(item.session)
        for report in self._process.run(item, nextitem):
            hook.pytest_runtest_logreport(report=report)
        if nextitem is None or not self._process.is_alive:
            self._process.join()
            self._process = None
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True


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
            how = f"the process of {item.path.name} ended in this test: see its output"
            return [
                pytest.TestReport(item.nodeid, item.location, {}, "failed", how, "call")
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
