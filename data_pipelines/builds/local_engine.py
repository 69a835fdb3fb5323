"""Builds shards with processes on this machine.

Workers are forked from a server process that has already imported TensorFlow. When the
process that submits work ends or is killed, all workers exit, and then the server.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import itertools
import multiprocessing
import os
import pathlib
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, Any

import psutil

from data_pipelines import BuildError
from data_pipelines.builds import makers, slices
from data_pipelines.builds.losses import LossWatch
from data_pipelines.builds.makers import Maker
from data_pipelines.builds.sharded_build import ShardedBuild, report_name
from data_pipelines.builds.slices import Cursor
from data_pipelines.builds.sources import SourceLedger
from seg_tf import command_line, files

if TYPE_CHECKING:
    from data_pipelines.builds.documents import DocumentOptions
    from data_pipelines.builds.windows import ShardPair

_maker: Any = None  # This worker process's maker.


@dataclasses.dataclass(frozen=True)
class LocalEngine:
    """Reads sources in this process and builds shards in `num_workers` processes.

    With one worker, everything runs in this process. `BeamEngine` has the same methods
    and writes identical shards. Each engine can resume builds of the other.
    """

    num_workers: int = 1

    def prepare(
        self, build: ShardedBuild, options: DocumentOptions, ledger: SourceLedger
    ) -> makers.MakeSlices:
        """Returns a `MakeSlices` function. Raises BuildError if a source changed."""
        ledger.start(build.progress_dir)
        return functools.partial(self._make_slices, options, ledger)

    def make_windows(
        self,
        build: ShardedBuild,
        pairs: Sequence[ShardPair],
        new_maker: Callable[[], Maker],
    ) -> dict[int, dict]:
        """Builds the missing window shards. Returns all slices' reports by number.

        `new_maker` creates a `WindowMaker`. Raises BuildError if a worker dies.
        """
        total = sum(pair.num_bytes for pair in pairs)
        with command_line.progress_bar(total, "windows") as bar:
            return self._run(build, pairs, new_maker, bar.update)

    def _make_slices(
        self,
        options: DocumentOptions,
        ledger: SourceLedger,
        build: ShardedBuild,
        new_maker: Callable[[], Maker],
        name: str,
    ) -> dict[int, dict]:
        done = build.reports()
        # The first slice without a report, and its start.
        number = next(n for n in itertools.count() if n not in done)
        cursor = Cursor(**done[number - 1]["next"]) if number else Cursor()
        watch = LossWatch(options.max_rejected_share)
        watch.resume(cursor.document_id, (done[before] for before in range(number)))
        payloads = slices.read_slices(options, ledger, cursor, number, watch)
        sizes = list(ledger.sizes.values())
        with command_line.progress_bar(sum(sizes), name) as bar:
            bar.update(sum(sizes[: cursor.file_number]))
            return self._run(build, payloads, new_maker, bar.update)

    def _run(
        self,
        build: ShardedBuild,
        payloads: Iterable[Any],
        new_maker: Callable[[], Maker],
        on_progress: Callable[[int], object],
    ) -> dict[int, dict]:
        """Builds the payloads that have no report and returns all reports by number."""
        reports = build.reports()

        def missing() -> Iterator[Any]:
            for payload in payloads:
                if payload.number in reports:
                    on_progress(payload.num_bytes)
                else:
                    yield payload

        def finish(payload: Any, report: dict) -> None:
            files.write_json(build.progress_dir / report_name(payload.number), report)
            reports[payload.number] = report
            on_progress(payload.num_bytes)

        if self.num_workers == 1:
            maker = new_maker()
            for payload in missing():
                finish(payload, maker.make(payload, build.output_dir))
            return reports
        try:
            with _pool(self.num_workers, new_maker) as pool:
                running: dict[concurrent.futures.Future, Any] = {}
                for payload in itertools.chain(missing(), [None]):
                    # To save memory, queue at most one more payload than workers.
                    while running and (
                        payload is None or len(running) > self.num_workers
                    ):
                        finished, _ = concurrent.futures.wait(
                            running, return_when=concurrent.futures.FIRST_COMPLETED
                        )
                        for future in finished:
                            finish(running.pop(future), future.result())
                    if payload is not None:
                        future = pool.submit(_make, payload, build.output_dir)
                        running[future] = payload
        except BrokenProcessPool as error:
            raise BuildError(
                "a worker process died (out of memory, or killed). Finished work is "
                "kept: run the same command again to resume"
            ) from error
        return reports


@contextlib.contextmanager
def _pool(
    num_workers: int, new_maker: Callable[[], Maker]
) -> Iterator[ProcessPoolExecutor]:
    """Context manager that starts a process pool for `_make` and always ends it.

    If the block raises an error, running payloads are completed first. An interrupt or
    SIGTERM (`command_line.Terminated`) kills the workers, which is safe at any moment.
    """
    # The tracker must outlive the pool, because it removes the workers' semaphores.
    resource_tracker.ensure_running()
    earlier = set(psutil.Process().children(recursive=True))
    # The server imports TensorFlow once for all workers. It never runs TensorFlow
    # code, so forking is safe.
    context = multiprocessing.get_context("forkserver")
    modules = ("data_pipelines.builds.makers", "seg_tf.data.examples")
    context.set_forkserver_preload([*modules, "tensorflow_text"])
    executor = ProcessPoolExecutor(num_workers, context, _start, (new_maker,))
    try:
        yield executor
    except BaseException as error:
        if not isinstance(error, Exception):
            # This includes the server, which may be about to start a worker.
            for process in set(psutil.Process().children(recursive=True)) - earlier:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        raise
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _start(new_maker: Callable[[], Maker]) -> None:
    # Ctrl-C reaches all processes in a terminal. The parent process ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    global _maker
    _maker = new_maker()


def _end_with_parent() -> None:
    multiprocessing.parent_process().join()
    os._exit(1)


def _make(payload: Any, folder: pathlib.Path) -> dict:
    return _maker.make(payload, folder)
