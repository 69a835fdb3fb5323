"""Findings of the doctor: a fact and, if something is wrong, its cause and cure."""

from __future__ import annotations

import dataclasses
import textwrap

OK, WARNING, PROBLEM = "ok", "warning", "problem"


@dataclasses.dataclass(frozen=True)
class Finding:
    """One entry of the doctor's answer.

    Attributes:
        level: "ok", "warning" (works, with a limitation) or "problem".
        title: the fact.
        cause: why, for warnings and problems.
        cure: a command, or what else to do.
    """

    level: str
    title: str
    cause: str = ""
    cure: str = ""

    def __str__(self) -> str:
        lines = [f"{self.level:<9}{self.title}"]
        for name, text in (("cause", self.cause), ("cure", self.cure)):
            if text:
                lines.append(textwrap.indent(f"{name + ':':<7}{text}", " " * 9))
        return "\n".join(lines)


def ok(title: str) -> Finding:
    return Finding(OK, title)


def warning(title: str, cause: str, cure: str) -> Finding:
    return Finding(WARNING, title, cause, cure)


def problem(title: str, cause: str, cure: str) -> Finding:
    return Finding(PROBLEM, title, cause, cure)


def summary(findings: list[Finding]) -> str:
    """Number of findings of each level, in words."""
    counts = dict.fromkeys((OK, WARNING, PROBLEM), 0)
    for finding in findings:
        counts[finding.level] += 1
    warnings, problems = (
        f"{counts[level]} {level}{'' if counts[level] == 1 else 's'}"
        for level in (WARNING, PROBLEM)
    )
    return f"{counts[OK]} ok, {warnings}, {problems}"
