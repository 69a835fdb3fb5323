"""Makes the shards of a build with Apache Beam, on as many machines as a runner has.

A build takes three jobs, one after the other: the files are measured, from which
follows where slices begin and end (`slice_plan`); files are read again, documents
grouped by slice, and each slice is made into its shards; shards of documents are cut
into windows. Where exact duplicates are dropped, a job before computes fingerprints of
the documents of each slice.

The functions are those of the local engine, and so is every byte of the result. What a
job has made is not made again when the same command is given again.
"""

import dataclasses
import functools
import pathlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence

from data_pipelines.builds import (
    beam_jobs,
    beam_steps,
    document_building,
    duplicate_search,
    slice_plan,
    window_building,
)
from data_pipelines.builds.beam_steps import SourceFile
from data_pipelines.builds.document_options import DocumentOptions
from data_pipelines.builds.errors import BuildError
from data_pipelines.builds.losses import LossWatch
from data_pipelines.builds.sharded_build import Maker, ShardedBuild, SliceTask
from data_pipelines.builds.slice_plan import PlannedSlice
from data_pipelines.builds.source_checksums import SourceLedger
from data_pipelines.builds.window_building import WindowMaker, WindowOptions
from data_pipelines.cleaning.cleaning_options import NEAR
from seg_tf import files
from seg_tf.data.manifest import Manifest
from seg_tf.text.splitters import load_parameters


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
        beam_jobs.check_options(beam_options)
        self._run = functools.partial(beam_jobs.run, tuple(beam_options))

    def make_documents(
        self,
        build: ShardedBuild,
        options: DocumentOptions,
        sources: Mapping[str, pathlib.Path],
    ) -> tuple[dict[int, dict], list[dict]]:
        """Makes the document shards that are missing: see `LocalEngine`."""
        if options.cleaning.duplicates == NEAR:
            raise ValueError(
                "`duplicates` must be None or 'exact' with --engine=beam. Received: "
                f"'near'. {duplicate_search.ADVICE}"
            )
        build = _absolute(build)
        ledger = SourceLedger(sources, build.output_dir, build.progress_dir)
        plan = self._plan(build, options, _source_files(build, sources, ledger), ledger)
        found = _source_files(build, sources, ledger)  # With the checksums.
        make_slices = functools.partial(self._make_slices, options, found, plan)
        new_maker = functools.partial(duplicate_search.FingerprintMaker, options)
        duplicates = duplicate_search.find_duplicates(
            options,
            build,
            functools.partial(make_slices, "make fingerprints", new_maker),
        )
        carried = _with_files_beside(build, options)
        new_maker = functools.partial(
            document_building.new_slice_maker, carried, duplicates
        )
        return make_slices("make documents", new_maker, build), ledger.describe()

    def make_windows(
        self, build: ShardedBuild, options: WindowOptions, documents_dir: pathlib.Path
    ) -> dict[int, dict]:
        """Makes the window shards that are missing: see `LocalEngine`."""
        build = _absolute(build)
        tasks = list(window_building.tasks(Manifest.load(documents_dir)))
        new_maker = functools.partial(WindowMaker, options, documents_dir.absolute())
        return self._run_tasks(build, tasks, "cut windows", new_maker)

    def _run_tasks(
        self,
        build: ShardedBuild,
        tasks: Sequence[SliceTask],
        name: str,
        new_maker: Callable[[], Maker],
    ) -> dict[int, dict]:
        """Does a maker's work on every task that has no report yet."""
        import apache_beam as beam

        done = build.reports().keys()
        payloads = [task.payload for task in tasks if task.number not in done]
        make = beam_steps.MakeShards(build.output_dir, build.progress_dir, new_maker)
        self._run(payloads, name >> beam.Map(make))
        return _all_reports(build, len(tasks))

    def _plan(
        self,
        build: ShardedBuild,
        options: DocumentOptions,
        sources: Sequence[SourceFile],
        ledger: SourceLedger,
    ) -> list[PlannedSlice]:
        """Measures all files and plans; the ledger gets their checksums."""
        import apache_beam as beam

        sizes = {source.name: source.num_bytes for source in sources}
        watch = LossWatch(options.max_rejected_share, sizes)

        def measured(measure: beam_steps.MeasureSource) -> Iterator[list[int | None]]:
            for source in sources:
                try:
                    items, sha256 = measure.of_source(source.number)
                except FileNotFoundError as error:
                    raise _not_there(build, f"the size of {source.name}") from error
                ledger.note_whole(source.number, sha256)
                yield [_watched(item, watch) for item in items]

        with files.folder_aside(build.progress_dir) as folder:
            measure = beam_steps.MeasureSource(options, folder)
            self._run(sources, "measure files" >> beam.Map(measure))
            plan = slice_plan.plan_slices(options.slice_characters, measured(measure))
            plan = list(plan)
        ledger.save()
        return plan

    def _make_slices(
        self,
        options: DocumentOptions,
        sources: Sequence[SourceFile],
        plan: Sequence[PlannedSlice],
        name: str,
        new_maker: Callable[[], Maker],
        build: ShardedBuild,
    ) -> dict[int, dict]:
        """Does a maker's work on every slice that has no report yet."""
        import apache_beam as beam

        done = build.reports().keys()
        missing = [planned for planned in plan if planned.number not in done]
        to_read = [
            dataclasses.replace(sources[number], slices=tuple(slices))
            for number, slices in slice_plan.slices_of_files(missing).items()
            if number < len(sources)
        ]
        read = beam.FlatMap(beam_steps.ReadItems(options))
        make = beam_steps.MakeShards(build.output_dir, build.progress_dir, new_maker)
        self._run(
            to_read,
            "read files" >> read.with_output_types(beam_steps.KeyedItem),
            "group by slice" >> beam.GroupByKey(),
            "gather" >> beam.MapTuple(beam_steps.gather_slice),
            name >> beam.Map(make),
        )
        return _all_reports(build, len(plan))


def _absolute(build: ShardedBuild) -> ShardedBuild:
    """The build for workers, which may run in another folder."""
    return ShardedBuild(build.output_dir.absolute(), build.options)


def _source_files(
    build: ShardedBuild, sources: Mapping[str, pathlib.Path], ledger: SourceLedger
) -> list[SourceFile]:
    return [
        SourceFile(
            *(number, name, path.absolute(), ledger.size(number)),
            *(ledger.known(number), build.output_dir),
        )
        for number, (name, path) in enumerate(sources.items())
    ]


def _with_files_beside(
    build: ShardedBuild, options: DocumentOptions
) -> DocumentOptions:
    """The options for workers elsewhere: a copy of the vocabulary, and parameters."""
    vocabulary = build.progress_dir / "vocab.txt"
    shutil.copyfile(options.vocab_file, vocabulary)
    parameters = load_parameters(options.sentence_parameters)
    return dataclasses.replace(
        options, vocab_file=str(vocabulary), sentence_parameters=parameters
    )


def _watched(item: beam_steps.MeasuredItem, watch: LossWatch) -> int | None:
    """The size of a measured document, which the watch is told of."""
    if isinstance(item, int):
        watch.add_document()
        return item
    if item is not None:
        watch.add_rejected(item)
    return None


def _all_reports(build: ShardedBuild, number: int) -> dict[int, dict]:
    reports = build.reports()
    missing = number - len(reports)
    if missing:
        raise _not_there(build, f"the shards of {missing} slices")
    return reports


def _not_there(build: ShardedBuild, what: str) -> BuildError:
    return BuildError(
        f"{build.output_dir}: the Beam job ended without {what}. All workers have to "
        f"write to this very folder. {beam_jobs.GO_ON}"
    )
