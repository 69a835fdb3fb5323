"""Reads the records of a split as masked windows, `[CLS] pieces [SEP]`.

Shape key: B rows, W windows, L window length, S sentences of a window.
"""

import dataclasses
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np
import tensorflow as tf

from seg_tf.data import examples, mirrors, record_schema, shards
from seg_tf.data.manifest import (
    NUM_SPECIAL_TOKENS,
    Manifest,
    Shard,
    shard_paths,
    vocabulary_path,
)
from seg_tf.data.masking import Masking
from seg_tf.layouts.windows import window_rows
from seg_tf.text.graph.trees import Trees
from seg_tf.text.tree import DocumentTree
from seg_tf.text.vocabulary import Vocabulary

_T = TypeVar("_T")
Features = dict[str, tf.Tensor]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rows:
    """Rows of a split, each with `length` positions.

    `num_tokens` is the number of tokens without padding in all rows, or an estimate.
    `read` maps row numbers, positions in the epoch (both int64) and random streams of
    the epoch (uint64), each `(B,)`, to features `(B, …)`. `prefetch` maps row numbers
    to operations that fetch remote records.
    """

    count: int
    length: int
    num_tokens: int
    read: Callable[[tf.Tensor, tf.Tensor, tf.Tensor], Features]
    prefetch: Callable[[tf.Tensor], list[tf.Tensor]]


class WindowRecords:
    """Reads the windows of a split. Raises a ValueError for missing or damaged shards.

    `masking` is a `Masking`. See `WindowInputs` for the other arguments.
    """

    def __init__(
        self,
        manifest: Manifest,
        records_dir: pathlib.Path,
        split: str,
        *,
        window_length: int,
        index_tables: Mapping[str, int],
        masking: Masking,
    ):
        self.manifest = manifest
        self.masking = masking
        self.window_length = window_length
        self.special_ids = manifest.vocabulary["special_ids"]
        self.records_dir = records_dir
        self.split = split
        self.index_tables = index_tables
        self._reader = shards.RecordReader(shard_paths(manifest, records_dir, split))

    def __len__(self) -> int:
        return len(self._reader)

    @property
    def num_tokens(self) -> int:
        """Number of pieces and special tokens of all windows."""
        pieces = self.manifest.count("pieces", self.split)
        return pieces + NUM_SPECIAL_TOKENS * len(self)

    def lengths(self, shards: range) -> np.ndarray:
        """Reads all window lengths in `shards`, with special tokens, int64 `(n,)`."""
        windows = record_schema.WINDOWS
        lengths = self._read_lengths(shards, windows.read, windows)
        return lengths.astype(np.int64) + NUM_SPECIAL_TOKENS

    def sentence_lengths(self, shards: range) -> tuple[np.ndarray, np.ndarray]:
        """Reads the numbers of pieces per sentence and of sentences per window.

        Returns int32 `(sentences,)` and `(windows,)`, for all windows in `shards`.
        """
        return self._read_lengths(
            shards, record_schema.read_sentence_lengths, *record_schema.LENGTHS
        )

    def _read_lengths(
        self,
        shards: range,
        read: Callable[[Sequence[Shard], pathlib.Path], _T],
        *kinds: record_schema.Lengths,
    ) -> _T:
        entries = self.manifest.splits[self.split][shards.start : shards.stop]
        folder = self.records_dir
        paths = [kind.path(folder / shard.file) for shard in entries for kind in kinds]
        for path in paths:
            mirrors.fetch(path)
        try:
            return read(entries, folder)
        except ValueError as error:
            raise mirrors.damaged(str(error), paths) from error

    def vocabulary(self) -> Vocabulary:
        """Reads the vocabulary. Raises OSError if missing, ValueError if changed."""
        return Vocabulary.from_file(vocabulary_path(self.manifest, self.records_dir))

    def check_whole_sentences(self) -> None:
        """Raises a ValueError if windows may begin or end inside sentences."""
        if self.manifest.options.get("cut_sentences"):
            raise ValueError(
                f"{self.records_dir}: the records were built with --cut_sentences. "
                "Build them without it"
            )

    def prefetch(self, numbers: tf.Tensor) -> list[tf.Tensor]:
        if not self._reader.is_remote:
            return []
        return [tf.numpy_function(self._reader.prefetch, [numbers], [], stateful=True)]

    def read_trees(self, numbers: Sequence[int]) -> list[DocumentTree]:
        """Reads the windows with the given numbers as trees, outside the graph."""
        widths = self.manifest.number_widths
        records = self._reader.read(numbers)
        return [examples.decode(record, widths)[0] for record in records]

    def read(self, numbers: tf.Tensor) -> tuple[Trees, tf.Tensor, tf.Tensor]:
        """Reads windows' trees, first indices `(W, 3)` and sentence orders `(W, S)`."""

        def read_records(numbers: np.ndarray) -> np.ndarray:
            return np.array(self._reader.read(numbers.tolist()), dtype=object)

        serialized = tf.numpy_function(
            read_records, [numbers], tf.string, stateful=False
        )
        parsed = examples.parse(tf.ensure_shape(serialized, numbers.shape))
        lists, sizes = {}, {}
        for name in record_schema.NUMBER_LISTS:
            is_pieces = name == record_schema.TOKEN_IDS
            lists[name], sizes[name] = examples.decode_numbers(
                parsed[name],
                self.manifest.number_widths[name],
                self.window_length - NUM_SPECIAL_TOKENS if is_pieces else None,
            )
        first_index = parsed[record_schema.FIRST_INDEX]
        trees = Trees.of_documents(
            pieces=lists[record_schema.TOKEN_IDS],
            sentence_lengths=lists[record_schema.SENTENCE_LENGTHS],
            num_sentences=sizes[record_schema.SENTENCE_LENGTHS],
            paragraph_lengths=lists[record_schema.PARAGRAPH_LENGTHS],
            first_index=first_index,
        )
        return trees, first_index, lists[record_schema.SHUFFLED_SENTENCE_INDICES]

    def read_masked(self, numbers: tf.Tensor, streams: tf.Tensor) -> Features:
        """Reads windows `(W,)` as one row each, masked with the `streams` `(W,)`."""
        trees, _, _ = self.read(numbers)
        rows = window_rows(
            trees,
            special_ids=self.special_ids,
            row_length=self.window_length,
            caps=self.index_tables,
        )
        sentence_numbers = rows.pop("sentence_number")
        return {**rows, **self.masking(rows["token_ids"], sentence_numbers, streams)}
