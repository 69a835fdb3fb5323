"""Processes that communicate by Horovod, which only this file uses.

Only Horovod's operations on tensors and on TensorFlow variables are used; its Keras
parts do not work with Keras 3.
"""

import contextlib
import importlib.util
import os
import socket
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from seg_tf.training import devices
from seg_tf.training.distribution import Distribution, number_launched
from seg_tf.training.errors import TrainingStopped

# Time limits of Horovod, in seconds, unless the environment sets them.
_TIME_LIMITS = {
    # Interval of the search for late ranks, which are named after two to four of them.
    "HOROVOD_STALL_CHECK_TIME_SECONDS": 12,
    # A late rank ends the run. It may compile or write a checkpoint for minutes.
    "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": 1_800,
    # A stopped process, or a host that is gone, ends the run within five minutes.
    # Horovod's default, 30 s, ends a run that is swapped out for a moment. Ranks also
    # wait this long for each other at the start.
    "HOROVOD_GLOO_TIMEOUT_SECONDS": 240,
}


class HorovodDistribution(Distribution):
    """The processes that `horovodrun` started."""

    def __init__(self) -> None:
        import horovod.tensorflow as horovod

        self._horovod = horovod
        for name, seconds in _TIME_LIMITS.items():
            os.environ.setdefault(name, str(seconds))
        horovod.init()
        _use_one_gpu(horovod.local_rank())

    @property
    def rank(self) -> int:
        return self._horovod.rank()

    @property
    def size(self) -> int:
        return self._horovod.size()

    def sum(
        self, tensors: Sequence[tf.Tensor], name: str, as_float16: bool = False
    ) -> list[tf.Tensor]:
        compression = self._horovod.Compression
        return self._horovod.grouped_allreduce(
            list(tensors),
            op=self._horovod.Sum,
            compression=compression.fp16 if as_float16 else compression.none,
            # Every error quotes the name, by which `failures_explained` recognizes
            # failures of Horovod.
            name=f"Horovod_{name}",
            # Graphs of two processes may differ in their scopes, as by accumulation.
            ignore_name_scope=True,
        )

    def broadcast(self, variables: Sequence[Any]) -> None:
        for variable in variables:  # as bytes, since Gloo knows no bfloat16
            variable.assign(self.broadcast_object(np.asarray(variable.value)))

    def broadcast_object(self, value: Any) -> Any:
        with self.failures_explained():
            return self._horovod.broadcast_object(value, root_rank=0, name="object")

    def gather(self, value: Any) -> list[Any]:
        with self.failures_explained():
            return self._horovod.allgather_object(value, name="gathered")

    @contextlib.contextmanager
    def failures_explained(self) -> Iterator[None]:
        try:
            yield
        except tf.errors.OpError as error:
            lines = [line for line in error.message.splitlines() if "Horovod" in line]
            if not lines:
                raise
            raise TrainingStopped(
                f"{self.describe_failure()} Horovod says: {lines[0].strip()}"
            ) from error


def join() -> Distribution:
    """The processes that this process was started to train with.

    A process that no launcher started trains alone, with Horovod installed or not.
    """
    number = number_launched()
    if number <= 1:
        return Distribution()
    if importlib.util.find_spec("horovod") is None:
        raise TrainingStopped(
            f"{number} processes were started, but Horovod is not installed, so each "
            "would train alone. Install it with `make setup HOROVOD=require`"
        )
    distribution = HorovodDistribution()
    if distribution.size != number:
        raise TrainingStopped(
            f"{number} processes were started, but Horovod found {distribution.size}, "
            "so each would train alone. Start them with horovodrun; mpirun and srun "
            "need a Horovod that was built with HOROVOD_WITH_MPI=1"
        )
    return distribution


def _use_one_gpu(local_rank: int) -> None:
    num_gpus = devices.num_gpus()
    if not num_gpus:
        return
    if local_rank >= num_gpus:
        raise TrainingStopped(
            f"{socket.gethostname()} must have a GPU for each process: horovodrun -H "
            f"host:GPUs. Received: process {local_rank}, but {num_gpus} GPUs"
        )
    devices.use_one_gpu(local_rank)
