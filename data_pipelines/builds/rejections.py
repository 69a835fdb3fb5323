"""The rejected documents of a build: counted, listed in a file, shown to people."""

import json
import pathlib
from collections import Counter
from collections.abc import Iterable, Mapping

from data_pipelines.builds import losses
from data_pipelines.builds.document_options import DocumentOptions
from data_pipelines.builds.errors import BuildError
from data_pipelines.cleaning import drop_counts
from data_pipelines.readers import RejectedDocument
from seg_tf import files
from seg_tf.data.manifest import Manifest


def of_reports(reports: Mapping[int, dict]) -> Iterable[dict]:
    """Yields the listed documents of a build's reports, in order."""
    for number in sorted(reports):
        yield from reports[number]["rejected"]


def count(reports: Mapping[int, dict]) -> dict[str, int]:
    """Counts rejected documents by reason, those included that are not listed."""
    counts = Counter(item["reason"] for item in of_reports(reports))
    for report in reports.values():
        counts.update(report.get("counted", {}))
    return dict(sorted(counts.items()))


def write(path: pathlib.Path, reports: Mapping[int, dict]) -> None:
    """Writes the listed documents, one JSON object a line."""
    with files.written_aside(path) as aside, open(aside, "w", encoding="utf-8") as file:
        for item in of_reports(reports):
            file.write(json.dumps(item, ensure_ascii=False) + "\n")


def in_words(rejected: Mapping[str, int]) -> str:
    """Returns counts by reason as a line for people."""
    return ", ".join(f"{number} {reason}" for reason, number in rejected.items())


def check_all_kept(
    options: DocumentOptions, rejected: Mapping[str, int], rejected_file: pathlib.Path
) -> None:
    """Raises BuildError if `--strict` is given and a document was lost."""
    bad = {
        reason: number for reason, number in rejected.items() if losses.is_lost(reason)
    }
    if options.strict and bad:
        raise BuildError(
            f"--strict wants all documents; left out: {in_words(bad)}, see "
            f"{rejected_file}"
        )


def check_not_empty(
    options: DocumentOptions,
    manifest: Manifest,
    reports: Mapping[int, dict],
    rejected_file: pathlib.Path,
) -> None:
    """Raises BuildError if no document of an input was left, saying what there was."""
    inputs = {None: options.input}  # None is both splits.
    if options.validation_input is not None:
        inputs = {"train": options.input, "validation": options.validation_input}
    for split, given in inputs.items():
        if manifest.count("records", split):
            continue
        reasons = []
        if manifest.rejected:
            reasons.append(f"rejected in all: {in_words(manifest.rejected)}")
        # Names of sources begin with their split where there are inputs of both.
        begin = f"{split}/" if split else ""
        of_split = (
            one for one in of_reports(reports) if one["source"].startswith(begin)
        )
        first = next(of_split, None)
        if first is not None:
            reasons.append(f"first {RejectedDocument(**first)}, see {rejected_file}")
        if manifest.cleaning:
            reasons.append(drop_counts.summary(manifest.cleaning))
        raise BuildError(
            f"there is no document in {given!r}, read as {options.format}: "
            + "; ".join(reasons or ["it holds none"])
        )
