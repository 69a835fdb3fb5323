"""Runs a build shard by shard: in parallel, resumable, the same for any workers.

A task makes the shards of one slice of the corpus. Which task makes what depends
on the input alone, never on the workers, so neither their number nor a restart
changes a byte. A finished task leaves a report; a restarted build skips it.
"""

import concurrent.futures
import contextlib
import dataclasses
import functools
import json
import logging
import pathlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Protocol

from data_pipelines.builds import worker_processes
from data_pipelines.builds.errors import BuildError
from seg_tf import files
from seg_tf.data import record_schema
from seg_tf.data.manifest import (
    FILE_NAME,
    MIRROR_FILE,
    PLANS_FOLDER,
    Manifest,
)

_PROGRESS_FOLDER = ".progress"
_OPTIONS_FILE = "options.json"
SHARD_SUFFIXES = (
    ".tfrecord",
    record_schema.OFFSETS_SUFFIX,
    *(kind.suffix for kind in record_schema.LENGTHS),
)
# What is written about a build when its shards are done.
_ABOUT_A_BUILD = ("rejected.jsonl", "report.html")
REPORTS = "task-*.json"
"""In the progress folder: a finished task's report."""


class Maker(Protocol):
    """Makes the shards of slices; loaded once in each worker of either engine."""

    def make(self, payload: Any, folder: pathlib.Path) -> dict:
        """Writes the shards of a slice to a folder; returns a JSON-able report."""


@dataclasses.dataclass(frozen=True)
class SliceTask:
    """One slice of the corpus.

    Attributes:
        number: which slice; names its shards and its report.
        payload: what the worker needs to make it. Has to pickle.
        progress: units of work (for the progress bar) done when it is done.
    """

    number: int
    payload: Any
    progress: int


class ShardedBuild:
    """The progress of one build in its output folder.

    Args:
        output_dir: where the shards go.
        options: everything that the result depends on. A build can only be resumed
            with the same options.

    Attributes:
        output_dir: where the shards go.
        progress_dir: what is known of the build as long as it is not finished.
    """

    def __init__(self, output_dir: pathlib.Path, options: Mapping[str, Any]):
        self.output_dir = output_dir
        self.progress_dir = output_dir / _PROGRESS_FOLDER
        self._options = dict(options)

    @contextlib.contextmanager
    def opened(self, *, overwrite: bool = False) -> Iterator["ShardedBuild"]:
        """Locks the folder, checks the options and tidies up for the block.

        Args:
            overwrite: whether to remove a build, finished or not, that lies there.

        Raises:
            BuildError: if another process has the folder locked, with nothing removed;
                or a build with other options lies there and `overwrite` is not set.
        """
        self.output_dir.mkdir(parents=True, exist_ok=True)
        with files.locked(self.output_dir, in_use(self.output_dir)):
            if overwrite:
                clear(self.output_dir)
            self.progress_dir.mkdir(exist_ok=True)
            self._check_options()
            files.remove_leftovers(self.output_dir)
            files.remove_leftovers(self.progress_dir)
            yield self

    def _check_options(self) -> None:
        path = self.progress_dir / _OPTIONS_FILE
        if not path.exists():
            if (self.output_dir / FILE_NAME).exists():
                raise BuildError(
                    f"{self.output_dir}: a finished build lies there. Give another "
                    "--output_dir, or --overwrite"
                )
            files.write_json(path, self._options)
            return
        differs = _first_difference(self._options, files.read_json(path))
        if differs:
            raise BuildError(
                f"{self.output_dir}: an unfinished build with {differs} lies there. "
                "Finish it with its own options, give another --output_dir, or "
                "--overwrite"
            )

    @property
    def options(self) -> dict[str, Any]:
        """Everything that the result depends on."""
        return self._options

    def progress_folder(self, name: str) -> pathlib.Path:
        """A folder for files that are needed until the build is done."""
        return self.progress_dir / name

    def reports(self) -> dict[int, dict]:
        """The reports of the tasks done so far, by task number."""
        paths = sorted(self.progress_dir.glob(REPORTS))
        return {int(path.stem.split("-")[1]): files.read_json(path) for path in paths}

    def run(
        self,
        tasks: Iterable[SliceTask],
        new_maker: Callable[[], Maker],
        *,
        num_workers: int,
        on_progress: Callable[[int], None] = lambda progress: None,
    ) -> dict[int, dict]:
        """Does the tasks that have no report yet.

        Args:
            tasks: all tasks, in order; finished ones may be left out.
            new_maker: called once in each worker, before its first task.
            num_workers: number of processes; 1 works in this process.
            on_progress: called with a task's progress when it is done.

        Returns:
            The reports of all tasks, by number.

        Raises:
            BuildError: if a worker process dies.
        """
        done = self.reports()

        def finish(task: SliceTask, report: dict) -> None:
            files.write_json(self.progress_dir / report_name(task.number), report)
            done[task.number] = report
            on_progress(task.progress)

        pending = _skip_done(tasks, done, on_progress)
        if num_workers == 1:
            maker = new_maker()
            for task in pending:
                finish(task, maker.make(task.payload, self.output_dir))
        else:
            with worker_processes.pool(num_workers, new_maker) as pool:
                submit = functools.partial(
                    pool.submit, worker_processes.make, folder=self.output_dir
                )
                try:
                    _run_in_pool(submit, pending, num_workers, finish)
                except BrokenProcessPool as error:
                    raise BuildError(
                        "a worker process died (out of memory, or killed). What is "
                        "finished is kept: run the same command again to go on"
                    ) from error
        return done

    def close(self) -> None:
        """Forgets the progress, after the manifest is written."""
        shutil.rmtree(self.progress_dir)

    def abandon(self, shard_names: Iterable[str]) -> None:
        """Removes a build that came to nothing.

        Args:
            shard_names: what its reports name; other files stay.
        """
        for name in shard_names:
            for suffix in SHARD_SUFFIXES:
                (self.output_dir / name).with_suffix(suffix).unlink(missing_ok=True)
        files.remove_folder(self.progress_dir)


