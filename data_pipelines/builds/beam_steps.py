"""Steps of the Beam jobs; Beam itself is not needed here.

A step is an object that is pickled once, with all that it needs, and works in any
process of any machine that reaches the sources and the output folder. It writes into a
folder of its own and renames the result into place, shards first, then the report that
says that they are there. So it may be repeated, or done twice at a time, as often as
the runner likes: the same bytes get the same names.
"""

import dataclasses
import itertools
import pathlib
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping

from data_pipelines.builds import document_slices, losses
from data_pipelines.builds.document_options import DocumentOptions
from data_pipelines.builds.document_slices import Cursor, Rejections, Slice
from data_pipelines.builds.errors import BuildError
from data_pipelines.builds.sharded_build import Maker, report_name
from data_pipelines.builds.slice_plan import PlannedSlice
from data_pipelines.builds.source_checksums import SourceRead
from data_pipelines.builds.window_building import ShardPair
from data_pipelines.readers import RejectedDocument, get_reader
from seg_tf import files

# Number, number of the first document, and the three numbers of the end's cursor. Every
# machine codes numbers alike.
SliceKey = tuple[int, int, int, int, int]
# What belongs to a slice, in the order of these bytes' first two numbers.
KeyedItem = tuple[SliceKey, bytes]


@dataclasses.dataclass(frozen=True)
class SourceFile:
    """A file to read.

    Attributes:
        number: its place among the sources.
        name: its name there.
        path: where it lies.
        num_bytes: its size.
        known: number of its first bytes -> their SHA-256, as earlier reads found.
        output_dir: where the build lies, for messages.
        slices: those to read that may take documents from it, in order.
    """

    number: int
    name: str
    path: pathlib.Path
    num_bytes: int
    known: Mapping[int, str]
    output_dir: pathlib.Path
    slices: tuple[PlannedSlice, ...] = ()

    def read(self) -> SourceRead:
        """Begins to read the file."""
        return SourceRead(self.path, self.num_bytes, self.known, self.output_dir)


# A document's characters; the rejection of one that was lost; None of one that was
# rejected and is no loss.
MeasuredItem = int | RejectedDocument | None


@dataclasses.dataclass(frozen=True)
class MeasureSource:
    """Leaves in a folder what is known of a file."""

    options: DocumentOptions
    folder: pathlib.Path

    def __call__(self, source: SourceFile) -> None:
        reader = get_reader(self.options.format, **self.options.reader_options)
        items, read = [], source.read()
        try:
            for item in read.items(reader, source.name):
                if isinstance(item, RejectedDocument):
                    document_slices.check_strict(self.options, item)
                    items.append(item if losses.is_lost(item.reason) else None)
                else:
                    items.append(item.num_characters)
            found = items, read.checksum.hexdigest()
        except BuildError as error:
            found = error
        with files.folder_aside(self.folder) as folder:
            (folder / "found").write_bytes(pickle.dumps(found))
            (folder / "found").replace(self._path(source.number))

    def of_source(self, number: int) -> tuple[list[MeasuredItem], str]:
        """The documents of a file and its checksum, as the step left them.

        Raises:
            BuildError: what the step came upon.
            FileNotFoundError: if it left nothing.
        """
        found = pickle.loads(self._path(number).read_bytes())
        if isinstance(found, BuildError):
            raise found
        return found

    def _path(self, number: int) -> pathlib.Path:
        return self.folder / f"{number:06d}.pickle"


@dataclasses.dataclass(frozen=True)
class ReadItems:
    """Reads a file and says of each document to which slice it belongs.

    Raises:
        BuildError: if the file has changed since it was measured, which fails the job
            before a slice is made of it: no group of documents is whole yet.
    """

    options: DocumentOptions

    def __call__(self, source: SourceFile) -> Iterator[KeyedItem]:
        reader = get_reader(self.options.format, **self.options.reader_options)
        items = enumerate(source.read().items(reader, source.name))
        position = 0
        for planned in source.slices:
            first, last = planned.range_in(source.number)
            stop = None if last is None else last - position
            end = dataclasses.astuple(planned.end)
            key = planned.number, planned.begin.document_id, *end
            for number, item in itertools.islice(items, first - position, stop):
                yield key, pickle.dumps((source.number, number, item))
            position = last
        for _ in items:  # To the end, where checksums are compared.
            pass


def gather_slice(key: SliceKey, values: Iterable[bytes]) -> Slice:
    """The slice that `document_slices.read_slices` makes of the same documents."""
    number, first_document_id, *end = key
    documents, rejected = [], Rejections()
    # Places differ, so that sorting never compares items.
    for _, _, item in sorted(map(pickle.loads, values), key=lambda value: value[:2]):
        if isinstance(item, RejectedDocument):
            rejected.add(item)
        else:
            documents.append(item)
    return Slice(number, first_document_id, documents, rejected, Cursor(*end))


@dataclasses.dataclass
class MakeShards:
    """Makes the shards of a slice and the report on them.

    Attributes:
        output_dir: where the shards go.
        progress_dir: where the report goes.
        new_maker: returns a maker, which may take seconds to load; called once in a
            process.
    """

    output_dir: pathlib.Path
    progress_dir: pathlib.Path
    new_maker: Callable[[], Maker]
    _maker: Maker | None = None

    def __call__(self, payload: Slice | ShardPair) -> None:
        report = report_name(payload.number)
        if (self.progress_dir / report).exists():
            return  # The runner repeats what is done.
        self._maker = self._maker or self.new_maker()
        with files.folder_aside(self.progress_dir) as folder:
            made = self._maker.make(payload, folder)
            for path in folder.iterdir():
                path.replace(self.output_dir / path.name)
            files.sync(self.output_dir)
            files.write_json(folder / report, made)
            (folder / report).replace(self.progress_dir / report)
            files.sync(self.progress_dir)
