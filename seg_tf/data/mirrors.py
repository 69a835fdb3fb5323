"""Records in a bucket, and the local folder that caches them.

A mirror is a folder of records like any other, but its shards are fetched when they are
first read and evicted when the folder is full. Ranks and runs on one machine share it.
"""

import concurrent.futures
import contextlib
import dataclasses
import functools
import hashlib
import logging
import os
import pathlib
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from seg_tf import files, remote_files
from seg_tf.data import record_schema
from seg_tf.data.manifest import FILE_NAME, MIRROR_FILE, Manifest, Shard
from seg_tf.data.record_schema import OFFSETS_SUFFIX, SHARD_SUFFIX
from seg_tf.text.encoding import SENTENCE_PARAMETERS_FILE

_NUM_LOCKS = 64
DEFAULT_GIGABYTES = 50.0
_MAX_GIGABYTES = 1e9
# Seconds between two checks whether there is room for a shard.
_PAUSE = 0.05
# Shards that are fetched at the same time.
_NUM_THREADS = 4

_T = TypeVar("_T")


class DamagedShardError(ValueError):
    """A shard, or a file next to it, differs from what was written."""


def local_records(
    records_dir: str | os.PathLike[str], gigabytes: float | None = None
) -> pathlib.Path:
    """The folder that records are read from: `records_dir`, or the mirror of a URL.

    Args:
        records_dir: a folder, or the URL of one that fsspec can read.
        gigabytes: maximum size of the shards in a mirror; None keeps the limit of an
            earlier call, at first 50.

    Raises:
        ValueError: if there are no records at the URL, or the package that reads such
            URLs is not installed.
        OSError: if the bucket cannot be read.
    """
    remote = remote_files.to_path(str(records_dir))
    if isinstance(remote, pathlib.Path):
        return remote
    url = str(remote).rstrip("/")
    folder = mirror_folder(url)
    if not update(folder, url, gigabytes):
        raise ValueError(
            f"{url}: there is no {FILE_NAME}. Build records with "
            f"`seg-tf build-records --output_dir={url}`"
        )
    return folder


def mirror_folder(url: str) -> pathlib.Path:
    digest = hashlib.sha256(url.encode()).hexdigest()[:16]
    return files.cache_dir() / "records" / f"{url.rpartition('/')[2]}-{digest}"


def update(folder: pathlib.Path, url: str, gigabytes: float | None = None) -> bool:
    """Turns a folder into the mirror of a URL, or updates it.

    Fetches all files but the shards, and removes shards of other records. Returns False
    if there are no records at the URL.
    """
    content = remote_files.read_bytes(f"{url}/{FILE_NAME}")
    if content is None:
        return False
    with _locked(folder, "update"):
        mark, manifest_file = folder / MIRROR_FILE, folder / FILE_NAME
        previous: Mapping[str, Any] = {}
        with contextlib.suppress(FileNotFoundError, ValueError):
            previous = _read_mark(mark)
        if not manifest_file.exists() or manifest_file.read_bytes() != content:
            mark.unlink(missing_ok=True)
            for path in folder.iterdir():
                if path.is_file() and not path.name.startswith("."):
                    path.unlink()
            _write_if_changed(manifest_file, content)
        described = Manifest.load(folder).vocabulary
        vocabulary, sha256 = folder / described["file"], described["sha256"]
        if not vocabulary.exists() or files.checksum(vocabulary) != sha256:
            with files.written_aside(vocabulary) as aside:
                _download(url, vocabulary, aside, sha256=sha256)
        name = SENTENCE_PARAMETERS_FILE
        parameters = remote_files.read_bytes(f"{url}/{name}")
        if parameters is None:
            raise ValueError(f"{url}/{name}: no such file. Build the records again")
        _write_if_changed(folder / name, parameters)
        limit = gigabytes or previous.get("gigabytes", DEFAULT_GIGABYTES)
        settings = {"url": url, "gigabytes": limit}
        if not mark.exists() or previous != settings:
            files.write_json(mark, settings)
    return True


