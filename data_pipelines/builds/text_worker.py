"""A worker's job on a slice of documents: text to trees, trees to shards."""

import copy
import pathlib
from collections.abc import Iterable, Iterator

from data_pipelines.builds import document_slices, duplicate_search
from data_pipelines.builds.document_options import DocumentOptions
from data_pipelines.builds.document_slices import Slice
from data_pipelines.builds.errors import BuildError
from data_pipelines.builds.text_counts import TextCounter
from data_pipelines.cleaning import steps
from data_pipelines.cleaning.drop_counts import DropCounter
from data_pipelines.readers import Document, RejectedDocument, get_reader
from seg_tf.data import examples, record_schema
from seg_tf.data.manifest import SPLITS, shard_name
from seg_tf.text import encoding
from seg_tf.text.splitters import SentenceFunctionError, load_parameters, make_splitter
from seg_tf.text.tree import DocumentTree, TreeBuilder

# Documents are encoded in batches of about this many characters, so that memory
# stays small and the tokeniser's calls stay large.
_BATCH_CHARACTERS = 1 << 19


class SliceMaker:
    """Makes the train and the validation shard of a slice.

    Args:
        options: the build's options.
        duplicates: what `duplicate_search.find_duplicates` returns.
    """

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
        self._no_token = (
            ("no_word_pieces", "word piece")
            if tokenizer == encoding.WORD_PIECES
            else ("no_words", "word")
        )
        self._widths = record_schema.number_widths(vocabulary.size, None)
        self._counter = TextCounter(vocabulary)

    def make(self, payload: Slice, folder: pathlib.Path) -> dict:
        """Writes the shards of a slice.

        Args:
            payload: the slice.
            folder: where the shards go.

        Returns:
            The task's report: the shards' manifest entries, the rejected documents,
            what cleaning dropped, where there are such steps, and where reading goes
            on.
        """
        rejected = copy.deepcopy(payload.rejected)
        reason, token = self._no_token
        items = {split: [] for split in SPLITS}
        documents = document_slices.parsed_documents(
            self._options, self._reader, payload, rejected
        )
        counter = None
        if self._options.cleaning.is_on:
            cleaning_steps = list(self._steps)
            if self._duplicates is not None:
                repeated = duplicate_search.duplicates_of_slice(
                    self._duplicates, payload
                )
                cleaning_steps.append(steps.Duplicates(repeated))
            counter = DropCounter([step.name for step in cleaning_steps])
            documents = steps.clean(documents, cleaning_steps, counter)
        for document_id, document, tree in self._with_trees(documents):
            if len(tree.token_ids):
                split = self._options.split_of(document_id, document.source)
                items[split].append((tree, document_id, None))
            else:
                message = (
                    f"expected text, found characters that make no {token} (control "
                    "characters only)"
                )
                rejected.add(
                    RejectedDocument(
                        document.source, document.location, reason, message
                    )
                )
        shards = {}
        for split in SPLITS:
            path = folder / shard_name(split, payload.number)
            shard = examples.write_trees(path, items[split], self._widths)
            counts = self._counter.count(tree for tree, _, _ in items[split])
            shards[split] = {**vars(shard), **counts}
        report = {
            "shards": shards,
            "rejected": rejected.listed,
            "counted": rejected.counted,
            **payload.described(),
        }
        return report if counter is None else {**report, "cleaning": counter.report()}

    def _with_trees(
        self, documents: Iterable[tuple[int, Document]]
    ) -> Iterator[tuple[int, Document, DocumentTree]]:
        batch, characters = [], 0
        for document_id, document in documents:
            batch.append((document_id, document))
            characters += document.num_characters
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
            raise BuildError(f"{_place(error.paragraph, batch)}: {error}") from error
        for (document_id, document), tree in zip(batch, trees, strict=True):
            if self._paragraph_end is not None:
                tree = tree.with_paragraph_ends(self._paragraph_end)
            yield document_id, document, tree


def _place(paragraph: str, batch: list[tuple[int, Document]]) -> str:
    """The first document of a batch that has a paragraph, for errors."""
    documents = (document for _, document in batch if paragraph in document.paragraphs)
    document = next(documents)
    return f"{document.source}, {document.location}"
