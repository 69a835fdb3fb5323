"""Lists, counts and limits the documents that a build loses.

The lost fraction of a corpus is the larger of two fractions:

* by documents: rejected documents out of all documents. Rejections that lose no text
  (redirects, other namespaces, documents without text or tokens) are not counted.
* by bytes: missing bytes in files that cannot be read to their end, out of all bytes.
  The true number is unknown, so each such file counts with its size, or with the size
  of the median file of the corpus if that is larger.

`check` tests both at the end of a build. `LossWatch` tests the first one early on.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import pathlib
import statistics
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from data_pipelines import BuildError
from data_pipelines.cleaning import drop_counts
from data_pipelines.readers import COUNTED_REASONS, LEFT_OUT_REASONS, RejectedDocument
from data_pipelines.readers.base import names_and_more
from seg_tf import files

if TYPE_CHECKING:
    from data_pipelines.builds.documents import DocumentOptions
    from seg_tf.data.manifest import Manifest

NO_TOKENS_REASONS = ("no_word_pieces", "no_words")
"""Rejection reasons of documents that were read but yield no tokens."""
MIN_DOCUMENTS = 1000
"""Number of documents after which `LossWatch` checks the lost fraction."""
_NUM_EXAMPLES = 3
_NUM_NAMES = 5


class TooManyRejectedError(BuildError):
    """Raised if more of the corpus is lost than `--max_rejected_share` allows."""


def is_lost(reason: str) -> bool:
    """Returns whether documents rejected for `reason` count as lost text."""
    return reason not in LEFT_OUT_REASONS and reason not in NO_TOKENS_REASONS


@dataclasses.dataclass
class Rejections:
    """Rejected documents of a slice, listed or, for frequent reasons, only counted."""

    listed: list[RejectedDocument] = dataclasses.field(default_factory=list)
    counted: Counter[str] = dataclasses.field(default_factory=Counter)

    def add(self, item: RejectedDocument) -> None:
        if item.reason in COUNTED_REASONS:
            self.counted[item.reason] += 1
        else:
            self.listed.append(item)


class LossWatch:
    """Stops a build if too many of the first `MIN_DOCUMENTS` documents are lost.

    For example, a wrong reader option stops the build early. Prints the first loss.
    """

    def __init__(self, max_share: float):
        self._max_share = max_share
        self._num_documents = 0
        self._lost: list[RejectedDocument] = []

    def resume(self, num_documents: int, reports: Iterable[Mapping[str, Any]]) -> None:
        """Restores the state after `num_documents` documents from slice reports."""
        for report in reports:
            items = report["rejected"][: report["num_rejected_when_read"]]
            self._lost += [RejectedDocument(**item) for item in items]
        self._lost = [item for item in self._lost if is_lost(item.reason)]
        self._num_documents = num_documents + len(self._lost)

    def add(self, rejected: RejectedDocument | None = None) -> None:
        """Counts a document or rejection. Raises BuildError if too many are lost."""
        if rejected is not None and not is_lost(rejected.reason):
            return
        self._num_documents += 1
        if self._num_documents <= MIN_DOCUMENTS and rejected is not None:
            if not self._lost:
                print(f"left out, for example: {rejected}", file=sys.stderr)
            self._lost.append(rejected)
        if self._num_documents == MIN_DOCUMENTS:
            reasons = Counter(item.reason for item in self._lost)
            examples = map(str, self._lost)
            _check_shares(reasons, MIN_DOCUMENTS, None, self._max_share, examples)


def describe_broken_files(
    names: Sequence[str], sizes: Mapping[str, int]
) -> dict[str, Any] | None:
    """Describes the files in `names`, which were not read to their end.

    `sizes` maps all files to bytes. Returns None if `names` is empty, otherwise a dict:
    number of files (`count`), some names (`first`), estimated missing bytes (`bytes`)
    and bytes of the corpus, including the missing ones (`of_bytes`).
    """
    if not names:
        return None
    # Empty files do not indicate the size of other files.
    median = statistics.median_low([size for size in sizes.values() if size] or [0])
    missing = sum(max(sizes[name], median) for name in names)
    return {
        "count": len(names),
        "first": list(names[:_NUM_NAMES]),
        "bytes": missing,
        "of_bytes": sum(sizes.values()) + missing,
    }


def manifest_entries(
    reports: Mapping[int, Mapping[str, Any]], sizes: Mapping[str, int]
) -> dict[str, Any]:
    """Returns the manifest entries `rejected` and `broken_files` from all reports."""
    counts: Counter[str] = Counter()
    broken_files = []
    for number in sorted(reports):
        counts.update(reports[number]["counted"])
        for item in reports[number]["rejected"]:
            counts[item["reason"]] += 1
            if item["ends_file"] and is_lost(item["reason"]):
                broken_files.append(item["source"])
    return {
        "rejected": dict(sorted(counts.items())),
        "broken_files": describe_broken_files(broken_files, sizes),
    }


def write(path: pathlib.Path, reports: Mapping[int, Mapping[str, Any]]) -> None:
    """Writes the rejected documents that the reports list, as JSON lines."""
    items = [item for number in sorted(reports) for item in reports[number]["rejected"]]
    entries = ({key: item[key] for key in item if key != "ends_file"} for item in items)
    files.write_json_lines(path, entries)


def _read(path: pathlib.Path) -> Iterator[RejectedDocument]:
    lines = path.read_text("utf-8").split("\n")[:-1] if path.exists() else []
    return (RejectedDocument(**json.loads(line)) for line in lines)


def readable(rejected: Mapping[str, int]) -> str:
    """Formats counts by reason as one line."""
    return ", ".join(f"{count} {reason}" for reason, count in rejected.items())


def check(
    options: DocumentOptions, manifest: Manifest, rejected_file: pathlib.Path
) -> None:
    """Raises TooManyRejectedError if a build lost more than its options allow.

    The message includes the first documents listed in `rejected_file`.
    """
    lost = {name: n for name, n in manifest.rejected.items() if is_lost(name)}
    num_read = manifest.count("documents")
    if manifest.cleaning:
        num_read = manifest.cleaning["before"]["documents"]
    total = sum(lost.values()) + num_read
    examples = (str(item) for item in _read(rejected_file) if is_lost(item.reason))
    broken = manifest.broken_files
    _check_shares(lost, total, broken, options.max_rejected_share, examples)


def _check_shares(
    lost: Mapping[str, int],
    num_documents: int,
    broken: Mapping[str, Any] | None,
    max_share: float,
    examples: Iterable[str],
) -> None:
    num_lost = sum(lost.values())
    if num_lost > max_share * num_documents:
        text = (
            f"{num_lost:,} of {num_documents:,} documents could not be read, "
            f"{num_lost / num_documents:.1%} ({readable(dict(sorted(lost.items())))})"
        )
    elif broken and broken["bytes"] > max_share * broken["of_bytes"]:
        text = (
            f"{broken['count']:,} file(s) could not be read to their end, with an "
            f"estimated {broken['bytes'] / broken['of_bytes']:.1%} of the input's "
            f"bytes ({names_and_more(broken)})"
        )
    else:
        return
    raise TooManyRejectedError(
        f"{text}: more than --max_rejected_share={max_share:g} allows. The first: "
        f"{' | '.join(itertools.islice(examples, _NUM_EXAMPLES))} | Finished work is "
        "kept: the same command with a larger --max_rejected_share resumes; after a "
        "change of the input or of other options add --overwrite"
    )


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
        # If there is a `validation_input`, source names begin with their split.
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
