"""Shards: TFRecord files, written with offsets and read at any record.

The offsets let a sample of an epoch be a pure function of its number, and a resumed
run start without re-reading.
"""

import bisect
import errno
import functools
import os
import pathlib
import resource
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np
import tensorflow as tf

from seg_tf import files
from seg_tf.data import mirrors, record_schema
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
_MOST_SHARDS = 4096
# Open files with which any number of shards is read.
_ENOUGH = 256

_T = TypeVar("_T")


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
                    offsets.append(offsets[-1] + FRAME_BYTES + len(record))
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


class RecordReader:
    """Random access to the records of several shards as one sequence.

    Only the records asked for are read from the disk; a mapped file would read 100
    times as much. Few of the shards are open at once, so there may be any number of
    them. Threads and forked processes may share a reader.

    Args:
        paths: the shards, in order.
        in_order: whether most records are read one after the other, which the system
            then reads ahead.

    Raises:
        DamagedShardError: if a file and its offsets do not belong together, naming the
            one that is damaged.
    """

    def __init__(self, paths: Sequence[pathlib.Path], *, in_order: bool = False):
        self._paths = [pathlib.Path(path) for path in paths]
        self._mirror = mirrors.mirror_of(self._paths[0].parent) if paths else None
        at_once = shards_at_once()
        if self._mirror is not None:
            at_once = min(at_once, self._mirror.open_at_once)
        # An evicted shard is closed when the last thread that reads it lets go of it.
        self._open = functools.lru_cache(at_once)(
            functools.partial(_open_shard, self._paths, self._mirror, in_order)
        )
        self._sizes: list[int] = []
        self._first_records = [0]
        for number, path in enumerate(self._paths):
            if self._mirror is not None:
                described = self._mirror.shards[path.name]
                size, num_records = described.bytes, described.records
            else:
                shard = self._open(number)
                size, num_records = shard.size, shard.num_records
            self._sizes.append(size)
            self._first_records.append(self._first_records[-1] + num_records)

    def __len__(self) -> int:
        return self._first_records[-1]

    def __getitem__(self, number: int) -> bytes:
        """The `number`-th record.

        Raises:
            DamagedShardError: if a checksum does not match, naming the shard, the
                record and its place in the file.
        """
        return self.read([number])[0]

    def read(self, numbers: Sequence[int]) -> list[bytes]:
        """Records by their numbers, of which the disk is asked at once."""
        places = [self.locate(number) for number in numbers]
        if len(places) > 1:
            for place in places:
                self._ask(_OpenShard.fetch_offsets, *place)
            for place in places:
                self._ask(_OpenShard.fetch, *place)
        return [self._ask(_OpenShard.__getitem__, *place) for place in places]

    def _ask(
        self, question: Callable[["_OpenShard", int], _T], shard: int, record: int
    ) -> _T:
        """Asks a shard for a record; a damaged one of a mirror is fetched anew."""
        if self._mirror is None:
            return question(self._shard(shard), record)
        path = self._paths[shard]
        return self._mirror.healed(
            [path, _offsets_path(path)],
            lambda: question(self._shard(shard), record),
            self._open.cache_clear,
        )

    @property
    def is_remote(self) -> bool:
        return self._mirror is not None

    def prefetch(self, numbers: Sequence[int]) -> None:
        """Has the shards of some records fetched that are wanted later."""
        if self._mirror is not None:
            wanted = {self.locate(int(number))[0] for number in numbers}
            self._mirror.prefetch(self._paths[shard] for shard in sorted(wanted))

    def locate(self, number: int) -> tuple[int, int]:
        """The shard, and the record in it, of a record of the sequence."""
        if not 0 <= number < len(self):
            raise IndexError(
                f"`number` must be below the {len(self)} records. Received: {number}"
            )
        shard = bisect.bisect_right(self._first_records, number) - 1
        return shard, number - self._first_records[shard]

    def records_of(self, shard: int) -> range:
        """The numbers of the records of a shard."""
        return range(*self._first_records[shard : shard + 2])

    def _shard(self, number: int) -> "_OpenShard":
        shard = self._open(number)
        if shard.size != self._sizes[number]:
            raise DamagedShardError(
                f"{shard.path}: expected {self._sizes[number]} bytes, as when it was "
                f"first opened, found {shard.size}. The file was replaced while it was "
                "read; start again"
            )
        return shard


def _open_shard(
    paths: Sequence[pathlib.Path],
    mirror: mirrors.Mirror | None,
    in_order: bool,
    number: int,
) -> "_OpenShard":
    path = paths[number]
    if mirror is None:
        return _OpenShard(path, in_order=in_order)
    while True:
        mirror.fetch(path)
        mirror.fetch(_offsets_path(path))
        try:
            return _OpenShard(path, in_order=in_order)
        except DamagedShardError:
            # Another rank may have made room meanwhile.
            if path.exists() and _offsets_path(path).exists():
                raise


