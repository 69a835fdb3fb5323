"""The records of a split as masked windows, `[CLS] pieces [SEP]`, and rows of them.

Shape key: B rows, W windows, L window length.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import numpy as np
import tensorflow as tf

from seg_tf.data import examples, mirrors, randomness, record_schema, shards
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


@dataclasses.dataclass(frozen=True)
class DecodedWindows:
    """The contents of a batch of records.

    Attributes:
        pieces: int32 tensor `(W, L - 2)`, padded with 0.
        num_pieces: int32 tensor `(W,)`.
        sentence_lengths: int32 tensor `(W, sentences)`, padded with 0.
        num_sentences: int32 tensor `(W,)`.
        paragraph_lengths: int32 tensor `(W, paragraphs)`, padded with 0.
        first_index: int64 tensor `(W, 3)`.
        shuffled_sentence_indices: int32 tensor `(W, sentences)`, padded with 0.
    """

    pieces: tf.Tensor
    num_pieces: tf.Tensor
    sentence_lengths: tf.Tensor
    num_sentences: tf.Tensor
    paragraph_lengths: tf.Tensor
    first_index: tf.Tensor
    shuffled_sentence_indices: tf.Tensor

    def trees(self) -> Trees:
        return Trees.of_documents(
            pieces=self.pieces,
            sentence_lengths=self.sentence_lengths,
            num_sentences=self.num_sentences,
            paragraph_lengths=self.paragraph_lengths,
            first_index=self.first_index,
        )


class WindowRecords:
    """Reads windows of a split and gives their features, masking included.

    Args:
        manifest: what the records are.
        records_dir: where they lie.
        split: "train" or "validation".
        window_length: L.
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

    def lengths(self, shards: range) -> np.ndarray:
        """Positions that each window of some shards takes, special tokens included."""
        windows = record_schema.WINDOWS
        lengths = self._read_beside(shards, windows.read, windows)
        return lengths.astype(np.int64) + NUM_SPECIAL_TOKENS

    def sentence_lengths(self, shards: range) -> tuple[np.ndarray, np.ndarray]:
        """Pieces of every sentence, and sentences of each window, of some shards."""
        return self._read_beside(
            shards, record_schema.read_sentence_lengths, *record_schema.LENGTHS
        )

    def _read_beside(
        self,
        shards: range,
        read: Callable[[Sequence[Shard], pathlib.Path], _T],
        *kinds: record_schema.Lengths,
    ) -> _T:
        """Reads lengths beside some shards; those of a mirror are fetched first."""
        described = self.manifest.splits[self.split][shards.start : shards.stop]
        folder = self.records_dir
        paths = [
            kind.path(folder / shard.file) for shard in described for kind in kinds
        ]
        return mirrors.healed(paths, lambda: read(described, folder))

    def trees(self, numbers: Sequence[int]) -> list[DocumentTree]:
        """Windows as they are stored, outside of any graph."""
        widths = self.manifest.number_widths
        records = self._reader.read(numbers)
        return [examples.decode(record, widths)[0] for record in records]

    @property
    def num_tokens(self) -> int:
        """Pieces and special tokens of all windows."""
        pieces = self.manifest.count("pieces", self.split)
        return pieces + NUM_SPECIAL_TOKENS * len(self)

    def vocabulary(self) -> Vocabulary:
        """The word pieces that the records are made of, checked."""
        return Vocabulary.from_file(vocabulary_path(self.manifest, self.records_dir))

    def check_whole_sentences(self) -> None:
        """Raises a ValueError if windows begin and end inside of sentences."""
        if self.manifest.options.get("cut_sentences"):
            raise ValueError(
                f"{self.records_dir}: the records were built with --cut_sentences, so "
                "that windows begin and end inside of sentences. Build them without it"
            )

    def __call__(self, numbers: tf.Tensor, streams: tf.Tensor) -> dict[str, tf.Tensor]:
        """Reads and masks windows `(W,)`, each with its random stream."""
        rows = window_rows(
            self.read(numbers).trees(),
            special_ids=self.special_ids,
            row_length=self.window_length,
            caps=self.index_tables,
        )
        sentence_numbers = rows.pop("sentence_number")
        return {**rows, **self.masking(rows["token_ids"], sentence_numbers, streams)}

    def prefetch(self, numbers: tf.Tensor) -> list[tf.Tensor]:
        if not self._reader.is_remote:
            return []
        return [tf.numpy_function(self._reader.prefetch, [numbers], [], stateful=True)]

    def read(self, numbers: tf.Tensor) -> DecodedWindows:
        """Reads windows `(W,)` as they are stored."""
        serialized = tf.numpy_function(
            functools.partial(_read_records, self._reader),
            [numbers],
            tf.string,
            stateful=False,
        )
        serialized = tf.ensure_shape(serialized, numbers.shape)
        parsed = examples.parse(serialized, record_schema.NUMBER_LISTS)
        lists = {
            name: examples.decode_numbers(
                parsed[name],
                self.manifest.number_widths[name],
                self.window_length - NUM_SPECIAL_TOKENS
                if name == record_schema.TOKEN_IDS
                else None,
            )
            for name in record_schema.NUMBER_LISTS
        }
        pieces, num_pieces = lists[record_schema.TOKEN_IDS]
        sentence_lengths, num_sentences = lists[record_schema.SENTENCE_LENGTHS]
        return DecodedWindows(
            pieces=pieces,
            num_pieces=num_pieces,
            sentence_lengths=sentence_lengths,
            num_sentences=num_sentences,
            paragraph_lengths=lists[record_schema.PARAGRAPH_LENGTHS][0],
            first_index=parsed[record_schema.FIRST_INDEX],
            shuffled_sentence_indices=lists[record_schema.SHUFFLED_SENTENCE_INDICES][0],
        )


def _read_records(reader: shards.RecordReader, numbers: np.ndarray) -> np.ndarray:
    return np.array(reader.read(numbers.tolist()), dtype=object)


class RowReader(Protocol):
    """The rows of an epoch, made of the windows of a split.

    Attributes:
        row_length: positions of a row.
        num_tokens: positions of all rows that are no padding.
        parts: what the rows are made of, "windows" or "texts".
        num_parts: how many of these all rows have.
    """

    row_length: int
    num_tokens: int
    parts: str
    num_parts: int

    def __len__(self) -> int: ...

    def __call__(
        self, numbers: tf.Tensor, epoch_places: tf.Tensor, epoch_streams: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Reads rows.

        Args:
            numbers: int64 tensor `(B,)`, which rows of the split.
            epoch_places: int64 tensor `(B,)`, where in the epoch each of them comes.
            epoch_streams: uint64 tensor `(B,)`, random stream of the epoch of each.

        Returns:
            `{feature name: tensor (B, …)}`.
        """

    def prefetch(self, numbers: tf.Tensor) -> list[tf.Tensor]:
        """Operations that fetch records of rows `(B,)` ahead; none on a disk."""


class OneWindowRows:
    """Rows of one window each."""

    parts = "windows"

    def __init__(self, windows: WindowRecords):
        self._windows = windows
        self.row_length = windows.window_length
        self.num_tokens = windows.num_tokens
        self.num_parts = len(windows)

    def __len__(self) -> int:
        return len(self._windows)

    def __call__(
        self, numbers: tf.Tensor, epoch_places: tf.Tensor, epoch_streams: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        # The random stream of sample k of epoch e.
        streams = randomness.extend_key(epoch_streams, epoch_places)
        return self._windows(numbers, streams)

    def prefetch(self, numbers: tf.Tensor) -> list[tf.Tensor]:
        return self._windows.prefetch(numbers)
