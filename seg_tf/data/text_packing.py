"""Cutting of a split into texts, and packing of texts into rows (ReAT)."""

import dataclasses
from collections.abc import Iterator

import numpy as np

from seg_tf.data import packing
from seg_tf.data.packing import Packs
from seg_tf.layouts import block_placing

# How full rows are planned to be at first, and by how much less those that fail.
_FIRST_SHARE = 0.985
_STEP = 0.95
# Rows that are full to so much never fail.
_CERTAIN_SHARE = 0.5
# Rows whose sentences are placed at once: what bounds the memory of a large split.
_ROWS_AT_ONCE = 4096


@dataclasses.dataclass(frozen=True)
class RowShape:
    """Capacity of a row.

    Attributes:
        num_blocks: its blocks.
        block_length: positions of a block; no sentence reaches over two.
        num_sentences: the most sentences.
    """

    num_blocks: int
    block_length: int
    num_sentences: int

    @property
    def length(self) -> int:
        """Positions of the row."""
        return self.num_blocks * self.block_length


@dataclasses.dataclass(frozen=True)
class TextShape:
    """Limits of a text.

    Attributes:
        sentence_length: positions of a sentence, special tokens included.
        max_sentences: its sentences.
    """

    sentence_length: int
    max_sentences: int

    @property
    def max_pieces(self) -> int:
        """The most word pieces of a sentence."""
        return self.sentence_length - block_placing.NUM_SPECIAL_TOKENS


