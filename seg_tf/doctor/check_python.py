"""The Python, its virtual environment, and the packages it should hold."""

from __future__ import annotations

import importlib.metadata
import re
import sys
from collections.abc import Mapping
from typing import Any

from seg_tf.doctor import cures
from seg_tf.doctor.findings import Finding, ok, problem, warning

OLDEST, NEWEST = (3, 11), (3, 13)
_PIN = re.compile(r"([\w.-]+)==([^\s;]+)\s*(?:;\s*(.*?))?\s*\\?$")


def check() -> list[Finding]:
    return judge(gather())


def gather() -> dict[str, Any]:
    lock = cures.LOCK.read_text(encoding="utf-8") if cures.LOCK.is_file() else None
    return {
        "version": list(sys.version_info[:3]),
        "executable": sys.executable,
        "in_environment": sys.prefix != sys.base_prefix,
        "pinned": None if lock is None else pinned_versions(lock),
        "installed": installed_versions(),
    }


def judge(facts: Mapping[str, Any]) -> list[Finding]:
    """Findings from what `gather` returned."""
    return [_judge_version(facts), _judge_environment(facts), *_judge_packages(facts)]


def _judge_version(facts: Mapping[str, Any]) -> Finding:
    version = ".".join(map(str, facts["version"]))
    title = f"Python {version}: {facts['executable']}"
    if OLDEST <= tuple(facts["version"][:2]) <= NEWEST:
        return ok(title)
    return problem(
        title,
        "The packages are resolved for Python 3.11 to 3.13",
        "make setup PYTHON=python3.12 VENV=.venv312",
    )


def _judge_environment(facts: Mapping[str, Any]) -> Finding:
    if facts["in_environment"]:
        return ok("This Python belongs to a virtual environment")
    return warning(
        "This Python is in no virtual environment",
        "`make setup` installs into .venv, which this Python does not see; what pip "
        "installs here may change other programs",
        "make setup && source .venv/bin/activate",
    )


def _judge_packages(facts: Mapping[str, Any]) -> list[Finding]:
    pinned, installed = facts["pinned"], facts["installed"]
    if pinned is None:
        return [ok("Packages are not compared: there is no requirements/run.txt here")]
    missing = sorted(name for name in pinned if name not in installed)
    other = sorted(
        name for name in pinned if installed.get(name, pinned[name]) != pinned[name]
    )
    findings = []
    if missing:
        findings.append(
            problem(
                f"Packages are missing: {', '.join(missing)}",
                "requirements/run.txt names them; this Python does not have them",
                cures.packages(),
            )
        )
    if other:
        listed = ", ".join(f"{name} {installed[name]}" for name in other)
        expected = ", ".join(f"{name} {pinned[name]}" for name in other)
        findings.append(
            warning(
                f"Packages have other versions than were tested: {listed}",
                f"requirements/run.txt pins {expected}",
                cures.packages(),
            )
        )
    if not findings:
        findings.append(ok(f"All {len(pinned)} packages of requirements/run.txt"))
    return findings


def pinned_versions(lock: str) -> dict[str, str]:
    """Version of each package that a lock file pins for this Python and platform."""
    pinned = {}
    for line in lock.splitlines():
        match = _PIN.match(line)
        if match and _applies(match.group(3)):
            pinned[_normalised(match.group(1))] = match.group(2)
    return pinned


def _applies(marker: str | None) -> bool:
    """Whether an environment marker holds here; without `packaging`, never."""
    if not marker:
        return True
    try:
        from packaging import markers
    except ImportError:
        return False
    return markers.Marker(marker).evaluate()


def installed_versions() -> dict[str, str]:
    """Name and version of every package that this Python finds."""
    found: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"]
        if name:  # a broken installation may leave a folder without metadata
            found.setdefault(_normalised(name), distribution.version)
    return found


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
