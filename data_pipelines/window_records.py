"""The records of a split as masked windows, `[CLS] pieces [SEP]`, one a row.

Shape key: W windows, L window length.
"""

import functools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from data_pipelines import indices, records, shards, window_lengths
from data_pipelines.manifest import NUM_SPECIAL_TOKENS, Manifest, shard_paths


class WindowRecords:
    """Reads windows of a split and gives their features, masking included.

    Args:
        manifest: what the records are.
        records_dir: where they lie.
        split: "train" or "validation".
        index_tables: indices that are wanted, and the rows of their tables.
        masking: chooses what to predict, such as `TokenMasking`.

    Raises:
        ValueError: if a shard is missing or damaged.
    """

    def __init__(
        self,
        manifest: Manifest,
        records_dir: pathlib.Path,
        split: str,
        *,
        index_tables: Mapping[str, int],
        masking: Any,
    ):
        self.manifest = manifest
        self.masking = masking
        self.window_length = manifest.window_length
        self.special_ids = manifest.vocabulary["special_ids"]
        self._records_dir = records_dir
        self._split = split
        self._index_tables = index_tables
        self._reader = shards.RecordReader(shard_paths(manifest, records_dir, split))

    def __len__(self) -> int:
        return len(self._reader)

    def lengths(self) -> np.ndarray:
        """Positions that each window takes, its two special tokens included."""
        lengths = window_lengths.read(self.manifest, self._records_dir, self._split)
        return lengths.astype(np.int64) + NUM_SPECIAL_TOKENS

    def __call__(self, numbers: tf.Tensor, streams: tf.Tensor) -> dict[str, tf.Tensor]:
        """Reads and masks windows.

        Args:
            numbers: int64 tensor `(W,)`, which records.
            streams: uint64 tensor `(W,)`, the random stream of each.

        Returns:
            `{feature name: tensor (W, …)}`.
        """
        serialized = tf.numpy_function(
            functools.partial(_read_records, self._reader),
            [numbers],
            tf.string,
            stateful=False,
        )
        serialized = tf.ensure_shape(serialized, numbers.shape)
        rows, num_pieces = self._rows(serialized)
        rows.update(self.masking(rows["token_ids"], num_pieces, streams))
        return rows

    def _rows(self, serialized: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        """The unmasked rows of records, and the number of pieces of each."""
        length = self.window_length
        names = (
            records.TOKEN_IDS,
            records.SENTENCE_LENGTHS,
            records.PARAGRAPH_LENGTHS,
        )
        parsed = records.parse(serialized, names)
        widths = self.manifest.number_widths
        pieces, num_pieces = records.decode_numbers(
            parsed[records.TOKEN_IDS],
            widths[records.TOKEN_IDS],
            length - NUM_SPECIAL_TOKENS,
        )
        sentence_lengths, paragraph_lengths = (
            records.decode_numbers(parsed[name], widths[name])[0] for name in names[1:]
        )
        row_indices = indices.add_indices(
            num_pieces=num_pieces,
            sentence_lengths=sentence_lengths,
            paragraph_lengths=paragraph_lengths,
            first_index=parsed[records.FIRST_INDEX],
            row_length=length,
            caps=self._index_tables,
        )
        position = tf.range(length)[tf.newaxis, :]
        end = num_pieces[:, tf.newaxis] + 1
        token_ids = tf.pad(pieces, [[0, 0], [1, 1]])
        token_ids = tf.where(position == 0, self.special_ids["cls"], token_ids)
        token_ids = tf.where(position == end, self.special_ids["sep"], token_ids)
        padding_mask = position <= end
        token_ids = tf.where(padding_mask, token_ids, self.special_ids["pad"])
        rows = {"token_ids": token_ids, "padding_mask": padding_mask, **row_indices}
        return rows, num_pieces


def _read_records(reader: shards.RecordReader, numbers: Sequence[int]) -> np.ndarray:
    return np.array([reader[number] for number in numbers.tolist()], dtype=object)
