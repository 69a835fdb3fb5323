"""Shards: TFRecord files, and beside each the offsets of its records.

The offsets make any record readable at once, which is what lets a sample of an
epoch be a pure function of its number and a resumed run start without re-reading.
The TFRecord framing is: length (8 bytes), masked CRC-32C of the length (4), data,
masked CRC-32C of the data (4).
"""

import functools
import mmap
import pathlib
import struct
from collections.abc import Iterable, Sequence

import google_crc32c
import numpy as np
import tensorflow as tf

from data_pipelines.records.record_schema import OFFSET_BYTES, OFFSETS_SUFFIX
from seg_tf import files

_HEADER_BYTES = 12
_FOOTER_BYTES = 4
_FRAME_BYTES = _HEADER_BYTES + _FOOTER_BYTES
_OFFSET = np.dtype(f"<u{OFFSET_BYTES}")
_CRC_MASK_DELTA = 0xA282EAD8


class DamagedShardError(ValueError):
    """A shard's bytes are not what was written."""


def write_shard(path: pathlib.Path, records: Iterable[bytes]) -> int:
    """Writes a shard and its offsets; neither is left half-written.

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
                    offsets.append(offsets[-1] + _FRAME_BYTES + len(record))
        except tf.errors.OpError as error:
            raise OSError(
                f"{path}: could not be written after {offsets[-1]} bytes: "
                f"{error.message}. What is finished is kept: make room and run the "
                "same command again"
            ) from error
        # The offsets come first: a shard under its final name always has them.
        with files.written_aside(_offsets_path(path)) as offsets_aside:
            np.array(offsets, _OFFSET).tofile(offsets_aside)
    return len(offsets) - 1


class ShardReader:
    """Random access to the records of one shard.

    Args:
        path: the `.tfrecord` file.

    Raises:
        DamagedShardError: if the file and its offsets do not belong together, naming
            the one that is damaged.
    """

    def __init__(self, path: pathlib.Path):
        self.path = pathlib.Path(path)
        offsets_path = _offsets_path(self.path)
        for needed in (self.path, offsets_path):
            if not needed.is_file():
                raise DamagedShardError(f"{needed}: the file is missing")
        size = self.path.stat().st_size
        with open(self.path, "rb") as file:
            self._bytes = (
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
            )
        num_offsets, rest = divmod(offsets_path.stat().st_size, _OFFSET.itemsize)
        # A record takes some bytes: more offsets than that are not even read.
        if rest or not 1 <= num_offsets <= size // _FRAME_BYTES + 1:
            raise self._damaged_offsets(
                f"found {offsets_path.stat().st_size} bytes, which are no offsets of "
                "its records"
            )
        self._offsets = np.fromfile(offsets_path, _OFFSET)
        if size != self._offsets[-1]:
            if self._true_offsets is not None:
                raise self._damaged_offsets(f"found {self._offsets[-1]} at its end")
            raise DamagedShardError(
                f"{self.path}: expected {self._offsets[-1]} bytes, as "
                f"{offsets_path.name} says, found {size}. The file is truncated or was "
                "replaced; build it again"
            )
        # The last one is the size of the file, so that differences cannot overflow.
        begins, ends = self._offsets[:-1], self._offsets[1:]
        if (
            self._offsets[0]
            or np.any(ends < begins)
            or np.any(ends - begins < _FRAME_BYTES)
        ):
            raise self._damaged_offsets("found offsets that do not rise as records do")

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, number: int) -> bytes:
        """The `number`-th record.

        Raises:
            DamagedShardError: if a checksum does not match, naming the shard, the
                record and its place in the file.
        """
        begin, end = (int(offset) for offset in self._offsets[number : number + 2])
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
            true_offsets = self._true_offsets
            if true_offsets is not None and not np.array_equal(
                true_offsets, self._offsets
            ):
                raise self._damaged_offsets(
                    f"found bytes {begin} to {end} for record {number}"
                )
            raise DamagedShardError(
                f"{self.path}: record {number} (bytes {begin} to {end}) does not match "
                "its checksum. The file was damaged after it was written; build it "
                "again or copy it anew"
            )
        return data

    @functools.cached_property
    def _true_offsets(self) -> np.ndarray | None:
        """The offsets as the lengths of the records say; None if those are damaged."""
        offsets = [0]
        while offsets[-1] < len(self._bytes):
            header = self._bytes[offsets[-1] : offsets[-1] + _HEADER_BYTES]
            if len(header) < _HEADER_BYTES:
                return None
            length, length_crc = struct.unpack("<QI", header)
            if _masked_crc(header[:8]) != length_crc:
                return None
            offsets.append(offsets[-1] + _FRAME_BYTES + length)
        if offsets[-1] != len(self._bytes):
            return None
        return np.array(offsets, _OFFSET)

    def _damaged_offsets(self, found: str) -> DamagedShardError:
        offsets_path = _offsets_path(self.path)
        return DamagedShardError(
            f"{offsets_path}: expected where the records of {self.path.name} "
            f"({len(self._bytes)} bytes) begin and end, {found}. The file was damaged "
            "or replaced after it was written; build the records again or copy both "
            "files anew"
        )


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
