"""Memory that a training process has: that of its GPU, or its share of the host's."""

import os
from typing import NamedTuple

import tensorflow as tf
from tensorflow.python.client import device_lib

from seg_tf import host_memory


class DeviceMemory(NamedTuple):
    """Bytes of memory, and the name of whose they are."""

    size: int
    device: str


def available() -> DeviceMemory:
    """Memory of the device that this process computes on.

    Of a GPU, as much as TensorFlow may take of it; of a host, the part of one of the
    processes that the launcher started on it.
    """
    if tf.config.list_logical_devices("GPU"):
        # The public interface tells how much is used, not how much there is.
        for device in device_lib.list_local_devices():
            if device.device_type == "GPU":
                return DeviceMemory(device.memory_limit, "the GPU")
    # Set by `horovodrun` and by MPI launchers that start Horovod.
    num_processes = int(os.environ.get("HOROVOD_LOCAL_SIZE", "1"))
    size = host_memory.total_bytes() // num_processes
    share = f", for each of {num_processes} processes" if num_processes > 1 else ""
    return DeviceMemory(size, f"this machine{share}")
