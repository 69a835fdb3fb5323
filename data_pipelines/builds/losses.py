"""The share of a corpus that could not be read, and the limit that builds set to it.

The share is the larger of two:

* by documents: rejected ones of all that were read or rejected. Reasons that are no
  loss (redirects, other namespaces, documents without text) count in neither number;
* by bytes: those missing of files that could not be read to their end, of all bytes.
  How many these are of a file that breaks off is not known: the estimate is its size,
  or what it lacks to the corpus's median file, if that is more. A file of which nothing
  could be read counts with its size, or with that of the median file, if that is more.

`LossWatch` stops a build on the way, `check` at its end.
"""

import dataclasses
import json
import pathlib
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from data_pipelines.builds.document_options import DocumentOptions
from data_pipelines.builds.errors import BuildError
from data_pipelines.readers.base import LEFT_OUT_REASONS, RejectedDocument
from seg_tf.data.manifest import Manifest

NO_TOKENS_REASONS = ("no_word_pieces", "no_words")
"""Of documents that could be read and hold nothing that a vocabulary knows."""
MIN_DOCUMENTS = 1000
"""Documents that have to be seen before their share can stop a build on the way."""
_NUM_EXAMPLES = 3
_NUM_NAMES = 5


class TooManyRejectedError(BuildError):
    """More of the corpus was lost than `--max_rejected_share` allows."""


def is_lost(reason: str) -> bool:
    """Returns True if documents rejected for `reason` count as lost text."""
    return reason not in LEFT_OUT_REASONS and reason not in NO_TOKENS_REASONS


@dataclasses.dataclass
class Losses:
    """Collects what could not be read.

    Attributes:
        reasons: reason -> lost documents.
        first: the first of them, as text.
        broken_files: name of each file that could not be read to its end -> what was
            lost of it, as in `RejectedDocument.lost_of_file`.
    """

    reasons: Counter[str] = dataclasses.field(default_factory=Counter)
    first: list[str] = dataclasses.field(default_factory=list)
    broken_files: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def num_documents(self) -> int:
        """Lost documents."""
        return self.reasons.total()

    def add(self, item: RejectedDocument) -> None:
        """Counts a document, unless its reason is no loss."""
        if not is_lost(item.reason):
            return
        self.reasons[item.reason] += 1
        if len(self.first) < _NUM_EXAMPLES:
            self.first.append(str(item))
        if item.lost_of_file:
            self.broken_files[item.source] = item.lost_of_file

    def extend(self, described: Mapping[str, Any]) -> None:
        """Adds what another one's `described` returned."""
        self.reasons.update(described.get("reasons", {}))
        self.first += described.get("first", [])[: _NUM_EXAMPLES - len(self.first)]
        self.broken_files.update(described.get("broken_files", {}))

    def described(self) -> dict[str, Any]:
        """The attributes, JSON-able."""
        return {**vars(self), "reasons": dict(self.reasons)}


class LossWatch:
    """Stops the reading of a corpus as soon as too much of it is lost.

    That is at a lost document after the first `MIN_DOCUMENTS`, if the share of those
    seen so far is above the limit; and at a broken file, if the bytes of such files
    are, of the whole corpus. It depends on the order of reading alone, so it is the
    same for any workers and engine, and after a restart.

    Args:
        max_share: the limit.
        sizes: name -> bytes of every source.
    """

    def __init__(self, max_share: float, sizes: Mapping[str, int]):
        self._max_share = max_share
        self._sizes = sizes
        self._num_documents = 0
        self._losses = Losses()
        self._median = _median(sizes)
        self._lost_bytes, self._num_bytes = 0, sum(sizes.values())

    def resume(self, reports: Iterable[Mapping[str, Any]], num_documents: int) -> None:
        """Continues from the counts of an interrupted reading.

        Args:
            reports: those of all slices read before, in order.
            num_documents: documents in them.
        """
        self._num_documents = num_documents
        for report in reports:
            described = report.get("losses", {})
            self._losses.extend(described)
            for name, lost_of_file in described.get("broken_files", {}).items():
                self._lose_file(name, lost_of_file)

    def add_document(self) -> None:
        """Counts a document that could be read."""
        self._num_documents += 1

    def add_rejected(self, item: RejectedDocument) -> None:
        """Counts a rejected document.

        Raises:
            TooManyRejectedError: if too much is lost.
        """
        if not is_lost(item.reason):
            return
        self._losses.add(item)
        lost = self._losses.num_documents
        seen = self._num_documents + lost
        if seen >= MIN_DOCUMENTS and lost > self._max_share * seen:
            raise _error(
                _of_documents(lost, seen, self._losses.reasons, "the first "),
                self._max_share,
                self._losses.first,
            )
        if item.lost_of_file:
            self._lose_file(item.source, item.lost_of_file)

    def _lose_file(self, name: str, lost_of_file: str) -> None:
        lost, added = _missing_bytes(self._sizes[name], lost_of_file, self._median)
        self._lost_bytes += lost
        self._num_bytes += added
        if self._lost_bytes > self._max_share * self._num_bytes:
            described = describe_broken_files(self._losses.broken_files, self._sizes)
            _check_files(described, self._max_share, self._losses.first)


