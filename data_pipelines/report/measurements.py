"""Measurements of documents for the report: one pass, in bounded memory."""

import array
import dataclasses
import pathlib
import random
from collections.abc import Callable, Mapping

import numpy as np

from data_pipelines.builds.window_cutting import cut_windows
from data_pipelines.loading import packing
from data_pipelines.records import examples, shards
from data_pipelines.records.manifest import (
    NUM_SPECIAL_TOKENS,
    SPLITS,
    Manifest,
    shard_paths,
    vocabulary_path,
)
from data_pipelines.report.length_counts import LengthCounts
from seg_tf import command_line
from seg_tf.configuration import EncoderConfig
from seg_tf.configuration.inputs import PackedWindowInputsConfig
from seg_tf.text import encoding
from seg_tf.text.exact_tokenizer import Normalization
from seg_tf.text.tree import DocumentTree

WINDOW_LENGTHS = (128, 256, 512, 1024, 2048)
# Rows of SegaBERT's index tables, the encoder's defaults.
CAPS: Mapping[str, int] = EncoderConfig().index_tables
_MAX_WINDOWS_PER_ROW = PackedWindowInputsConfig().max_windows_per_row
# Beginnings of documents to show, and their sizes.
_NUM_BEGINNINGS = 10
_MAX_PARAGRAPHS = 4
_MAX_TOKENS = 160
_SEED = 0


@dataclasses.dataclass
class WindowCounts:
    """Windows of one length, whole sentences in each.

    Attributes:
        window_length: positions, `[CLS]` and `[SEP]` included.
        lengths: positions that each window takes.
        pieces: of all windows.
        pieces_slid: those whose paragraph index was lowered, with all of their window,
            to fit the table.
        pieces_clamped: those whose paragraph index does not fit even so.
    """

    window_length: int
    # 4 bytes a window: a corpus has millions.
    lengths: array.array = dataclasses.field(default_factory=lambda: array.array("i"))
    pieces: int = 0
    pieces_slid: int = 0
    pieces_clamped: int = 0

    def add(self, tree: DocumentTree, document_id: int) -> None:
        """Cuts a document into windows and counts them."""
        for window in cut_windows(
            tree,
            document_id,
            capacity=self.window_length - NUM_SPECIAL_TOKENS,
            short_window_rate=0.0,
            cut_sentences=False,
            seed=_SEED,
        ):
            num_pieces = len(window.tree.token_ids)
            self.lengths.append(num_pieces + NUM_SPECIAL_TOKENS)
            self.pieces += num_pieces
            self._count_capped(window.tree)

    def _count_capped(self, window: DocumentTree) -> None:
        cap, first = CAPS["paragraph_index"], window.first_index[0]
        excess = first + len(window.paragraph_lengths) - cap
        if excess > 0 and first > 0:
            self.pieces_slid += len(window.token_ids)
        if len(window.paragraph_lengths) > cap:
            places = window.indices()["paragraph_index"] - first
            self.pieces_clamped += int(np.sum(places >= cap))

    @property
    def padding(self) -> float:
        """Share of padding with a window a row."""
        return 1 - sum(self.lengths) / (len(self.lengths) * self.window_length)

    @property
    def packed_padding(self) -> float:
        """Share of padding where windows share rows."""
        rows = packing.pack(
            np.array(self.lengths), self.window_length, _MAX_WINDOWS_PER_ROW, seed=_SEED
        )
        return 1 - sum(self.lengths) / (len(rows) * self.window_length)


@dataclasses.dataclass(frozen=True)
class Beginning:
    """The text of a document's first paragraphs, as lists of sentences."""

    split: str
    document_id: int
    num_tokens: int
    paragraphs: list[list[str]]
    is_whole: bool


