"""Defines the binary format of record files without importing TensorFlow.

A shard is a TFRecord file. Each record consists of its length (8 bytes), the masked
CRC-32C of the length (4), the data, and the masked CRC-32C of the data (4). Files next
to a shard store the offsets of its records and, for windows, the number of pieces of
each window and sentence. Packing reads only these files, 1% of the size of a shard.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import google_crc32c
import numpy as np

from seg_tf import files

if TYPE_CHECKING:
    from seg_tf.data.manifest import Shard

TOKEN_IDS = "token_ids"
SENTENCE_LENGTHS = "sentence_lengths"
PARAGRAPH_LENGTHS = "paragraph_lengths"
FIRST_INDEX = "first_index"
SHUFFLED_SENTENCE_INDICES = "shuffled_sentence_indices"
DOCUMENT_ID = "document_id"
NUMBER_LISTS = (
    TOKEN_IDS,
    SENTENCE_LENGTHS,
    PARAGRAPH_LENGTHS,
    SHUFFLED_SENTENCE_INDICES,
)

SHARD_SUFFIX = ".tfrecord"
OFFSETS_SUFFIX = ".offsets"
OFFSET_BYTES = 8
HEADER_BYTES = 12
FOOTER_BYTES = 4
FRAME_BYTES = HEADER_BYTES + FOOTER_BYTES
_CRC_MASK_DELTA = 0xA282EAD8
# A window has at most 65,535 positions.
_LENGTH = np.dtype("<u2")


def number_widths(vocab_size: int, longest_list: int | None) -> dict[str, str]:
    """Returns the narrowest type of each integer list, "uint16" or "uint32", as a dict.

    `longest_list` is the maximum number of pieces of a record, or None if unlimited.
    """

    def narrowest(largest: int) -> str:
        return "uint16" if largest < 1 << 16 else "uint32"

    ids = narrowest(vocab_size - 1)
    lengths = "uint32" if longest_list is None else narrowest(longest_list)
    return {name: ids if name == TOKEN_IDS else lengths for name in NUMBER_LISTS}


def masked_crc(data: bytes) -> int:
    """Returns the CRC-32C of `data`, masked as in TFRecord files."""
    crc = google_crc32c.value(data)
    return (((crc >> 15) | (crc << 17)) + _CRC_MASK_DELTA) & 0xFFFFFFFF


@dataclasses.dataclass(frozen=True)
class Lengths:
    """A kind of file next to each shard, with one length per window or sentence.

    `count` is the field of `Shard` that contains the number of lengths. `of_windows`
    computes the lengths from the sentence lengths of each window.
    """

    suffix: str
    count: str
    of_windows: Callable[[Sequence[np.ndarray]], np.ndarray]

    def path(self, shard_path: pathlib.Path) -> pathlib.Path:
        return shard_path.with_suffix(self.suffix)

    def num_bytes(self, shard: Shard) -> int:
        size: int = getattr(shard, self.count) * _LENGTH.itemsize
        return size

    def write(self, shard_path: pathlib.Path, lengths: np.ndarray) -> None:
        with files.written_aside(self.path(shard_path)) as aside:
            lengths.astype(_LENGTH).tofile(aside)

    def read_shard(self, shard_path: pathlib.Path) -> np.ndarray:
        """Reads a shard's lengths, uint16. Raises an OSError if the file is missing."""
        return np.fromfile(self.path(shard_path), _LENGTH)

    def read(self, shards: Iterable[Shard], folder: pathlib.Path) -> np.ndarray:
        """Reads all uint16 lengths. Raises a ValueError if they contradict `shards`."""
        parts = [np.zeros(0, _LENGTH)]
        for shard in shards:
            path = folder / shard.file
            lengths = self.read_shard(path)
            number, total = len(lengths), int(lengths.sum(dtype=np.int64))
            expected = getattr(shard, self.count)
            if (number, total) != (expected, shard.pieces) or not lengths.all():
                raise self.contradiction(
                    path,
                    f"{expected} {self.count} with {shard.pieces} pieces in total and "
                    f"at least one each, found {number} with {total}",
                )
            parts.append(lengths)
        return np.concatenate(parts)

    def contradiction(self, shard_path: pathlib.Path, expected: str) -> ValueError:
        return ValueError(
            f"{self.path(shard_path)}: expected {expected}. The file was replaced or "
            "damaged; build the windows again with `seg-tf build-windows --overwrite`"
        )


WINDOWS = Lengths(
    ".lengths",
    "records",
    lambda windows: np.array([sentences.sum() for sentences in windows], np.int64),
)
SENTENCES = Lengths(
    ".sentence_lengths",
    "sentences",
    lambda windows: np.concatenate([np.zeros(0, np.int64), *windows]),
)
LENGTHS = (WINDOWS, SENTENCES)


def read_sentence_lengths(
    shards: Sequence[Shard], folder: pathlib.Path
) -> tuple[np.ndarray, np.ndarray]:
    """Reads the pieces per sentence and the sentences per window, two int32 arrays.

    Raises ValueError if files contradict `shards` or each other, OSError if missing.
    """
    sentences, counts = [np.zeros(0, _LENGTH)], [np.zeros(0, np.int32)]
    for shard in shards:
        window_ends = np.cumsum(WINDOWS.read([shard], folder), dtype=np.int64)
        sentences.append(SENTENCES.read([shard], folder))
        sentence_ends = np.cumsum(sentences[-1], dtype=np.int64)
        last = np.searchsorted(sentence_ends, window_ends)  # No sentence is empty.
        if not np.array_equal(sentence_ends[last], window_ends):
            path = folder / shard.file
            raise SENTENCES.contradiction(
                path,
                "every window to end with a sentence, according to "
                f"{WINDOWS.path(path).name}",
            )
        counts.append(np.diff(last, prepend=-1).astype(np.int32))
    return np.concatenate(sentences).astype(np.int32), np.concatenate(counts)
