"""Converts slices of text into document shards and finds duplicates, for both engines.

Each worker creates one maker. Its `make(payload, folder)` writes the files of a slice
to a folder and returns a JSON-serializable report.
"""

from __future__ import annotations

import copy
import functools
import pathlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from data_pipelines import BuildError
from data_pipelines.builds import slices
from data_pipelines.builds.losses import Rejections
from data_pipelines.builds.sharded_build import ShardedBuild
from data_pipelines.builds.slices import Slice
from data_pipelines.builds.text_counts import TextCounter
from data_pipelines.cleaning import steps
from data_pipelines.cleaning.cleaning_options import NEAR, NO_CLEANING
from data_pipelines.cleaning.drop_counts import DropCounter
from data_pipelines.readers import Document, RejectedDocument, get_reader
from seg_tf import files
from seg_tf.data import record_schema
from seg_tf.data.manifest import SPLITS, shard_name
from seg_tf.text import encoding
from seg_tf.text.splitters import SentenceFunctionError, load_parameters, make_splitter
from seg_tf.text.tree import DocumentTree, TreeBuilder

if TYPE_CHECKING:
    from data_pipelines.builds.documents import DocumentOptions

NEAR_ADVICE = (
    "Drop near duplicates before the build, for example with datatrove's MinHash "
    "deduplication, whose JSON lines --format=json_lines reads; or use "
    "--duplicates=exact"
)
# Approximate number of characters in a batch of documents to encode. It bounds memory
# and keeps the number of tokenizer calls low.
_BATCH_CHARACTERS = 1 << 19
_DUPLICATES_FILE = "duplicates.npy"


class Maker(Protocol):
    """Protocol of the classes that write the files of a slice."""

    def make(self, payload: Any, folder: pathlib.Path) -> dict: ...


MakeSlices = Callable[[ShardedBuild, Callable[[], Maker], str], dict[int, dict]]
"""Builds the slices that have no report yet, given the build, a function that returns a
maker, and a name for messages. Returns the reports of all slices by number."""


class SliceMaker:
    """Builds the training and validation shards of a slice."""

    def __init__(
        self, options: DocumentOptions, duplicates: pathlib.Path | None = None
    ):
        tokenizer = options.tokenizer
        vocabulary = encoding.read_vocabulary(tokenizer, options.vocab_file)
        splitter = make_splitter(load_parameters(options.sentence_parameters))
        encoder = encoding.text_encoder(tokenizer, vocabulary, options.normalization)
        self._options = options
        self._reader = get_reader(options.format, **options.reader_options)
        self._steps = steps.steps_of_documents(options.cleaning)
        self._duplicates = duplicates
        self._builder = TreeBuilder(
            encoding.sentence_splitter(tokenizer, splitter), encoder.encode
        )
        self._paragraph_end = vocabulary.special_ids.get("eos")
        self._widths = record_schema.number_widths(vocabulary.size, None)
        self._counter = TextCounter(vocabulary)

    def make(self, payload: Slice, folder: pathlib.Path) -> dict:
        """Writes a slice's shards and returns a report on shards and lost documents."""
        # TensorFlow takes seconds to import and the parent process does not need it.
        from seg_tf.data import examples

        rejected = copy.deepcopy(payload.rejected)
        documents = slices.parsed_documents(self._reader, payload, rejected)
        counter = None
        if self._options.cleaning != NO_CLEANING:
            cleaning_steps = list(self._steps)
            if self._duplicates is not None:
                repeated = duplicates_in_slice(self._duplicates, payload)
                cleaning_steps.append(steps.duplicates(repeated))
            counter = DropCounter([step.name for step in cleaning_steps])
            documents = steps.clean(documents, cleaning_steps, counter)
        trees: dict[str, list[tuple]] = {split: [] for split in SPLITS}
        for document_id, document, tree in self._trees(documents):
            if len(tree.token_ids):
                split = self._options.split_of(document_id, document.source)
                trees[split].append((tree, document_id, None))
            else:
                has_pieces = self._options.tokenizer == encoding.WORD_PIECES
                reason = "no_word_pieces" if has_pieces else "no_words"
                message = "expected text, found only control characters"
                place = document.source, document.location
                rejected.add(RejectedDocument(*place, reason, message))
        shards = {}
        for split, items in trees.items():
            path = folder / shard_name(split, payload.number)
            shard = examples.write_trees(path, items, self._widths)
            counts = self._counter.count(tree for tree, _, _ in items)
            shards[split] = {**vars(shard), **counts}
        report = {"shards": shards, **payload.report(rejected)}
        return report if counter is None else {**report, "cleaning": counter.report()}

    def _trees(
        self, documents: Iterable[tuple[int, Document]]
    ) -> Iterator[tuple[int, Document, DocumentTree]]:
        batch: list[tuple[int, Document]] = []
        characters = 0
        for item in documents:
            batch.append(item)
            characters += item[1].num_characters
            if characters >= _BATCH_CHARACTERS:
                yield from self._build(batch)
                batch, characters = [], 0
        yield from self._build(batch)

    def _build(
        self, batch: list[tuple[int, Document]]
    ) -> Iterator[tuple[int, Document, DocumentTree]]:
        try:
            trees = self._builder.build([document.paragraphs for _, document in batch])
        except SentenceFunctionError as error:
            document = next(
                item for _, item in batch if error.paragraph in item.paragraphs
            )
            place = f"{document.source}, {document.location}"
            raise BuildError(f"{place}: {error}") from error
        for (document_id, document), tree in zip(batch, trees, strict=True):
            if self._paragraph_end is not None:
                tree = tree.with_paragraph_ends(self._paragraph_end)
            yield document_id, document, tree


