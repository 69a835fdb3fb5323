"""Memory that a training process has: that of its GPU, or its share of the host's."""

import os
from typing import NamedTuple

from seg_tf import host_memory
from seg_tf.training import engine


class DeviceMemory(NamedTuple):
    """Bytes of memory, and the name of whose they are."""

    size: int
    device: str


def available() -> DeviceMemory:
    """Memory of the device that this process computes on.

    Of a GPU, as much as the engine may take of it; of a host, the part of one of the
    processes that the launcher started on it.
    """
    if (limit := engine.current().devices.gpu_memory_limit()) is not None:
        return DeviceMemory(limit, "the GPU")
    # Set by `horovodrun` and by MPI launchers that start Horovod.
    num_processes = int(os.environ.get("HOROVOD_LOCAL_SIZE", "1"))
    size = host_memory.total_bytes() // num_processes
    share = f", for each of {num_processes} processes" if num_processes > 1 else ""
    return DeviceMemory(size, f"this machine{share}")
