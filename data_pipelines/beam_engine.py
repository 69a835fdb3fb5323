"""Makes the shards of a build with Apache Beam, on as many machines as a runner has.

A build takes three jobs, one after the other: the files are measured, from which
follows where slices begin and end (`slice_plan`); files are read again, documents
grouped by slice, and each slice is made into its shards; shards of documents are cut
into windows. The functions are those of the local engine, and so is every byte of the
result. What a job has finished is not done again when the same command is given again.
"""

import _thread
import contextlib
import json
import pathlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import seg_tf.command_line as command_line
from data_pipelines import beam_steps, slice_plan, windows_job
from data_pipelines.beam_steps import KeyedItem, Place, SourceFile
from data_pipelines.documents_job import DocumentOptions
from data_pipelines.manifest import Manifest
from data_pipelines.sharded_build import BuildError, ShardedBuild
from data_pipelines.windows_job import WindowOptions
from seg_tf import files

# Seconds between two looks at what is done.
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
    """

    def __init__(self, beam_options: Sequence[str] = ()):
        try:
            import apache_beam as beam
        except ImportError as error:
            raise BuildError(
                "`--engine=beam` needs Apache Beam, which is not installed: "
                f"make setup-corpora ({error})"
            ) from error
        self._beam = beam
        # Beam's workers log every step of theirs otherwise. The last one given counts.
        self._beam_options = ["--default_sdk_harness_log_level=WARNING", *beam_options]

    def make_documents(
        self,
        build: ShardedBuild,
        options: DocumentOptions,
        sources: Mapping[str, pathlib.Path],
    ) -> tuple[dict[int, dict], list[dict]]:
        """Makes the document shards that are missing: see `LocalEngine`."""
        place = _place_of(build)
        found = [
            SourceFile(number, name, path)
            for number, (name, path) in enumerate(sources.items())
        ]
        described, num_items, planned = self._measure(place, options, found)
        done = build.reports().keys()
        parts = slice_plan.parts_of_files(planned, num_items, done)
        to_read = [
            SourceFile(number, found[number].name, found[number].path, tuple(of_file))
            for number, of_file in sorted(parts.items())
        ]
        if to_read:
            read = beam_steps.ReadItems(options)
            make = beam_steps.MakeDocuments(options, place)

            def construct(pipeline: Any) -> None:
                beam = self._beam
                items = _spread(beam, pipeline, to_read) | "read" >> beam.FlatMap(
                    read
                ).with_output_types(KeyedItem)
                slices = items | "by slice" >> beam.GroupByKey()
                # Whatever else is known of a slice's documents joins them here.
                _ = slices | "make shards" >> beam.Map(make)

            with self._progress(build, "task-*.json", len(planned), "documents"):
                self._run(place, construct)
        return _all_reports(build, len(planned)), described

    def make_windows(
        self, build: ShardedBuild, options: WindowOptions, documents_dir: pathlib.Path
    ) -> dict[int, dict]:
        """Makes the window shards that are missing: see `LocalEngine`."""
        place = _place_of(build)
        tasks = list(windows_job.tasks(Manifest.load(documents_dir)))
        done = build.reports().keys()
        pairs = [task.payload for task in tasks if task.number not in done]
        if pairs:
            make = beam_steps.MakeWindows(options, documents_dir.resolve(), place)

            def construct(pipeline: Any) -> None:
                cut = _spread(self._beam, pipeline, pairs)
                _ = cut | "cut windows" >> self._beam.Map(make)

            with self._progress(build, "task-*.json", len(tasks), "windows"):
                self._run(place, construct)
        return _all_reports(build, len(tasks))

    def _measure(
        self, place: Place, options: DocumentOptions, found: Sequence[SourceFile]
    ) -> tuple[list[dict], list[int], list[slice_plan.PlannedSlice]]:
        """The manifest's entries on the sources, documents of each, and the plan."""
        reports = [
            place.progress_dir / beam_steps.source_report_name(source.number)
            for source in found
        ]
        missing = [
            source
            for source, report in zip(found, reports, strict=True)
            if not report.exists()
        ]
        if missing:
            measure = beam_steps.MeasureSource(options, place)

            def construct(pipeline: Any) -> None:
                files_to_measure = _spread(self._beam, pipeline, missing)
                _ = files_to_measure | "measure" >> self._beam.Map(measure)

            self._run(place, construct)
        described, num_items = [], []

        def sizes() -> Iterator[np.ndarray]:
            for report in reports:
                with np.load(report) as measured:
                    described.append(json.loads(str(measured["described"])))
                    of_file = measured["sizes"]
                num_items.append(len(of_file))
                yield of_file

        planned = list(slice_plan.plan_slices(options.slice_characters, sizes()))
        return described, num_items, planned

    def _run(self, place: Place, construct: Callable[[Any], None]) -> None:
        """Runs a job to its end.

        Raises:
            BuildError: if it does not succeed.
        """
        from apache_beam.options.pipeline_options import PipelineOptions

        refusal = place.progress_dir / beam_steps.REFUSAL_FILE
        refusal.unlink(missing_ok=True)
        pipeline = self._beam.Pipeline(options=PipelineOptions(self._beam_options))
        construct(pipeline)
        failure = None
        try:
            with _deaths_of_workers_noticed():
                result = pipeline.run()
                state = result.wait_until_finish() or result.state
            if state != "DONE":
                failure = f"the Beam job ended as {state}"
        except BuildError:
            raise
        except Exception as error:  # Each runner has its own.
            failure = f"the Beam job failed: {_last_line(error)}"
            cause = error
        else:
            cause = None
        if refusal.exists():
            message = files.read_json(refusal)
            refusal.unlink()
            raise BuildError(message)
        if failure is not None:
            raise BuildError(f"{failure}. {_GO_ON}") from cause

    @contextlib.contextmanager
    def _progress(
        self, build: ShardedBuild, pattern: str, total: int, description: str
    ) -> Iterator[None]:
        """A progress bar of the reports that appear, on whichever machine."""
        finished = threading.Event()
        with command_line.progress_bar(total, description, " slices") as bar:

            def look() -> None:
                bar.update(len(list(build.progress_dir.glob(pattern))) - bar.n)

            def watch() -> None:
                while not finished.wait(_POLL_SECONDS):
                    look()

            thread = threading.Thread(target=watch, daemon=True)
            thread.start()
            try:
                yield
            finally:
                finished.set()
                thread.join()
                look()


