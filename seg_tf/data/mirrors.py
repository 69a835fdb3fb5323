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
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from seg_tf import files, remote_files
from seg_tf.data import record_schema
from seg_tf.data.manifest import FILE_NAME, MIRROR_FILE, Manifest, Shard
from seg_tf.text.encoding import SENTENCE_PARAMETERS_FILE

_NUM_LOCKS = 64
DEFAULT_GIGABYTES = 50.0
_MOST_GIGABYTES = 1e9
# Seconds until it is looked again whether there is room for a shard.
_PAUSE = 0.05
# Shards that are fetched at the same time.
_THREADS = 4

_T = TypeVar("_T")


class DamagedShardError(ValueError):
    """A shard's bytes, or those of a file beside it, are not what was written."""


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
    remote = remote_files.to_path(str(records_dir))
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
    digest = hashlib.sha256(url.encode()).hexdigest()[:16]
    return files.cache_dir() / "records" / f"{url.rpartition('/')[2]}-{digest}"


def update(folder: pathlib.Path, url: str, gigabytes: float | None = None) -> bool:
    """Makes a folder the mirror of a URL, or brings it up to date.

    All but the shards is fetched. Shards of other records are forgotten. Arguments are
    those of `local_records`; returns False if there are no records.
    """
    content = remote_files.read_bytes(f"{url}/{FILE_NAME}")
    if content is None:
        return False
    with _locked(folder, "update"):
        mark, manifest_file = folder / MIRROR_FILE, folder / FILE_NAME
        known: Mapping[str, Any] = {}
        with contextlib.suppress(FileNotFoundError, ValueError):
            known = _read_mark(mark)
        if not manifest_file.exists() or manifest_file.read_bytes() != content:
            mark.unlink(missing_ok=True)
            for path in folder.iterdir():
                if path.is_file() and not path.name.startswith("."):
                    path.unlink()
            _replace(manifest_file, content)
        manifest = Manifest.load(folder)
        vocabulary = folder / manifest.vocabulary["file"]
        sha256 = manifest.vocabulary["sha256"]
        if not vocabulary.exists() or files.checksum(vocabulary) != sha256:
            _download(url, vocabulary, sha256=sha256)
        name = SENTENCE_PARAMETERS_FILE
        parameters = remote_files.read_bytes(f"{url}/{name}")
        if parameters is None:
            raise ValueError(f"{url}/{name}: no such file. Build the records again")
        _replace(folder / name, parameters)
        limit = gigabytes or known.get("gigabytes", DEFAULT_GIGABYTES)
        described = {"url": url, "gigabytes": limit}
        if not mark.exists() or known != described:
            files.write_json(mark, described)
    return True


def _replace(path: pathlib.Path, content: bytes) -> None:
    if not path.exists() or path.read_bytes() != content:
        with files.written_aside(path) as aside:
            aside.write_bytes(content)


def _read_mark(path: pathlib.Path) -> Mapping[str, Any]:
    mark = files.read_json(path)
    if isinstance(mark, dict) and isinstance(mark.get("url"), str):
        size: Any = mark.get("gigabytes")
        if type(size) in (int, float) and 0 < size < _MOST_GIGABYTES:
            return mark
    raise ValueError(
        f"{path}: expected the `url` of records, and the `gigabytes` that shards may "
        "take here. Give that URL in place of the folder, and the file is written "
        f"anew. Received: {str(mark)[:200]}"
    )


def _download(
    url: str,
    path: pathlib.Path,
    aside: pathlib.Path | None = None,
    size: int | None = None,
    sha256: str | None = None,
) -> None:
    """Fetches a file of the records at a URL, to `aside` if it is given."""
    try:
        with contextlib.ExitStack() as stack:
            aside = aside or stack.enter_context(files.written_aside(path))
            remote_files.download(f"{url}/{path.name}", aside, size, sha256)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{url}/{path.name}: there is no such file, of which {FILE_NAME} knows. "
            "Build the records again, or copy all of their files there"
        ) from error
    except OSError as error:
        raise OSError(f"{error}. It was to go to {path}") from error


def _locked(
    folder: pathlib.Path, purpose: str
) -> contextlib.AbstractContextManager[None]:
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
    mark = _read_mark(folder / MIRROR_FILE)
    return Mirror(folder, mark["url"], int(mark["gigabytes"] * 1e9))


