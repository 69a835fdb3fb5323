"""Reads rows of texts with sentences placed in blocks, and moves sentences (ReAT).

Shape key: B rows, L row length, N sentences of a row.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from seg_tf.config import configured_by
from seg_tf.data import randomness, sample_order
from seg_tf.data.configs import ReATInputsConfig
from seg_tf.data.text_packing import RowShape, TextRows, TextShape
from seg_tf.data.window_inputs import WindowInputs
from seg_tf.data.window_records import Features, Rows, WindowRecords
from seg_tf.layouts import blocks
from seg_tf.layouts.blocks import BlockLayout
from seg_tf.layouts.layout import Layout

# Packing stores lengths as 16-bit integers.
_LONGEST_ROW = 65_535


@configured_by(ReATInputsConfig)
class ReATInputs(WindowInputs):
    """`WindowInputs` whose rows contain texts with sentences placed in blocks.

    The seed determines the texts and their rows. Moved sentences and masked words are
    drawn anew in every epoch. An epoch consists of all rows of short texts and a new
    random selection of rows of long texts. If `long_rate` is 1, it consists of all rows
    of long texts instead. See `ReATInputsConfig` for most arguments. `index_tables`
    must contain `position_index`, the length of a block, and `sentence_position`, the
    maximum number of sentences of a text. Raises a ValueError if the config allows more
    than these, or if `row_length` is not a whole number of blocks or exceeds 65,535.
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
        **arguments: Any,
    ):
        block_length = index_tables["position_index"]
        max_sentences = index_tables["sentence_position"]
        for kind, length, count in (
            ("short", short_sentence_length, short_max_sentences),
            ("long", long_sentence_length, long_max_sentences),
        ):
            if length > block_length or count > max_sentences:
                raise ValueError(
                    f"`inputs.{kind}_sentence_length` must be at most "
                    f"`model.block_length`, and `inputs.{kind}_max_sentences` at most "
                    f"`model.max_sentences`. Received: {length} with block_length="
                    f"{block_length}, and {count} with max_sentences={max_sentences}"
                )
        if row_length % block_length or not 0 < row_length <= _LONGEST_ROW:
            raise ValueError(
                "`inputs.row_length` must be a multiple of `model.block_length`, and "
                f"at most {_LONGEST_ROW:,}. Received: inputs.row_length={row_length}, "
                f"model.block_length={block_length}"
            )
        super().__init__(index_tables=index_tables, **arguments)
        num_blocks = row_length // block_length
        self._row = RowShape(num_blocks, block_length, sentences_per_row)
        self._shapes = (
            TextShape(short_sentence_length, short_max_sentences),
            TextShape(long_sentence_length, long_max_sentences),
        )
        self._long_rate = long_rate
        self._exchange_rate = exchange_rate
        self._exchange_within = exchange_within

    def build_rows(self, windows: WindowRecords) -> Rows:
        windows.check_whole_sentences()
        vocabulary = windows.vocabulary()
        short, long = (
            TextRows(windows, shape, self._row, self._seed) for shape in self._shapes
        )
        num_short, num_long = _shares(len(short), len(long), self._long_rate)

        # Estimated from the average fill of rows.
        num_tokens = sum(
            round(kind.num_tokens * num_rows / max(len(kind), 1))
            for kind, num_rows in ((short, num_short), (long, num_long))
        )

        def read_arrays(
            numbers: Sequence[int], long_numbers: Sequence[int]
        ) -> list[np.ndarray]:
            rows = [
                short.read(number) if number < num_short else long.read(long_number)
                for number, long_number in zip(numbers, long_numbers, strict=True)
            ]
            return [
                np.array([row[name] for row in rows], np.int32).reshape(-1, width)
                for name, width in self._row.widths.items()
            ]

        def read(
            numbers: tf.Tensor, epoch_places: tf.Tensor, epoch_streams: tf.Tensor
        ) -> Features:
            # Negative, because positions in the epoch name the streams of samples.
            streams = randomness.extend_key(epoch_streams, -randomness.LONG_TEXTS)
            num_available = max(len(long), 1)
            positions = tf.maximum(numbers - num_short, 0) % num_available
            long_numbers = sample_order.permuted(positions, streams, num_available)
            widths = self._row.widths
            arrays = tf.numpy_function(
                read_arrays,
                [numbers, long_numbers],
                [tf.int32] * len(widths),
                stateful=False,
            )
            row = {
                name: tf.ensure_shape(values, [*numbers.shape, width])
                for (name, width), values in zip(widths.items(), arrays, strict=True)
            }
            lengths, is_sentence = row.pop("lengths"), row["text_of_sentence"] > 0
            starts, _ = blocks.place_in_blocks(
                tf.where(is_sentence, lengths + blocks.NUM_SPECIAL_TOKENS, 0),
                self._row.block_length,
                self._row.num_blocks,
            )
            row["sentence_starts"] = tf.ensure_shape(starts, lengths.shape)
            row |= blocks.lay_out(
                pieces=row.pop("pieces"),
                lengths=lengths,
                starts=row["sentence_starts"],
                is_sentence=is_sentence,
                row_length=self._row.length,
                vocabulary=vocabulary,
            )
            streams = randomness.extend_key(epoch_streams, epoch_places)
            self._exchange_sentences(row, streams)
            sentence_numbers = tf.where(row.pop("is_piece"), row["sentence_number"], 0)
            masked = windows.masking(row["token_ids"], sentence_numbers, streams)
            return {**row, **masked}

        def prefetch(numbers: tf.Tensor) -> list[tf.Tensor]:
            # Rows of long texts are few and differ in each epoch.
            short_numbers = tf.boolean_mask(numbers, numbers < num_short)
            (needed,) = tf.numpy_function(
                short.windows_of, [short_numbers], [tf.int64], stateful=False
            )
            return windows.prefetch(needed)

        return Rows(
            count=num_short + num_long,
            length=self._row.length,
            num_tokens=num_tokens,
            read=read,
            prefetch=prefetch,
        )

    def _exchange_sentences(self, row: Features, streams: tf.Tensor) -> None:
        """Exchanges sentence positions, and updates the features of `row` in place."""
        texts, places = row.pop("text_of_sentence"), row.pop("place")
        # Sentences exchange seats. A seat is a text and a position in it.
        seats = tf.broadcast_to(tf.range(tf.shape(texts)[1]), tf.shape(texts))
        groups = texts
        if self._exchange_within == "row":
            groups = tf.cast(texts > 0, tf.int32)
        # Parts of a split sentence stay, since their equal lengths would reveal moves.
        part = row["sentence_part"]
        is_cut = (part > 0) | (tf.pad(part, [[0, 0], [0, 1]])[:, 1:] > 0)
        seats, row["is_moved"], row["can_move"] = exchange(
            tf.where(is_cut, 0, groups), seats, streams, self._exchange_rate
        )
        texts = tf.gather(texts, seats, batch_dims=1)
        places = tf.gather(places, seats, batch_dims=1)
        row["sentence_mask"] = texts > 0
        for name, values in (("text_number", texts), ("sentence_position", places)):
            # 0 at padding.
            padded = tf.pad(values, [[0, 0], [1, 0]])
            row[name] = tf.gather(padded, row["sentence_number"], batch_dims=1)


