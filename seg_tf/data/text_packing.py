"""Splits windows into texts, packs the texts into rows, and reads the rows (ReAT).

Shape key: S sentences, X texts, W windows, R rows, N sentences of a row, L row length.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np

from seg_tf.data import packing
from seg_tf.data.packing import Packs
from seg_tf.data.window_records import WindowRecords
from seg_tf.layouts.blocks import NUM_SPECIAL_TOKENS, place_in_blocks, split_long

# Fill of rows in the first attempt, and its reduction for rows that fail.
_FIRST_SHARE = 0.985
_STEP = 0.95
# Rows with this fill never fail.
_CERTAIN_SHARE = 0.5
# Number of rows whose sentences are placed together, which limits memory.
_ROWS_PER_BATCH = 4096


@dataclasses.dataclass(frozen=True)
class RowShape:
    """Capacity of a row in blocks and in sentences, which do not cross blocks."""

    num_blocks: int
    block_length: int
    num_sentences: int

    @property
    def length(self) -> int:
        return self.num_blocks * self.block_length

    @property
    def widths(self) -> dict[str, int]:
        names = ("lengths", "text_of_sentence", "place", "sentence_part")
        return {"pieces": self.length, **dict.fromkeys(names, self.num_sentences)}


@dataclasses.dataclass(frozen=True)
class TextShape:
    """Limits of a text: sentence length with special tokens, and sentence count."""

    sentence_length: int
    max_sentences: int

    @property
    def max_pieces(self) -> int:
        return self.sentence_length - NUM_SPECIAL_TOKENS


@dataclasses.dataclass(frozen=True)
class Texts:
    """Texts that partition the sentences of a split. Sentence parts count as sentences.

    Attributes:
        positions: uint16 array `(S,)`. Length of each sentence with its special tokens.
        is_begin: bool array `(S,)`. False for the second and later parts of a sentence.
        firsts: int64 array `(X,)`. Index of the first sentence of each text.
        counts: int32 array `(X,)`. Number of sentences of each text.
        windows: int64 array `(X,)`. Index of the window of each text.
        window_firsts: int64 array `(W,)`. Index of the first sentence of each window.
    """

    positions: np.ndarray
    is_begin: np.ndarray
    firsts: np.ndarray
    counts: np.ndarray
    windows: np.ndarray
    window_firsts: np.ndarray

    def __len__(self) -> int:
        return len(self.firsts)

    @property
    def sizes(self) -> np.ndarray:
        """Length of each text, int64 `(X,)`."""
        ends = np.concatenate([[0], np.cumsum(self.positions, dtype=np.int64)])
        return ends[self.firsts + self.counts] - ends[self.firsts]

    def halved(self, which: np.ndarray) -> tuple["Texts", np.ndarray]:
        """Halves the texts `which`. Returns all texts and the indices of the halves."""
        firsts, sizes = self.firsts[which], self.counts[which]
        cuts = _whole(self.is_begin, firsts, firsts + sizes // 2)
        halves = (cuts - firsts).astype(np.int32)
        counts = self.counts.copy()
        counts[which] = halves
        texts = dataclasses.replace(
            self,
            firsts=np.concatenate([self.firsts, cuts]),
            counts=np.concatenate([counts, sizes - halves]),
            windows=np.concatenate([self.windows, self.windows[which]]),
        )
        return texts, np.concatenate([which, np.arange(len(self), len(texts))])

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Concatenates parts, renumbering the sentences and windows of later parts."""
        sentences = np.cumsum([0, *(len(part.positions) for part in parts)])
        windows = np.cumsum([0, *(len(part.window_firsts) for part in parts)])
        shifted = [
            dataclasses.replace(
                part,
                firsts=part.firsts + first_sentence,
                windows=part.windows + first_window,
                window_firsts=part.window_firsts + first_sentence,
            )
            for part, first_sentence, first_window in zip(
                parts, sentences, windows, strict=False
            )
        ]
        columns = zip(*(vars(part).values() for part in shifted), strict=True)
        return cls(*map(np.concatenate, columns))