@dataclasses.dataclass(frozen=True)
class Mirror:
    """Fetches shards from a URL, and what lies beside them, to a bounded folder."""

    folder: pathlib.Path
    url: str
    max_bytes: int

    @functools.cached_property
    def shards(self) -> dict[str, Shard]:
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
    def _on_the_way(self) -> dict[str, concurrent.futures.Future[None]]:
        return {}

    def fetch(self, path: pathlib.Path) -> None:
        """Makes sure that a file of the mirror is there, and marks it as wanted.

        Raises:
            OSError: if it cannot be fetched, after several attempts.
        """
        shard = self.shards[path.with_suffix(record_schema.SHARD_SUFFIX).name]
        size = _size(shard, path.suffix)
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_size == size:
                os.utime(path)
                return
        with self._fetching(path):  # Another rank may be fetching it.
            if path.exists() and path.stat().st_size == size:
                return
            path.unlink(missing_ok=True)
            if path.suffix == record_schema.SHARD_SUFFIX:
                self._fetch_shard(path, shard)
            elif path.suffix == record_schema.OFFSETS_SUFFIX:
                # Surer than those of the bucket, of which no checksum is known.
                with contextlib.suppress(FileNotFoundError):
                    shard_file = path.with_suffix(record_schema.SHARD_SUFFIX)
                    record_schema.write_offsets(shard_file, path)
            else:
                _download(self.url, path, size=size)

    def _fetch_shard(self, path: pathlib.Path, shard: Shard) -> None:
        with contextlib.ExitStack() as stack:
            while True:
                with _locked(self.folder, "room"):
                    if self._has_room(shard.bytes):
                        # From now on `files.being_written` finds it.
                        aside = stack.enter_context(files.written_aside(path))
                        break
                time.sleep(_PAUSE)
            _download(self.url, path, aside, shard.bytes, shard.sha256)

    def _fetching(self, path: pathlib.Path) -> contextlib.AbstractContextManager[None]:
        """Keeps others from fetching or removing a shard and what lies beside it."""
        return _locked(self.folder, str(zlib.crc32(path.stem.encode()) % _NUM_LOCKS))

    def healed(
        self,
        paths: Sequence[pathlib.Path],
        read: Callable[[], _T],
        forget: Callable[[], object] = lambda: None,
    ) -> _T:
        """Reads files of the mirror, which are fetched once more if one is damaged.

        Args:
            paths: the files.
            read: fetches and reads them.
            forget: called when they have been removed, before they are read again.

        Raises:
            DamagedShardError: if they are damaged when they have been fetched again.
            OSError: if they cannot be fetched.
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
        """Begins to fetch shards that are wanted soon, and does not wait for them."""
        for path in paths:
            if path.name not in self._on_the_way and not path.exists():
                self._on_the_way[path.name] = self._pool.submit(self._prefetch, path)

    def _prefetch(self, path: pathlib.Path) -> None:
        try:
            self.fetch(path)
            self.fetch(path.with_suffix(record_schema.OFFSETS_SUFFIX))
        except OSError as error:
            # Whoever reads it tries again, and fails if that does not help.
            logging.warning("%s could not be fetched ahead: %s", path.name, error)
        finally:
            self._on_the_way.pop(path.name, None)

    def make_room(self) -> None:
        """Removes shards that have not been opened for longest, if it is too full."""
        with _locked(self.folder, "room"):
            self._has_room(0)

    def _has_room(self, num_bytes: int) -> bool:
        """Makes room in a mirror that is locked for it; False while others fetch."""
        # Those that this process, or another, is fetching.
        names = files.being_written(self.folder, self.shards)
        on_the_way = {name: self.shards[name].bytes for name in names}
        present = []
        for name in self.shards.keys() - on_the_way.keys():
            with contextlib.suppress(FileNotFoundError):
                status = (self.folder / name).stat()
                present.append((status.st_mtime_ns, status.st_size, name))
        excess = sum(on_the_way.values()) + num_bytes - self.max_bytes
        if on_the_way and excess > 0:
            return False
        excess += sum(size for _, size, _ in present)
        for _, size, name in sorted(present):
            if excess <= 0:
                break
            path = self.folder / name
            path.unlink(missing_ok=True)
            path.with_suffix(record_schema.OFFSETS_SUFFIX).unlink(missing_ok=True)
            excess -= size
        return True


def _size(shard: Shard, suffix: str) -> int:
    """Bytes of a shard, or of one of the files beside it."""
    for kind in record_schema.LENGTHS:
        if suffix == kind.suffix:
            return kind.num_bytes(shard)
    if suffix == record_schema.OFFSETS_SUFFIX:
        return (shard.records + 1) * record_schema.OFFSET_BYTES
    return shard.bytes


def healed(paths: Sequence[pathlib.Path], read: Callable[[], _T]) -> _T:
    """Reads files; those of a mirror are fetched first: see `Mirror.healed`.

    Raises:
        ValueError: if they are damaged and their folder is no mirror.
    """
    mirror = mirror_of(paths[0].parent) if paths else None
    if mirror is None:
        return read()

    def fetch_and_read() -> _T:
        for path in paths:
            mirror.fetch(path)
        return read()

    return mirror.healed(paths, fetch_and_read)


def fetch(path: pathlib.Path) -> None:
    """Makes sure that a file is there, if its folder is a mirror."""
    mirror = mirror_of(path.parent)
    if mirror is not None:
        mirror.fetch(path)
