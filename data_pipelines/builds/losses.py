"""Documents that a build loses: listed, counted, and limited.

The lost share of a corpus is the larger of two:

* by documents: rejected documents out of all documents. Rejections that lose no text
  (redirects, other namespaces, documents without text) count in neither number;
* by bytes: the missing bytes of files that cannot be read to their end, out of all
  bytes. The missing size of a file that breaks off is estimated as its size, or as the
  difference from the corpus's median file if that is more. A file that cannot be
  read at all counts with its size, or with the median size if that is more.

`LossWatch` stops a build while it reads, `check` at its end.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import pathlib
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from data_pipelines import BuildError
from data_pipelines.cleaning import drop_counts
from data_pipelines.readers import COUNTED_REASONS, LEFT_OUT_REASONS, RejectedDocument
from seg_tf import files

if TYPE_CHECKING:
    from data_pipelines.builds.documents import DocumentOptions
    from seg_tf.data.manifest import Manifest

NO_TOKENS_REASONS = ("no_word_pieces", "no_words")
"""Reasons for documents that were read but contain nothing the vocabulary knows."""
MIN_DOCUMENTS = 1000
"""Documents read before their lost share can stop a build."""
_NUM_EXAMPLES = 3
_NUM_NAMES = 5


class TooManyRejectedError(BuildError):
    """More of the corpus was lost than `--max_rejected_share` allows."""


def is_lost(reason: str) -> bool:
    """Returns whether documents rejected for `reason` count as lost text."""
    return reason not in LEFT_OUT_REASONS and reason not in NO_TOKENS_REASONS


@dataclasses.dataclass
class Rejections:
    """Rejected documents of a slice: some listed, the frequent kinds only counted."""

    listed: list[RejectedDocument] = dataclasses.field(default_factory=list)
    counted: Counter[str] = dataclasses.field(default_factory=Counter)

    def add(self, item: RejectedDocument) -> None:
        if item.reason in COUNTED_REASONS:
            self.counted[item.reason] += 1
        else:
            self.listed.append(item)


class LossWatch:
    """Stops reading a corpus as soon as too much of it is lost.

    Checks the share of lost documents at each lost document after `MIN_DOCUMENTS`, and
    the share of lost bytes at each broken file. The result depends only on the order of
    reading, so it is the same for any number of workers, engine and restart.
    """

    def __init__(self, max_share: float, sizes: Mapping[str, int]):
        self._max_share = max_share
        self._sizes = sizes
        self._num_documents = 0
        self._reasons: Counter[str] = Counter()
        self._examples: list[str] = []
        self._broken_files: dict[str, str] = {}
        self._median = _median(sizes)
        self._lost_bytes, self._num_bytes = 0, sum(sizes.values())

    def resume(self, reports: Iterable[Mapping[str, Any]], num_documents: int) -> None:
        """Continues from the reports of all slices read before, in order."""
        self._num_documents = num_documents
        for report in reports:
            for item in report["rejected"][: report["num_rejected_when_read"]]:
                self._add(RejectedDocument(**item))

    def add_document(self) -> None:
        self._num_documents += 1

    def add_rejected(self, item: RejectedDocument) -> None:
        """Counts a rejected document; raises an error if too much is lost."""
        if not is_lost(item.reason):
            return
        self._add(item)
        lost = self._reasons.total()
        total = self._num_documents + lost
        if total >= MIN_DOCUMENTS and lost > self._max_share * total:
            text = _lost_documents(lost, total, self._reasons, "the first ")
            raise _error(text, self._max_share, self._examples)
        if item.lost_of_file and self._lost_bytes > self._max_share * self._num_bytes:
            described = describe_broken_files(self._broken_files, self._sizes)
            raise _files_error(described or {}, self._max_share, self._examples)

    def _add(self, item: RejectedDocument) -> None:
        if not is_lost(item.reason):
            return
        self._reasons[item.reason] += 1
        if len(self._examples) < _NUM_EXAMPLES:
            self._examples.append(str(item))
        if item.lost_of_file:
            self._broken_files[item.source] = item.lost_of_file
            size = self._sizes[item.source]
            lost, added = _missing_bytes(size, item.lost_of_file, self._median)
            self._lost_bytes += lost
            self._num_bytes += added


def describe_broken_files(
    broken_files: Mapping[str, str], sizes: Mapping[str, int]
) -> dict[str, Any] | None:
    """The manifest's entry on files that could not be read to their end.

    Args:
        broken_files: name -> `RejectedDocument.lost_of_file`, in order.
        sizes: name -> bytes of every source.

    Returns:
        Number, first names and missing bytes of the files, and the size of the corpus
        including these bytes; None without broken files.
    """
    if not broken_files:
        return None
    median = _median(sizes)
    missing = [
        _missing_bytes(sizes[name], lost_of_file, median)
        for name, lost_of_file in broken_files.items()
    ]
    return {
        "count": len(broken_files),
        "first": list(broken_files)[:_NUM_NAMES],
        "bytes": sum(lost for lost, _ in missing),
        "of_bytes": sum(sizes.values()) + sum(added for _, added in missing),
    }


def _missing_bytes(size: int, lost_of_file: str, median: int) -> tuple[int, int]:
    """Bytes lost of a file, and how many of them are not part of its size."""
    if lost_of_file == "whole":
        return max(size, median), max(0, median - size)
    missing = max(size, median - size)
    return missing, missing


def _median(sizes: Mapping[str, int]) -> int:
    """Bytes of the median file, without empty files."""
    return statistics.median_low([size for size in sizes.values() if size] or [0])


# --- Finished builds -----------------------------------------------------------------


def manifest_entries(
    reports: Mapping[int, Mapping[str, Any]], sizes: Mapping[str, int]
) -> dict[str, Any]:
    """The entries `rejected` and `broken_files`, from reports of slices by number."""
    counts: Counter[str] = Counter()
    broken_files = {}
    for number in sorted(reports):
        counts.update(reports[number]["counted"])
        for item in reports[number]["rejected"]:
            counts[item["reason"]] += 1
            if item["lost_of_file"]:
                broken_files[item["source"]] = item["lost_of_file"]
    return {
        "rejected": dict(sorted(counts.items())),
        "broken_files": describe_broken_files(broken_files, sizes),
    }


def write(path: pathlib.Path, reports: Mapping[int, Mapping[str, Any]]) -> None:
    """Writes the listed documents, one JSON object per line."""
    with files.written_aside(path) as aside, open(aside, "w", encoding="utf-8") as file:
        for number in sorted(reports):
            for item in reports[number]["rejected"]:
                item = {name: item[name] for name in item if name != "lost_of_file"}
                file.write(json.dumps(item, ensure_ascii=False) + "\n")


def _read(path: pathlib.Path) -> Iterator[RejectedDocument]:
    if path.exists():
        with open(path, encoding="utf-8") as file:
            for line in file:
                yield RejectedDocument(**json.loads(line))


def readable(rejected: Mapping[str, int]) -> str:
    """Counts by reason as a readable line."""
    return ", ".join(f"{count} {reason}" for reason, count in rejected.items())


def check(
    options: DocumentOptions, manifest: Manifest, rejected_file: pathlib.Path
) -> None:
    """Raises BuildError if a whole build lost more than its options allow.

    Messages name the first documents listed in `rejected_file`.
    """
    lost = {name: n for name, n in manifest.rejected.items() if is_lost(name)}
    if options.strict and lost:
        # Slices may come from an interrupted command without --strict.
        raise BuildError(
            f"--strict requires all documents; left out: {readable(lost)}, see "
            f"{rejected_file}"
        )
    max_share = options.max_rejected_share
    num_lost, num_read = sum(lost.values()), manifest.count("documents")
    if manifest.cleaning:
        num_read = manifest.cleaning["before"]["documents"]
    items = (str(item) for item in _read(rejected_file) if is_lost(item.reason))
    examples = itertools.islice(items, _NUM_EXAMPLES)
    if num_lost > max_share * (num_lost + num_read):
        text = _lost_documents(num_lost, num_lost + num_read, lost)
        raise _error(text, max_share, examples)
    broken = manifest.broken_files
    if broken and broken["bytes"] > max_share * broken["of_bytes"]:
        raise _files_error(broken, max_share, examples)


def check_not_empty(
    options: DocumentOptions, manifest: Manifest, rejected_file: pathlib.Path
) -> None:
    """Raises BuildError, with the reasons, if an input yields no document."""
    inputs = {None: options.input}  # None means both splits.
    if options.validation_input is not None:
        inputs = {"train": options.input, "validation": options.validation_input}
    for split, input_path in inputs.items():
        if manifest.count("records", split):
            continue
        reasons = []
        if manifest.rejected:
            reasons.append(f"rejected in all: {readable(manifest.rejected)}")
        # Names of sources begin with their split if there are two inputs.
        prefix = f"{split}/" if split else ""
        items = (it for it in _read(rejected_file) if it.source.startswith(prefix))
        if (first := next(items, None)) is not None:
            reasons.append(f"first {first}, see {rejected_file}")
        if manifest.cleaning:
            reasons.append(drop_counts.summary(manifest.cleaning))
        raise BuildError(
            f"there is no document in {input_path!r}, read as {options.format}: "
            + "; ".join(reasons or ["it contains none"])
        )


def _lost_documents(
    lost: int, total: int, reasons: Mapping[str, int], which: str = ""
) -> str:
    listed = ", ".join(f"{count:,} {name}" for name, count in sorted(reasons.items()))
    return (
        f"{lost:,} of {which}{total:,} documents could not be read, "
        f"{lost / total:.1%} ({listed})"
    )


def _files_error(
    described: Mapping[str, Any], max_share: float, examples: Iterable[str]
) -> TooManyRejectedError:
    names = ", ".join(described["first"])
    more = described["count"] - len(described["first"])
    return _error(
        f"{described['count']:,} file(s) could not be read to their end, with an "
        f"estimated {described['bytes'] / max(described['of_bytes'], 1):.1%} of the "
        f"input's bytes ({names}" + (f" and {more:,} more)" if more else ")"),
        max_share,
        examples,
    )


def _error(
    text: str, max_share: float, examples: Iterable[str]
) -> TooManyRejectedError:
    return TooManyRejectedError(
        f"{text}: more than --max_rejected_share={max_share:g} allows. The first: "
        f"{' | '.join(examples)} | Finished work is kept: the same command with a "
        "larger --max_rejected_share resumes; after a change of the input or of other "
        "options add --overwrite"
    )
