"""Shards: TFRecord files, and beside each the offsets of its records.

The offsets make any record readable at once, which is what lets a sample of an
epoch be a pure function of its number and a resumed run start without re-reading.
The TFRecord framing is: length (8 bytes), masked CRC-32C of the length (4), data,
masked CRC-32C of the data (4).
"""

import mmap
import pathlib
import struct
from collections.abc import Iterable, Sequence

import google_crc32c
import numpy as np
import tensorflow as tf

from seg_tf import files

_HEADER_BYTES = 12
_FOOTER_BYTES = 4
_CRC_MASK_DELTA = 0xA282EAD8
OFFSETS_SUFFIX = ".offsets"


class DamagedShardError(ValueError):
    """A shard's bytes are not what was written."""


def write_shard(path: pathlib.Path, records: Iterable[bytes]) -> int:
    """Writes a shard and its offsets; neither stands half-written.

    Args:
        path: the `.tfrecord` file.
        records: serialised examples; consumed as a stream.

    Returns:
        The number of records.

    Raises:
        OSError: if it cannot be written, for example because the disk is full.
    """
    offsets = [0]
    with files.written_aside(path) as aside:
        try:
            with tf.io.TFRecordWriter(str(aside)) as writer:
                for record in records:
                    writer.write(record)
                    framed = _HEADER_BYTES + len(record) + _FOOTER_BYTES
                    offsets.append(offsets[-1] + framed)
        except tf.errors.OpError as error:
            raise OSError(
                f"{path}: could not be written after {offsets[-1]} bytes: "
                f"{error.message}. What is finished is kept: make room and run the "
                "same command again"
            ) from error
        # The offsets come first: a shard under its final name always has them.
        with files.written_aside(_offsets_path(path)) as offsets_aside:
            np.array(offsets, "<u8").tofile(offsets_aside)
    return len(offsets) - 1


class ShardReader:
    """Random access to the records of one shard.

    Args:
        path: the `.tfrecord` file.

    Raises:
        DamagedShardError: if the file and its offsets do not belong together.
    """

    def __init__(self, path: pathlib.Path):
        self.path = pathlib.Path(path)
        offsets_path = _offsets_path(self.path)
        for needed in (self.path, offsets_path):
            if not needed.is_file():
                raise DamagedShardError(f"{needed}: the file is missing")
        self._offsets = np.fromfile(offsets_path, "<u8")
        size = self.path.stat().st_size
        if len(self._offsets) == 0 or size != self._offsets[-1]:
            expected = self._offsets[-1] if len(self._offsets) else "unknown"
            raise DamagedShardError(
                f"{self.path}: expected {expected} bytes, as {offsets_path.name} "
                f"says, found {size}. The file is truncated or was replaced; "
                "build it again"
            )
        with open(self.path, "rb") as file:
            self._bytes = (
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
            )

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, number: int) -> bytes:
        """The `number`-th record.

        Raises:
            DamagedShardError: if a checksum does not match, naming the shard, the
                record and its place in the file.
        """
        begin, end = int(self._offsets[number]), int(self._offsets[number + 1])
        framed = self._bytes[begin:end]
        data = framed[_HEADER_BYTES:-_FOOTER_BYTES]
        header = framed[:8]
        (length_crc,) = struct.unpack("<I", framed[8:_HEADER_BYTES])
        (data_crc,) = struct.unpack("<I", framed[-_FOOTER_BYTES:])
        if (
            _masked_crc(header) != length_crc
            or struct.unpack("<Q", header)[0] != len(data)
            or _masked_crc(data) != data_crc
        ):
            raise DamagedShardError(
                f"{self.path}: record {number} (bytes {begin} to {end}) does not match "
                "its checksum. The file was damaged after it was written; build it "
                "again or copy it anew"
            )
        return data


class RecordReader:
    """Random access to the records of several shards as one sequence.

    Args:
        paths: the shards, in order.
    """

    def __init__(self, paths: Sequence[pathlib.Path]):
        self._shards = [ShardReader(path) for path in paths]
        self._first_records = np.cumsum([0] + [len(shard) for shard in self._shards])

    def __len__(self) -> int:
        return int(self._first_records[-1])

    def __getitem__(self, number: int) -> bytes:
        shard, local_number = self.locate(number)
        return self._shards[shard][local_number]

    def locate(self, number: int) -> tuple[int, int]:
        """The shard, and the record in it, of a record of the sequence."""
        if not 0 <= number < len(self):
            raise IndexError(
                f"`number` must be below the {len(self)} records. Received: {number}"
            )
        shard = int(np.searchsorted(self._first_records, number, side="right")) - 1
        return shard, int(number - self._first_records[shard])


def _offsets_path(path: pathlib.Path) -> pathlib.Path:
    return path.with_suffix(OFFSETS_SUFFIX)


def _masked_crc(data: bytes) -> int:
    crc = google_crc32c.value(data)
    return (((crc >> 15) | (crc << 17)) + _CRC_MASK_DELTA) & 0xFFFFFFFF
