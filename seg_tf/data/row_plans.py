"""Plans of which windows or texts make which row.

A split of one group of shards is planned in memory, in seconds. A larger one is planned
group by group, so that memory does not grow with it, and only once: the arrays lie
beside the manifest, and every rank and every later run maps them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from seg_tf import command_line, files
from seg_tf.data.manifest import PLANS_FOLDER, Manifest

if TYPE_CHECKING:
    from seg_tf.data.window_records import WindowRecords

Arrays = Mapping[str, np.ndarray]

# A group is at least of so many windows, or sentences, if there are as many.
_ENOUGH_FOR_A_GROUP = 1 << 22
_DESCRIPTION = "plan.json"


def groups_of_shards(manifest: Manifest, split: str, count: str) -> list[range]:
    """Consecutive shards of a split that are planned together; at least one group.

    Args:
        manifest: what the records are.
        split: "train" or "validation".
        count: what bounds a group: "records" or "sentences", as manifests count them.
    """
    groups, first, size = [], 0, 0
    shards = manifest.splits[split]
    for number, shard in enumerate(shards):
        size += getattr(shard, count)
        if size >= _ENOUGH_FOR_A_GROUP:
            groups.append(range(first, number + 1))
            first, size = number + 1, 0
    if first < len(shards) or not groups:
        groups.append(range(first, len(shards)))
    return groups


def planned(
    windows: WindowRecords,
    groups: Sequence[range],
    parts: Iterator[Arrays],
    settings: Mapping[str, Any],
) -> Arrays:
    """The arrays of a plan, made now or by an earlier call.

    Args:
        windows: the windows of the split.
        groups: what it is made of.
        parts: makes the part of each group, one after the other; the arrays of all
            parts, one after the other, are the plan.
        settings: what it depends on beside the windows, JSON-able.

    Raises:
        ValueError: if a plan that lies there is damaged.
    """
    if len(groups) == 1:
        return next(parts)
    shards = [vars(shard) for shard in windows.manifest.splits[windows.split]]
    content = json.dumps([settings, _ENOUGH_FOR_A_GROUP, shards], sort_keys=True)
    name = f"{windows.split}-{hashlib.sha256(content.encode()).hexdigest()[:16]}"
    parent = _plans_folder(windows.records_dir)
    with files.locked(parent):  # Others wait, and find the plan made.
        if not (parent / name).exists():
            files.remove_leftovers(parent)
            _write(parent, name, groups, parts)
    return _map(parent / name)


def _plans_folder(records_dir: pathlib.Path) -> pathlib.Path:
    """A folder for plans: that of the records, or if it is read-only, the user's."""
    folder = records_dir / PLANS_FOLDER
    with contextlib.suppress(OSError):
        folder.mkdir(exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    folder = files.cache_dir() / PLANS_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _write(
    parent: pathlib.Path, name: str, groups: Sequence[range], parts: Iterator[Arrays]
) -> None:
    logging.info("Planning the rows of %s, once for all runs", parent / name)
    found: dict[str, dict[str, Any]] = {}
    with (
        files.folder_aside(parent) as folder,
        command_line.progress_bar(len(groups), "plan of rows", " groups") as bar,
    ):
        for part in parts:
            for array_name, values in part.items():
                described = found.setdefault(
                    array_name, {"dtype": values.dtype.str, "length": 0}
                )
                if values.dtype.str != described["dtype"]:
                    raise TypeError(f"{array_name}: {described}, then {values.dtype}")
                described["length"] += len(values)
                with open(folder / array_name, "ab") as file:
                    values.tofile(file)
            bar.update()
        files.write_json(folder / _DESCRIPTION, found)
        folder.replace(parent / name)


def _map(folder: pathlib.Path) -> Arrays:
    arrays = {}
    for name, described in files.read_json(folder / _DESCRIPTION).items():
        dtype, length = np.dtype(described["dtype"]), described["length"]
        expected, found = length * dtype.itemsize, (folder / name).stat().st_size
        if found != expected:
            raise ValueError(
                f"{folder / name}: expected {expected} bytes, found {found}. The file "
                f"was damaged; remove {folder}, and the plan is made again"
            )
        # A plain array that shares the map: items of a `memmap` are slow to take.
        arrays[name] = np.asarray(np.memmap(folder / name, dtype, mode="r"))
    return arrays
