"""Makes the shards of a build with Apache Beam, on as many machines as a runner has.

A build takes three jobs, one after the other: the files are measured, from which
follows where slices begin and end (`slice_plan`); files are read again, documents
grouped by slice, and each slice is made into its shards; shards of documents are cut
into windows. Where duplicates are dropped, another job makes signatures of each slice
before, and the submitting process compares them.

The functions are those of the local engine, and so is every byte of the result. What a
job has finished is not done again when the same command is given again.
"""

import contextlib
import dataclasses
import functools
import json
import logging
import pathlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np

import seg_tf.command_line as command_line
from data_pipelines.builds import (
    beam_jobs,
    beam_steps,
    duplicate_search,
    slice_plan,
    window_building,
)
from data_pipelines.builds.beam_output import Place
from data_pipelines.builds.beam_steps import KeyedItem, SourceFile
from data_pipelines.builds.document_options import DocumentOptions
from data_pipelines.builds.errors import BuildError
from data_pipelines.builds.losses import LossWatch
from data_pipelines.builds.sharded_build import REPORTS, ShardedBuild
from data_pipelines.builds.source_checksums import SourceLedger
from data_pipelines.builds.window_building import WindowOptions
from data_pipelines.records.manifest import Manifest

# Seconds between two looks at what is done, at least.
_POLL_SECONDS = 1.0
_GO_ON = "What is finished is kept: run the same command again to go on"


class BeamEngine:
    """Runs builds as Apache Beam jobs; has the methods of `LocalEngine`.

    Args:
        beam_options: options of Beam and its runner, as on a command line:
            `["--runner=FlinkRunner", "--flink_master=host:8081"]`. All workers have
            to reach the sources and the output folder under the same paths.

    Raises:
        BuildError: if Apache Beam is not installed.
        ValueError: if Beam has no such runner, or an option has no such value.
    """

    def __init__(self, beam_options: Sequence[str] = ()):
        beam_jobs.check_beam()
        self._beam_options = tuple(beam_options)
        beam_jobs.check_options(self._beam_options)

    def make_documents(
        self,
        build: ShardedBuild,
        options: DocumentOptions,
        sources: Mapping[str, pathlib.Path],
    ) -> tuple[dict[int, dict], list[dict]]:
        """Makes the document shards that are missing: see `LocalEngine`."""
        place = _place_of(build)
        ledger = SourceLedger(sources, build.output_dir, build.progress_dir)
        num_items, planned = self._measure(place, options, sources, ledger)
        found = _source_files(sources, ledger)
        corpus = _Corpus(options, found, num_items, planned)
        duplicates = duplicate_search.find_duplicates(
            options,
            build,
            lambda search: self._make_slices(
                search,
                corpus,
                beam_steps.MakeSignatures(options, _place_of(search)),
                "duplicates",
            ),
        )
        make = beam_steps.MakeDocuments(options, place, duplicates)
        reports = self._make_slices(build, corpus, make, "documents")
        return reports, ledger.describe()

    def _make_slices(
        self,
        build: ShardedBuild,
        corpus: "_Corpus",
        make: beam_steps.MakeSlices,
        name: str,
    ) -> dict[int, dict]:
        """Does a step's work on every slice that has no report yet."""
        place = _place_of(build)
        to_read = corpus.to_read(build.reports().keys())
        if to_read:
            read = beam_steps.ReadItems(corpus.options, place)
            job = functools.partial(_slices_job, to_read, read, make)
            with _progress(place, REPORTS, len(corpus.planned), name):
                self._run(place, job)
        return _all_reports(build, len(corpus.planned))

    def make_windows(
        self, build: ShardedBuild, options: WindowOptions, documents_dir: pathlib.Path
    ) -> dict[int, dict]:
        """Makes the window shards that are missing: see `LocalEngine`."""
        place = _place_of(build)
        tasks = list(window_building.tasks(Manifest.load(documents_dir)))
        done = build.reports().keys()
        pairs = [task.payload for task in tasks if task.number not in done]
        if pairs:
            make = beam_steps.MakeWindows(options, documents_dir.absolute(), place)
            job = functools.partial(_map_job, pairs, "cut windows", make)
            with _progress(place, REPORTS, len(tasks), "windows"):
                self._run(place, job)
        return _all_reports(build, len(tasks))

    def _measure(
        self,
        place: Place,
        options: DocumentOptions,
        sources: Mapping[str, pathlib.Path],
        ledger: SourceLedger,
    ) -> tuple[list[int], list[slice_plan.PlannedSlice]]:
        """Documents of each source and the plan; the ledger gets the checksums."""
        found = _source_files(sources, ledger)
        reports = [
            place.progress_dir / beam_steps.source_report_name(source.number)
            for source in found
        ]
        # Of an earlier command.
        is_measured = [report.exists() for report in reports]
        missing = [source for source in found if not is_measured[source.number]]
        if missing:
            measure = beam_steps.MeasureSource(options, place)
            job = functools.partial(_map_job, missing, "measure", measure)
            with _progress(place, beam_steps.SOURCE_REPORTS, len(found), "measuring"):
                self._run(place, job)
        absent = [report for report in reports if not report.exists()]
        if absent:
            raise _not_there(place.output_dir, f"the sizes of {len(absent)} files")
        num_items = []
        watch = LossWatch(
            options.max_rejected_share,
            {source.name: ledger.size(source.number) for source in found},
        )

        def sizes() -> Iterator[np.ndarray]:
            for number, report in enumerate(reports):
                with np.load(report) as measured:
                    described = json.loads(str(measured["described"]))
                    of_file = measured["sizes"]
                    # Not there if an earlier version measured the file.
                    if "losses" in measured:
                        watch.add_file(of_file, json.loads(str(measured["losses"])))
                ledger.note_whole(number, described["sha256"])
                num_items.append(len(of_file))
                yield of_file

        planned = list(slice_plan.plan_slices(options.slice_characters, sizes()))
        ledger.save()
        measured_before = [
            source
            for source in _source_files(sources, ledger)
            if is_measured[source.number]
        ]
        if measured_before:
            logging.info("comparing %d inputs measured before", len(measured_before))
            compare = beam_steps.CompareSource(place)
            job = functools.partial(_map_job, measured_before, "compare", compare)
            self._run(place, job)
        return num_items, planned

    def _run(self, place: Place, job: beam_jobs.Job) -> None:
        """Runs a job to its end.

        Raises:
            BuildError: if it does not succeed.
        """
        place.take_refusal()  # Of a command that was killed.
        failure = beam_jobs.run(job, self._beam_options)
        if (message := place.take_refusal()) is not None:
            raise BuildError(message)
        if failure is not None:
            raise BuildError(f"{failure}. {_GO_ON}")