def is_unfinished(output_dir: pathlib.Path) -> bool:
    """Tells whether a build that can be resumed lies in a folder."""
    return (output_dir / _PROGRESS_FOLDER).exists() or (
        (output_dir / FILE_NAME).exists() and not (output_dir / MIRROR_FILE).exists()
    )


def report_name(number: int) -> str:
    """File name of a finished task's report, in `progress_dir`."""
    return REPORTS.replace("*", f"{number:05d}")


def in_use(folder: pathlib.Path) -> BuildError:
    """The refusal of a folder that another process builds in, or reads."""
    return BuildError(
        f"{folder}: another process is building there, or cutting windows from what "
        "lies there. Nothing was changed. Wait for its end, or end it first"
    )


def clear(output_dir: pathlib.Path) -> None:
    """Removes a build, finished or not, and nothing else, from a locked folder."""
    if (output_dir / _PROGRESS_FOLDER).exists():
        files.remove_folder(output_dir / _PROGRESS_FOLDER)
    # The manifest goes first: without it no reader takes the rest for whole.
    (output_dir / FILE_NAME).unlink(missing_ok=True)
    (output_dir / MIRROR_FILE).unlink(missing_ok=True)
    for suffix in SHARD_SUFFIXES:
        for path in output_dir.glob(f"*{suffix}"):
            path.unlink()
    if (output_dir / PLANS_FOLDER).exists():
        files.remove_folder(output_dir / PLANS_FOLDER)
    files.remove_leftovers(output_dir)
    for name in _ABOUT_A_BUILD:
        (output_dir / name).unlink(missing_ok=True)


def finished_manifest(output_dir: pathlib.Path) -> Manifest | None:
    """The manifest of the finished build in a folder; None if there is none.

    Raises:
        BuildError: if it is damaged, or of another version.
    """
    if not (output_dir / FILE_NAME).exists():
        return None
    try:
        return Manifest.load(output_dir)
    except ValueError as error:
        raise BuildError(
            f"{error}. To build there, remove it with --overwrite, or give another "
            "--output_dir"
        ) from error


def check_same(
    output_dir: pathlib.Path, expected: Mapping[str, Any], found: Mapping[str, Any]
) -> None:
    """Makes sure that the finished build in a folder is the one that is wanted.

    Args:
        output_dir: the folder.
        expected: what its manifest has to say.
        found: what it says.

    Raises:
        BuildError: if it says something else, which it names.
    """
    differs = _first_difference(expected, found)
    if differs:
        raise BuildError(
            f"{output_dir}: a finished build with {differs} lies there. Give another "
            "--output_dir, or --overwrite"
        )


def _skip_done(
    tasks: Iterable[SliceTask],
    done: Mapping[int, dict],
    on_progress: Callable[[int], None],
) -> Iterator[SliceTask]:
    for task in tasks:
        if task.number in done:
            logging.info("slice %d was done before", task.number)
            on_progress(task.progress)
        else:
            yield task


def _run_in_pool(
    submit: Callable[[Any], concurrent.futures.Future],
    tasks: Iterator[SliceTask],
    num_workers: int,
    finish: Callable[[SliceTask, dict], None],
) -> None:
    """Keeps one task more than workers under way: memory stays bounded."""
    running: dict[concurrent.futures.Future, SliceTask] = {}
    exhausted = False
    while running or not exhausted:
        while not exhausted and len(running) <= num_workers:
            task = next(tasks, None)
            if task is None:
                exhausted = True
            else:
                running[submit(task.payload)] = task
        finished, _ = concurrent.futures.wait(
            running, return_when=concurrent.futures.FIRST_COMPLETED
        )
        for future in finished:
            finish(running.pop(future), future.result())


def _first_difference(
    expected: Mapping[str, Any], found: Mapping[str, Any], inside: str = ""
) -> str | None:
    """In words, the first entry that differs, of entries in entries too."""
    for name in sorted(expected.keys() | found.keys()):
        values = expected.get(name), found.get(name)
        if all(_is_table(value) for value in values):
            # Only the first row that differs is shown: one source of many.
            values = tuple(dict(enumerate(value)) for value in values)
        if all(isinstance(value, Mapping) for value in values):
            difference = _first_difference(*values, inside=f"{inside}{name}.")
            if difference:
                return difference
        elif json.loads(json.dumps(values[0])) != values[1]:
            return (
                f"another `{inside}{name}` (expected {_short(values[0])}, found "
                f"{_short(values[1])})"
            )
    return None


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(row, list) for row in value)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"
