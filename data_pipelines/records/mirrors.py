"""Records that lie in a bucket, and the local folder that holds what is read of them.

A mirror is a folder of records like any other, but shards come to it when they are
first read and go when it is full. Ranks and runs on one machine share it.
"""

import concurrent.futures
import contextlib
import dataclasses
import functools
import hashlib
import logging
import os
import pathlib
import zlib
from collections.abc import Iterable, Iterator

from data_pipelines.records import record_schema, remote_files
from data_pipelines.records.manifest import (
    FILE_NAME,
    MIRROR_FILE,
    Manifest,
    Shard,
)
from seg_tf import file_listing, files
from seg_tf.text.preparation import SENTENCE_PARAMETERS_FILE

_NUM_LOCKS = 64
DEFAULT_GIGABYTES = 50.0
# Shards that are fetched at the same time.
_THREADS = 4


def local_records(
    records_dir: str | os.PathLike[str], gigabytes: float | None = None
) -> pathlib.Path:
    """The folder that records are read from: itself, or the mirror of a URL.

    Args:
        records_dir: a folder, or a URL of one that fsspec can read.
        gigabytes: the most that the shards in a mirror may take; None keeps what an
            earlier call said, or takes 50.

    Raises:
        ValueError: if there are no records at the URL, or the package that reads such
            URLs is not installed.
        OSError: if the bucket cannot be read.
    """
    remote = file_listing.to_path(str(records_dir))
    if isinstance(remote, pathlib.Path):
        return remote
    url = str(remote).rstrip("/")
    folder = mirror_folder(url)
    if not update(folder, url, gigabytes):
        raise ValueError(
            f"{url}: there is no {FILE_NAME}. Build records with `python -m "
            f"data_pipelines.build_records --output_dir={url}`"
        )
    return folder


def mirror_folder(url: str) -> pathlib.Path:
    """The folder of a URL's mirror, in the user's cache."""
    digest = hashlib.sha256(url.encode()).hexdigest()[:16]
    return files.cache_dir() / "records" / f"{url.rpartition('/')[2]}-{digest}"


def update(folder: pathlib.Path, url: str, gigabytes: float | None = None) -> bool:
    """Makes a folder the mirror of a URL, or brings it up to date.

    All but the shards is fetched. Shards of other records are forgotten.

    Args:
        folder: the folder, there or not.
        url: where the records are.
        gigabytes: as of `local_records`.

    Returns:
        Whether there are records.
    """
    content = remote_files.read_bytes(f"{url}/{FILE_NAME}")
    if content is None:
        return False
    with _locked(folder, "update"):
        mark, manifest_file = folder / MIRROR_FILE, folder / FILE_NAME
        known = files.read_json(mark) if mark.exists() else {}
        if not manifest_file.exists() or manifest_file.read_bytes() != content:
            mark.unlink(missing_ok=True)
            for path in folder.iterdir():
                if path.is_file() and not path.name.startswith("."):
                    path.unlink()
            with files.written_aside(manifest_file) as aside:
                aside.write_bytes(content)
        vocabulary_file = Manifest.load(folder).vocabulary["file"]
        for name in (vocabulary_file, SENTENCE_PARAMETERS_FILE):
            if not (folder / name).exists():
                with contextlib.suppress(FileNotFoundError):
                    remote_files.download(f"{url}/{name}", folder / name)
        limit = gigabytes or known.get("gigabytes", DEFAULT_GIGABYTES)
        described = {"url": url, "gigabytes": limit}
        if not mark.exists() or known != described:
            files.write_json(mark, described)
    return True


def _locked(folder: pathlib.Path, purpose: str) -> contextlib.AbstractContextManager:
    """A lock of a mirror; a build that reads it holds the folder's own."""
    lock_folder = folder / "locks" / purpose
    lock_folder.mkdir(parents=True, exist_ok=True)
    return files.locked(lock_folder)


def mirror_of(folder: pathlib.Path) -> "Mirror | None":
    """The mirror that a folder is; None of an ordinary folder."""
    mark = folder / MIRROR_FILE
    try:
        changed = mark.stat().st_mtime_ns
    except OSError:
        return None
    return _opened(folder, changed)


