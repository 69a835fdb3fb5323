"""Timing of two or more sides in one process, round by round.

The speed of a shared machine drifts by 10 to 20 %, so single times mean little: all
sides run in every round, in turn, and what is reported is the ratio within rounds.
"""

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping

import numpy as np


def pin_to_one_core() -> None:
    """Keeps this process, and threads it starts later, on one core (Linux)."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def interleave(
    sides: Mapping[str, Callable[[], float]], rounds: int
) -> dict[str, list[float]]:
    """Runs every side once a round.

    Args:
        sides: name -> function that does the work and returns how much it did, in
            any unit that all sides share (bytes, tokens, steps).
        rounds: counted rounds; one more goes before to warm up.

    Returns:
        Name -> units per second in each counted round.
    """
    rates = {name: [] for name in sides}
    for number in range(rounds + 1):
        for name, work in sides.items():
            begin = time.perf_counter()
            amount = work()
            seconds = time.perf_counter() - begin
            if number:
                rates[name].append(amount / seconds)
    return rates


def report(
    rates: Mapping[str, list[float]],
    *,
    of: str,
    against: str,
    unit: str,
    scale: float = 1.0,
    target: float | None = None,
) -> float:
    """Prints the rates and the ratio `of` / `against`; returns its median.

    Args:
        rates: what `interleave` returned.
        of: our side.
        against: the other side.
        unit: unit of the printed rates, after multiplication with `scale`.
        scale: factor from units per second to `unit`.
        target: the ratio that is aimed at.
    """
    for name in (of, against):
        low, middle, high = _quartiles([rate * scale for rate in rates[name]])
        print(
            f"  {name:32s} {middle:10.3f} {unit}  (quartiles {low:.3f} to {high:.3f})"
        )
    ratios = [a / b for a, b in zip(rates[of], rates[against], strict=True)]
    low, middle, high = _quartiles(ratios)
    aim = "" if target is None else f", target {target:g}"
    print(
        f"  ratio {of} / {against}: {middle:.2f} (quartiles {low:.2f} to {high:.2f}, "
        f"{len(ratios)} rounds{aim})"
    )
    return middle


def print_machine() -> None:
    """Prints what the figures depend on: processor, versions, load."""
    import tensorflow as tf

    load = ", ".join(f"{value:.2f}" for value in os.getloadavg())
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}, TensorFlow {tf.__version__}, load {load}"
    )


def _quartiles(values: list[float]) -> tuple[float, float, float]:
    low, high = np.quantile(values, [0.25, 0.75])
    return float(low), statistics.median(values), float(high)
