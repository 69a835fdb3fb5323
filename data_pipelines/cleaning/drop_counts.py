"""Counts dropped text per slice and merges the counts for the manifest.

The result depends only on the documents, not on how they were split into slices.
"""

from __future__ import annotations

import bisect
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from data_pipelines.readers import Document


COUNTS = ("documents", "paragraphs", "characters")
NUM_EXAMPLES = 5
_EXAMPLE_CHARACTERS = 300


class DropCounter:
    """Counts the input of the cleaning steps and what each step drops, with examples.

    The examples of a step are the dropped texts with the lowest hashes, so they are
    spread over the whole corpus and identical for any engine.
    """

    def __init__(self, steps: Sequence[str]):
        self._before = dict.fromkeys(COUNTS, 0)
        self._dropped = {step: dict.fromkeys(COUNTS, 0) for step in steps}
        self._examples = {step: [] for step in steps}

    def see(self, document: Document) -> None:
        """Counts a document before any cleaning step."""
        _add(self._before, _size(document.paragraphs))

    def drop(
        self,
        step: str,
        document_id: int,
        document: Document,
        lines: Sequence[str],
        why: str = "",
    ) -> None:
        """Counts lines of a document that a step dropped, and keeps some as examples.

        If `lines` are all lines of the document, it is counted as dropped. With a
        reason `why`, the lines form one example, otherwise one example each.
        """
        _add(self._dropped[step], _size(lines))
        if len(lines) < len(document.paragraphs):
            self._dropped[step]["documents"] -= 1
        examples = self._examples[step]
        for text in ["\n".join(lines)] if why else dict.fromkeys(lines):
            text = text[:_EXAMPLE_CHARACTERS] + "…" * (len(text) > _EXAMPLE_CHARACTERS)
            name = f"{document_id}\n{text}".encode("utf-8", "surrogatepass")
            rank = hashlib.blake2b(name, digest_size=8).hexdigest()
            if len(examples) == NUM_EXAMPLES and rank >= examples[-1]["rank"]:
                continue
            example = {"rank": rank, "document_id": document_id, "why": why}
            example |= {"source": document.source, "location": document.location}
            example["text"] = text
            bisect.insort(examples, example, key=lambda item: item["rank"])
            del examples[NUM_EXAMPLES:]

    def report(self) -> dict[str, Any]:
        """Returns the counts and examples as JSON values for `merge`."""
        steps = {
            step: {**counts, "examples": self._examples[step]}
            for step, counts in self._dropped.items()
        }
        return {"before": self._before, "steps": steps}


def merge(reports: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Merges slice reports into a manifest entry. Returns None if there are no steps.

    Entry: `{"before": counts, "steps": {name: counts and examples}, "after": counts}`.
    """
    before, steps = dict.fromkeys(COUNTS, 0), {}
    for report in reports:
        _add(before, report["before"])
        for step, counts in report["steps"].items():
            total = steps.setdefault(step, {**dict.fromkeys(COUNTS, 0), "examples": []})
            _add(total, counts)
            total["examples"] += counts["examples"]
    if not steps:
        return None
    after = dict(before)
    for total in steps.values():
        for name in COUNTS:
            after[name] -= total[name]
        ranked = sorted(total["examples"], key=lambda example: example["rank"])
        total["examples"] = [
            {name: value for name, value in example.items() if name != "rank"}
            for example in ranked[:NUM_EXAMPLES]
        ]
    return {"before": before, "steps": steps, "after": after}


def _size(lines: Sequence[str]) -> dict[str, int]:
    return dict(zip(COUNTS, (1, len(lines), sum(map(len, lines))), strict=True))


def _add(total: dict[str, Any], counts: Mapping[str, Any]) -> None:
    for name in COUNTS:
        total[name] += counts[name]


def summary(cleaning: Mapping[str, Any]) -> str:
    """Formats the dropped documents and paragraphs of each step in a `merge` result."""
    dropped = [
        f"{step} {counts['documents']:,} documents, {counts['paragraphs']:,} paragraphs"
        for step, counts in cleaning["steps"].items()
    ]
    return f"cleaned away: {'; '.join(dropped)}"