def _write_if_changed(path: pathlib.Path, content: bytes) -> None:
    if not path.exists() or path.read_bytes() != content:
        with files.written_aside(path) as aside:
            aside.write_bytes(content)


def _read_mark(path: pathlib.Path) -> Mapping[str, Any]:
    mark = files.read_json(path)
    if isinstance(mark, dict) and isinstance(mark.get("url"), str):
        size: Any = mark.get("gigabytes")
        if type(size) in (int, float) and 0 < size < _MAX_GIGABYTES:
            return mark
    raise ValueError(
        f"{path}: expected the `url` of records, and the maximum size of the shards "
        "here in `gigabytes`. Pass that URL instead of the folder, and the file is "
        f"rewritten. Received: {str(mark)[:200]}"
    )


def _download(
    url: str,
    path: pathlib.Path,
    aside: pathlib.Path,
    size: int | None = None,
    sha256: str | None = None,
) -> None:
    """Fetches the file of that name from a URL to `aside`."""
    try:
        remote_files.download(f"{url}/{path.name}", aside, size, sha256)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{url}/{path.name}: there is no such file, but {FILE_NAME} lists it. "
            "Build the records again, or copy all of their files there"
        ) from error
    except OSError as error:
        raise OSError(f"{error}. It was being copied to {path}") from error


def _locked(
    folder: pathlib.Path, purpose: str
) -> contextlib.AbstractContextManager[None]:
    """A lock of a mirror; a build that reads it holds the lock of the folder itself."""
    lock_folder = folder / "locks" / purpose
    lock_folder.mkdir(parents=True, exist_ok=True)
    return files.locked(lock_folder)


def mirror_of(folder: pathlib.Path) -> "Mirror | None":
    """The mirror in a folder; None for an ordinary folder."""
    try:
        changed = (folder / MIRROR_FILE).stat().st_mtime_ns
    except OSError:
        return None
    return _opened(folder, changed)


@functools.lru_cache(maxsize=64)
def _opened(folder: pathlib.Path, changed: int) -> "Mirror":
    del changed  # Part of the key: the limit may have changed.
    mark = _read_mark(folder / MIRROR_FILE)
    return Mirror(folder, mark["url"], int(mark["gigabytes"] * 1e9))


