"""Schema of a record: the names of its features, the widths of its numbers, its frame.

Processes that only plan and count need this without TensorFlow, which takes seconds to
import.

The framing of a TFRecord file is: length (8 bytes), masked CRC-32C of the length (4),
data, masked CRC-32C of the data (4).
"""

import os
import pathlib
import struct

import google_crc32c

from seg_tf import files

TOKEN_IDS = "token_ids"
SENTENCE_LENGTHS = "sentence_lengths"
PARAGRAPH_LENGTHS = "paragraph_lengths"
FIRST_INDEX = "first_index"
SHUFFLED_SENTENCE_INDICES = "shuffled_sentence_indices"
DOCUMENT_ID = "document_id"

SHARD_SUFFIX = ".tfrecord"
OFFSETS_SUFFIX = ".offsets"
"""Of the file beside a shard that says where its records begin."""
OFFSET_BYTES = 8
HEADER_BYTES = 12
FOOTER_BYTES = 4
FRAME_BYTES = HEADER_BYTES + FOOTER_BYTES
_CRC_MASK_DELTA = 0xA282EAD8

NUMBER_LISTS = (
    TOKEN_IDS,
    SENTENCE_LENGTHS,
    PARAGRAPH_LENGTHS,
    SHUFFLED_SENTENCE_INDICES,
)


def number_widths(vocab_size: int, longest_list: int | None) -> dict[str, str]:
    """The narrowest type of each number list that holds every possible value.

    Args:
        vocab_size: number of word pieces.
        longest_list: the most pieces a record can have; None if unbounded.

    Returns:
        `{list name: "uint16" or "uint32"}`, for the manifest.
    """
    ids = _narrowest(vocab_size - 1)
    lengths = "uint32" if longest_list is None else _narrowest(longest_list)
    return {name: ids if name == TOKEN_IDS else lengths for name in NUMBER_LISTS}


def read_offsets(descriptor: int, size: int) -> list[int] | None:
    """Reads the offsets of the records of an open shard, and its end, off the shard.

    Args:
        descriptor: the shard.
        size: its bytes.

    Returns:
        The offsets; None if the lengths of the records are damaged.
    """
    offsets = [0]
    while offsets[-1] < size:
        header = os.pread(descriptor, HEADER_BYTES, offsets[-1])
        if len(header) < HEADER_BYTES:
            return None
        length, length_crc = struct.unpack("<QI", header)
        if masked_crc(header[:8]) != length_crc:
            return None
        offsets.append(offsets[-1] + FRAME_BYTES + length)
    return offsets if offsets[-1] == size else None


def write_offsets(shard_path: pathlib.Path, path: pathlib.Path) -> None:
    """Writes the offsets of a shard that are missing.

    Raises:
        FileNotFoundError: if there is no shard.
        ValueError: if it is damaged.
    """
    with open(shard_path, "rb") as shard:
        offsets = read_offsets(shard.fileno(), os.fstat(shard.fileno()).st_size)
    if offsets is None:
        raise ValueError(f"{shard_path}: the lengths of its records are damaged")
    with files.written_aside(path) as aside:
        aside.write_bytes(struct.pack(f"<{len(offsets)}Q", *offsets))


def masked_crc(data: bytes) -> int:
    """The CRC-32C of some bytes, as it is stored beside them."""
    crc = google_crc32c.value(data)
    return (((crc >> 15) | (crc << 17)) + _CRC_MASK_DELTA) & 0xFFFFFFFF


def _narrowest(largest: int) -> str:
    return "uint16" if largest < 1 << 16 else "uint32"
