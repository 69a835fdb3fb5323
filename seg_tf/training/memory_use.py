"""Memory that a process holds, of its host and of its GPU."""

import pathlib
import re
import resource
import sys

import psutil

from seg_tf.training import engine

_STATUS = pathlib.Path("/proc/self/status")


def memory_use() -> dict[str, int]:
    """Bytes held now and at most since the process started.

    Returns:
        `host_memory_bytes` and `host_memory_peak_bytes`, the resident set size of
        this process; with a GPU, `gpu_memory_bytes` and `gpu_memory_peak_bytes` too:
        what the engine has allocated of it for tensors.
    """
    held = psutil.Process().memory_info().rss
    figures = {
        "host_memory_bytes": held,
        # The kernel adds up its counters lazily, so that a peak can lag behind.
        "host_memory_peak_bytes": max(held, _peak_of_host()),
    }
    if (of_gpu := engine.current().devices.gpu_memory_use()) is not None:
        figures["gpu_memory_bytes"], figures["gpu_memory_peak_bytes"] = of_gpu
    return figures


def _peak_of_host() -> int:
    # Preferred to `getrusage`, which counts the process that started this one too.
    if _STATUS.exists():
        found = re.search(r"VmHWM:\s*(\d+) kB", _STATUS.read_text())
        if found:
            return 1024 * int(found[1])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