@functools.lru_cache(maxsize=64)
def _opened(folder: pathlib.Path, changed: int) -> "Mirror":
    del changed  # Another limit, another object.
    mark = files.read_json(folder / MIRROR_FILE)
    return Mirror(folder, mark["url"], int(mark["gigabytes"] * 1e9))


@dataclasses.dataclass(frozen=True)
class Mirror:
    """Fetches shards, and what lies beside them, to a folder of bounded size.

    Args:
        folder: the folder.
        url: where the records are.
        max_bytes: the most that shards may take.
    """

    folder: pathlib.Path
    url: str
    max_bytes: int

    @functools.cached_property
    def shards(self) -> dict[str, Shard]:
        """The shards of all splits by file name."""
        manifest = Manifest.load(self.folder)
        return {
            shard.file: shard for shards in manifest.splits.values() for shard in shards
        }

    @functools.cached_property
    def open_at_once(self) -> int:
        """The most shards to keep open: one that is removed takes space while it is."""
        largest = max(shard.bytes for shard in self.shards.values())
        return max(1, self.max_bytes // (2 * max(largest, 1)))

    @functools.cached_property
    def _pool(self) -> concurrent.futures.ThreadPoolExecutor:
        return concurrent.futures.ThreadPoolExecutor(_THREADS, "fetch shards")

    @functools.cached_property
    def _on_the_way(self) -> dict[str, concurrent.futures.Future]:
        return {}

    def fetch(self, path: pathlib.Path) -> None:
        """Makes sure that a file of the mirror is there, and marks it as wanted.

        Raises:
            OSError: if it cannot be fetched, after several attempts.
        """
        with contextlib.suppress(FileNotFoundError):
            os.utime(path)
            return
        number = zlib.crc32(path.name.encode()) % _NUM_LOCKS
        with _locked(self.folder, str(number)):  # Another rank may be fetching it.
            if path.exists():
                return
            shard = self.shards.get(path.name)
            self.make_room(shard.bytes if shard else 0)
            remote_files.download(
                f"{self.url}/{path.name}",
                path,
                size=shard and shard.bytes,
                sha256=shard and shard.sha256,
            )

    def prefetch(self, paths: Iterable[pathlib.Path]) -> None:
        """Begins to fetch shards that are wanted soon, and does not wait for them."""
        for path in paths:
            if path.name not in self._on_the_way and not path.exists():
                self._on_the_way[path.name] = self._pool.submit(self._fetch_shard, path)

    def _fetch_shard(self, path: pathlib.Path) -> None:
        try:
            self.fetch(path)
            self.fetch(path.with_suffix(record_schema.OFFSETS_SUFFIX))
        except OSError as error:
            # Whoever reads it tries again, and fails if that does not help.
            logging.warning("%s could not be fetched ahead: %s", path.name, error)
        finally:
            self._on_the_way.pop(path.name, None)

    def make_room(self, num_bytes: int = 0) -> None:
        """Removes shards that have not been opened for longest, if it is too full.

        Args:
            num_bytes: what is to come.
        """
        with _locked(self.folder, "room"):
            found = sorted(self._stored(), key=lambda one: one[0])
            excess = sum(size for _, size, _ in found) + num_bytes - self.max_bytes
            for _, size, path in found:
                if excess <= 0:
                    break
                path.unlink(missing_ok=True)
                path.with_suffix(record_schema.OFFSETS_SUFFIX).unlink(missing_ok=True)
                excess -= size

    def _stored(self) -> Iterator[tuple[int, int, pathlib.Path]]:
        """The time when each shard was last opened, its bytes, and its path."""
        for name in self.shards:
            with contextlib.suppress(FileNotFoundError):
                status = (self.folder / name).stat()
                yield status.st_mtime_ns, status.st_size, self.folder / name


def fetch(path: pathlib.Path) -> None:
    """Makes sure that a file is there, if its folder is a mirror."""
    mirror = mirror_of(path.parent)
    if mirror is not None:
        mirror.fetch(path)