@dataclasses.dataclass(frozen=True)
class Mirror:
    """Fetches shards from a URL, and the files next to them, to a bounded folder."""

    folder: pathlib.Path
    url: str
    max_bytes: int

    @functools.cached_property
    def shards(self) -> dict[str, Shard]:
        splits = Manifest.load(self.folder).splits.values()
        return {shard.file: shard for shards in splits for shard in shards}

    @functools.cached_property
    def max_open_shards(self) -> int:
        """Maximum number of open shards: an open file takes space when removed."""
        largest = max(shard.bytes for shard in self.shards.values())
        return max(1, self.max_bytes // (2 * max(largest, 1)))

    @functools.cached_property
    def _pool(self) -> concurrent.futures.ThreadPoolExecutor:
        return concurrent.futures.ThreadPoolExecutor(_NUM_THREADS, "fetch shards")

    @functools.cached_property
    def _pending(self) -> dict[str, concurrent.futures.Future[None]]:
        return {}

    def fetch(self, path: pathlib.Path) -> None:
        """Ensures that a file is in the mirror, and marks it as recently used.

        Raises:
            OSError: if it cannot be fetched, after several attempts.
        """
        shard = self.shards[path.with_suffix(SHARD_SUFFIX).name]
        sizes = {
            SHARD_SUFFIX: shard.bytes,
            OFFSETS_SUFFIX: (shard.records + 1) * record_schema.OFFSET_BYTES,
            **{kind.suffix: kind.num_bytes(shard) for kind in record_schema.LENGTHS},
        }
        size = sizes[path.suffix]
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_size == size:
                os.utime(path)
                return
        with self._fetching(path):  # Another rank may be fetching it.
            if path.exists() and path.stat().st_size == size:
                return
            path.unlink(missing_ok=True)
            if path.suffix == OFFSETS_SUFFIX:
                # Recomputed, because the manifest has no checksum of offsets.
                with contextlib.suppress(FileNotFoundError):
                    record_schema.write_offsets(path.with_suffix(SHARD_SUFFIX), path)
                return
            with contextlib.ExitStack() as stack:
                while True:
                    with _locked(self.folder, "room"):
                        if path.suffix != SHARD_SUFFIX or self._has_room(size):
                            # From now on `files.being_written` lists it.
                            aside = stack.enter_context(files.written_aside(path))
                            break
                    time.sleep(_PAUSE)
                sha256 = shard.sha256 if path.suffix == SHARD_SUFFIX else None
                _download(self.url, path, aside, size, sha256)

    def _fetching(self, path: pathlib.Path) -> contextlib.AbstractContextManager[None]:
        """Keeps other ranks from fetching a shard or the files next to it."""
        return _locked(self.folder, str(zlib.crc32(path.stem.encode()) % _NUM_LOCKS))

    def with_repair(
        self,
        paths: Sequence[pathlib.Path],
        read: Callable[[], _T],
        forget: Callable[[], object] = lambda: None,
    ) -> _T:
        """Reads `paths` of the mirror, which are fetched once more if one is damaged.

        `forget` is called after the files have been removed. Raises a DamagedShardError
        if they are still damaged after fetching them again.
        """
        try:
            return read()
        except ValueError as error:
            logging.warning("%s. Fetching it again from %s", error, self.url)
        for path in paths:
            with self._fetching(path):
                path.unlink(missing_ok=True)
        forget()
        try:
            return read()
        except ValueError as error:
            raise DamagedShardError(
                f"{error}. It was fetched again from {self.url} to {self.folder}, and "
                "is damaged there too"
            ) from error

    def prefetch(self, paths: Iterable[pathlib.Path]) -> None:
        """Starts to fetch shards that are read soon, without waiting for them."""
        for path in paths:
            if path.name not in self._pending and not path.exists():
                self._pending[path.name] = self._pool.submit(self._prefetch, path)

    def _prefetch(self, path: pathlib.Path) -> None:
        try:
            self.fetch(path)
            self.fetch(path.with_suffix(OFFSETS_SUFFIX))
        except OSError as error:
            # The reader tries again, and fails if that does not help.
            logging.warning("%s could not be fetched ahead: %s", path.name, error)
        finally:
            self._pending.pop(path.name, None)

    def make_room(self) -> None:
        """Removes the least recently opened shards while there are too many bytes."""
        with _locked(self.folder, "room"):
            self._has_room(0)

    def _has_room(self, num_bytes: int) -> bool:
        """Makes room for a shard; False while other shards are being fetched.

        The caller holds the lock for room.
        """
        # Shards that this process, or another, is fetching.
        names = files.being_written(self.folder, self.shards)
        pending = {name: self.shards[name].bytes for name in names}
        present = []
        for name in self.shards.keys() - pending.keys():
            with contextlib.suppress(FileNotFoundError):
                status = (self.folder / name).stat()
                present.append((status.st_mtime_ns, status.st_size, name))
        excess = sum(pending.values()) + num_bytes - self.max_bytes
        if pending and excess > 0:
            return False
        excess += sum(size for _, size, _ in present)
        for _, size, name in sorted(present):
            if excess <= 0:
                break
            for suffix in (SHARD_SUFFIX, OFFSETS_SUFFIX):
                (self.folder / name).with_suffix(suffix).unlink(missing_ok=True)
            excess -= size
        return True


def with_repair(paths: Sequence[pathlib.Path], read: Callable[[], _T]) -> _T:
    """Reads files; files of a mirror are fetched first: see `Mirror.with_repair`."""
    mirror = mirror_of(paths[0].parent) if paths else None
    if mirror is None:
        return read()

    def fetch_and_read() -> _T:
        for path in paths:
            mirror.fetch(path)
        return read()

    return mirror.with_repair(paths, fetch_and_read)


def fetch(path: pathlib.Path) -> None:
    """Ensures that a file is present, if its folder is a mirror."""
    mirror = mirror_of(path.parent)
    if mirror is not None:
        mirror.fetch(path)
