"""Memory that a process holds, of its host and of its GPU."""

import pathlib
import re
import resource
import sys

import psutil
import tensorflow as tf

_STATUS = pathlib.Path("/proc/self/status")


def memory_use() -> dict[str, int]:
    """Bytes held now and at most since the process started.

    Returns:
        `host_memory_bytes` and `host_memory_peak_bytes`, the resident set size of
        this process; with a GPU, `gpu_memory_bytes` and `gpu_memory_peak_bytes` too:
        what TensorFlow has allocated of it for tensors.
    """
    held = psutil.Process().memory_info().rss
    figures = {
        "host_memory_bytes": held,
        # The kernel adds up its counters lazily, so that a peak can lag behind.
        "host_memory_peak_bytes": max(held, _peak_of_host()),
    }
    gpus = tf.config.list_logical_devices("GPU")
    if gpus:
        # The one GPU of a process of several; the first where one process sees more.
        info = tf.config.experimental.get_memory_info(gpus[0].name)
        figures["gpu_memory_bytes"] = info["current"]
        figures["gpu_memory_peak_bytes"] = info["peak"]
    return figures


def _peak_of_host() -> int:
    # Preferred to `getrusage`, which counts the process that started this one too.
    if _STATUS.exists():
        found = re.search(r"VmHWM:\s*(\d+) kB", _STATUS.read_text())
        if found:
            return 1024 * int(found[1])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
