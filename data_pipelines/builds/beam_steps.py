"""What the steps of a Beam job do with one element; Beam itself is not needed here.

Each step is an object that is pickled once, with all that it needs, and works in any
process of any machine that reaches the sources and the output folder. A step's result
lies in the output folder: shards first, then the report that says that they are there.
Both are made in a folder of the step's own and renamed into place, so a step may be
repeated, or done twice at a time, as often as the runner likes: the same bytes get the
same names.
"""

import contextlib
import dataclasses
import pathlib
import pickle
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from data_pipelines.builds import document_slices
from data_pipelines.builds.beam_output import Place, new_name
from data_pipelines.builds.document_options import DocumentOptions
from data_pipelines.builds.document_slices import Cursor, Rejections, Slice
from data_pipelines.builds.duplicate_search import FoundDuplicates, SignatureMaker
from data_pipelines.builds.errors import BuildError
from data_pipelines.builds.losses import Losses
from data_pipelines.builds.sharded_build import report_name
from data_pipelines.builds.slice_plan import FilePart, PlannedSlice
from data_pipelines.builds.source_checksums import SourceRead
from data_pipelines.builds.window_building import ShardPair, WindowOptions
from data_pipelines.readers import RejectedDocument, get_reader
from seg_tf import files
from seg_tf.text.punkt_parameters import load_parameters

# Number, number of the first document, and the three numbers of the end's cursor.
SliceKey = tuple[int, int, int, int, int]
# What belongs to a slice, in the order of these bytes' first two numbers.
KeyedItem = tuple[SliceKey, bytes]


@dataclasses.dataclass(frozen=True)
class SourceFile:
    """A file to read: its number among the sources, its name, where it lies.

    Attributes:
        num_bytes: its size.
        known: number of its first bytes -> their SHA-256, as earlier reads found.
        parts: what slices take from it; not known before it is measured.
    """

    number: int
    name: str
    path: pathlib.Path
    num_bytes: int
    known: Mapping[int, str] = dataclasses.field(default_factory=dict)
    parts: tuple[FilePart, ...] = ()

    def read(self, place: Place) -> SourceRead:
        """Begins to read the file for a build."""
        return SourceRead(self.path, self.num_bytes, self.known, place.output_dir)


SOURCE_REPORTS = "source-*.npz"
"""In the progress folder: what is known of each measured file."""


def source_report_name(number: int) -> str:
    """File name of what is known of a measured file."""
    return SOURCE_REPORTS.replace("*", f"{number:06d}")


@dataclasses.dataclass(frozen=True)
class MeasureSource:
    """Notes size and checksum of a file, and the size of each document in it."""

    options: DocumentOptions
    place: Place

    def __call__(self, source: SourceFile) -> None:
        reader = get_reader(self.options.format, **self.options.reader_options)
        sizes, losses = [], Losses()
        read = source.read(self.place)
        try:
            for item in read.items(reader, source.name):
                if isinstance(item, RejectedDocument):
                    document_slices.check_strict(self.options, item)
                    losses.add(item)
                    sizes.append(losses.code_of(item))
                else:
                    sizes.append(item.num_characters)
        except BuildError as error:
            self.place.refuse(source.number, error)
            return
        described = {"file": source.name, **read.described()}
        report = source_report_name(source.number)
        with self.place.workbench() as folder:
            np.savez(
                folder / report,
                sizes=np.array(sizes, np.int64),
                described=np.array(files.to_json(described)),
                losses=np.array(files.to_json(losses.described())),
            )
            files.sync(folder / report)
            self.place.publish(folder, report)


@dataclasses.dataclass(frozen=True)
class CompareSource:
    """Makes sure that a file measured by an earlier command has not changed."""

    place: Place

    def __call__(self, source: SourceFile) -> None:
        try:
            source.read(self.place).finish()
        except BuildError as error:
            self.place.refuse(source.number, error)


@dataclasses.dataclass(frozen=True)
class ReadItems:
    """Reads a file and says of each document to which slice it belongs.

    Raises:
        BuildError: if the file has changed since it was measured, which fails the job
            before a slice is made of it: no group of documents is whole yet.
    """

    options: DocumentOptions
    place: Place

    def __call__(self, source: SourceFile) -> Iterator[KeyedItem]:
        try:
            yield from self._items(source)
        except BuildError as error:
            self.place.refuse(source.number, error)
            raise

    def _items(self, source: SourceFile) -> Iterator[KeyedItem]:
        reader = get_reader(self.options.format, **self.options.reader_options)
        parts = iter(source.parts)
        part = next(parts, None)
        read = source.read(self.place)
        with contextlib.closing(read.items(reader, source.name)) as items:
            for number, item in enumerate(items, 1):
                while part is not None and number > part.last:
                    part = next(parts, None)
                if part is None:
                    break
                if number > part.first:
                    value = pickle.dumps((source.number, number, item))
                    yield slice_key(part.slice), value
        read.finish()