def _source_files(
    sources: Mapping[str, pathlib.Path], ledger: SourceLedger
) -> list[SourceFile]:
    # Workers may run in another folder.
    return [
        SourceFile(
            number, name, path.absolute(), ledger.size(number), ledger.known(number)
        )
        for number, (name, path) in enumerate(sources.items())
    ]


@dataclasses.dataclass(frozen=True)
class _Corpus:
    """A measured corpus.

    Attributes:
        options: the build's options.
        sources: its files.
        num_items: documents of each file, rejected ones included.
        planned: its slices.
    """

    options: DocumentOptions
    sources: Sequence[SourceFile]
    num_items: Sequence[int]
    planned: Sequence[slice_plan.PlannedSlice]

    def to_read(self, done: Set[int]) -> list[SourceFile]:
        """The files with what slices that are not done take from them."""
        parts = slice_plan.parts_of_files(self.planned, self.num_items, done)
        return [
            dataclasses.replace(self.sources[number], parts=tuple(of_file))
            for number, of_file in sorted(parts.items())
        ]


# --- The jobs -------------------------------------------------------------------


def _map_job(
    elements: Sequence[Any], label: str, step: Callable[[Any], None], pipeline: Any
) -> None:
    """A job that does one thing with each element."""
    import apache_beam as beam

    _ = _spread(pipeline, elements) | label >> beam.Map(step)


def _slices_job(
    sources: Sequence[SourceFile],
    read: beam_steps.ReadItems,
    make: beam_steps.MakeSlices,
    pipeline: Any,
) -> None:
    """A job that reads files, groups documents by slice and does a step's work."""
    import apache_beam as beam

    items = beam.FlatMap(read).with_output_types(KeyedItem)
    documents = _spread(pipeline, sources) | "read" >> items
    slices = documents | "group by slice" >> beam.GroupByKey()
    _ = slices | "make slices" >> beam.Map(make)


def _spread(pipeline: Any, elements: Sequence[Any]) -> Any:
    """One element for each thing to do, spread over all workers."""
    import apache_beam as beam

    return pipeline | beam.Create(elements) | beam.Reshuffle()


# --- What is done ---------------------------------------------------------------


def _place_of(build: ShardedBuild) -> Place:
    # Workers may run in another folder.
    return Place(build.output_dir.absolute(), build.progress_dir.absolute())


def _all_reports(build: ShardedBuild, number: int) -> dict[int, dict]:
    reports = build.reports()
    missing = [task for task in range(number) if task not in reports]
    if missing:
        raise _not_there(build.output_dir, f"the shards of {len(missing)} slices")
    return reports


def _not_there(output_dir: pathlib.Path, what: str) -> BuildError:
    return BuildError(
        f"{output_dir}: the Beam job ended without {what}. All workers have to write "
        f"to this very folder. {_GO_ON}"
    )


@contextlib.contextmanager
def _progress(place: Place, pattern: str, total: int, name: str) -> Iterator[None]:
    """A progress bar of the reports that appear, made on whichever machine."""
    finished = threading.Event()
    with command_line.progress_bar(total, name, "") as bar:

        def look() -> None:
            bar.update(len(list(place.progress_dir.glob(pattern))) - bar.n)

        def watch() -> None:
            delay = _POLL_SECONDS
            while not finished.wait(delay):
                begin = time.monotonic()
                look()
                # A folder of many reports on a network takes its time to list.
                delay = max(_POLL_SECONDS, 20 * (time.monotonic() - begin))

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            finished.set()
            thread.join()
            look()