class FingerprintMaker:
    """Computes fingerprints of the documents that the other cleaning steps keep."""

    def __init__(self, options: DocumentOptions):
        self._options = options
        self._reader = get_reader(options.format, **options.reader_options)
        self._steps = steps.steps_of_documents(options.cleaning)

    def make(self, payload: Slice, folder: pathlib.Path) -> dict:
        """Writes the fingerprints of a slice and returns the slice's report.

        Raises BuildError if the corpus is too large for a search for near duplicates.
        """
        from data_pipelines.cleaning import duplicates

        is_near = self._options.cleaning.duplicates == NEAR
        num_documents = payload.first_document_id + len(payload.documents)
        if is_near and num_documents > duplicates.MAX_NEAR_DOCUMENTS:
            raise BuildError(
                "`duplicates` must be 'exact' for more than "
                f"{duplicates.MAX_NEAR_DOCUMENTS:,} documents, because near duplicates "
                f"are searched in memory. Received: 'near'. {NEAR_ADVICE}"
            )
        fingerprint = (
            duplicates.near_fingerprint if is_near else duplicates.exact_fingerprint
        )
        documents = slices.parsed_documents(self._reader, payload, Rejections())
        counter = DropCounter([step.name for step in self._steps])
        document_ids, fingerprints = [], []
        for document_id, document in steps.clean(documents, self._steps, counter):
            document_ids.append(document_id)
            fingerprints.append(fingerprint(duplicates.normalised_words(document)))
        width = len(fingerprint([]))
        path = folder / _fingerprints_name(payload.number)
        with files.written_aside(path) as aside, open(aside, "wb") as file:
            np.savez(
                file,
                document_ids=np.array(document_ids, "<i8"),
                fingerprints=np.array(fingerprints, "<u4").reshape(-1, width),
            )
        return payload.report(payload.rejected)


def _fingerprints_name(slice_number: int) -> str:
    return f"fingerprints-{slice_number:05d}.npz"


def find_duplicates(
    options: DocumentOptions, build: ShardedBuild, make_slices: MakeSlices
) -> pathlib.Path | None:
    """Finds duplicate documents. Returns the path of a file for `duplicates_in_slice`.

    Returns None if `cleaning.duplicates` is None. Workers compute fingerprints and this
    process compares them. An interrupted search resumes with the missing fingerprints.
    """
    if options.cleaning.duplicates is None:
        return None
    folder = build.progress_dir / "duplicate_search"
    result = folder / _DUPLICATES_FILE
    if result.exists():
        return result
    from data_pipelines.cleaning import duplicates

    folder.mkdir(parents=True, exist_ok=True)
    search = ShardedBuild(folder, build.options)
    with search.opened():
        new_maker = functools.partial(FingerprintMaker, options)
        numbers = sorted(make_slices(search, new_maker, "fingerprints"))
        pairs = np.zeros((2, 0), np.int64)
        if numbers:
            parts = [np.load(folder / _fingerprints_name(n)) for n in numbers]
            ids, fingerprints = (
                np.concatenate([part[name] for part in parts])
                for name in ("document_ids", "fingerprints")
            )
            if options.cleaning.duplicates == NEAR:
                threshold = options.cleaning.duplicate_threshold
                pairs = ids[duplicates.near_duplicates(fingerprints, threshold)]
            else:
                pairs = ids[duplicates.exact_duplicates(fingerprints)]
        with files.written_aside(result) as aside, open(aside, "wb") as file:
            np.save(file, pairs)
    return result


def duplicates_in_slice(path: pathlib.Path, payload: Slice) -> dict[int, int]:
    """Maps the ids of a slice's duplicates to the ids of the documents they repeat."""
    dropped, repeated = np.load(path, mmap_mode="r")
    first = payload.first_document_id
    begin, end = np.searchsorted(dropped, [first, first + len(payload.documents)])
    return dict(
        zip(dropped[begin:end].tolist(), repeated[begin:end].tolist(), strict=True)
    )
