"""Writes TFRecord shards with record offsets, and reads the records in any order."""

import bisect
import functools
import os
import pathlib
import resource
import struct
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import tensorflow as tf

from seg_tf import files
from seg_tf.data import mirrors
from seg_tf.data.mirrors import DamagedShardError as DamagedShardError
from seg_tf.data.record_schema import (
    FOOTER_BYTES,
    FRAME_BYTES,
    HEADER_BYTES,
    OFFSET_BYTES,
    OFFSETS_SUFFIX,
    masked_crc,
)

_OFFSET = np.dtype(f"<u{OFFSET_BYTES}")
_MAX_SHARDS = 4096


def write_shard(path: pathlib.Path, records: Iterable[bytes]) -> int:
    """Writes serialized records and their offsets. Returns the number of records.

    Raises an OSError if the shard cannot be written.
    """
    offsets = [0]
    with files.written_aside(path) as aside:
        try:
            with tf.io.TFRecordWriter(str(aside)) as writer:
                for record in records:
                    writer.write(record)
                    offsets.append(offsets[-1] + FRAME_BYTES + len(record))
        except tf.errors.OpError as error:
            raise OSError(
                f"{path}: could not be written after {offsets[-1]} bytes: "
                f"{error.message}. Finished files are kept: free some space and run "
                "the same command again"
            ) from error
        # Offsets are renamed first, so a shard with its final name always has them.
        with files.written_aside(path.with_suffix(OFFSETS_SUFFIX)) as offsets_aside:
            np.array(offsets, _OFFSET).tofile(offsets_aside)
    return len(offsets) - 1


class RecordReader:
    """Reads the records of several shards as one sequence with random access.

    Only requested records are read from disk, about 1% of what a memory-mapped file
    would read. At most `max_open_shards()` shards are open at once. Threads and forked
    processes may share a reader. With `in_order`, the operating system reads ahead.
    Raises a DamagedShardError if a shard or its offsets are damaged.
    """

    def __init__(self, paths: Sequence[pathlib.Path], *, in_order: bool = False):
        self._paths = [pathlib.Path(path) for path in paths]
        self._mirror = mirrors.mirror_of(self._paths[0].parent) if paths else None
        max_open = max_open_shards()
        if self._mirror is not None:
            max_open = min(max_open, self._mirror.max_open_shards)
        # An evicted shard is closed when the last thread that reads it releases it. The
        # cache does not refer to the reader, so both are released together.
        self._open = functools.lru_cache(max_open)(
            functools.partial(_open_shard, self._paths, self._mirror, in_order)
        )
        self._first_records = [0]
        for number, path in enumerate(self._paths):
            if self._mirror is not None:
                num_records = self._mirror.shards[path.name].records
            else:
                num_records = self._open(number).num_records
            self._first_records.append(self._first_records[-1] + num_records)

    def __len__(self) -> int:
        return self._first_records[-1]

    def __getitem__(self, number: int) -> bytes:
        return self.read([number])[0]

    def read(self, numbers: Sequence[int]) -> list[bytes]:
        """Reads records by number, in parallel. Invalid numbers raise an IndexError."""
        places = [self.locate(number) for number in numbers]
        if len(places) > 1:
            for request in (_OpenShard.fetch_offsets, _OpenShard.fetch):
                for shard, record in places:
                    request(self._open(shard), record)
        return [self._open(shard).read(record) for shard, record in places]

    @property
    def is_remote(self) -> bool:
        return self._mirror is not None

    def prefetch(self, numbers: Sequence[int]) -> None:
        """Starts fetching the remote shards of records that will be read later."""
        if self._mirror is not None:
            shards = {self.locate(int(number))[0] for number in numbers}
            self._mirror.prefetch(self._paths[shard] for shard in sorted(shards))

    def locate(self, number: int) -> tuple[int, int]:
        """Returns a record's shard and number in the shard, or raises an IndexError."""
        if not 0 <= number < len(self):
            raise IndexError(
                f"`number` must be below the {len(self)} records. Received: {number}"
            )
        shard = bisect.bisect_right(self._first_records, number) - 1
        return shard, number - self._first_records[shard]

    def records_of(self, shard: int) -> range:
        """Returns the range of a shard's record numbers."""
        return range(*self._first_records[shard : shard + 2])


