"""Texts of a split (ReAT): cut from its windows, packed into rows, and read."""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from seg_tf.data import packing
from seg_tf.data.packing import Packs
from seg_tf.data.window_records import WindowRecords
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
    """Capacity of a row. No sentence lies in two blocks."""

    num_blocks: int
    block_length: int
    num_sentences: int

    @property
    def length(self) -> int:
        """Positions of the row."""
        return self.num_blocks * self.block_length

    @property
    def widths(self) -> dict[str, int]:
        """Length of each array that is read of a row, before anything is drawn."""
        names = ("lengths", "starts", "text_of_sentence", "place", "sentence_part")
        return {"pieces": self.length, **dict.fromkeys(names, self.num_sentences)}


@dataclasses.dataclass(frozen=True)
class TextShape:
    """Limits of a text: positions of a sentence, and number of sentences."""

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


class TextsOfAKind:
    """All texts of a split that are cut alike, and their rows."""

    def __init__(
        self, windows: WindowRecords, shape: TextShape, row: RowShape, seed: int
    ):
        self._windows = windows
        self._shape = shape
        self._row = row
        groups = packing.groups_of_shards(windows.manifest, windows.split, "sentences")
        plan = packing.planned(
            windows,
            groups,
            _parts(windows, groups, shape, row, seed),
            settings={
                "rows": "texts",
                "text": dataclasses.asdict(shape),
                "row": dataclasses.asdict(row),
                "seed": seed,
            },
        )
        names = {field.name for field in dataclasses.fields(Texts)} - {"is_begin"}
        self._texts = Texts(is_begin=None, **{name: plan[name] for name in names})
        self._rows = Packs(plan["offsets"], plan["members"])
        self.num_tokens = int(plan["num_tokens"].sum())
        # Those that packing cut in two are two.
        self.num_texts = len(self._texts)

    def __len__(self) -> int:
        return len(self._rows)

    def read(self, number: int) -> dict[str, np.ndarray]:
        """Parts of a row: arrays `(L,)` and `(N,)`, padded with 0."""
        texts = self._texts
        members, _ = self._rows.of_rows(np.array([number]))
        (positions,) = sentence_matrix(texts, [members])
        starts, _ = block_placing.place_in_blocks(
            positions[np.newaxis], self._row.num_blocks, self._row.block_length
        )
        counts = texts.counts[members]
        lengths = positions - block_placing.NUM_SPECIAL_TOKENS
        pieces, parts = self._read_pieces(members, lengths)
        values = {
            "pieces": pieces,
            "lengths": lengths,
            "starts": starts[0],
            "text_of_sentence": np.repeat(np.arange(1, len(members) + 1), counts),
            "place": np.concatenate([np.arange(count) for count in counts]),
            "sentence_part": parts,
        }
        row = {}
        for name, width in self._row.widths.items():
            row[name] = np.zeros(width, np.int32)
            row[name][: len(values[name])] = values[name]
        return row

    def windows_of(self, rows: np.ndarray) -> np.ndarray:
        members, _ = self._rows.of_rows(rows)
        return np.unique(self._texts.windows[members])

    def _read_pieces(
        self, members: np.ndarray, expected: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Pieces of some texts, and which part of a sentence each of theirs is."""
        texts = self._texts
        windows = texts.windows[members]
        firsts = texts.firsts[members] - texts.window_firsts[windows]
        pieces, parts, found = [], [], []
        trees = self._windows.trees(windows.tolist())
        for tree, first, count in zip(
            trees, firsts, texts.counts[members], strict=True
        ):
            lengths, part = block_placing.split_long(
                tree.sentence_lengths, self._shape.max_pieces
            )
            begin, end = lengths[:first].sum(), lengths[: first + count].sum()
            pieces.append(tree.token_ids[begin:end])
            parts.append(part[first : first + count])
            found.append(lengths[first : first + count])
        if not np.array_equal(np.concatenate(found), expected):
            raise ValueError(
                f"{self._windows.records_dir}: the sentences of windows "
                f"{sorted(set(windows.tolist()))} ({self._windows.split}) have other "
                "lengths than the files beside the shards say. These were replaced or "
                "damaged: remove *.sentence_lengths and run `python -m "
                "data_pipelines.build_windows` again"
            )
        return np.concatenate(pieces), np.concatenate(parts)


def _parts(
    windows: WindowRecords,
    groups: Sequence[range],
    shape: TextShape,
    row: RowShape,
    seed: int,
) -> Iterator[packing.Arrays]:
    """The plan of rows, group by group; everything is numbered through all of them."""
    first_sentence = first_text = first_window = 0
    first_offset = np.zeros(1, np.int64)
    for shards in groups:
        lengths, counts = windows.sentence_lengths(shards)
        texts = cut_texts(lengths, counts, shape, row)
        num_tokens = texts.positions.sum(dtype=np.int64, keepdims=True)
        texts, rows = pack_texts(texts, row, seed=seed)
        yield {
            "positions": texts.positions,
            "firsts": first_sentence + texts.firsts,
            "counts": texts.counts,
            "windows": first_window + texts.windows,
            "window_firsts": first_sentence + texts.window_firsts,
            "offsets": np.append(first_offset, first_text + rows.offsets[1:]),
            "members": first_text + rows.members,
            "num_tokens": num_tokens,
        }
        first_sentence += len(texts.positions)
        first_text += len(texts)
        first_window += len(counts)
        first_offset = first_offset[:0]
