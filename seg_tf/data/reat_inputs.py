"""Inputs of rows of texts, the texts as sentences, some of them moved (ReAT).

Shape key: B rows, L row length, N sentences of a row.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from seg_tf.config import configured_by
from seg_tf.data import randomness, sample_order
from seg_tf.data.configs import MaskingConfig, ReATInputsConfig
from seg_tf.data.text_packing import RowShape, TextShape, TextsOfAKind
from seg_tf.data.window_inputs import WindowInputs
from seg_tf.data.window_records import RowReader, WindowRecords
from seg_tf.layouts import block_placing, blocks
from seg_tf.layouts.blocks import BlockLayout
from seg_tf.layouts.layout import Layout

# Packing counts lengths as 16-bit numbers.
_LONGEST_ROW = 65_535


@configured_by(ReATInputsConfig)
class ReATInputs(WindowInputs):
    """`WindowInputs` whose rows hold texts as sentences in blocks.

    Texts and the rows that they share are fixed by the seed; which sentences change
    places and which words are masked is drawn anew in every epoch, as functions of
    (seed, epoch, sample).

    Args:
        row_length, sentences_per_row, …, exchange_within: see `ReATInputsConfig`.
        index_tables: rows of the model's tables: of `position_index`, which are the
            positions of a block, and of `sentence_position`.
        masking: config of the masking.
        **arguments: the other arguments of `WindowInputs`.

    Raises:
        ValueError: if the records or the sizes of the model do not fit the settings.
    """

    layout: type[Layout] = BlockLayout
    row_features = (
        "sentence_number",
        "text_number",
        "sentence_starts",
        "sentence_mask",
        "sentence_part",
        "is_moved",
        "can_move",
    )
    index_features = ("position_index", "sentence_position")

    def __init__(
        self,
        *,
        row_length: int,
        sentences_per_row: int,
        short_sentence_length: int,
        short_max_sentences: int,
        long_sentence_length: int,
        long_max_sentences: int,
        long_rate: float,
        exchange_rate: float,
        exchange_within: str,
        index_tables: Mapping[str, int],
        masking: MaskingConfig,
        **arguments: Any,
    ):
        block_length = index_tables["position_index"]
        max_sentences = index_tables["sentence_position"]
        in_block = ("block_length", block_length)
        in_text = ("max_sentences", max_sentences)
        for field, value, (name, bound) in (
            ("short_sentence_length", short_sentence_length, in_block),
            ("long_sentence_length", long_sentence_length, in_block),
            ("short_max_sentences", short_max_sentences, in_text),
            ("long_max_sentences", long_max_sentences, in_text),
        ):
            if value > bound:
                raise ValueError(
                    f"`inputs.{field}` must be at most `model.{name}`. Received: "
                    f"inputs.{field}={value}, model.{name}={bound}"
                )
        if row_length % block_length or not 0 < row_length <= _LONGEST_ROW:
            raise ValueError(
                "`inputs.row_length` must be a multiple of `model.block_length`, and "
                f"at most {_LONGEST_ROW:,}. Received: inputs.row_length={row_length}, "
                f"model.block_length={block_length}"
            )
        if masking.max_predictions < int(masking.mask_rate * row_length):
            logging.warning(
                "inputs.masking.max_predictions=%d: rows of %d positions would have up "
                "to %d, by inputs.masking.mask_rate=%g",
                masking.max_predictions,
                row_length,
                int(masking.mask_rate * row_length),
                masking.mask_rate,
            )
        super().__init__(index_tables=index_tables, masking=masking, **arguments)
        self._row = RowShape(
            row_length // block_length, block_length, sentences_per_row
        )
        self._shapes = (
            TextShape(short_sentence_length, short_max_sentences),
            TextShape(long_sentence_length, long_max_sentences),
        )
        self._long_rate = long_rate
        self._exchange = (exchange_rate, exchange_within)

    def read_rows(self, windows: WindowRecords) -> RowReader:
        windows.check_whole_sentences()
        # A vocabulary without them is refused before texts are packed.
        special_ids = block_placing.SpecialIds.of(windows.vocabulary())
        short, long = (
            TextsOfAKind(windows, shape, self._row, self._seed)
            for shape in self._shapes
        )
        return TextRows(
            windows,
            special_ids,
            self._row,
            short,
            long,
            self._long_rate,
            *self._exchange,
        )


class TextRows:
    """Reads rows of both kinds.

    An epoch is all rows of short texts and, so that their share is the rate, rows of
    long ones, drawn anew for each epoch. If all are to be long, it is those.
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
        self._kinds = (short, long)
        self._num_short, self._num_long = _shares(len(short), len(long), long_rate)
        self._exchange_rate = exchange_rate
        self._exchange_within = exchange_within
        self.row_length = row.length
        self.num_tokens = self._in_an_epoch(short.num_tokens, long.num_tokens)
        self.num_parts = self._in_an_epoch(short.num_texts, long.num_texts)

    def _in_an_epoch(self, *totals: int) -> int:
        """Total of an epoch, given those of all short and all long rows."""
        counts = (self._num_short, self._num_long)
        return sum(
            round(total * count / max(len(kind), 1))
            for total, count, kind in zip(totals, counts, self._kinds, strict=True)
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
            [tf.int32] * len(self._row.widths),
            stateful=False,
        )
        read = {
            name: tf.ensure_shape(value, [*numbers.shape, width])
            for (name, width), value in zip(
                self._row.widths.items(), values, strict=True
            )
        }
        laid_out = blocks.lay_out(
            pieces=read.pop("pieces"),
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
            for name, width in self._row.widths.items()
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


def exchange(
    text_number: tf.Tensor, places: tf.Tensor, streams: tf.Tensor, rate: float
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Moves `rate` of the sentences of each text, all others staying.

    Drawn sentences take each the place of the next, in a drawn order, so that each of
    them moves. Their number is rounded by a draw, and to two or none where it is less
    than two, so that it is `rate` on average, except in texts of one sentence.

    Args:
        text_number: int32 tensor `(B, N)`, which text of the row, from 1, a sentence is
            of; 0 where there is none.
        places: int32 tensor `(B, N)`, place of each sentence in its text, from 0.
        streams: uint64 tensor `(B,)`, the random stream of each row.
        rate: share of the sentences to move, at most 1.

    Returns:
        The new places, int32 `(B, N)`; which sentences moved, bool; and which could
        have moved, bool.
    """
    width = tf.shape(text_number)[1]
    streams = randomness.extend_key(streams, randomness.EXCHANGED_SENTENCES)
    draws = randomness.uniform_integers_like(streams, 2 * width)
    of_sentences, of_texts = tf.split(draws, 2, axis=1)

    # All of one text, then all of the next, each in the order of their draws.
    upper = tf.bitwise.right_shift(of_sentences, tf.constant(40, tf.uint64))
    keys = tf.cast(upper, tf.int64)
    order = tf.argsort(tf.cast(text_number, tf.int64) * (1 << 24) + keys, axis=1)
    sorted_texts = tf.gather(text_number, order, batch_dims=1)
    first = tf.searchsorted(sorted_texts, sorted_texts, side="left")
    end = tf.searchsorted(sorted_texts, sorted_texts, side="right")
    size, rank = end - first, tf.range(width) - first

    chances = randomness.uniform_floats(of_texts)
    chance = tf.gather(chances, tf.maximum(sorted_texts - 1, 0), batch_dims=1)
    wanted = _rounded(rate * tf.cast(size, tf.float32), chance)
    wanted = tf.minimum(wanted, size)
    can_move = (sorted_texts > 0) & (size > 1)
    is_moved = can_move & (rank < wanted)
    following = first + (rank + 1) % tf.maximum(wanted, 1)
    sorted_places = tf.gather(places, order, batch_dims=1)
    taken = tf.gather(sorted_places, tf.minimum(following, width - 1), batch_dims=1)
    new_places = tf.where(is_moved, taken, sorted_places)

    # Back to the order in which they came.
    back = tf.argsort(order, axis=1)
    return tuple(
        tf.gather(values, back, batch_dims=1)
        for values in (new_places, is_moved, can_move)
    )


def _rounded(expected: tf.Tensor, chance: tf.Tensor) -> tf.Tensor:
    """Whole numbers, int32, other than 1, that are `expected` on average."""
    floor = tf.floor(expected)
    rounded = floor + tf.cast(chance < expected - floor, tf.float32)
    two_or_none = 2.0 * tf.cast(chance < expected / 2, tf.float32)
    return tf.cast(tf.where(expected < 2, two_or_none, rounded), tf.int32)
