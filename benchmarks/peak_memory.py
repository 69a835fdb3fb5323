"""Measures the peak memory of functions, on Linux, and runs them in new processes."""

import multiprocessing
import pathlib
import re
from collections.abc import Callable
from typing import Any


def added_by(work: Callable[[], Any]) -> int:
    """Returns the bytes by which the peak memory during `work` exceeds that before."""
    # The peak starts anew; in `getrusage` it would be that of the parent process.
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    before = of_process()
    work()
    return of_process() - before


def in_own_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a function in a new process and returns its result.

    In the same process, memory that earlier calls have freed but that still belongs to
    the process would hide what a later call needs.
    """
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def available() -> int:
    """Returns the bytes of memory that are available on this machine."""
    text = pathlib.Path("/proc/meminfo").read_text()
    return 1024 * int(re.search(r"MemAvailable:\s*(\d+) kB", text)[1])


def of_process() -> int:
    """Returns the peak resident set size of this process in bytes."""
    status = pathlib.Path("/proc/self/status").read_text()
    return 1024 * int(re.search(r"VmHWM:\s*(\d+) kB", status)[1])
