"""Batches of rows of texts, the texts as sentences, some of them moved (ReAT)."""

import logging
from collections.abc import Mapping
from typing import Any

from seg_tf.data.text_packing import RowShape, TextShape
from seg_tf.data.text_rows import TextRows, TextsOfAKind
from seg_tf.data.window_inputs import WindowInputs
from seg_tf.data.window_records import WindowRecords
from seg_tf.layouts.block_placing import SpecialIds

# Packing counts lengths as 16-bit numbers.
_LONGEST_ROW = 65_535


def reat_inputs(
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
    seed: int,
    **arguments: Any,
) -> WindowInputs:
    """`WindowInputs` whose rows hold texts as sentences in blocks.

    Texts and the rows that they share are fixed by the seed; which sentences change
    places and which words are masked is drawn anew in every epoch, as functions of
    (seed, epoch, sample).

    Args:
        row_length: positions of a row.
        sentences_per_row: the most sentences of a row.
        short_sentence_length: positions of the longest sentence of a short text.
        short_max_sentences: the most sentences of a short text.
        long_sentence_length: as for short texts.
        long_max_sentences: as for short texts.
        long_rate: share of the rows that hold long texts.
        exchange_rate: share of the whole sentences that are displaced.
        exchange_within: "text" or "row", where they change places.
        index_tables: rows of the model's tables: of `position_index`, which are the
            positions of a block, and of `sentence_position`.
        seed: seed of the run.
        **arguments: the other arguments of `WindowInputs`.

    Raises:
        ValueError: if the records or the sizes of the model do not fit the settings.
    """
    block_length = index_tables["position_index"]
    masking = arguments["masking"]
    _check(
        "sentence_length",
        (short_sentence_length, long_sentence_length),
        "model.block_length",
        block_length,
    )
    _check(
        "max_sentences",
        (short_max_sentences, long_max_sentences),
        "model.max_sentences",
        index_tables["sentence_position"],
    )
    if row_length % block_length or not 0 < row_length <= _LONGEST_ROW:
        raise ValueError(
            "`inputs.row_length` must be a multiple of `model.block_length`, and at "
            f"most {_LONGEST_ROW:,}. Received: inputs.row_length={row_length}, "
            f"model.block_length={block_length}"
        )
    if masking.max_predictions < int(masking.mask_rate * row_length):
        logging.warning(
            "inputs.masking.max_predictions=%d: rows of %d positions would have up to "
            "%d, by inputs.masking.mask_rate=%g",
            masking.max_predictions,
            row_length,
            int(masking.mask_rate * row_length),
            masking.mask_rate,
        )
    layout = ReatRowLayout(
        row=RowShape(row_length // block_length, block_length, sentences_per_row),
        short=TextShape(short_sentence_length, short_max_sentences),
        long=TextShape(long_sentence_length, long_max_sentences),
        long_rate=long_rate,
        exchange_rate=exchange_rate,
        exchange_within=exchange_within,
        seed=seed,
    )
    return WindowInputs(
        layout=layout, index_tables=index_tables, seed=seed, **arguments
    )


class ReatRowLayout:
    """Rows of texts of two kinds, short ones and long ones.

    Args:
        row: capacity of a row.
        short: greatest length of texts of the first kind.
        long: greatest length of those of the second.
        long_rate: share of the rows that hold texts of the second.
        exchange_rate: share of the whole sentences that are displaced.
        exchange_within: "text" or "row", where they change places.
        seed: names the draw of which texts meet in a row.
    """

    feature_names = (
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
        row: RowShape,
        short: TextShape,
        long: TextShape,
        long_rate: float,
        exchange_rate: float,
        exchange_within: str,
        seed: int,
    ):
        self._row = row
        self._shapes = (short, long)
        self._long_rate = long_rate
        self._exchange = (exchange_rate, exchange_within)
        self._seed = seed

    def read(self, windows: WindowRecords) -> TextRows:
        """The rows of the windows of a split."""
        if windows.manifest.options.get("cut_sentences"):
            raise ValueError(
                f"{windows.records_dir}: the records were built with --cut_sentences, "
                "so that windows begin and end inside of sentences. Build them without "
                "it"
            )
        # A vocabulary without them is refused before texts are packed.
        special_ids = SpecialIds.of(windows.vocabulary())
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


def _check(field: str, values: tuple[int, int], of_model: str, bound: int) -> None:
    for kind, value in zip(("short", "long"), values, strict=True):
        if value > bound:
            raise ValueError(
                f"`inputs.{kind}_{field}` must be at most `{of_model}`. Received: "
                f"inputs.{kind}_{field}={value}, {of_model}={bound}"
            )