def _shares(num_short: int, num_long: int, long_rate: float) -> tuple[int, int]:
    """Returns an epoch's number of short-text rows and its number of long-text rows."""
    if long_rate == 1:
        return 0, num_long
    requested = round(num_short * long_rate / (1 - long_rate))
    return num_short, max(requested, min(num_long, 1)) if long_rate else 0


def exchange(
    text_number: tf.Tensor, places: tf.Tensor, streams: tf.Tensor, rate: float
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Moves a random fraction `rate` of the sentences of each text.

    The chosen sentences of a text exchange positions in a random cycle. Their number is
    rounded randomly without bias, but never to 1. `text_number` is the text of each
    sentence, from 1, or 0 for padding and sentences that must stay. `places` is the
    position of each sentence. Both are int32 `(B, N)`. `streams` is uint64 `(B,)`.
    Returns the new positions, a mask of the sentences that moved, and a mask of those
    that could have moved, all `(B, N)`.
    """
    width = tf.shape(text_number)[1]
    streams = randomness.extend_key(streams, randomness.EXCHANGED_SENTENCES)
    draws = randomness.uniform_integers_like(streams, 2 * width)
    sentence_draws, text_draws = tf.split(draws, 2, axis=1)

    # Sort by text, then by the draws.
    upper = tf.bitwise.right_shift(sentence_draws, tf.constant(40, tf.uint64))
    keys = tf.cast(text_number, tf.int64) * (1 << 24) + tf.cast(upper, tf.int64)
    order = tf.argsort(keys, axis=1)
    sorted_texts = tf.gather(text_number, order, batch_dims=1)
    first = tf.searchsorted(sorted_texts, sorted_texts, side="left")
    end = tf.searchsorted(sorted_texts, sorted_texts, side="right")
    size, rank = end - first, tf.range(width) - first

    chances = randomness.uniform_floats(text_draws)
    chance = tf.gather(chances, tf.maximum(sorted_texts - 1, 0), batch_dims=1)
    num_moved = _rounded(rate * tf.cast(size, tf.float32), chance)
    num_moved = tf.minimum(num_moved, size)
    can_move = (sorted_texts > 0) & (size > 1)
    is_moved = can_move & (rank < num_moved)
    following = first + (rank + 1) % tf.maximum(num_moved, 1)
    sorted_places = tf.gather(places, order, batch_dims=1)
    next_places = tf.gather(
        sorted_places, tf.minimum(following, width - 1), batch_dims=1
    )
    new_places = tf.where(is_moved, next_places, sorted_places)

    back = tf.argsort(order, axis=1)
    return tuple(
        tf.gather(values, back, batch_dims=1)
        for values in (new_places, is_moved, can_move)
    )


def _rounded(expected: tf.Tensor, chance: tf.Tensor) -> tf.Tensor:
    """Rounds `expected` to int32 at random, keeping its mean, but never to 1."""
    floor = tf.floor(expected)
    rounded = floor + tf.cast(chance < expected - floor, tf.float32)
    two_or_none = 2.0 * tf.cast(chance < expected / 2, tf.float32)
    return tf.cast(tf.where(expected < 2, two_or_none, rounded), tf.int32)