def cut_texts(
    sentence_lengths: np.ndarray,
    num_sentences: np.ndarray,
    shape: TextShape,
    row: RowShape,
) -> Texts:
    """Splits windows into texts, each as long as `shape` and a row allow.

    The parts of a split sentence belong to one text if they fit. `sentence_lengths`,
    int `(S,)`, are in pieces, and `num_sentences`, int `(W,)`, are per window.
    """
    pieces, part = split_long(sentence_lengths, shape.max_pieces)
    positions = pieces + NUM_SPECIAL_TOKENS
    is_begin = np.append(part == 0, True)
    ends = np.concatenate([[0], np.cumsum(num_sentences, dtype=np.int64)])
    bounds = np.flatnonzero(is_begin)[ends]
    cuts = []
    # Each step finds one text per window, because the next text begins at its end.
    window, first = np.arange(len(num_sentences)), bounds[:-1]
    before = np.concatenate([[0], np.cumsum(positions, dtype=np.int64)])
    max_sentences = min(shape.max_sentences, row.num_sentences)
    room = int(_FIRST_SHARE * row.length)
    while len(window):
        stop = np.searchsorted(before, before[first] + room, side="right") - 1
        stop = np.maximum(np.minimum(stop, first + max_sentences), first + 1)
        stop = _whole(is_begin, first, np.minimum(stop, bounds[window + 1]))
        cuts.append(np.stack([first, stop, window]))
        has_more = stop < bounds[window + 1]
        window, first = window[has_more], stop[has_more]
    firsts, stops, windows = np.concatenate([*cuts, np.zeros((3, 0), np.int64)], axis=1)
    order = np.argsort(firsts)
    return Texts(
        positions=positions.astype(np.uint16),
        is_begin=is_begin[:-1],
        firsts=firsts[order],
        counts=(stops - firsts)[order].astype(np.int32),
        windows=windows[order],
        window_firsts=bounds[:-1],
    )


def _whole(is_begin: np.ndarray, firsts: np.ndarray, stops: np.ndarray) -> np.ndarray:
    """Moves `stops` back to sentence beginnings, unless a text would become empty."""
    moved = stops.copy()
    is_torn = ~is_begin[moved]
    while is_torn.any():
        moved[is_torn] -= 1
        is_torn = ~is_begin[moved] & (moved > firsts)
    return np.where(moved > firsts, moved, stops)