class Measurements:
    """Counts of the documents that were looked at.

    Args:
        manifest: that of the documents.
        num_documents: documents that are looked at.
        num_all_documents: documents that there are.

    Attributes:
        lengths: counts by what they are of.
        windows: by window length; none of documents of words.
        num_tokens: tokens that were looked at.
        over_cap: index name -> tokens whose index in the document is no row of the
            table; empty for documents of words.
        beginnings: of random documents.
    """

    def __init__(self, manifest: Manifest, num_documents: int, num_all_documents: int):
        self.num_documents = num_documents
        self.num_all_documents = num_all_documents
        names = (
            *("paragraphs a document", "sentences a paragraph"),
            *(f"{manifest.tokens_name} a {unit}" for unit in ("sentence", "document")),
        )
        self.lengths = {name: LengthCounts() for name in names}
        has_pieces = manifest.tokenizer == encoding.WORD_PIECES
        window_lengths = WINDOW_LENGTHS if has_pieces else ()
        self.windows = {length: WindowCounts(length) for length in window_lengths}
        self.over_cap = dict.fromkeys(CAPS, 0) if has_pieces else {}
        self.num_tokens = 0
        self.beginnings: list[Beginning] = []

    def add(self, tree: DocumentTree, document_id: int) -> None:
        """Counts a document."""
        num_tokens = len(tree.token_ids)
        sizes = (
            [len(tree.paragraph_lengths)],
            tree.paragraph_lengths,
            tree.sentence_lengths,
            [num_tokens],
        )
        for counts, lengths in zip(self.lengths.values(), sizes, strict=True):
            counts.add(lengths)
        for counts in self.windows.values():
            counts.add(tree, document_id)
        self.num_tokens += num_tokens
        if self.over_cap:
            indices = tree.indices()
            for name, cap in CAPS.items():
                self.over_cap[name] += int(np.sum(indices[name] >= cap))


def measure(folder: pathlib.Path, max_documents: int) -> Measurements:
    """Measures the documents of a folder, or an even random sample of them.

    Args:
        folder: what `build_documents` made.
        max_documents: how many documents to look at, at most.

    Raises:
        ValueError: if a shard is missing or damaged.
    """
    manifest = Manifest.load(folder)
    paths = [path for name in SPLITS for path in shard_paths(manifest, folder, name)]
    reader = shards.RecordReader(paths, in_order=True)
    generator = random.Random(_SEED)
    chosen = range(len(reader))
    if len(reader) > max_documents:
        chosen = sorted(generator.sample(chosen, max_documents))
    shown = set(generator.sample(chosen, min(_NUM_BEGINNINGS, len(chosen))))
    found = Measurements(manifest, len(chosen), len(reader))
    vocabulary = encoding.read_vocabulary(
        manifest.tokenizer, vocabulary_path(manifest, folder)
    )
    encoder = encoding.text_encoder(
        manifest.tokenizer,
        vocabulary,
        Normalization.from_described(manifest.vocabulary),
    )
    num_train = manifest.count("records", "train")
    with command_line.progress_bar(len(chosen), "report", "documents") as bar:
        for number in chosen:
            record = reader[number]
            tree, document_id, _ = examples.decode(record, manifest.number_widths)
            found.add(tree, document_id)
            if number in shown:
                split = "train" if number < num_train else "validation"
                paragraphs, is_whole = _beginning(tree, encoder.decode)
                num_tokens = len(tree.token_ids)
                found.beginnings.append(
                    Beginning(split, document_id, num_tokens, paragraphs, is_whole)
                )
            bar.update()
    return found


def _beginning(
    tree: DocumentTree, decode: Callable[[np.ndarray], str]
) -> tuple[list[list[str]], bool]:
    """Text of the first paragraphs, and whether that is all of a document."""
    begin, sentence, paragraphs = 0, 0, []
    for num_sentences in tree.paragraph_lengths[:_MAX_PARAGRAPHS]:
        sentences = []
        for length in tree.sentence_lengths[sentence : sentence + num_sentences]:
            end = min(begin + int(length), _MAX_TOKENS)
            if begin < end:
                sentences.append(decode(tree.token_ids[begin:end]))
            begin += int(length)
        sentence += num_sentences
        if sentences:
            paragraphs.append(sentences)
    return paragraphs, begin == len(tree.token_ids) <= _MAX_TOKENS
