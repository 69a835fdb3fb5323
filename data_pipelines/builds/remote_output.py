"""Builds whose result goes to a bucket.

A build writes to a folder of this machine and is locked and resumed there; when it is
done, its files go to the bucket, the manifest last, so that what lies there is whole or
not taken for records. The folder then is a mirror, from which a run on this machine
reads without fetching anything.
"""

import json
import logging
import pathlib

from data_pipelines.builds import sharded_build
from seg_tf import command_line, file_listing, files, remote_files
from seg_tf.data import mirrors
from seg_tf.data.manifest import FILE_NAME, MIRROR_FILE

OUTPUT_DIR_HELP = (
    "Folder to write to, or the URL of one, such as s3://bucket/records: the build is "
    "made in the user's cache then ($XDG_CACHE_HOME), and copied when it is done."
)
_LEDGER = "uploaded.jsonl"


def local_folder(output_dir: str, inside: str = "") -> pathlib.Path:
    """The folder that a build writes to: itself, or of a URL one in the user's cache.

    If the finished build lies at the URL, the folder is its mirror.

    Args:
        output_dir: value of `--output_dir`.
        inside: a folder in it that has a build of its own.

    Raises:
        ValueError: if the package that writes to such URLs is not installed.
        OSError: if the bucket cannot be read.
    """
    remote = file_listing.to_path(output_dir)
    if isinstance(remote, pathlib.Path):
        return remote / inside
    url = _url(output_dir)
    folder = mirrors.mirror_folder(url) / inside
    if not sharded_build.is_unfinished(folder):
        mirrors.update(folder, f"{url}/{inside}" if inside else url)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def publish(folder: pathlib.Path, output_dir: str, inside: str = "") -> None:
    """Copies a finished build to where it belongs, if that is a bucket.

    Killed, it goes on where it was when it is called again. Shards of another build
    that lay there are removed.

    Args:
        folder: what `local_folder` returned.
        output_dir: value of `--output_dir`.
        inside: as of `local_folder`.

    Raises:
        OSError: if a file cannot be copied, after several attempts.
    """
    if isinstance(file_listing.to_path(output_dir), pathlib.Path):
        return
    url = f"{_url(output_dir)}/{inside}" if inside else _url(output_dir)
    before = remote_files.read_bytes(f"{url}/{FILE_NAME}")
    if before == (folder / FILE_NAME).read_bytes():
        return
    if before is not None:  # Not to be taken for whole from now on.
        remote_files.remove(f"{url}/{FILE_NAME}")
    with files.locked(folder, sharded_build.in_use(folder)):
        (folder / MIRROR_FILE).unlink(missing_ok=True)
        _upload(folder, url)
        files.write_json(
            folder / MIRROR_FILE, {"url": url, "gigabytes": mirrors.DEFAULT_GIGABYTES}
        )
        (folder / _LEDGER).unlink()
    mirror = mirrors.mirror_of(folder)
    if before is not None:
        _remove_others(json.loads(before), mirror)
    mirror.make_room()


def _upload(folder: pathlib.Path, url: str) -> None:
    paths = [
        path
        for path in sorted(folder.iterdir())
        if path.is_file()
        and not path.name.startswith(".")
        and path.name not in (FILE_NAME, _LEDGER)
    ]
    paths.append(folder / FILE_NAME)
    ledger = folder / _LEDGER
    ledger.touch()
    done = set(ledger.read_text(encoding="utf-8").splitlines())
    sizes = {path: path.stat().st_size for path in paths}
    with command_line.progress_bar(sum(sizes.values()), f"to {url}") as bar:
        for path in paths:
            entry = json.dumps([path.name, sizes[path], path.stat().st_mtime_ns])
            if entry not in done:
                remote_files.upload(path, f"{url}/{path.name}")
                with open(ledger, "a", encoding="utf-8") as file:
                    file.write(entry + "\n")
            bar.update(sizes[path])


def _remove_others(before: dict, mirror: mirrors.Mirror) -> None:
    """Removes the shards that a build had which lay there before."""
    named = {
        shard["file"] for of_split in before["splits"].values() for shard in of_split
    }
    others = sorted(named - mirror.shards.keys())
    if others:
        logging.info("Removing %d shards of an earlier build", len(others))
    for name in others:
        for suffix in sharded_build.SHARD_SUFFIXES:
            path = pathlib.PurePath(name).with_suffix(suffix)
            remote_files.remove(f"{mirror.url}/{path}")


def _url(output_dir: str) -> str:
    return str(file_listing.to_path(output_dir)).rstrip("/")