@dataclasses.dataclass(frozen=True)
class Texts:
    """The texts of a split: runs of its sentences, each sentence in one of them.

    What was cut out of a longer sentence is a sentence here.

    Attributes:
        positions: uint16 array `(S,)`, positions of each sentence of the split.
        is_begin: bool array `(S + 1,)`, whether it is none or the first part of what
            was cut; and True for the end. None of texts that are packed already.
        firsts: int64 array `(X,)`, the first sentence of each text.
        counts: int32 array `(X,)`, how many it has.
        windows: int64 array `(X,)`, the window it is from.
        window_firsts: int64 array `(W,)`, the first sentence of each window.
    """

    positions: np.ndarray
    is_begin: np.ndarray | None
    firsts: np.ndarray
    counts: np.ndarray
    windows: np.ndarray
    window_firsts: np.ndarray

    def __len__(self) -> int:
        return len(self.firsts)

    @property
    def sizes(self) -> np.ndarray:
        """Positions of each text: int64 array `(X,)`."""
        ends = np.concatenate([[0], np.cumsum(self.positions, dtype=np.int64)])
        return ends[self.firsts + self.counts] - ends[self.firsts]

    def halved(self, which: np.ndarray) -> tuple["Texts", np.ndarray]:
        """With some texts cut in two; also the numbers of what was cut."""
        assert self.is_begin is not None, "these texts are packed already"
        firsts, sizes = self.firsts[which], self.counts[which]
        cuts = _whole(self.is_begin, firsts, firsts + sizes // 2)
        halves = (cuts - firsts).astype(np.int32)
        counts = self.counts.copy()
        counts[which] = halves
        added = dataclasses.replace(
            self,
            firsts=np.concatenate([self.firsts, cuts]),
            counts=np.concatenate([counts, sizes - halves]),
            windows=np.concatenate([self.windows, self.windows[which]]),
        )
        return added, np.concatenate([which, np.arange(len(self), len(added))])


def cut_texts(
    sentence_lengths: np.ndarray,
    num_sentences: np.ndarray,
    shape: TextShape,
    row: RowShape,
) -> Texts:
    """Cuts windows into texts, each as long as it may be and fits a row.

    A sentence that was cut into parts is not torn between two texts unless it is
    longer than a text.

    Args:
        sentence_lengths: int array, pieces of every sentence, window by window.
        num_sentences: int array `(W,)`, sentences of each window.
        shape: how long texts may be.
        row: what a row has room for.
    """
    pieces, part = block_placing.split_long(sentence_lengths, shape.max_pieces)
    positions = pieces + block_placing.NUM_SPECIAL_TOKENS
    is_begin = np.append(part == 0, True)
    ends = np.concatenate([[0], np.cumsum(num_sentences, dtype=np.int64)])
    bounds = np.flatnonzero(is_begin)[ends]
    cuts = []
    # A text of every window at a time, since where it ends the next one begins.
    window, first = np.arange(len(num_sentences)), bounds[:-1]
    before = np.concatenate([[0], np.cumsum(positions, dtype=np.int64)])
    most = min(shape.max_sentences, row.num_sentences)
    room = int(_FIRST_SHARE * row.length)
    while len(window):
        stop = np.searchsorted(before, before[first] + room, side="right") - 1
        stop = np.maximum(np.minimum(stop, first + most), first + 1)
        stop = _whole(is_begin, first, np.minimum(stop, bounds[window + 1]))
        cuts.append(np.stack([first, stop, window]))
        has_more = stop < bounds[window + 1]
        window, first = window[has_more], stop[has_more]
    firsts, stops, windows = np.concatenate([*cuts, np.zeros((3, 0), np.int64)], axis=1)
    order = np.argsort(firsts)
    return Texts(
        positions=positions.astype(np.uint16),
        is_begin=is_begin,
        firsts=firsts[order],
        counts=(stops - firsts)[order].astype(np.int32),
        windows=windows[order],
        window_firsts=bounds[:-1],
    )


def _whole(is_begin: np.ndarray, firsts: np.ndarray, stops: np.ndarray) -> np.ndarray:
    """Stops moved back to where a sentence begins, unless nothing would be left."""
    moved = stops.copy()
    is_torn = ~is_begin[moved]
    while is_torn.any():
        moved[is_torn] -= 1
        is_torn = ~is_begin[moved] & (moved > firsts)
    return np.where(moved > firsts, moved, stops)


def pack_texts(texts: Texts, row: RowShape, *, seed: int) -> tuple[Texts, Packs]:
    """Packs texts into few rows, in which their sentences find room.

    Rows are planned by positions alone; those whose sentences then do not fit into
    their blocks are taken apart and planned less full. A text that does not fit even
    alone is cut in two.

    Args:
        texts: what `cut_texts` returned.
        row: what a row has room for.
        seed: names the draw of which texts meet.

    Returns:
        The texts, maybe more of them, and the rows that they make.
    """
    rows: list[np.ndarray] = []
    left, share = np.arange(len(texts)), _FIRST_SHARE
    while len(left):
        capacity = max(int(share * row.length), row.block_length)
        # A sentence takes its part of the slots for sentences as well.
        slots = -(
            -texts.counts[left].astype(np.int64) * row.length // row.num_sentences
        )
        sizes = np.maximum(texts.sizes[left], slots)
        packs = packing.pack(
            np.minimum(sizes, capacity), capacity, len(left), seed=seed
        )
        members = np.split(left[packs.members], packs.offsets[1:-1])
        fits = np.concatenate(list(_fits(texts, members, row)))
        rows += [one for one, fit in zip(members, fits, strict=True) if fit]
        failed = [one for one, fit in zip(members, fits, strict=True) if not fit]
        alone = [one for one in failed if len(one) == 1]
        left = np.concatenate([left[:0], *(one for one in failed if len(one) > 1)])
        if alone:
            texts, halves = texts.halved(np.concatenate(alone))
            left = np.concatenate([left, halves])
        share = max(share * _STEP, _CERTAIN_SHARE)
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return texts, Packs(offsets, np.concatenate([left[:0], *rows]))


def sentence_matrix(texts: Texts, members: list[np.ndarray]) -> np.ndarray:
    """Positions of the sentences of rows, int32 `(R, N)`, padded with 0."""
    counts = [int(texts.counts[one].sum()) for one in members]
    matrix = np.zeros((len(members), max(counts, default=0)), np.int32)
    everything = np.concatenate([*members, np.zeros(0, np.int64)])
    sizes = texts.counts[everything]
    begins = np.repeat(texts.firsts[everything] - (np.cumsum(sizes) - sizes), sizes)
    is_sentence = np.arange(matrix.shape[1]) < np.array(counts)[:, np.newaxis]
    matrix[is_sentence] = texts.positions[begins + np.arange(len(begins))]
    return matrix


def _fits(
    texts: Texts, members: list[np.ndarray], row: RowShape
) -> Iterator[np.ndarray]:
    """Mask of rows whose sentences all fit, some thousand rows at a time."""
    for begin in range(0, len(members), _ROWS_AT_ONCE):
        lengths = sentence_matrix(texts, members[begin : begin + _ROWS_AT_ONCE])
        _, succeeded = block_placing.place_in_blocks(
            lengths, row.num_blocks, row.block_length
        )
        yield succeeded & (np.count_nonzero(lengths, axis=1) <= row.num_sentences)
