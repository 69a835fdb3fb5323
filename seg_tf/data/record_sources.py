"""Parses `--records_dir`, a folder or a mixture such as `wikipedia:3,books:1`."""

import dataclasses
import math
import pathlib
import re
from collections.abc import Mapping
from typing import Any

from seg_tf import file_listing, files
from seg_tf.data.manifest import FILE_NAME
from seg_tf.data.mirrors import local_records

# Limits memory: the sources of a block are stored as an array.
_LARGEST_BLOCK = 100_000


@dataclasses.dataclass(frozen=True)
class RecordSource:
    """A folder of records and the number of its rows in a block of a mixture."""

    folder: pathlib.Path
    weight: int

    @property
    def manifest(self) -> pathlib.Path:
        return self.folder / FILE_NAME


def parse(
    records_dir: str | None, cache_gigabytes: float | None = None
) -> dict[str, RecordSource]:
    """Parses the value of `--records_dir` and returns its sources by name.

    The value is a folder of records, or a comma-separated list of folders, each
    followed by a colon and its weight. A folder of records is never parsed as a list.
    The name of a source is the shortest unique end of its path. Sources are sorted by
    name, and weights are divided by their greatest common divisor, so that equivalent
    mixtures are equal. `cache_gigabytes` limits each mirror. Raises ValueError if the
    value or a weight is invalid or a folder has no records, OSError if a download
    fails.
    """
    items = [(records_dir or "", 1)]
    if records_dir and _is_mixture(records_dir):
        items = [_folder_and_weight(item.strip()) for item in records_dir.split(",")]
    divisor = math.gcd(*(weight for _, weight in items))
    names = file_listing.short_names([pathlib.Path(folder) for folder, _ in items])
    sources: dict[str, RecordSource] = {}
    for name, (folder, weight) in sorted(zip(names, items, strict=True)):
        # Remote records are read through a local folder.
        source = RecordSource(local_records(folder, cache_gigabytes), weight // divisor)
        if not folder or not source.manifest.is_file():
            raise ValueError(
                "`--records_dir` must be a folder that "
                "`seg-tf build-records` wrote, or several with weights. "
                f"Received: {records_dir!r}. Found no {source.manifest}"
            )
        if any(source.folder.samefile(other.folder) for other in sources.values()):
            raise ValueError(
                "`--records_dir` must name each folder once, with the sum of its "
                f"weights. Received: {folder} more than once"
            )
        sources[name] = source
    if (block := sum(source.weight for source in sources.values())) > _LARGEST_BLOCK:
        raise ValueError(
            "The weights of `--records_dir`, divided by their greatest common divisor, "
            f"must add up to at most {_LARGEST_BLOCK:,}, the rows in which the mixture "
            f"is exact. Received: weights that add up to {block:,}. Round them"
        )
    return sources


def describe(sources: Mapping[str, RecordSource]) -> dict[str, Any]:
    """Describes records as a dict of manifest checksums and, for mixtures, weights."""
    described: dict[str, dict[str, Any]] = {
        name: {"manifest_checksum": files.checksum(source.manifest)}
        for name, source in sources.items()
    }
    if len(sources) == 1:
        return next(iter(described.values()))
    for name, source in sources.items():
        described[name]["weight"] = source.weight
    return {"sources": described}


def _is_mixture(records_dir: str) -> bool:
    if (pathlib.Path(records_dir) / FILE_NAME).is_file():
        return False
    has_weight = re.search(r":\d+\s*$", records_dir)
    is_url = file_listing.is_url(records_dir)
    return "," in records_dir or bool(has_weight) or (":" in records_dir and not is_url)


def _folder_and_weight(item: str) -> tuple[str, int]:
    folder, _, weight = item.rpartition(":")
    if not (folder and weight.isdecimal() and int(weight)):
        raise ValueError(
            "`--records_dir` must be a folder of records, or several with commas, each "
            "with a weight, a positive integer, after a colon: wikipedia:3,books:1. "
            f"Received: {item!r}"
        )
    return folder, int(weight)
