"""Times two or more sides in one process, round by round.

The speed of a shared machine drifts by 10 to 20 %, so single times mean little. All
sides therefore run in turn in every round, and the ratio within rounds is reported.
"""

import contextlib
import dataclasses
import importlib.metadata
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping

import numpy as np

_PACKAGES = ("tensorflow", "jax", "torch", "keras", "keras-hub", "transformers")


def pin_to_one_core() -> None:
    """Pins this process and the threads that it starts later to one core (Linux)."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


@dataclasses.dataclass(frozen=True)
class Rates:
    """Units per second of one side in each counted round.

    Attributes:
        wall: per second of wall time.
        cpu: per second of CPU time of all threads, which other programs on the
            machine affect less.
    """

    wall: list[float] = dataclasses.field(default_factory=list)
    cpu: list[float] = dataclasses.field(default_factory=list)


def repeated(
    step: Callable[[], object], times: int, amount: float = 1
) -> Callable[[], float]:
    """Returns a side for `interleave` that repeats a step of `amount` units."""

    def work() -> float:
        for _ in range(times):
            step()
        return times * amount

    return work


def interleave(
    sides: Mapping[str, Callable[[], float]], rounds: int
) -> dict[str, Rates]:
    """Runs every side once per round and returns the rates of each side.

    Args:
        sides: name -> function that does the work and returns its amount, in a unit
            that all sides share (bytes, tokens, steps).
        rounds: number of counted rounds, not including a first one for warmup.
    """
    rates = {name: Rates() for name in sides}
    for number in range(rounds + 1):
        for name, work in sides.items():
            wall, cpu = time.perf_counter(), time.process_time()
            amount = work()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            if number:
                rates[name].wall.append(amount / wall)
                rates[name].cpu.append(amount / cpu)
    return rates


def report(
    rates: Mapping[str, Rates],
    *,
    of: str,
    against: str,
    unit: str,
    scale: float = 1.0,
    target: float | None = None,
) -> None:
    """Prints the rates and the ratio `of` / `against`, by wall and by CPU time.

    Args:
        rates: result of `interleave`.
        of: name of our side.
        against: name of the other side.
        unit: unit of the printed rates, after multiplication by `scale`.
        scale: factor from units per second to `unit`.
        target: target for the ratio, which is printed too.
    """
    for name in (of, against):
        wall, cpu = (
            statistics.median(values) * scale
            for values in (rates[name].wall, rates[name].cpu)
        )
        print(f"  {name:32s} {wall:10.3f} {unit} (CPU {cpu:.3f})")
    aim = "" if target is None else f", target {target:g}"
    print(
        f"  ratio {of} / {against}: {_ratio(rates[of].wall, rates[against].wall)}, "
        f"CPU {_ratio(rates[of].cpu, rates[against].cpu)}; "
        f"{len(rates[of].wall)} rounds{aim}"
    )


def print_machine() -> None:
    """Prints what the figures depend on: architecture, cores, versions and load."""
    print(f"{platform.machine()}, {os.cpu_count()} cores, {versions()}, load {load()}")


def versions() -> str:
    """Returns the versions of Python and of the installed frameworks, as text."""
    lines = [f"Python {platform.python_version()}"]
    for name in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            lines.append(f"{name} {importlib.metadata.version(name)}")
    return ", ".join(lines)


def load() -> str:
    """Returns the load averages over 1, 5 and 15 minutes, as text."""
    return ", ".join(f"{value:.2f}" for value in os.getloadavg())


def _ratio(ours: list[float], theirs: list[float]) -> str:
    """Formats the median and quartiles of the ratio within rounds."""
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    low, high = np.quantile(ratios, [0.25, 0.75])
    return f"{statistics.median(ratios):.2f} ({low:.2f} to {high:.2f})"