def slice_key(planned: PlannedSlice) -> SliceKey:
    """A slice as numbers, whose coding is the same on every machine."""
    end = dataclasses.astuple(planned.end)
    return planned.number, planned.begin.document_id, *end


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


class _MakeShards:
    """A step that makes shards and the report on them.

    What makes them takes seconds to load: once in a process, where the step arrives.
    """

    def __init__(self, place: Place):
        self._place = place
        self._maker: Any = None
        self._bench_name: str | None = None

    def __getstate__(self) -> dict:
        return {**vars(self), "_maker": None, "_bench_name": None}

    def _new_maker(self, folder: pathlib.Path) -> Any:
        """What has a `make` that writes a payload's shards to `folder`."""
        raise NotImplementedError

    def _make(self, number: int, payload: Any) -> None:
        report = report_name(number)
        if (self._place.progress_dir / report).exists():
            return  # The runner repeats what is done.
        self._bench_name = self._bench_name or new_name()
        with self._place.workbench(self._bench_name) as folder:
            if self._maker is None:
                self._maker = self._new_maker(folder)
            try:
                made = self._maker.make(payload)
            except BuildError as error:
                self._place.refuse(number, error)
                return
            files.write_json(folder / report, made)
            self._place.publish(folder, report)


class MakeSlices(_MakeShards):
    """A step whose elements are the documents of a slice, in any order."""

    def __call__(self, keyed: tuple[SliceKey, Iterable[bytes]]) -> None:
        key, values = keyed
        self._make(key[0], gather_slice(key, values))


class MakeSignatures(MakeSlices):
    """Makes the signatures of a slice.

    Args:
        options: the build's options.
        place: where signatures and reports go.
    """

    def __init__(self, options: DocumentOptions, place: Place):
        super().__init__(place)
        self._options = options

    def _new_maker(self, folder: pathlib.Path) -> SignatureMaker:
        return SignatureMaker(self._options, folder)


class MakeDocuments(MakeSlices):
    """Makes the document shards of a slice.

    Args:
        options: the build's options.
        place: where shards and reports go.
        duplicates: what `duplicates_job.find_duplicates` returns.
    """

    def __init__(
        self,
        options: DocumentOptions,
        place: Place,
        duplicates: pathlib.Path | None = None,
    ):
        super().__init__(place)
        self._options = options
        self._duplicates_file = None if duplicates is None else duplicates.absolute()
        self._duplicates: FoundDuplicates | None = None
        # Workers of other machines need not have these files.
        self._vocabulary = pathlib.Path(options.vocab_file).read_bytes()
        self._parameters = (
            None
            if options.sentence_parameters == "english"
            else load_parameters(options.sentence_parameters)
        )

    def __getstate__(self) -> dict:
        return {**super().__getstate__(), "_duplicates": None}

    def _make(self, number: int, payload: Slice) -> None:
        if self._duplicates_file is not None:
            self._duplicates = self._duplicates or FoundDuplicates.load(
                self._duplicates_file
            )
            payload = self._duplicates.given_to(payload)
        super()._make(number, payload)

    def _new_maker(self, folder: pathlib.Path) -> Any:
        # TensorFlow takes a second to import; the submitting process never needs it.
        from data_pipelines.builds.text_worker import SliceMaker

        with tempfile.TemporaryDirectory() as temporary:
            vocab_file = pathlib.Path(temporary, "vocab.txt")
            vocab_file.write_bytes(self._vocabulary)
            options = dataclasses.replace(self._options, vocab_file=str(vocab_file))
            if self._parameters is not None:
                path = pathlib.Path(temporary, "parameters.json")
                self._parameters.save(path)
                options = dataclasses.replace(options, sentence_parameters=str(path))
            return SliceMaker(options, folder)


class MakeWindows(_MakeShards):
    """Makes the window shards of a slice.

    Args:
        options: what the windows depend on.
        documents_dir: the finished build of documents.
        place: where shards and reports go.
    """

    def __init__(
        self, options: WindowOptions, documents_dir: pathlib.Path, place: Place
    ):
        super().__init__(place)
        self._options = options
        self._documents_dir = documents_dir

    def __call__(self, pair: ShardPair) -> None:
        self._make(pair.number, pair)

    def _new_maker(self, folder: pathlib.Path) -> Any:
        from data_pipelines.builds.window_building import WindowMaker

        return WindowMaker(self._options, self._documents_dir, folder)
