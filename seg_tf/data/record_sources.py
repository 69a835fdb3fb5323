"""The records of a run, one folder or a mixture: `wikipedia:3,books:1,domain:2`."""

import dataclasses
import math
import pathlib
import re
from collections.abc import Mapping
from typing import Any

from seg_tf import file_listing, files
from seg_tf.data.mirrors import local_records

_MANIFEST = "manifest.json"
# The blocks of a mixture are held as arrays.
_LARGEST_BLOCK = 100_000


@dataclasses.dataclass(frozen=True)
class RecordSource:
    """A folder of records, and how many rows of a block of a mixture are of it."""

    folder: pathlib.Path
    weight: int

    @property
    def manifest(self) -> pathlib.Path:
        return self.folder / _MANIFEST


def parse(
    records_dir: str | None, cache_gigabytes: float | None = None
) -> dict[str, RecordSource]:
    """The sources that `--records_dir` names.

    A folder that is there is the only source, whatever its name has in it. Otherwise
    folders are separated by commas, each with its weight after the last colon. They are
    taken in the order of their names and weights are divided by their greatest common
    divisor, so that two spellings of a mixture are the same.

    Args:
        records_dir: value of the flag, or of `config.records_dir`.
        cache_gigabytes: the most that shards of each bucket may take on this machine;
            None takes what was said last, or 50.

    Returns:
        The sources by name: the end of the path, as short as tells it from the others.

    Raises:
        ValueError: if it names no folder of records, or a source twice, or a weight is
            no positive integer.
    """
    if not records_dir:
        raise ValueError(
            "`--records_dir` must be given: a folder that `python -m "
            "data_pipelines.build_records` made, or several with weights"
        )
    if _is_mixture(records_dir):
        items = [_folder_and_weight(item.strip()) for item in records_dir.split(",")]
    else:
        items = [(records_dir, 1)]
    # Records of a bucket are read through a local folder.
    sources = [
        RecordSource(local_records(folder, cache_gigabytes), weight)
        for folder, weight in items
    ]
    for source in sources:
        if not source.manifest.is_file():
            raise ValueError(
                "`--records_dir` must be a folder that `python -m "
                "data_pipelines.build_records` made, or several with weights. Found no "
                f"{source.manifest}"
            )
    _check_mixture(sources)
    divisor = math.gcd(*(source.weight for source in sources))
    names = file_listing.short_names([pathlib.Path(folder) for folder, _ in items])
    named = zip(names, sources, strict=True)
    return {
        name: dataclasses.replace(source, weight=source.weight // divisor)
        for name, source in sorted(named)
    }


def describe(sources: Mapping[str, RecordSource]) -> dict[str, Any]:
    """Identity of the records of a run, wherever they lie: checksums and weights."""
    checksums = {
        name: {"manifest_checksum": files.checksum(source.manifest)}
        for name, source in sources.items()
    }
    if len(sources) == 1:
        return next(iter(checksums.values()))
    weights = {name: {"weight": source.weight} for name, source in sources.items()}
    return {"sources": {name: checksums[name] | weights[name] for name in sources}}


def _is_mixture(records_dir: str) -> bool:
    if (pathlib.Path(records_dir) / _MANIFEST).is_file():
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
            f"Received: {item!r}. A folder with a comma in its path can be read alone; "
            "for a mixture give it another name"
        )
    return folder, int(weight)


def _check_mixture(sources: list[RecordSource]) -> None:
    folders = [source.folder.resolve() for source in sources]
    twice = sorted({str(folder) for folder in folders if folders.count(folder) > 1})
    if twice:
        raise ValueError(
            "`--records_dir` must name each folder once, with the sum of its weights. "
            f"Received: {', '.join(twice)} more than once"
        )
    weights = [source.weight for source in sources]
    block = sum(weights) // math.gcd(*weights)
    if block > _LARGEST_BLOCK:
        raise ValueError(
            "The weights of `--records_dir`, divided by what all have in common, must "
            f"add up to at most {_LARGEST_BLOCK:,}, the rows in which the mixture is "
            f"exact. Received: {weights}, which add up to {block:,}. Round them"
        )
