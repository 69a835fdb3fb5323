"""Measurements of documents for the report: one pass, in bounded memory."""

import array
import pathlib
import random
from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from data_pipelines.builds.windows import cut_windows
from seg_tf import command_line
from seg_tf.config import EncoderConfig
from seg_tf.data import examples, packing, shards
from seg_tf.data.configs import PackedWindowInputsConfig
from seg_tf.data.manifest import NUM_SPECIAL_TOKENS, SPLITS, Manifest, shard_paths
from seg_tf.text import encoding
from seg_tf.text.tree import DocumentTree

WINDOW_LENGTHS = (128, 256, 512, 1024, 2048)
CAPS: Mapping[str, int] = EncoderConfig().index_tables
"""Rows of SegaBERT's index tables, the encoder's defaults."""
_MAX_WINDOWS_PER_ROW = PackedWindowInputsConfig().max_windows_per_row
_SEED = 0


class LengthCounts:
    """Counts of lengths, with their mean, quantiles and histogram."""

    def __init__(self):
        self._counts: Counter[int] = Counter()  # Memory only for distinct lengths.

    def add(self, lengths: Iterable[int]) -> None:
        """Counts lengths, each at least 1."""
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
        cumulated = np.cumsum([self._counts[length] for length in lengths])
        return lengths[np.argmax(cumulated >= share * self.number)]

    def binned(self) -> list[tuple[int, int, int]]:
        """First length, last length and count of each bin, two bins per doubling."""
        firsts = [1]
        for power in range(1, self.longest.bit_length() + 1):
            firsts += [2**power, 3 * 2 ** (power - 1)]
        lengths = np.array(list(self._counts))
        counts, _ = np.histogram(
            lengths, bins=firsts, weights=list(self._counts.values())
        )
        first, *_, last = np.flatnonzero(counts).repeat(2)
        return [
            (firsts[number], firsts[number + 1] - 1, int(counts[number]))
            for number in range(first, last + 1)
        ]


class WindowCounts:
    """Windows of one length, which consist of whole sentences.

    Attributes:
        window_length: positions, including `[CLS]` and `[SEP]`.
        lengths: used positions of each window.
        pieces: pieces of all windows.
        pieces_slid: pieces of windows whose paragraph indices were lowered to fit the
            table.
        pieces_clamped: pieces whose paragraph index exceeds the table nevertheless.
    """

    def __init__(self, window_length: int):
        self.window_length = window_length
        self.lengths = array.array("i")  # 4 bytes per window: a corpus has millions.
        self.pieces = self.pieces_slid = self.pieces_clamped = 0

    def add(self, tree: DocumentTree, document_id: int) -> None:
        """Cuts a document into windows and counts them."""
        cap = CAPS["paragraph_index"]
        for window, _ in cut_windows(
            tree,
            document_id,
            capacity=self.window_length - NUM_SPECIAL_TOKENS,
            short_window_rate=0.0,
            cut_sentences=False,
            seed=_SEED,
        ):
            num_pieces, first = len(window.token_ids), window.first_index[0]
            self.lengths.append(num_pieces + NUM_SPECIAL_TOKENS)
            self.pieces += num_pieces
            num_paragraphs = len(window.paragraph_lengths)
            if first > 0 and first + num_paragraphs > cap:
                self.pieces_slid += num_pieces
            if num_paragraphs > cap:
                places = window.indices()["paragraph_index"] - first
                self.pieces_clamped += int(np.sum(places >= cap))

    @property
    def padding(self) -> float:
        """Share of padding with one window per row."""
        return 1 - sum(self.lengths) / (len(self.lengths) * self.window_length)

    @property
    def packed_padding(self) -> float:
        """Share of padding where windows share rows."""
        rows = packing.pack(
            np.array(self.lengths), self.window_length, _MAX_WINDOWS_PER_ROW, seed=_SEED
        )
        return 1 - sum(self.lengths) / (len(rows) * self.window_length)


class Measurements:
    """Counts of the measured documents.

    Attributes:
        num_documents: measured documents.
        num_all_documents: all documents.
        lengths: name -> counts.
        windows: window length -> counts; empty for documents of words.
        num_tokens: measured tokens.
        over_cap: index name -> tokens whose index in the document exceeds the table;
            empty for documents of words.
    """

    def __init__(self, manifest: Manifest, num_documents: int, num_all_documents: int):
        self.num_documents = num_documents
        self.num_all_documents = num_all_documents
        tokens = manifest.tokens_name
        names = ("paragraphs a document", "sentences a paragraph")
        names += (f"{tokens} a sentence", f"{tokens} a document")
        self.lengths = {name: LengthCounts() for name in names}
        has_pieces = manifest.tokenizer == encoding.WORD_PIECES
        window_lengths = WINDOW_LENGTHS if has_pieces else ()
        self.windows = {length: WindowCounts(length) for length in window_lengths}
        self.over_cap = dict.fromkeys(CAPS, 0) if has_pieces else {}
        self.num_tokens = 0

    def add(self, tree: DocumentTree, document_id: int) -> None:
        """Counts a document."""
        num_tokens = len(tree.token_ids)
        sizes = ([len(tree.paragraph_lengths)], tree.paragraph_lengths)
        sizes += (tree.sentence_lengths, [num_tokens])
        for counts, lengths in zip(self.lengths.values(), sizes, strict=True):
            counts.add(lengths)
        for windows in self.windows.values():
            windows.add(tree, document_id)
        self.num_tokens += num_tokens
        if self.over_cap:
            indices = tree.indices()
            for name, cap in CAPS.items():
                self.over_cap[name] += int(np.sum(indices[name] >= cap))


def measure(folder: pathlib.Path, max_documents: int) -> Measurements:
    """Measures the documents of a folder, or a random sample of them.

    Args:
        folder: output of `build_documents`.
        max_documents: maximum number of documents to measure.

    Raises:
        ValueError: if a shard is missing or damaged.
    """
    manifest = Manifest.load(folder)
    paths = [path for name in SPLITS for path in shard_paths(manifest, folder, name)]
    reader = shards.RecordReader(paths, in_order=True)
    numbers = range(len(reader))
    if len(reader) > max_documents:
        numbers = sorted(random.Random(_SEED).sample(numbers, max_documents))
    measurements = Measurements(manifest, len(numbers), len(reader))
    with command_line.progress_bar(len(numbers), "report", "documents") as bar:
        for number in numbers:
            tree, document_id, _ = examples.decode(
                reader[number], manifest.number_widths
            )
            measurements.add(tree, document_id)
            bar.update()
    return measurements
