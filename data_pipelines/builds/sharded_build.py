"""Manages the lock, options and slice reports of a build in its output folder.

Each finished slice has a report. A resumed build skips slices with a report.
"""

import contextlib
import json
import logging
import pathlib
import shutil
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from data_pipelines import BuildError
from seg_tf import command_line, file_listing, files, remote_files
from seg_tf.config.base import flat
from seg_tf.data import mirrors, record_schema
from seg_tf.data.manifest import FILE_NAME, MIRROR_FILE, SPLITS, Manifest, Shard

REJECTED_FILE = "rejected.jsonl"
REPORT_FILE = "report.html"
REPORTS = "task-*.json"
"""Pattern of the report files in the progress folder, one per finished slice."""
SHARD_SUFFIXES = (
    ".tfrecord",
    record_schema.OFFSETS_SUFFIX,
    *(kind.suffix for kind in record_schema.LENGTHS),
)
_PROGRESS_FOLDER = ".progress"
_OPTIONS_FILE = "options.json"
_MAX_TEXT = 200


class ShardedBuild:
    """A build in its output folder. Only a build with the same `options` can resume it.

    `progress_dir` stores the state of the unfinished build.
    """

    def __init__(self, output_dir: pathlib.Path, options: Mapping[str, Any]):
        # Workers may have another working directory.
        self.output_dir = output_dir.absolute()
        self.progress_dir = self.output_dir / _PROGRESS_FOLDER
        self.options = dict(options)

    @contextlib.contextmanager
    def opened(self, *, overwrite: bool = False) -> Iterator["ShardedBuild"]:
        """Context manager that locks the folder, checks the options and yields `self`.

        Removes temporary files and, with `overwrite`, any earlier build. Raises
        BuildError if another process has locked the folder, or if the folder contains a
        finished build or an unfinished one with other options.
        """
        self.output_dir.mkdir(parents=True, exist_ok=True)
        with files.locked(self.output_dir, in_use(self.output_dir)):
            if overwrite:
                _clear(self.output_dir)
            self.progress_dir.mkdir(exist_ok=True)
            self._check_options()
            files.remove_leftovers(self.output_dir)
            files.remove_leftovers(self.progress_dir)
            yield self

    def _check_options(self) -> None:
        path = self.progress_dir / _OPTIONS_FILE
        if path.exists():
            difference = _difference(self.options, files.read_json(path))
            if difference:
                raise BuildError(
                    f"{self.output_dir} contains an unfinished build with "
                    f"{difference}. Finish it with its options, or choose another "
                    "--output_dir, or --overwrite"
                )
        elif (self.output_dir / FILE_NAME).exists():
            raise BuildError(
                f"{self.output_dir} contains a finished build. Choose another "
                "--output_dir, or --overwrite"
            )
        else:
            files.write_json(path, self.options)

    def reports(self) -> dict[int, dict]:
        """Returns the reports of finished slices by number."""
        paths = sorted(self.progress_dir.glob(REPORTS))
        return {int(path.stem.split("-")[1]): files.read_json(path) for path in paths}

    def close(self) -> None:
        """Removes the progress folder. Call this after writing the manifest."""
        shutil.rmtree(self.progress_dir)

    def abandon(self, shard_names: Iterable[str] = ()) -> None:
        """Removes the progress folder and the named shards, but no other file."""
        for name in shard_names:
            for suffix in SHARD_SUFFIXES:
                (self.output_dir / name).with_suffix(suffix).unlink(missing_ok=True)
        files.remove_folder(self.progress_dir)


def report_name(number: int) -> str:
    """Returns the file name of a slice's report in `progress_dir`."""
    return REPORTS.replace("*", f"{number:05d}")


def shards_by_split(reports: Mapping[int, dict]) -> dict[str, tuple[Shard, ...]]:
    """Returns the shards of all reports by split, in slice order."""
    return {
        split: tuple(
            Shard(**reports[number]["shards"][split]) for number in sorted(reports)
        )
        for split in SPLITS
    }


def in_use(folder: pathlib.Path) -> BuildError:
    """Returns the error for a folder that another process writes or reads."""
    return BuildError(
        f"{folder}: another process is building there, or cutting windows from the "
        "documents there. Nothing was changed. Wait for it to end, or end it first"
    )


def _clear(output_dir: pathlib.Path) -> None:
    """Removes the shards, manifest, reports and progress of a build from a folder."""
    if (output_dir / _PROGRESS_FOLDER).exists():
        files.remove_folder(output_dir / _PROGRESS_FOLDER)
    # Remove the manifest first, so that no reader mistakes the rest for complete.
    for name in (FILE_NAME, MIRROR_FILE, REJECTED_FILE, REPORT_FILE):
        (output_dir / name).unlink(missing_ok=True)
    for suffix in SHARD_SUFFIXES:
        for path in output_dir.glob(f"*{suffix}"):
            path.unlink()
    files.remove_leftovers(output_dir)


