"""Raw text to whole documents: read, split into sentences, made into ids.

The parent process reads the sources and numbers the documents; workers turn one
slice of documents after the other into a train and a validation shard.
"""

import dataclasses
import hashlib
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from data_pipelines.cleaning.options import NO_CLEANING, CleaningOptions
from data_pipelines.readers import (
    COUNTED_REASONS,
    LEFT_OUT_REASONS,
    Document,
    FileReader,
    RejectedDocument,
    UnparsedDocument,
    byte_streams,
    get_reader,
)
from data_pipelines.sharded_build import BuildError, Task
from seg_tf import file_listing
from seg_tf.text import encoding
from seg_tf.text.token_table import TokenTable

NO_TOKENS_REASONS = ("no_word_pieces", "no_words")
"""Of documents that could be read and hold nothing that a vocabulary knows."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DocumentOptions:
    """What the documents of a corpus depend on, beside the text itself.

    Attributes:
        format: name of a reader.
        reader_options: options of that reader.
        input: file, folder or glob, or what else the format takes as its input.
        vocab_file: a file with a token a line.
        tokenizer: what the tokens are, one of `seg_tf.text.encoding.TOKENIZERS`.
        lower_case: whether text is lower-cased and stripped of accents; None does so
            for word pieces and not for words.
        sentence_parameters: what `load_parameters` of the splitter takes.
        validation_input: file, folder or glob of the validation split, where the
            corpus comes with one; all of `input` is the training split then.
        validation_fraction: every `1 / validation_fraction`-th document of `input` is
            held out; 0 holds out none. None is 0.01, or nothing where there is a
            `validation_input`.
        slice_megabytes: text of one slice, in millions of characters.
        strict: whether a rejected document stops the build.
        cleaning: what is dropped of what was read.
    """

    format: str
    input: str
    vocab_file: str
    reader_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    tokenizer: str = encoding.WORD_PIECES
    lower_case: bool | None = None
    sentence_parameters: str = "english"
    validation_input: str | None = None
    validation_fraction: float | None = None
    slice_megabytes: float = 8.0
    strict: bool = False
    cleaning: CleaningOptions = NO_CLEANING

    def __post_init__(self):
        encoding.check_tokenizer(self.tokenizer)
        if self.lower_case is None:
            is_uncased = self.tokenizer == encoding.WORD_PIECES
            object.__setattr__(self, "lower_case", is_uncased)
        self._check_validation()
        if self.slice_megabytes <= 0:
            raise ValueError(
                f"`slice_megabytes` must be positive. Received: {self.slice_megabytes}"
            )

    def _check_validation(self) -> None:
        if self.validation_input is not None:
            if self.validation_fraction is not None:
                raise ValueError(
                    "`validation_fraction` must not be given with `validation_input`, "
                    "which is the whole validation split. Received: "
                    f"validation_fraction={self.validation_fraction}, "
                    f"validation_input={self.validation_input!r}"
                )
            return
        if self.validation_fraction is None:
            object.__setattr__(self, "validation_fraction", 0.01)
        if not 0 <= self.validation_fraction <= 0.5:
            raise ValueError(
                "`validation_fraction` must lie between 0 and 0.5. "
                f"Received: {self.validation_fraction}"
            )

    @property
    def slice_characters(self) -> int:
        """Characters that end a slice."""
        return int(self.slice_megabytes * 1e6)

    def split_of(self, document_id: int, source: str) -> str:
        """The split of a document: what its source is for, or every N-th is held out.

        With a `validation_input`, names of sources begin with their split
        (`list_sources`). Otherwise the second document is the first to be held out, so
        even a corpus of two documents has one to validate on.
        """
        if self.validation_input is not None:
            return source.partition("/")[0]
        if not self.validation_fraction:
            return "train"
        every = round(1 / self.validation_fraction)
        return "validation" if document_id % every == 1 else "train"


def list_sources(options: DocumentOptions) -> dict[str, file_listing.Path]:
    """The files to read, in order, by a name that is the same on every machine.

    With a `validation_input` the names begin with the split: `train/` of `input`, which
    comes first, and `validation/`. So a name that both inputs have stays two sources.

    Raises:
        FileNotFoundError: if an input does not exist.
        ValueError: if an input holds no text, both hold the same file, or no document
            can be read from `validation_input`.
    """
    reader = get_reader(options.format, **options.reader_options)

    def named(input_path: str, prefix: str = "") -> dict[str, file_listing.Path]:
        return {
            prefix + reader.source_name(path, input_path): path
            for path in reader.files(input_path)
        }

    if options.validation_input is None:
        return named(options.input)
    train = named(options.input, "train/")
    validation = named(options.validation_input, "validation/")
    train_files = {path.resolve() for path in train.values()}
    for path in validation.values():
        if path.resolve() in train_files:
            raise ValueError(
                "`validation_input` must hold no file that `input` holds. "
                f"Received: {str(path)!r} in both"
            )
    # Checked by the first document, before all of `input` is read.
    items = (
        item for name, path in validation.items() for item in reader.read(path, name)
    )
    if not any(isinstance(item, Document) for item in items):
        raise ValueError(
            "`validation_input` must hold a document. Received: "
            f"{options.validation_input!r}, of which none can be read as "
            f"{options.format}"
        )
    return train | validation


@dataclasses.dataclass(frozen=True)
class Cursor:
    """Where reading goes on: the next document of the sources."""

    file_number: int = 0
    items_read: int = 0
    document_id: int = 0


@dataclasses.dataclass
class Rejections:
    """Documents that were not read.

    Attributes:
        listed: those that users want to see, as dicts.
        counted: reason -> number of those that are as they should be.
    """

    listed: list[dict] = dataclasses.field(default_factory=list)
    counted: dict[str, int] = dataclasses.field(default_factory=dict)

    def add(self, item: RejectedDocument) -> None:
        """Lists a document or counts it."""
        if item.reason in COUNTED_REASONS:
            self.counted[item.reason] = self.counted.get(item.reason, 0) + 1
        else:
            self.listed.append(dataclasses.asdict(item))

    def __bool__(self) -> bool:
        return bool(self.listed or self.counted)


@dataclasses.dataclass(frozen=True)
class Slice:
    """Consecutive documents of the corpus, made into one shard a split.

    Attributes:
        number: which slice.
        first_document_id: number of its first document; the others follow.
        documents: what a reader's `read_unparsed` yields.
        rejected: the documents that the reader rejected among them.
        next: where the next slice begins.
        duplicates: numbers of documents to drop -> of those that they repeat.
    """

    number: int
    first_document_id: int
    documents: list[Document | UnparsedDocument]
    rejected: "Rejections"
    next: Cursor
    duplicates: Mapping[int, int] = dataclasses.field(default_factory=dict)


def resume_point(reports: Mapping[int, dict]) -> tuple[int, Cursor]:
    """The first slice without a report, and where in the sources it begins."""
    number = 0
    while number in reports:
        number += 1
    return number, Cursor(**reports[number - 1]["next"]) if number else Cursor()


def read_slices(
    options: DocumentOptions,
    sources: Mapping[str, file_listing.Path],
    start: Cursor,
    number: int,
) -> Iterator[Task]:
    """Reads the sources from `start` and cuts them into slices.

    Args:
        options: the build's options.
        sources: name -> path of every source file, in order (`list_sources`).
        start: where slice `number` begins.
        number: number of the first slice.

    Yields:
        Tasks whose payload is a `Slice`.

    Raises:
        BuildError: with `options.strict`, at the first rejected document.
    """
    limit = options.slice_characters
    reader = get_reader(options.format, **options.reader_options)
    slice_begin = document_id = start.document_id
    documents, rejected, characters, progress = [], Rejections(), 0, 0
    for file_number, (name, path) in enumerate(sources.items()):
        if file_number < start.file_number:
            continue
        skip = start.items_read if file_number == start.file_number else 0
        unreported = path.stat().st_size
        for item_number, item in enumerate(reader.read_unparsed(path, name), 1):
            if item_number <= skip:
                continue
            if isinstance(item, RejectedDocument):
                check_strict(options, item)
                rejected.add(item)
                continue
            documents.append(item)
            document_id += 1
            size = item.num_characters
            characters += size
            # Characters stand for bytes within a file, corrected at its end.
            progress += min(size, unreported)
            unreported -= min(size, unreported)
            if characters >= limit:
                next_cursor = Cursor(file_number, item_number, document_id)
                yield _task(
                    number, slice_begin, documents, rejected, next_cursor, progress
                )
                number, slice_begin = number + 1, document_id
                documents, rejected = [], Rejections()
                characters = progress = 0
        progress += unreported
    if documents or rejected:
        end = Cursor(len(sources), 0, document_id)
        yield _task(number, slice_begin, documents, rejected, end, progress)


def _task(
    number: int,
    first_document_id: int,
    documents: list[Document | UnparsedDocument],
    rejected: Rejections,
    next_cursor: Cursor,
    progress: int,
) -> Task:
    payload = Slice(number, first_document_id, documents, rejected, next_cursor)
    return Task(number, payload, progress)


def check_strict(options: DocumentOptions, item: RejectedDocument) -> None:
    """Raises BuildError at a rejected document, where `--strict` wants it."""
    if options.strict and item.reason not in LEFT_OUT_REASONS:
        raise BuildError(f"{item}. Stopped, as --strict wants")


def parsed_documents(
    options: DocumentOptions,
    reader: FileReader,
    payload: Slice,
    rejected: Rejections,
) -> Iterator[tuple[int, Document]]:
    """The documents of a slice, parsed, with their numbers.

    Args:
        options: the build's options.
        reader: the reader that they are from.
        payload: the slice.
        rejected: takes the documents that cannot be parsed.

    Raises:
        BuildError: with `options.strict`, at the first rejected document.
    """
    for document_id, item in enumerate(payload.documents, payload.first_document_id):
        if isinstance(item, UnparsedDocument):
            item = reader.parse(item)
        if isinstance(item, RejectedDocument):
            check_strict(options, item)
            rejected.add(item)
            continue
        yield document_id, item


# --- In the workers -------------------------------------------------------------

_worker: dict[str, Any] = {}


def start_worker(options: DocumentOptions, output_dir: pathlib.Path) -> None:
    """Loads the splitter and the tokeniser once in a worker process."""
    # TensorFlow takes a second to import; the parent process never needs it.
    from data_pipelines import text_worker

    _worker["maker"] = text_worker.SliceMaker(options, output_dir)


def make_slice(payload: Slice) -> dict:
    """Makes the shards of a slice; returns its report."""
    return _worker["maker"].make(payload)


def describe_vocabulary(vocabulary: TokenTable, options: DocumentOptions) -> dict:
    """The manifest's entry on the vocabulary.

    It names the tokenizer only where that is not word pieces: records that an earlier
    version built stay what the same options make.
    """
    described = {
        "file": "vocab.txt",
        "size": vocabulary.size,
        "sha256": vocabulary.checksum,
        "lower_case": options.lower_case,
        "special_ids": dict(vocabulary.special_ids),
    }
    if options.tokenizer != encoding.WORD_PIECES:
        described["tokenizer"] = options.tokenizer
    return described


def describe_sources(sources: Mapping[str, file_listing.Path]) -> list[dict]:
    """The manifest's entry on the sources: name, size and checksum of each."""
    return [
        {"file": name, "bytes": path.stat().st_size, "sha256": _checksum(path)}
        for name, path in sources.items()
    ]


def _checksum(path: file_listing.Path) -> str:
    with byte_streams.open_raw(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
