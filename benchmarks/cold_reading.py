"""Compares random reads from shards that are not in memory with memory-mapped files.

  python -m benchmarks.cold_reading

Prints the records per second and the bytes read from disk for each record. The other
side maps whole shards, keeps all offsets in memory and does not verify checksums.
"""

import itertools
import math
import mmap
import os
import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

import numpy as np
from absl import flags

from benchmarks import paired, sample_data
from seg_tf import command_line

_RECORDS = flags.DEFINE_string(
    "records_dir", None, "Window records. Default: made from some of the sample text."
)
_GIGABYTES = flags.DEFINE_float(
    "gigabytes", 4.0, "Size of the shards that are made of them."
)
_SHARD_BYTES = 32e6  # 64 million characters of text.
_BATCH = flags.DEFINE_integer("batch_size", 64, "Records requested at once.")
_BATCHES = flags.DEFINE_integer("batches", 20, "Batches of a round.")
_ROUNDS = flags.DEFINE_integer("rounds", 9, "Counted rounds.")


def _copies(paths: Sequence[pathlib.Path], folder: pathlib.Path) -> list[pathlib.Path]:
    """Writes shards of the usual size that repeat the records. Returns their paths."""
    from seg_tf.data import shards

    records = list(shards.RecordReader(paths, in_order=True))
    times = max(1, round(_SHARD_BYTES / sum(map(len, records))))
    count = max(1, round(_GIGABYTES.value * 1e9 / _SHARD_BYTES))
    copies = [folder / f"{number}.tfrecord" for number in range(count)]
    for path in copies:
        shards.write_shard(path, itertools.chain.from_iterable([records] * times))
    return copies


def _forget(paths: Sequence[pathlib.Path]) -> None:
    """Removes shards and offsets from the page cache, unless they are mapped."""
    for path in paths:
        for suffix in (path.suffix, ".offsets"):
            with open(path.with_suffix(suffix), "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _bytes_from_disk() -> int:
    """Returns the number of bytes that this process has read from disks."""
    lines = pathlib.Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if "read_bytes" in line)


class _MappedReader:
    """Reads records from memory-mapped shards, with all offsets in memory."""

    def __init__(self, paths: Sequence[pathlib.Path], locate: Callable):
        self._locate = locate
        self._offsets = [
            np.fromfile(path.with_suffix(".offsets"), "<u8") for path in paths
        ]
        self._maps = []
        for path in paths:
            with open(path, "rb") as file:
                self._maps.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    def read(self, numbers: Sequence[int]) -> list[bytes]:
        records = []
        for shard, record in map(self._locate, numbers):
            begin, end = self._offsets[shard][record : record + 2]
            records.append(self._maps[shard][begin:end])
        return records


def _compare(paths: Sequence[pathlib.Path]) -> None:
    from seg_tf.data import shards

    own = shards.RecordReader(paths)
    sides = {"ours": lambda: own, "mapped": lambda: _MappedReader(paths, own.locate)}
    rates = {name: paired.Rates() for name in sides}
    bytes_read = {name: [] for name in sides}
    generator = np.random.default_rng(0)
    shape = (_BATCHES.value, _BATCH.value)
    for _ in range(_ROUNDS.value):
        for name, new_reader in sides.items():
            reader = new_reader()
            batches = generator.integers(len(own), size=shape).tolist()
            _forget(paths)
            before = _bytes_from_disk()
            wall, cpu = time.perf_counter(), time.process_time()
            for batch in batches:
                reader.read(batch)
            rates[name].wall.append(math.prod(shape) / (time.perf_counter() - wall))
            rates[name].cpu.append(math.prod(shape) / (time.process_time() - cpu))
            read_share = (_bytes_from_disk() - before) / math.prod(shape)
            bytes_read[name].append(read_share)
            del reader  # Mapped files cannot be dropped from the cache.
    paired.report(rates, of="ours", against="mapped", unit="records/s")
    for name, values in bytes_read.items():
        print(f"  {name}: {statistics.median(values) / 1024:.1f} KiB read a record")


def main(_: Sequence[str]) -> None:
    from seg_tf.data.manifest import Manifest, shard_paths

    paired.pin_to_one_core()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(_RECORDS.value or scratch)
        if not _RECORDS.value:
            sample_data.build_wikipedia_windows(folder)
        manifest = Manifest.load(folder)
        copies_dir = pathlib.Path(scratch) / "copies"
        copies_dir.mkdir()
        copies = _copies(shard_paths(manifest, folder, "train"), copies_dir)
        paired.print_machine()
        print(f"{len(copies)} shards, batches of {_BATCH.value} records")
        _compare(copies)


if __name__ == "__main__":
    sys.exit(command_line.run(main))
