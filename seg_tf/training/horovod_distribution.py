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

import tensorflow as tf

from seg_tf.training import devices
from seg_tf.training.distribution import Distribution, number_launched
from seg_tf.training.errors import TrainingStopped

# Time limits of Horovod, in seconds, unless the environment sets them.
_TIME_LIMITS = {
    # Interval of the search for late ranks. A late sum first only leaves its cache; a
    # later look names the missing ranks, after two to four times as long.
    "HOROVOD_STALL_CHECK_TIME_SECONDS": 12,
    # A late rank ends the run. It may compile or write a checkpoint for minutes.
    "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": 1_800,
    # A stopped process, or a host that is gone, ends the run within five minutes, with
    # a margin for the message. Horovod's default, 30 s, ends a run that is swapped out
    # for a moment. Ranks also wait this long for each other at the start.
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
        if tensors and tensors[0].dtype == tf.bfloat16:  # which Gloo cannot add
            tensors = [tf.cast(tensor, tf.float32) for tensor in tensors]
            sums = self.sum(tensors, name, as_float16)
            return [tf.cast(total, tf.bfloat16) for total in sums]
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
        values: list[tf.Variable] = [variable.value for variable in variables]
        supported = [value for value in values if value.dtype != tf.bfloat16]
        self._horovod.broadcast_variables(supported, root_rank=0)
        for number, variable in enumerate(values):
            if variable.dtype == tf.bfloat16:  # sent as the bits of a float16
                bits = tf.bitcast(variable, tf.float16)
                name = f"Horovod_bits_{number}"
                bits = self._horovod.broadcast(bits, root_rank=0, name=name)
                variable.assign(tf.bitcast(bits, tf.bfloat16))

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

    Raises:
        TrainingStopped: if there are several processes and Horovod is missing or does
            not find them, or if the launcher is elastic.
    """
    if os.environ.get("HOROVOD_ELASTIC") == "1":
        raise TrainingStopped(
            "Elastic runs were removed in 0.3. Start a fixed number of processes, "
            "without --min-np, --max-np and --host-discovery-script: horovodrun -np 16 "
            "-H host1:8,host2:8 … A run resumes on any number of processes"
        )
    number = number_launched()
    if number <= 1:
        return Distribution()
    if importlib.util.find_spec("horovod") is None:
        raise TrainingStopped(
            f"{number} processes were started, but Horovod is not installed, so each "
            "would train alone. Install it with `make setup HOROVOD=require`, or start "
            "one process without horovodrun; `python -m seg_tf.doctor` says more"
        )
    distribution = HorovodDistribution()
    if distribution.size != number:
        raise TrainingStopped(
            f"{number} processes were started, but Horovod found {distribution.size}, "
            "so each would train alone. It was built without the launcher's library, "
            "as for mpirun and srun without HOROVOD_WITH_MPI=1: start them with "
            "horovodrun, or build it again; `python -m seg_tf.doctor` says more"
        )
    return distribution


def _use_one_gpu(local_rank: int) -> None:
    """Limits this process to one GPU of its host."""
    num_gpus = devices.num_gpus()
    if not num_gpus:
        return
    if local_rank >= num_gpus:
        raise TrainingStopped(
            f"{socket.gethostname()}: process {local_rank} of this host has no GPU, "
            f"since there are {num_gpus}. Start at most as many processes per host as "
            "it has GPUs: horovodrun -H host:GPUs"
        )
    devices.use_one_gpu(local_rank)
