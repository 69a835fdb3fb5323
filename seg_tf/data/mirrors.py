"""Mirrors: local folders that cache remote records.

A mirror is used like any folder of records, but shards are fetched when first read and
evicted when the mirror is full. All ranks and runs on a machine use the same mirrors.
"""

import contextlib
import functools
import hashlib
import logging
import os
import pathlib
import threading
import time
import zlib
from collections.abc import Iterable, Sequence

from seg_tf import files, remote_files
from seg_tf.data import record_schema
from seg_tf.data.manifest import FILE_NAME, MIRROR_FILE, Manifest, Shard
from seg_tf.data.record_schema import OFFSETS_SUFFIX, SHARD_SUFFIX
from seg_tf.text.encoding import SENTENCE_PARAMETERS_FILE

_NUM_LOCKS = 64
DEFAULT_GIGABYTES = 50.0
# Seconds between two checks for free space.
_PAUSE = 0.05
_NUM_THREADS = 4


class DamagedShardError(ValueError):
    """Raised if a shard, or a file next to it, differs from what was written."""


def local_records(
    records_dir: str | os.PathLike[str], gigabytes: float | None = None
) -> pathlib.Path:
    """Returns the local folder of records. For a URL, updates and returns its mirror.

    `gigabytes` limits a mirror's shards, by default to the previous limit or else 50.
    Raises a ValueError if the URL has no records, and an OSError if a download fails.
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
    """Creates or updates the mirror `folder`. Returns whether `url` has a manifest.

    Fetches the manifest, vocabulary and sentence parameters. If the manifest has
    changed, removes all old files. See `local_records` for `gigabytes` and errors.
    """
    content = remote_files.read_bytes(f"{url}/{FILE_NAME}")
    if content is None:
        return False
    with _locked(folder, "update"):
        mark, manifest_file = folder / MIRROR_FILE, folder / FILE_NAME
        previous = files.read_json(mark) if mark.exists() else {}
        if not manifest_file.exists() or manifest_file.read_bytes() != content:
            clear(folder)
            _write_if_changed(manifest_file, content)
        vocabulary = Manifest.load(folder).vocabulary["file"]
        for name in (vocabulary, SENTENCE_PARAMETERS_FILE):
            content = remote_files.read_bytes(f"{url}/{name}")
            if content is None:
                raise _missing(url, name)
            _write_if_changed(folder / name, content)
        limit = gigabytes or previous.get("gigabytes", DEFAULT_GIGABYTES)
        settings = {"url": url, "gigabytes": limit}
        if not mark.exists() or previous != settings:
            files.write_json(mark, settings)
    return True


def clear(folder: pathlib.Path) -> None:
    """Removes the files of a mirror, first the one that marks it as a mirror."""
    (folder / MIRROR_FILE).unlink(missing_ok=True)
    for path in folder.iterdir():
        if path.is_file() and not path.name.startswith("."):
            path.unlink()


def _write_if_changed(path: pathlib.Path, content: bytes) -> None:
    if not path.exists() or path.read_bytes() != content:
        files.write_bytes(path, content)


def _missing(url: str, name: str) -> FileNotFoundError:
    return FileNotFoundError(
        f"{url}/{name}: there is no such file, but it belongs to the records that "
        f"{FILE_NAME} lists. Build them again, or copy all of their files there"
    )


def _locked(
    folder: pathlib.Path, purpose: str
) -> contextlib.AbstractContextManager[None]:
    lock_folder = folder / "locks" / purpose
    lock_folder.mkdir(parents=True, exist_ok=True)
    return files.locked(lock_folder)


def mirror_of(folder: pathlib.Path) -> "Mirror | None":
    """Returns the mirror in a folder, or None for an ordinary folder."""
    try:
        changed = (folder / MIRROR_FILE).stat().st_mtime_ns
    except OSError:
        return None
    return _opened(folder, changed)


@functools.lru_cache(maxsize=64)
def _opened(folder: pathlib.Path, changed: int) -> "Mirror":
    del changed  # Part of the cache key, because the limit may have changed.
    mark = files.read_json(folder / MIRROR_FILE)
    return Mirror(folder, mark["url"], int(mark["gigabytes"] * 1e9))


class Mirror:
    """A folder that caches records at `url`, with at most `max_bytes` of shards."""

    def __init__(self, folder: pathlib.Path, url: str, max_bytes: int):
        self.folder = folder
        self.url = url
        self.max_bytes = max_bytes
        self._slots = threading.BoundedSemaphore(_NUM_THREADS)
        self._pending: set[str] = set()

    @functools.cached_property
    def shards(self) -> dict[str, Shard]:
        splits = Manifest.load(self.folder).splits.values()
        return {shard.file: shard for shards in splits for shard in shards}

    @functools.cached_property
    def max_open_shards(self) -> int:
        """Maximum number of open shards, which use disk space even when evicted."""
        largest = max(shard.bytes for shard in self.shards.values())
        return max(1, self.max_bytes // (2 * max(largest, 1)))

    def fetch(self, path: pathlib.Path) -> None:
        """Fetches a file or, if it exists, marks it as used. May raise an OSError."""
        shard = self.shards[path.with_suffix(SHARD_SUFFIX).name]
        is_shard = path.suffix == SHARD_SUFFIX
        size = {
            SHARD_SUFFIX: shard.bytes,
            OFFSETS_SUFFIX: (shard.records + 1) * record_schema.OFFSET_BYTES,
            **{kind.suffix: kind.num_bytes(shard) for kind in record_schema.LENGTHS},
        }[path.suffix]
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_size == size:
                os.utime(path)
                return
        # Another rank may be fetching the file.
        lock = str(zlib.crc32(path.stem.encode()) % _NUM_LOCKS)
        with _locked(self.folder, lock), contextlib.ExitStack() as stack:
            if path.exists() and path.stat().st_size == size:
                return
            path.unlink(missing_ok=True)
            while True:
                with _locked(self.folder, "room"):
                    if not is_shard or self._has_room(size):
                        # `files.being_written` lists the file from here on.
                        aside = stack.enter_context(files.written_aside(path))
                        break
                time.sleep(_PAUSE)
            try:
                sha256 = shard.sha256 if is_shard else None
                remote_files.download(f"{self.url}/{path.name}", aside, size, sha256)
            except FileNotFoundError as error:
                raise _missing(self.url, path.name) from error
            except OSError as error:
                raise OSError(f"{error}. It was being copied to {path}") from error

    def prefetch(self, paths: Iterable[pathlib.Path]) -> None:
        """Starts fetching shards that will be read soon, without waiting for them."""
        for path in paths:
            if path.name not in self._pending and not path.exists():
                self._pending.add(path.name)
                # A process that ends does not wait for a daemon.
                threading.Thread(
                    target=self._prefetch, args=(path,), daemon=True
                ).start()

    def _prefetch(self, path: pathlib.Path) -> None:
        try:
            with self._slots:
                self.fetch(path)
                self.fetch(path.with_suffix(OFFSETS_SUFFIX))
        except OSError as error:
            # The reader tries again and raises the error if it persists.
            logging.warning("%s could not be fetched ahead: %s", path.name, error)
        finally:
            self._pending.discard(path.name)

    def make_room(self) -> None:
        """Evicts the least recently used shards until the mirror fits its limit."""
        with _locked(self.folder, "room"):
            self._has_room(0)

    def _has_room(self, num_bytes: int) -> bool:
        """Evicts shards to make room. Returns False if other fetches must end first."""
        # The caller holds the "room" lock. Any process may be fetching these shards.
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


def fetch(path: pathlib.Path) -> None:
    """Calls `Mirror.fetch` for a file if its folder is a mirror."""
    mirror = mirror_of(path.parent)
    if mirror is not None:
        mirror.fetch(path)


def damaged(message: str, paths: Sequence[pathlib.Path]) -> DamagedShardError:
    """Returns an error about damaged files. Removes them if they are in a mirror."""
    mirror = mirror_of(paths[0].parent)
    if mirror is None:
        return DamagedShardError(message)
    for path in paths:
        path.unlink(missing_ok=True)
    return DamagedShardError(
        f"{message}. The copy in {mirror.folder} was removed: run the same command "
        f"again, and it is fetched from {mirror.url}"
    )
