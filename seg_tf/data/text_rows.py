"""Windows as rows of texts, the texts as sentences (ReAT).

Shape key: B rows, L row length, N sentences of a row.
"""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from seg_tf.data import (
    randomness,
    row_plans,
    sample_order,
    text_packing,
)
from seg_tf.data.packing import Packs
from seg_tf.data.sentence_exchange import exchange
from seg_tf.data.text_packing import RowShape, Texts, TextShape
from seg_tf.data.window_records import WindowRecords
from seg_tf.layouts import block_placing, blocks

# Names of what is read of a row, before anything is drawn.
_PIECES = "pieces"
_PER_SENTENCE = ("lengths", "starts", "text_of_sentence", "place", "sentence_part")


class TextsOfAKind:
    """All texts of a split that are cut alike, and their rows.

    Args:
        windows: the windows of the split.
        shape: how long the texts may be.
        row: what a row has room for.
        seed: names the draw of which texts meet.
    """

    def __init__(
        self, windows: WindowRecords, shape: TextShape, row: RowShape, seed: int
    ):
        self._windows = windows
        self._shape = shape
        self._row = row
        groups = row_plans.groups_of_shards(
            windows.manifest, windows.split, "sentences"
        )
        plan = row_plans.planned(
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
        self._texts, self._rows = _from_plan(plan)
        self.num_tokens = int(plan["num_tokens"].sum())
        # Those that packing cut in two are two.
        self.num_texts = len(self._texts)

    def __len__(self) -> int:
        return len(self._rows)

    def read(self, number: int) -> dict[str, np.ndarray]:
        """Parts of a row: arrays `(L,)` and `(N,)`, padded with 0."""
        texts = self._texts
        members, _ = self._rows.of_rows(np.array([number]))
        (positions,) = text_packing.sentence_matrix(texts, [members])
        starts, _ = block_placing.place_in_blocks(
            positions[np.newaxis], self._row.num_blocks, self._row.block_length
        )
        counts = texts.counts[members]
        lengths = positions - block_placing.NUM_SPECIAL_TOKENS
        pieces, parts = self._read_pieces(members, lengths)
        values = {
            _PIECES: pieces,
            "lengths": lengths,
            "starts": starts[0],
            "text_of_sentence": np.repeat(np.arange(1, len(members) + 1), counts),
            "place": np.concatenate([np.arange(count) for count in counts]),
            "sentence_part": parts,
        }
        row = {}
        for name, found in values.items():
            capacity = self._row.length if name == _PIECES else self._row.num_sentences
            row[name] = np.zeros(capacity, np.int32)
            row[name][: len(found)] = found
        return row

    def windows_of(self, rows: np.ndarray) -> np.ndarray:
        """Numbers of the windows that rows are of: int64 array."""
        members, _ = self._rows.of_rows(rows)
        return np.unique(self._texts.windows[members])

    def _read_pieces(
        self, members: np.ndarray, expected: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Pieces of some texts, and which part of a sentence each of theirs is.

        Args:
            members: the texts.
            expected: the lengths of their sentences that the row was planned with.

        Raises:
            ValueError: if the records hold others.
        """
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
) -> Iterator[row_plans.Arrays]:
    """The plan of rows, group by group; everything is numbered through all of them."""
    first_sentence = first_text = first_window = 0
    first_offset = np.zeros(1, np.int64)
    for shards in groups:
        lengths, counts = windows.sentence_lengths(shards)
        texts = text_packing.cut_texts(lengths, counts, shape, row)
        num_tokens = texts.positions.sum(dtype=np.int64, keepdims=True)
        texts, rows = text_packing.pack_texts(texts, row, seed=seed)
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


def _from_plan(plan: row_plans.Arrays) -> tuple[Texts, Packs]:
    names = {field.name for field in dataclasses.fields(Texts)} - {"is_begin"}
    texts = Texts(is_begin=None, **{name: plan[name] for name in names})
    return texts, Packs(plan["offsets"], plan["members"])


class TextRows:
    """Reads rows of both kinds.

    An epoch is all rows of short texts and, so that their share is the rate, rows of
    long ones, drawn anew for each epoch. If all are to be long, it is those.

    Args:
        windows: the windows of the split.
        special_ids: ids of the special tokens.
        row: what a row has room for.
        short: rows of short texts.
        long: rows of long texts.
        long_rate: share of the rows that are of long texts.
        exchange_rate: share of the whole sentences that are displaced.
        exchange_within: "text" if they change places in their text, "row" if among all
            texts of their row.
    """

    parts = "texts"

    def __init__(
        self,
        windows: WindowRecords,
        special_ids: block_placing.SpecialIds,
        row: RowShape,
        short: TextsOfAKind,
        long: TextsOfAKind,
        long_rate: float,
        exchange_rate: float,
        exchange_within: str,
    ):
        self._windows = windows
        self._special_ids = special_ids
        self._row = row
        self._widths = {
            _PIECES: row.length,
            **dict.fromkeys(_PER_SENTENCE, row.num_sentences),
        }
        self._kinds = (short, long)
        self._num_short, self._num_long = _shares(len(short), len(long), long_rate)
        self._exchange_rate = exchange_rate
        self._exchange_within = exchange_within
        self.row_length = row.length
        self.num_tokens = self._in_an_epoch(short.num_tokens, long.num_tokens)
        self.num_parts = self._in_an_epoch(short.num_texts, long.num_texts)

    def _in_an_epoch(self, *of_kinds: int) -> int:
        """Total of an epoch of a count that the rows of either kind have."""
        counts = (self._num_short, self._num_long)
        return sum(
            round(number * count / max(len(kind), 1))
            for number, count, kind in zip(of_kinds, counts, self._kinds, strict=True)
        )

    def __len__(self) -> int:
        return self._num_short + self._num_long

    def __call__(
        self, numbers: tf.Tensor, epoch_places: tf.Tensor, epoch_streams: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        streams = randomness.extend_key(epoch_streams, epoch_places)
        row = self._read(numbers, self._long_numbers(numbers, epoch_streams))
        texts, places, is_moved, can_move = self._exchange(row, streams)
        number = row["sentence_number"]
        masked = self._windows.masking(
            row["token_ids"], tf.where(row.pop("is_piece"), number, 0), streams
        )
        return {
            **row,
            "text_number": _at_positions(texts, number),
            "sentence_position": _at_positions(places, number),
            "sentence_mask": texts > 0,
            "is_moved": is_moved,
            "can_move": can_move,
            **masked,
        }

    def _exchange(
        self, row: dict[str, tf.Tensor], streams: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        """Text and place of each sentence, and whether it moved and could have."""
        texts, places = row.pop("text_of_sentence"), row.pop("place")
        # What changes hands is a seat: a text and a place in it.
        seats = tf.broadcast_to(tf.range(tf.shape(texts)[1]), tf.shape(texts))
        groups = texts
        if self._exchange_within == "row":
            groups = tf.cast(texts > 0, tf.int32)
        # Parts of a cut sentence stay: their equal lengths would tell which were moved.
        part = row["sentence_part"]
        is_cut = (part > 0) | (tf.pad(part, [[0, 0], [0, 1]])[:, 1:] > 0)
        groups = tf.where(is_cut, 0, groups)
        seats, is_moved, can_move = exchange(
            groups, seats, streams, self._exchange_rate
        )
        texts, places = (
            tf.gather(values, seats, batch_dims=1) for values in (texts, places)
        )
        return texts, places, is_moved, can_move

    def _long_numbers(self, numbers: tf.Tensor, epoch_streams: tf.Tensor) -> tf.Tensor:
        """Row of long texts of each number; any value where it is of short texts."""
        available = max(len(self._kinds[1]), 1)
        # Negative, since the streams of samples are named by places from 0.
        streams = randomness.extend_key(epoch_streams, -randomness.LONG_TEXTS)
        positions = tf.maximum(numbers - self._num_short, 0) % available
        return sample_order.permuted(positions, streams, available)

    def prefetch(self, numbers: tf.Tensor) -> list[tf.Tensor]:
        # Rows of long texts are other ones in each epoch, and few.
        short, _ = self._kinds
        of_short = tf.boolean_mask(numbers, numbers < self._num_short)
        (windows,) = tf.numpy_function(
            short.windows_of, [of_short], [tf.int64], stateful=False
        )
        return self._windows.prefetch(windows)

    def _read(
        self, numbers: tf.Tensor, long_numbers: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        values = tf.numpy_function(
            self._read_arrays,
            [numbers, long_numbers],
            [tf.int32] * len(self._widths),
            stateful=False,
        )
        read = {
            name: tf.ensure_shape(value, [*numbers.shape, width])
            for (name, width), value in zip(self._widths.items(), values, strict=True)
        }
        laid_out = blocks.lay_out(
            pieces=read.pop(_PIECES),
            lengths=read.pop("lengths"),
            starts=read["starts"],
            is_sentence=read["text_of_sentence"] > 0,
            row_length=self._row.length,
            special_ids=self._special_ids,
        )
        return {**laid_out, "sentence_starts": read.pop("starts"), **read}

    def _read_arrays(
        self, numbers: Sequence[int], long_numbers: Sequence[int]
    ) -> list[np.ndarray]:
        short, long = self._kinds
        rows = [
            short.read(number) if number < self._num_short else long.read(long_number)
            for number, long_number in zip(numbers, long_numbers, strict=True)
        ]
        return [
            np.array([row[name] for row in rows], np.int32).reshape(len(rows), width)
            for name, width in self._widths.items()
        ]


def _shares(num_short: int, num_long: int, long_rate: float) -> tuple[int, int]:
    """Rows of either kind in an epoch; of long ones, if wanted, at least one."""
    if long_rate == 1:
        return 0, num_long
    wanted = round(num_short * long_rate / (1 - long_rate))
    return num_short, max(wanted, min(num_long, 1)) if long_rate else 0


def _at_positions(of_sentences: tf.Tensor, sentence_number: tf.Tensor) -> tf.Tensor:
    """Values of sentences `(B, N)` at their positions `(B, L)`; 0 at padding."""
    return tf.gather(
        tf.pad(of_sentences, [[0, 0], [1, 0]]), sentence_number, batch_dims=1
    )
