"""Memory of the host, or of the container where that is less."""

import os
import pathlib

_CGROUP_LIMITS = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)


def total_bytes() -> int:
    """Bytes that all processes of this machine or container can use together."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in _CGROUP_LIMITS:
        try:
            memory = min(memory, int(pathlib.Path(path).read_text()))
        except (OSError, ValueError):
            continue
    return memory