class _OpenShard:
    """An open shard and its open offsets, closed with the last reference to it."""

    def __init__(self, path: pathlib.Path, *, in_order: bool):
        self.path = path
        self._descriptors: list[int] = []
        self._file, self._offsets = map(self._opened, (path, _offsets_path(path)))
        if not in_order:
            os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_RANDOM)
        self.size = os.fstat(self._file).st_size
        offsets_size = os.fstat(self._offsets).st_size
        num_offsets, rest = divmod(offsets_size, OFFSET_BYTES)
        # A record takes some bytes: more offsets than that are not even read.
        if rest or not 1 <= num_offsets <= self.size // FRAME_BYTES + 1:
            raise self._damaged_offsets(
                f"found {offsets_size} bytes, which are no offsets of its records"
            )
        self.num_records = num_offsets - 1
        (end,) = self._read_offsets(self.num_records, 1)
        if end != self.size:
            if self._true_offsets is not None:
                raise self._damaged_offsets(f"found {end} at its end")
            raise DamagedShardError(
                f"{path}: expected {end} bytes, as {_offsets_path(path).name} says, "
                f"found {self.size}. The file is truncated or was replaced; build it "
                "again"
            )

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        # `os` may be gone when the interpreter ends.
        for descriptor in self._descriptors:
            close(descriptor)

    def fetch_offsets(self, number: int) -> None:
        """Has the system read the offsets of a record, without waiting for them."""
        place = number * OFFSET_BYTES
        os.posix_fadvise(self._offsets, place, 2 * OFFSET_BYTES, os.POSIX_FADV_WILLNEED)

    def fetch(self, number: int) -> None:
        begin, end = self._extent(number)
        os.posix_fadvise(self._file, begin, end - begin, os.POSIX_FADV_WILLNEED)

    def __getitem__(self, number: int) -> bytes:
        begin, end = self._extent(number)
        framed = os.pread(self._file, end - begin, begin)
        if len(framed) < end - begin:
            raise DamagedShardError(
                f"{self.path}: record {number} (bytes {begin} to {end}) is cut off: "
                f"the file ends at {begin + len(framed)}. It was truncated while it "
                "was read; build it again or copy it anew"
            )
        data = framed[HEADER_BYTES:-FOOTER_BYTES]
        header = framed[:8]
        (length_crc,) = struct.unpack("<I", framed[8:HEADER_BYTES])
        (data_crc,) = struct.unpack("<I", framed[-FOOTER_BYTES:])
        if (
            masked_crc(header) != length_crc
            or struct.unpack("<Q", header)[0] != len(data)
            or masked_crc(data) != data_crc
        ):
            true_offsets = self._true_offsets
            if (
                true_offsets is not None
                and [begin, end] != true_offsets[number : number + 2]
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

    def _extent(self, number: int) -> tuple[int, int]:
        """First byte of a record with its framing, and the byte after the last."""
        begin, end = self._read_offsets(number, 2)
        if not begin + FRAME_BYTES <= end <= self.size:
            raise self._damaged_offsets(
                f"found bytes {begin} to {end} for record {number}"
            )
        return begin, end

    def _opened(self, path: pathlib.Path) -> int:
        try:
            self._descriptors.append(_open_to_read(path))
        except FileNotFoundError as error:
            raise DamagedShardError(f"{path}: the file is missing") from error
        return self._descriptors[-1]

    def _read_offsets(self, first: int, count: int) -> tuple[int, ...]:
        data = os.pread(self._offsets, count * OFFSET_BYTES, first * OFFSET_BYTES)
        if len(data) < count * OFFSET_BYTES:
            raise self._damaged_offsets(f"found none of record {first}")
        return struct.unpack(f"<{count}Q", data)

    @functools.cached_property
    def _true_offsets(self) -> list[int] | None:
        """The offsets as the lengths of the records say; None if those are damaged."""
        return record_schema.read_offsets(self._file, self.size)

    def _damaged_offsets(self, found: str) -> DamagedShardError:
        offsets_path = _offsets_path(self.path)
        return DamagedShardError(
            f"{offsets_path}: expected where the records of {self.path.name} "
            f"({self.size} bytes) begin and end, {found}. The file was damaged or "
            "replaced after it was written; build the records again or copy both files "
            "anew"
        )


def shards_at_once() -> int:
    """The most shards that a reader keeps open, with two files each.

    A quarter of the limit: a run has a reader for each split, and other files.
    """
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY:
        return _MOST_SHARDS
    return min(max(soft // 8, 1), _MOST_SHARDS)


def _open_to_read(path: pathlib.Path) -> int:
    """Opens a file; an error for the limit on open files says how to raise it."""
    try:
        return os.open(path, os.O_RDONLY)
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        raise OSError(
            f"{path}: could not be opened: this process may have {soft} files open at "
            f"once (`ulimit -n`; at most {hard} without the administrator), and all "
            f"are in use. Reading records needs {_ENOUGH}, for any number of shards. "
            "Run `ulimit -n 65536` before the command, or start the container with "
            "`--ulimit nofile=65536`"
        ) from error


def _offsets_path(path: pathlib.Path) -> pathlib.Path:
    return path.with_suffix(OFFSETS_SUFFIX)
