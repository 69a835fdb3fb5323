"""Worker processes of this machine, which end when the process that uses them does.

Workers are children of a server process that holds what they import, not of the process
that gives them work. Killed, that one tells nobody: workers and server would wait for
ever. So each of them looks for its end. The process that tracks semaphores follows when
they are gone.
"""

import contextlib
import multiprocessing
import os
import pathlib
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import resource_tracker
from typing import Any

import psutil

_PARENT_IS_GONE = 1
_maker: Any = None  # of this worker


@contextlib.contextmanager
def pool(
    num_workers: int, new_maker: Callable[[], Any]
) -> Iterator[ProcessPoolExecutor]:
    """A pool for `make`, whose processes do not outlive the block, nor this process.

    An error in the block waits for tasks that are under way. An interrupt or SIGTERM
    (`command_line.Terminated`) does not: workers are killed, so their work has to be
    safe at any moment.

    Args:
        num_workers: number of processes.
        new_maker: returns a `Maker`; called once in each worker, before its first
            task.
    """
    # It is to stay until the end, when it removes the semaphores that others leave.
    resource_tracker.ensure_running()
    others = set(psutil.Process().children(recursive=True))
    executor = ProcessPoolExecutor(num_workers, _context(), _start, (new_maker,))
    try:
        yield executor
    except Exception:
        raise
    except BaseException:
        # The server too, which may be about to start a worker.
        for process in set(psutil.Process().children(recursive=True)) - others:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        raise
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _context() -> multiprocessing.context.BaseContext:
    """Starts workers from a process that has imported what they need.

    TensorFlow takes seconds to import, which each worker of each phase of a build would
    spend otherwise. Nothing of it runs there, so forking is safe.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [
            "data_pipelines.builds.worker_server",
            "data_pipelines.builds.text_worker",
            "tensorflow_text",
        ]
    )
    return context


def make(payload: Any, folder: pathlib.Path) -> dict:
    """Has the maker of this worker make a payload; returns its report."""
    return _maker.make(payload, folder)


def _start(new_maker: Callable[[], Any]) -> None:
    # Ctrl-C reaches all processes of a terminal; the one that uses the pool ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_without_parent, daemon=True).start()
    global _maker
    _maker = new_maker()


def _end_without_parent() -> None:
    multiprocessing.parent_process().join()
    os._exit(_PARENT_IS_GONE)
