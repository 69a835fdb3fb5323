"""Measurements of documents for the report: one pass, in bounded memory."""

import array
import dataclasses
import itertools
import pathlib
import random
from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from data_pipelines.builds.window_cutting import cut_windows
from seg_tf import command_line
from seg_tf.config import EncoderConfig
from seg_tf.data import examples, packing, shards
from seg_tf.data.configs import PackedWindowInputsConfig
from seg_tf.data.manifest import (
    NUM_SPECIAL_TOKENS,
    SPLITS,
    Manifest,
    shard_paths,
)
from seg_tf.text import encoding
from seg_tf.text.tree import DocumentTree

WINDOW_LENGTHS = (128, 256, 512, 1024, 2048)
# Rows of SegaBERT's index tables, the encoder's defaults.
CAPS: Mapping[str, int] = EncoderConfig().index_tables
_MAX_WINDOWS_PER_ROW = PackedWindowInputsConfig().max_windows_per_row
_SEED = 0


class LengthCounts:
    """Lengths, with their mean, quantiles and histogram."""

    def __init__(self):
        self._counts: Counter[int] = Counter()  # Memory for distinct lengths only.

    def add(self, lengths: Iterable[int]) -> None:
        """Counts some lengths, each at least 1."""
        self._counts.update(map(int, lengths))

    @property
    def number(self) -> int:
        return self._counts.total()

    @property
    def mean(self) -> float:
        return sum(length * n for length, n in self._counts.items()) / self.number

    @property
    def longest(self) -> int:
        return max(self._counts)

    def quantile(self, share: float) -> int:
        """The shortest length that at least this share does not exceed."""
        lengths = sorted(self._counts)
        reached = np.cumsum([self._counts[length] for length in lengths])
        return lengths[np.argmax(reached >= share * self.number)]

    def binned(self) -> list[tuple[int, int, int]]:
        """First length, last length and count of each bin, two bins a doubling."""
        firsts = [1] + [
            first
            for power in range(1, self.longest.bit_length() + 1)
            for first in (2**power, 3 * 2 ** (power - 1))
        ]
        bins = [
            (first, after - 1, sum(self._counts[n] for n in range(first, after)))
            for first, after in itertools.pairwise(firsts)
        ]
        counted = [number for number, (*_, count) in enumerate(bins) if count]
        return bins[counted[0] : counted[-1] + 1]


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
    chosen = range(len(reader))
    if len(reader) > max_documents:
        chosen = sorted(random.Random(_SEED).sample(chosen, max_documents))
    found = Measurements(manifest, len(chosen), len(reader))
    with command_line.progress_bar(len(chosen), "report", "documents") as bar:
        for number in chosen:
            tree, document_id, _ = examples.decode(
                reader[number], manifest.number_widths
            )
            found.add(tree, document_id)
            bar.update()
    return found
