"""The state of a build in its output folder: lock, options and reports of slices.

A finished slice leaves a report; a restarted build skips the slice.
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
"""In the progress folder: reports of finished slices."""
SHARD_SUFFIXES = (
    ".tfrecord",
    record_schema.OFFSETS_SUFFIX,
    *(kind.suffix for kind in record_schema.LENGTHS),
)
_PROGRESS_FOLDER = ".progress"
_OPTIONS_FILE = "options.json"
_MAX_TEXT = 200


class ShardedBuild:
    """One build in its output folder, which only the same `options` can resume.

    `progress_dir` stores the state of the build while it is not finished.
    """

    def __init__(self, output_dir: pathlib.Path, options: Mapping[str, Any]):
        # Workers may run in another folder.
        self.output_dir = output_dir.absolute()
        self.progress_dir = self.output_dir / _PROGRESS_FOLDER
        self.options = dict(options)

    @contextlib.contextmanager
    def opened(self, *, overwrite: bool = False) -> Iterator["ShardedBuild"]:
        """Locks the folder, checks the options and tidies up for the block.

        Raises BuildError if another process has locked the folder, with nothing
        removed; or it contains a build with other options and `overwrite` is not set.
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
        """The reports of finished slices, by number."""
        paths = sorted(self.progress_dir.glob(REPORTS))
        return {int(path.stem.split("-")[1]): files.read_json(path) for path in paths}

    def close(self) -> None:
        """Removes the progress folder, after the manifest is written."""
        shutil.rmtree(self.progress_dir)

    def abandon(self, shard_names: Iterable[str] = ()) -> None:
        """Removes the progress folder and the named shards, but no other file."""
        for name in shard_names:
            for suffix in SHARD_SUFFIXES:
                (self.output_dir / name).with_suffix(suffix).unlink(missing_ok=True)
        files.remove_folder(self.progress_dir)


def report_name(number: int) -> str:
    """File name of the report of a slice, in `progress_dir`."""
    return REPORTS.replace("*", f"{number:05d}")


def shards_by_split(reports: Mapping[int, dict]) -> dict[str, tuple[Shard, ...]]:
    """The shards of all reports, by split, in the order of their numbers."""
    return {
        split: tuple(
            Shard(**reports[number]["shards"][split]) for number in sorted(reports)
        )
        for split in SPLITS
    }


def in_use(folder: pathlib.Path) -> BuildError:
    """The error for a folder that another process builds in, or reads."""
    return BuildError(
        f"{folder}: another process is building there, or cutting windows from the "
        "documents there. Nothing was changed. Wait for it to end, or end it first"
    )


def _clear(output_dir: pathlib.Path) -> None:
    """Removes a build, finished or not, and nothing else, from a locked folder."""
    if (output_dir / _PROGRESS_FOLDER).exists():
        files.remove_folder(output_dir / _PROGRESS_FOLDER)
    # The manifest goes first: without it no reader takes the rest for complete.
    for name in (FILE_NAME, MIRROR_FILE, REJECTED_FILE, REPORT_FILE):
        (output_dir / name).unlink(missing_ok=True)
    for suffix in SHARD_SUFFIXES:
        for path in output_dir.glob(f"*{suffix}"):
            path.unlink()
    files.remove_leftovers(output_dir)


def finished_manifest(
    output_dir: pathlib.Path, expected: Mapping[str, Any]
) -> Manifest | None:
    """The manifest of the finished build in a folder; None if there is none.

    Raises BuildError if it is damaged, of another version, or has other entries than
    `expected`, which has names and sizes of `sources` by their numbers.
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
    """Describes the first entry that differs, in nested entries too."""
    sides = flat(json.loads(json.dumps(expected))), flat(actual)
    for name in sorted(sides[0].keys() | sides[1].keys()):
        values = [side.get(name) for side in sides]
        if values[0] != values[1]:
            texts = (repr(value)[:_MAX_TEXT] for value in values)
            return "another `{}` (expected {}, found {})".format(name, *texts)
    return None


def local_folder(output_dir: str, subfolder: str = "") -> pathlib.Path:
    """The local folder of a build; in the user's cache if `output_dir` is a URL.

    If the URL already contains the finished build, the folder is its mirror. Another
    build may have a `subfolder` of it.
    """
    remote = file_listing.to_path(output_dir)
    if isinstance(remote, pathlib.Path):
        return remote / subfolder
    url = str(remote).rstrip("/")
    folder = mirrors.mirror_folder(url) / subfolder
    is_mirror = (folder / MIRROR_FILE).exists() or not (folder / FILE_NAME).exists()
    if is_mirror and not (folder / _PROGRESS_FOLDER).exists():
        mirrors.update(folder, f"{url}/{subfolder}" if subfolder else url)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def publish(folder: pathlib.Path, output_dir: str, subfolder: str = "") -> None:
    """Uploads a finished build from its `local_folder`, if `output_dir` is a URL.

    Shards of an earlier build are removed. Raises OSError if a file cannot be copied,
    after several attempts.
    """
    remote = file_listing.to_path(output_dir)
    if isinstance(remote, pathlib.Path):
        return
    url = f"{str(remote).rstrip('/')}/{subfolder}".rstrip("/")
    before = remote_files.read_bytes(f"{url}/{FILE_NAME}")
    if before == (folder / FILE_NAME).read_bytes():
        return
    if before is not None:  # From now on the earlier build is incomplete.
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
            for path, size in sizes.items():  # The manifest is the last.
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
