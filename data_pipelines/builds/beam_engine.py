"""Builds shards with Apache Beam, on all machines of a runner.

A build runs several jobs in sequence. First, the files are measured to determine the
slice boundaries. Then they are read again (twice to drop duplicates), the documents are
grouped by slice, and each slice is written as shards. A last job builds windows.

A step is a callable that is pickled once and runs on any machine that can reach the
sources and the output folder. It writes to a temporary folder and then renames the
files, the shards before the report on them. The runner may repeat a step or run it
twice at the same time, because the results are identical.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import logging
import os
import pathlib
import pickle
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from data_pipelines import BuildError
from data_pipelines.builds import makers, slices, sources
from data_pipelines.builds.losses import LossWatch, Rejections, is_lost
from data_pipelines.builds.makers import Maker
from data_pipelines.builds.sharded_build import ShardedBuild, report_name
from data_pipelines.builds.slices import Cursor, PlannedSlice, Slice
from data_pipelines.builds.sources import SourceLedger
from data_pipelines.cleaning.cleaning_options import NEAR
from data_pipelines.readers import RejectedDocument, get_reader, streams
from seg_tf import file_listing, files

if TYPE_CHECKING:
    from data_pipelines.builds.documents import DocumentOptions
    from data_pipelines.builds.windows import ShardPair

_RESUME = "Finished work is kept: run the same command again to resume"
# Slice number, first document id, end cursor. Integers encode alike on all machines.
SliceKey = tuple[int, int, int, int, int]
# Slice key and a pickled tuple: file number, item number in the file, item.
KeyedItem = tuple[SliceKey, bytes]
# Size of a document in characters, rejection of a lost document, or None if skipped.
MeasuredItem = int | RejectedDocument | None


class BeamEngine:
    """Runs builds as Apache Beam jobs, with the same methods as `LocalEngine`.

    `beam_options` are command line options of Beam and its runner, such as
    `["--runner=FlinkRunner", "--flink_master=host:8081"]`. All workers must reach the
    sources and output folder at the same paths. Raises BuildError if Beam is missing.
    """

    def __init__(self, beam_options: Sequence[str] = ()):
        self._options = tuple(beam_options)
        # Beam warns about each missing Google client library, and later each port.
        logging.disable(logging.WARNING)
        try:
            import apache_beam  # noqa: F401
        except ImportError as error:
            raise BuildError(
                "`--engine=beam` needs Apache Beam, which is not installed: "
                f"make setup-corpora ({error})"
            ) from error
        finally:
            logging.disable(logging.NOTSET)
            logging.getLogger("apache_beam").setLevel(logging.WARNING)

    def prepare(
        self, build: ShardedBuild, options: DocumentOptions, ledger: SourceLedger
    ) -> makers.MakeSlices:
        """Measures the files, plans the slices and returns a `MakeSlices` function.

        Raises ValueError if `options` require a search for near duplicates, and
        BuildError if a source has changed or a job fails.
        """
        if options.cleaning.duplicates == NEAR:
            raise ValueError(
                "`duplicates` must be None or 'exact' with --engine=beam. Received: "
                f"'near'. {makers.NEAR_ADVICE}"
            )
        plan = self._plan(build, options, ledger)
        source_files = _source_files(build, ledger)
        return functools.partial(self._make_slices, options, source_files, plan)

    def make_windows(
        self,
        build: ShardedBuild,
        pairs: Sequence[ShardPair],
        new_maker: Callable[[], Maker],
    ) -> dict[int, dict]:
        """Builds the missing window shards. See `LocalEngine.make_windows`."""
        import apache_beam as beam

        done = build.reports().keys()
        missing = [pair for pair in pairs if pair.number not in done]
        make = MakeShards(build.output_dir, build.progress_dir, new_maker)
        self._run(missing, "cut windows" >> beam.Map(make))
        return _all_reports(build, len(pairs))

    def _run(self, elements: Collection[Any], *steps: Any) -> None:
        """Runs `steps` on `elements` as a job. Raises BuildError if the job fails."""
        if not elements:
            return
        import apache_beam as beam
        from apache_beam.options.pipeline_options import PipelineOptions

        # Otherwise workers log each step. Later options override earlier ones.
        options = ["--default_sdk_harness_log_level=WARNING", *self._options]
        label = steps[-1].label
        print(f"Beam job: {label} ({len(elements):,} inputs)", file=sys.stderr)
        try:
            pipeline = beam.Pipeline(options=PipelineOptions(options))
            collection = pipeline | beam.Create(elements) | beam.Reshuffle()
            for step in steps:
                collection = collection | step
            result = pipeline.run()
            state = result.wait_until_finish() or result.state
        except Exception as error:  # Each runner raises different exceptions.
            if os.environ.get("SEG_TF_TRACEBACK"):
                raise
            text = f"{type(error).__name__}: {error}".strip()
            # Extract the message of a BuildError from a worker's traceback.
            inner = re.search(r"BuildError: (.+?)( \[while running .*)?$", text, re.M)
            failure = f"the Beam job failed: {text.splitlines()[-1].strip()}. {_RESUME}"
            raise BuildError(inner[1] if inner else failure) from error
        if state != "DONE":
            raise BuildError(f"the Beam job ended as {state}. {_RESUME}")

    def _plan(
        self, build: ShardedBuild, options: DocumentOptions, ledger: SourceLedger
    ) -> list[PlannedSlice]:
        import apache_beam as beam

        watch = LossWatch(options.max_rejected_share)
        checksums = []
        source_files = _source_files(build, ledger)

        def sizes(folder: pathlib.Path) -> Iterator[list[int | None]]:
            for source in source_files:
                try:
                    result = (folder / str(source.number)).read_bytes()
                    items, sha256 = pickle.loads(result)
                except FileNotFoundError as error:
                    raise _missing(build, f"the size of {source.name}") from error
                checksums.append(sha256)
                for item in items:
                    if item is not None:
                        watch.add(None if isinstance(item, int) else item)
                yield [item if isinstance(item, int) else None for item in items]

        with files.folder_aside(build.progress_dir) as folder:
            measure = functools.partial(measure_source, options, folder)
            self._run(source_files, "measure files" >> beam.Map(measure))
            plan = list(slices.plan_slices(options.slice_characters, sizes(folder)))
        ledger.start(build.progress_dir, checksums)
        return plan

    def _make_slices(
        self,
        options: DocumentOptions,
        source_files: Sequence[SourceFile],
        plan: Sequence[PlannedSlice],
        build: ShardedBuild,
        new_maker: Callable[[], Maker],
        name: str,
    ) -> dict[int, dict]:
        import apache_beam as beam

        done = build.reports().keys()
        missing = [planned for planned in plan if planned.number not in done]
        to_read = [
            dataclasses.replace(source_files[number], slices=tuple(parts))
            for number, parts in slices.slices_by_file(missing).items()
            if number < len(source_files)
        ]
        read = beam.FlatMap(functools.partial(read_items, options))
        make = MakeShards(build.output_dir, build.progress_dir, new_maker)
        self._run(
            to_read,
            "read files" >> read.with_output_types(KeyedItem),
            "group by slice" >> beam.GroupByKey(),
            "gather" >> beam.MapTuple(gather_slice),
            f"make {name}" >> beam.Map(make),
        )
        return _all_reports(build, len(plan))


def _source_files(build: ShardedBuild, ledger: SourceLedger) -> list[SourceFile]:
    return [
        SourceFile(
            number, name, path.absolute(), ledger.checksums.get(name), build.output_dir
        )
        for number, (name, path) in enumerate(ledger.paths.items())
    ]


def _all_reports(build: ShardedBuild, number: int) -> dict[int, dict]:
    reports = build.reports()
    if missing := number - len(reports):
        raise _missing(build, f"the shards of {missing} slices")
    return reports


def _missing(build: ShardedBuild, what: str) -> BuildError:
    return BuildError(
        f"{build.output_dir}: the Beam job ended without {what}. All workers must "
        f"write to this very folder. {_RESUME}"
    )


@dataclasses.dataclass(frozen=True)
class SourceFile:
    """A file to read, with the `slices` that need documents from it, in order."""

    number: int
    name: str
    path: file_listing.Path
    checksum: str | None
    output_dir: pathlib.Path
    slices: tuple[PlannedSlice, ...] = ()


def measure_source(
    options: DocumentOptions, folder: pathlib.Path, source: SourceFile
) -> None:
    """Writes a file's document sizes, lost documents and checksum to `folder`."""
    reader = get_reader(options.format, **options.reader_options)
    sha256 = streams.checksum(source.path)
    items: list[MeasuredItem] = []
    for item in reader.read_unparsed(source.path, source.name):
        if isinstance(item, RejectedDocument):
            items.append(item if is_lost(item.reason) else None)
        else:
            items.append(item.num_characters)
    with files.folder_aside(folder) as aside:
        (aside / "result").write_bytes(pickle.dumps((items, sha256)))
        (aside / "result").replace(folder / str(source.number))