def _open_shard(
    paths: Sequence[pathlib.Path],
    mirror: mirrors.Mirror | None,
    in_order: bool,
    number: int,
) -> "_OpenShard":
    path = paths[number]
    while mirror is not None:
        mirror.fetch(path)
        mirror.fetch(path.with_suffix(OFFSETS_SUFFIX))
        try:
            return _OpenShard(path, in_order)
        except FileNotFoundError:
            continue  # Another rank has evicted the shard in the meantime.
    return _OpenShard(path, in_order)


class _OpenShard:
    """An open shard and its offsets, closed when the last reference is dropped."""

    def __init__(self, path: pathlib.Path, in_order: bool):
        self._paths = path, path.with_suffix(OFFSETS_SUFFIX)
        self._descriptors: list[int] = []
        for file in self._paths:
            self._descriptors.append(os.open(file, os.O_RDONLY))
        self._file, self._offsets = self._descriptors
        if not in_order:
            os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_RANDOM)
        self._size = os.fstat(self._file).st_size
        offsets_size = os.fstat(self._offsets).st_size
        num_offsets, rest = divmod(offsets_size, OFFSET_BYTES)
        # Every record takes at least FRAME_BYTES, which limits the number of offsets.
        if rest or not 1 <= num_offsets <= self._size // FRAME_BYTES + 1:
            raise self._mismatch(f"{offsets_size} bytes of offsets")
        self.num_records = num_offsets - 1
        (end,) = self._read_offsets(self.num_records, 1)
        if end != self._size:
            raise self._mismatch(f"an end at byte {end}")

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        # `os` may be None when the interpreter exits.
        for descriptor in self._descriptors:
            close(descriptor)

    def fetch_offsets(self, number: int) -> None:
        """Asks the operating system to read the offsets of a record in advance."""
        place = number * OFFSET_BYTES
        os.posix_fadvise(self._offsets, place, 2 * OFFSET_BYTES, os.POSIX_FADV_WILLNEED)

    def fetch(self, number: int) -> None:
        """Asks the operating system to read a record in advance."""
        begin, end = self._extent(number)
        os.posix_fadvise(self._file, begin, end - begin, os.POSIX_FADV_WILLNEED)

    def read(self, number: int) -> bytes:
        begin, end = self._extent(number)
        framed = os.pread(self._file, end - begin, begin)
        data = framed[HEADER_BYTES:-FOOTER_BYTES]
        # A file that is truncated while being read returns fewer bytes.
        framed = framed.ljust(FRAME_BYTES, b"\0")
        length, length_crc = struct.unpack("<QI", framed[:HEADER_BYTES])
        (data_crc,) = struct.unpack("<I", framed[-FOOTER_BYTES:])
        if (
            masked_crc(framed[:8]) != length_crc
            or length != len(data)
            or masked_crc(data) != data_crc
        ):
            path, offsets = self._paths
            raise mirrors.damaged(
                f"{path}: record {number} (bytes {begin} to {end}, from "
                f"{offsets.name}) does not match its checksum. One of the files was "
                "damaged; build both again or copy both anew",
                self._paths,
            )
        return data

    def _extent(self, number: int) -> tuple[int, int]:
        begin, end = self._read_offsets(number, 2)
        if not begin + FRAME_BYTES <= end <= self._size:
            raise self._mismatch(f"bytes {begin} to {end} for record {number}")
        return begin, end

    def _read_offsets(self, first: int, count: int) -> tuple[int, ...]:
        data = os.pread(self._offsets, count * OFFSET_BYTES, first * OFFSET_BYTES)
        if len(data) < count * OFFSET_BYTES:
            raise self._mismatch(f"none for record {first}")
        return struct.unpack(f"<{count}Q", data)

    def _mismatch(self, content: str) -> mirrors.DamagedShardError:
        path, offsets = self._paths
        return mirrors.damaged(
            f"{offsets}: expected where the records of {path} ({self._size} bytes) "
            f"begin and end, found {content}. One of the files was truncated, damaged "
            "or replaced; build both again or copy both anew",
            self._paths,
        )


def max_open_shards() -> int:
    """Returns the maximum number of shards that a reader keeps open, up to 4,096.

    Each shard has two open files. A reader opens at most a quarter of the files that
    the process may open, because a run also has other readers and other open files.
    """
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY:
        return _MAX_SHARDS
    return min(max(soft // 8, 1), _MAX_SHARDS)
