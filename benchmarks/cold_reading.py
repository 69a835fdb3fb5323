"""Records at random of shards that are not in memory: the reader and mapped files.

  python -m benchmarks.cold_reading

Records per second, and bytes that the disk reads for each record. The other side maps
the shards and has all offsets in memory; it checks no checksum.
"""

import mmap
import os
import pathlib
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence

import numpy as np
from absl import flags

from benchmarks import paired, sample_data
from seg_tf import command_line

_RECORDS = flags.DEFINE_string(
    "records_dir", None, "Window records. Default: made from some of the sample text."
)
_GIGABYTES = flags.DEFINE_float("gigabytes", 2.0, "So many copies of them are read.")
_BATCH = flags.DEFINE_integer("batch_size", 64, "Records asked for at once.")
_BATCHES = flags.DEFINE_integer("batches", 30, "Batches of a round.")
_ROUNDS = flags.DEFINE_integer("rounds", 9, "Counted rounds.")


def _copies(paths: Sequence[pathlib.Path], folder: pathlib.Path) -> list[pathlib.Path]:
    """Copies of shards and offsets, written to the disk."""
    total = sum(path.stat().st_size for path in paths)
    copies = []
    for number in range(max(1, round(_GIGABYTES.value * 1e9 / total))):
        for path in paths:
            copies.append(folder / f"{number}-{path.name}")
            for suffix in (path.suffix, ".offsets"):
                with open(copies[-1].with_suffix(suffix), "wb") as file:
                    file.write(path.with_suffix(suffix).read_bytes())
                    file.flush()
                    os.fsync(file.fileno())
    return copies


def _forget(paths: Sequence[pathlib.Path]) -> None:
    """Drops shards and offsets from the system's cache; mapped files would stay."""
    for path in paths:
        for suffix in (path.suffix, ".offsets"):
            with open(path.with_suffix(suffix), "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _bytes_from_disk() -> int:
    """Bytes that this process has had read from disks."""
    lines = pathlib.Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if "read_bytes" in line)


class _MappedReader:
    """Shards mapped as a whole, offsets in memory."""

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
    from data_pipelines.records import shards

    own = shards.RecordReader(paths)
    generator = np.random.default_rng(0)
    bytes_read = {}

    def side(name: str, new_reader: Callable):
        bytes_read[name] = []

        def work() -> float:
            _forget(paths)
            reader, before = new_reader(), _bytes_from_disk()
            for _ in range(_BATCHES.value):
                reader.read(generator.integers(len(own), size=_BATCH.value).tolist())
            count = _BATCHES.value * _BATCH.value
            bytes_read[name].append((_bytes_from_disk() - before) / count)
            return count

        return work

    rates = paired.interleave(
        {
            "ours": side("ours", lambda: own),
            "mapped": side("mapped", lambda: _MappedReader(paths, own.locate)),
        },
        _ROUNDS.value,
    )
    paired.report(rates, of="ours", against="mapped", unit="records/s")
    for name, values in bytes_read.items():
        print(f"  {name}: {statistics.median(values) / 1024:.1f} KiB read a record")


def main(_: Sequence[str]) -> None:
    from data_pipelines.records.manifest import Manifest, shard_paths

    paired.pin_to_one_core()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(_RECORDS.value or scratch)
        if not _RECORDS.value:
            sample_data.build_wikipedia_windows(folder)
        manifest = Manifest.load(folder)
        copies_dir = pathlib.Path(scratch) / "copies"
        copies_dir.mkdir()
        copies = _copies(shard_paths(manifest, folder, "train"), copies_dir)
        train = manifest.splits["train"]
        size = sum(shard.bytes for shard in train) / manifest.count("records", "train")
        paired.print_machine()
        print(
            f"{len(copies)} shards, batches of {_BATCH.value} records of "
            f"{size / 1024:.1f} KiB"
        )
        _compare(copies)


if __name__ == "__main__":
    sys.exit(command_line.run(main))