def read_items(options: DocumentOptions, source: SourceFile) -> Iterator[KeyedItem]:
    """Reads a file and yields each item with the key of its slice.

    Raises BuildError if the file has changed since it was measured. The job then fails
    before any slice is written, because grouping waits for all files.
    """
    reader = get_reader(options.format, **options.reader_options)
    items = enumerate(reader.read_unparsed(source.path, source.name))
    position = 0
    for planned in source.slices:
        first, last = planned.range_in(source.number)
        stop = None if last is None else last - position
        end = dataclasses.astuple(planned.end)
        key = planned.number, planned.begin.document_id, *end
        for number, item in itertools.islice(items, first - position, stop):
            yield key, pickle.dumps((source.number, number, item))
        position = last
    sha256 = streams.checksum(source.path)
    sources.check_checksum(source.path, source.checksum, sha256, source.output_dir)


def gather_slice(key: SliceKey, values: Iterable[bytes]) -> Slice:
    """Gathers the items of a slice into the `Slice` that `read_slices` would yield."""
    number, first_document_id, *end = key
    documents, rejected = [], Rejections()
    # File and item numbers are unique, so the items need not be compared.
    for _, _, item in sorted(map(pickle.loads, values), key=lambda value: value[:2]):
        if isinstance(item, RejectedDocument):
            rejected.add(item)
        else:
            documents.append(item)
    return Slice(number, first_document_id, documents, rejected, Cursor(*end))


@dataclasses.dataclass
class MakeShards:
    """Writes the shards of a slice, then the report on them.

    Skips slices with a report. Calls `new_maker`, which may take seconds, only once.
    """

    output_dir: pathlib.Path
    progress_dir: pathlib.Path
    new_maker: Callable[[], Maker]
    _maker: Maker | None = None

    def __call__(self, payload: Slice | ShardPair) -> None:
        name = report_name(payload.number)
        if (self.progress_dir / name).exists():
            return  # The runner has repeated a finished step.
        self._maker = self._maker or self.new_maker()
        with files.folder_aside(self.progress_dir) as folder:
            report = self._maker.make(payload, folder)
            for path in folder.iterdir():
                path.replace(self.output_dir / path.name)
            files.sync(self.output_dir)
            files.write_json(folder / name, report)
            (folder / name).replace(self.progress_dir / name)
            files.sync(self.progress_dir)
