"""Peak memory of work in a separate process (Linux)."""

import multiprocessing
import pathlib
import re
from collections.abc import Callable
from typing import Any


def added_by(work: Callable[[], Any]) -> int:
    """Bytes by which some work raises the peak of this process above what it held."""
    # The peak starts anew; in `getrusage` it would be that of the parent process.
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    before = of_process()
    work()
    return of_process() - before


def in_own_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a function in a new process, which leaves no memory in use.

    Memory that an earlier task has freed is still the process's, and would hide what
    a later one needs.
    """
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def available() -> int:
    """Bytes that programs can still have."""
    text = pathlib.Path("/proc/meminfo").read_text()
    return 1024 * int(re.search(r"MemAvailable:\s*(\d+) kB", text)[1])


def of_process() -> int:
    """Bytes of the largest resident set of this process."""
    status = pathlib.Path("/proc/self/status").read_text()
    return 1024 * int(re.search(r"VmHWM:\s*(\d+) kB", status)[1])