def pack_texts(texts: Texts, row: RowShape, *, seed: int) -> tuple[Texts, Packs]:
    """Packs texts into few rows whose sentences fit into blocks.

    Rows whose sentences do not fit are packed again with a lower fill. A text that does
    not fit into an empty row is split in half. Returns texts and rows of text indices.
    """
    rows: list[np.ndarray] = []
    left, share = np.arange(len(texts)), _FIRST_SHARE
    while len(left):
        capacity = max(int(share * row.length), row.block_length)
        # The number of sentences per row is limited, too.
        counts = texts.counts[left].astype(np.int64)
        slots = -(-counts * row.length // row.num_sentences)
        sizes = np.minimum(np.maximum(texts.sizes[left], slots), capacity)
        packs = packing.pack(sizes, capacity, len(left), seed=seed)
        groups = np.split(left[packs.members], packs.offsets[1:-1])
        fits = np.concatenate(list(_fits(texts, groups, row)))
        failed: list[np.ndarray] = []
        for members, fit in zip(groups, fits, strict=True):
            (rows if fit else failed).append(members)
        single = [members for members in failed if len(members) == 1]
        left = np.concatenate([left[:0], *(some for some in failed if len(some) > 1)])
        if single:
            texts, halves = texts.halved(np.concatenate(single))
            left = np.concatenate([left, halves])
        share = max(share * _STEP, _CERTAIN_SHARE)
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return texts, Packs(offsets, np.concatenate([left[:0], *rows]))


def sentence_matrix(texts: Texts, rows: list[np.ndarray]) -> np.ndarray:
    """Returns the sentence lengths of rows of texts, int32 `(R, N)`, padded with 0."""
    counts = [int(texts.counts[members].sum()) for members in rows]
    matrix = np.zeros((len(rows), max(counts, default=0)), np.int32)
    members = np.concatenate([*rows, np.zeros(0, np.int64)])
    sizes = texts.counts[members]
    begins = np.repeat(texts.firsts[members] - (np.cumsum(sizes) - sizes), sizes)
    is_sentence = np.arange(matrix.shape[1]) < np.array(counts)[:, np.newaxis]
    matrix[is_sentence] = texts.positions[begins + np.arange(len(begins))]
    return matrix


def _fits(texts: Texts, rows: list[np.ndarray], row: RowShape) -> Iterator[np.ndarray]:
    for begin in range(0, len(rows), _ROWS_PER_BATCH):
        lengths = sentence_matrix(texts, rows[begin : begin + _ROWS_PER_BATCH])
        _, succeeded = place_in_blocks(lengths, row.block_length, row.num_blocks)
        yield succeeded.numpy() & (
            np.count_nonzero(lengths, axis=1) <= row.num_sentences
        )


class TextRows:
    """The texts of a split for one `TextShape`, packed into rows."""

    def __init__(
        self, windows: WindowRecords, shape: TextShape, row: RowShape, seed: int
    ):
        self._windows = windows
        self._shape = shape
        self._row = row
        texts, rows = [], []
        groups = packing.groups_of_shards(windows.manifest, windows.split, "sentences")
        for shards in groups:
            cut = cut_texts(*windows.sentence_lengths(shards), shape, row)
            packed, packs = pack_texts(cut, row, seed=seed)
            texts.append(packed)
            rows.append(packs)
        self._texts, self._rows = Texts.joined(texts), Packs.joined(rows)
        self.num_tokens = int(self._texts.positions.sum(dtype=np.int64))

    def __len__(self) -> int:
        return len(self._rows)

    def windows_of(self, rows: np.ndarray) -> np.ndarray:
        members, _ = self._rows.of_rows(rows)
        return np.unique(self._texts.windows[members])

    def read(self, number: int) -> dict[str, np.ndarray]:
        """Reads a row as int32 arrays by name, padded with 0 to `RowShape.widths`."""
        texts = self._texts
        members, _ = self._rows.of_rows(np.array([number]))
        (positions,) = sentence_matrix(texts, [members])
        counts = texts.counts[members]
        pieces, parts = self._read_pieces(members)
        values = {
            "pieces": pieces,
            "lengths": positions - NUM_SPECIAL_TOKENS,
            "text_of_sentence": np.repeat(np.arange(1, len(members) + 1), counts),
            "place": np.concatenate([np.arange(count) for count in counts]),
            "sentence_part": parts,
        }
        row = {}
        for name, width in self._row.widths.items():
            row[name] = np.zeros(width, np.int32)
            row[name][: len(values[name])] = values[name]
        return row

    def _read_pieces(self, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        texts = self._texts
        windows = texts.windows[members]
        firsts = texts.firsts[members] - texts.window_firsts[windows]
        pieces, parts = [], []
        trees = self._windows.read_trees(windows.tolist())
        for tree, first, count in zip(
            trees, firsts, texts.counts[members], strict=True
        ):
            lengths, part = split_long(tree.sentence_lengths, self._shape.max_pieces)
            begin, end = lengths[:first].sum(), lengths[: first + count].sum()
            pieces.append(tree.token_ids[begin:end])
            parts.append(part[first : first + count])
        return np.concatenate(pieces), np.concatenate(parts)