def _place_of(build: ShardedBuild) -> Place:
    # Workers may run in another folder.
    return Place(build.output_dir.resolve(), build.progress_dir.resolve())


def _spread(beam: Any, pipeline: Any, elements: Iterable[Any]) -> Any:
    """One element for each thing to do, spread over all workers."""
    return pipeline | beam.Create(list(elements)) | beam.Reshuffle()


def _all_reports(build: ShardedBuild, number: int) -> dict[int, dict]:
    reports = build.reports()
    missing = [task for task in range(number) if task not in reports]
    if missing:
        raise BuildError(
            f"{build.output_dir}: the Beam job ended without the shards of "
            f"{len(missing)} slices, number {missing[0]} among them. All workers have "
            f"to write to this very folder. {_GO_ON}"
        )
    return reports


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


@contextlib.contextmanager
def _deaths_of_workers_noticed() -> Iterator[None]:
    """Ends the block when a worker process that Beam started on this machine dies.

    Beam's DirectRunner waits for a dead worker for ever: all that happens is that a
    thread of it raises.

    Raises:
        BuildError: if one died.
    """
    died = threading.Event()
    previous = threading.excepthook

    def notice(arguments: threading.ExceptHookArgs) -> None:
        if arguments.thread is None or arguments.thread.name != "run_worker":
            previous(arguments)
        elif not died.is_set():
            died.set()
            _thread.interrupt_main()

    if threading.current_thread() is not threading.main_thread():
        yield  # Nobody but the main thread can be interrupted.
        return
    threading.excepthook = notice
    try:
        yield
    except BaseException as error:
        if not died.is_set():
            raise
        message = f"a worker process died (out of memory, or killed). {_GO_ON}"
        raise BuildError(message) from error
    finally:
        threading.excepthook = previous