def finished_manifest(
    output_dir: pathlib.Path, expected: Mapping[str, Any]
) -> Manifest | None:
    """Returns the manifest of a finished build, or None if there is none.

    Raises BuildError if the manifest is damaged, has another version, or differs from
    `expected`, whose `sources` map numbers to names and sizes.
    """
    if not (output_dir / FILE_NAME).exists():
        return None
    try:
        manifest = Manifest.load(output_dir)
    except ValueError as error:
        raise BuildError(
            f"{error}. To build there, remove it with --overwrite, or choose another "
            "--output_dir"
        ) from error
    actual = {name: getattr(manifest, name) for name in expected}
    if "sources" in expected:
        actual["sources"] = {
            str(number): [item["file"], item["bytes"]]
            for number, item in enumerate(manifest.sources)
        }
    difference = _difference(expected, actual)
    if difference:
        raise BuildError(
            f"{output_dir} contains a finished build with {difference}. Choose another "
            "--output_dir, or --overwrite"
        )
    return manifest


def _difference(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> str | None:
    """Describes the first differing entry, at any depth, or returns None if equal."""
    sides = flat(json.loads(json.dumps(expected))), flat(actual)
    for name in sorted(sides[0].keys() | sides[1].keys()):
        values = [side.get(name) for side in sides]
        if values[0] != values[1]:
            texts = (repr(value)[:_MAX_TEXT] for value in values)
            return "another `{}` (expected {}, found {})".format(name, *texts)
    return None


def local_folder(output_dir: str, subfolder: str = "") -> pathlib.Path:
    """Returns a build's local folder, in the user's cache if `output_dir` is a URL.

    If the URL already contains a finished build, the folder mirrors it. `subfolder`
    names the folder of a second build inside the first.
    """
    remote = file_listing.to_path(output_dir)
    if isinstance(remote, pathlib.Path):
        return remote / subfolder
    url = str(remote).rstrip("/")
    folder = mirrors.mirror_folder(url) / subfolder
    is_mirror = (folder / MIRROR_FILE).exists() or not (folder / FILE_NAME).exists()
    if is_mirror and not (folder / _PROGRESS_FOLDER).exists():
        url = f"{url}/{subfolder}" if subfolder else url
        if not mirrors.update(folder, url) and (folder / MIRROR_FILE).exists():
            # It may lack shards of a build that is no longer there.
            with files.locked(folder, in_use(folder)):
                mirrors.clear(folder)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def publish(folder: pathlib.Path, output_dir: str, subfolder: str = "") -> None:
    """Uploads a finished build from its `local_folder`, if `output_dir` is a URL.

    Skips a build that is already there. Removes obsolete shards of an earlier build.
    Raises OSError if a file cannot be copied after several attempts, and BuildError if
    `folder` is in use.
    """
    remote = file_listing.to_path(output_dir)
    if isinstance(remote, pathlib.Path):
        return
    url = f"{str(remote).rstrip('/')}/{subfolder}".rstrip("/")
    before = remote_files.read_bytes(f"{url}/{FILE_NAME}")
    if before == (folder / FILE_NAME).read_bytes():
        return
    if before is not None:  # Mark the earlier build as incomplete.
        remote_files.remove(f"{url}/{FILE_NAME}")
    with files.locked(folder, in_use(folder)):
        (folder / MIRROR_FILE).unlink(missing_ok=True)
        paths = sorted(folder.iterdir(), key=lambda path: path.name == FILE_NAME)
        sizes = {
            path: path.stat().st_size
            for path in paths
            if path.is_file() and not path.name.startswith(".")
        }
        with command_line.progress_bar(sum(sizes.values()), f"to {url}") as bar:
            for path, size in sizes.items():  # The manifest comes last.
                remote_files.upload(path, f"{url}/{path.name}")
                bar.update(size)
        files.write_json(
            folder / MIRROR_FILE, {"url": url, "gigabytes": mirrors.DEFAULT_GIGABYTES}
        )
    mirror = mirrors.mirror_of(folder)
    if before is not None:
        splits = json.loads(before)["splits"].values()
        names = {shard["file"] for shards in splits for shard in shards}
        obsolete = sorted(names - mirror.shards.keys())
        logging.info("Removing %d shards of an earlier build", len(obsolete))
        for name in obsolete:
            for suffix in SHARD_SUFFIXES:
                path = pathlib.PurePath(name).with_suffix(suffix)
                remote_files.remove(f"{url}/{path}")
    mirror.make_room()
