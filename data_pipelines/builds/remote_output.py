"""Builds whose result goes to a bucket.

A build writes to a local folder, where it is locked and resumed. When it is finished,
its files are uploaded, the manifest last, so that readers never see incomplete records.
The folder then is a mirror, from which this machine reads without downloading.
"""

import json
import logging
import pathlib

from data_pipelines.builds import sharded_build
from seg_tf import command_line, file_listing, files, remote_files
from seg_tf.data import mirrors
from seg_tf.data.manifest import FILE_NAME, MIRROR_FILE


def local_folder(output_dir: str, subfolder: str = "") -> pathlib.Path:
    """The local folder of a build; in the user's cache if `output_dir` is a URL.

    If the URL already contains the finished build, the folder is its mirror. Another
    build may have a `subfolder` of it.

    Raises:
        ValueError: if the package that writes to such URLs is not installed.
        OSError: if the bucket cannot be read.
    """
    remote = file_listing.to_path(output_dir)
    if isinstance(remote, pathlib.Path):
        return remote / subfolder
    url = str(remote).rstrip("/")
    folder = mirrors.mirror_folder(url) / subfolder
    if not sharded_build.is_unfinished(folder):
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
    with files.locked(folder, sharded_build.in_use(folder)):
        (folder / MIRROR_FILE).unlink(missing_ok=True)
        sizes = {
            path: path.stat().st_size
            for path in sorted(
                folder.iterdir(), key=lambda path: path.name == FILE_NAME
            )
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
            for suffix in sharded_build.SHARD_SUFFIXES:
                path = pathlib.PurePath(name).with_suffix(suffix)
                remote_files.remove(f"{url}/{path}")
    mirror.make_room()