def describe_broken_files(
    files: Mapping[str, str], sizes: Mapping[str, int]
) -> dict[str, Any] | None:
    """The manifest's entry on files that could not be read to their end.

    Args:
        files: name -> what was lost of it, in order.
        sizes: name -> bytes of every source.

    Returns:
        Their number and first names, the bytes that are taken to be missing, and those
        of the whole corpus with these; None if there are none.
    """
    if not files:
        return None
    median = _median(sizes)
    found = [
        _missing_bytes(sizes[name], lost_of_file, median)
        for name, lost_of_file in files.items()
    ]
    return {
        "count": len(files),
        "first": list(files)[:_NUM_NAMES],
        "bytes": sum(lost for lost, _ in found),
        "of_bytes": sum(sizes.values()) + sum(added for _, added in found),
    }


def _missing_bytes(size: int, lost_of_file: str, median: int) -> tuple[int, int]:
    """Bytes that are lost of a file, and those of them that are not in its size."""
    if lost_of_file == "whole":
        return max(size, median), max(0, median - size)
    missing = max(size, median - size)
    return missing, missing


def broken_files(
    reports: Mapping[int, Mapping[str, Any]], sizes: Mapping[str, int]
) -> dict[str, Any] | None:
    """`describe_broken_files` of a build, from the reports of its slices by number."""
    files = {}
    for number in sorted(reports):
        files |= reports[number].get("losses", {}).get("broken_files", {})
    return describe_broken_files(files, sizes)


def check(
    options: DocumentOptions, manifest: Manifest, rejected_file: pathlib.Path
) -> None:
    """Checks a whole build of documents.

    Args:
        options: the build's options.
        manifest: the build's manifest.
        rejected_file: the list of rejected documents, of which the first are named.

    Raises:
        TooManyRejectedError: if more is lost than `options.max_rejected_share`.
    """
    max_share = options.max_rejected_share
    lost_by_reason = {
        reason: count for reason, count in manifest.rejected.items() if is_lost(reason)
    }
    lost = sum(lost_by_reason.values())
    read = (
        manifest.cleaning["before"]["documents"]
        if manifest.cleaning
        else manifest.count("documents")
    )
    if lost > max_share * (lost + read):
        what = _of_documents(lost, lost + read, lost_by_reason)
        raise _error(what, max_share, _first_lost(rejected_file))
    if manifest.broken_files:
        _check_files(manifest.broken_files, max_share, _first_lost(rejected_file))


def _first_lost(rejected_file: pathlib.Path) -> list[str]:
    losses = Losses()
    if rejected_file.exists():
        with open(rejected_file, encoding="utf-8") as file:
            for line in file:
                losses.add(RejectedDocument(**json.loads(line)))
                if losses.num_documents == _NUM_EXAMPLES:
                    break
    return losses.first


def _median(sizes: Mapping[str, int]) -> int:
    """Bytes of the median file of those that are not empty."""
    return statistics.median_low([size for size in sizes.values() if size] or [0])


def _check_files(
    described: Mapping[str, Any], max_share: float, first: Sequence[str]
) -> None:
    lost, total = described["bytes"], described["of_bytes"]
    if lost > max_share * total:
        names = ", ".join(described["first"])
        more = described["count"] - len(described["first"])
        raise _error(
            f"{described['count']:,} file(s) could not be read to their end, with an "
            f"estimated {lost / max(total, 1):.1%} of the input's bytes ({names}"
            + (f" and {more:,} more)" if more else ")"),
            max_share,
            first,
        )


def _of_documents(
    lost: int, seen: int, reasons: Mapping[str, int], which: str = ""
) -> str:
    listed = ", ".join(f"{count:,} {name}" for name, count in sorted(reasons.items()))
    return (
        f"{lost:,} of {which}{seen:,} documents could not be read, "
        f"{lost / seen:.1%} ({listed})"
    )


def _error(what: str, max_share: float, first: Sequence[str]) -> TooManyRejectedError:
    return TooManyRejectedError(
        f"{what}: more than --max_rejected_share={max_share:g} allows. The first: "
        f"{' | '.join(first)} | What is finished is kept: the same command with a "
        "larger --max_rejected_share goes on; after a change of the input or of other "
        "options add --overwrite"
    )
