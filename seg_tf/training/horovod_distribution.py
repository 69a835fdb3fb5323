"""Processes that sum by Horovod: the one place that knows of it.

Only Horovod's operations on tensors and on TensorFlow variables are used; its Keras
parts do not work with Keras 3.
"""

import importlib.util
import os
import socket
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any

import tensorflow as tf

from seg_tf.training import devices, silent_ranks
from seg_tf.training.distribution import (
    Distribution,
    launched_elastic,
    number_launched,
    was_launched,
)
from seg_tf.training.errors import TrainingStopped

# Time limits of Horovod, in seconds, where the environment does not say. It looks for
# late ranks every STALL_CHECK_TIME, at first only takes a sum that is that late out of
# its cache, and names the missing ranks at a later look: after two to four times as
# long, so within a minute. Being late ends a run after half an hour, for one rank may
# compile or write a checkpoint for minutes.
_TIME_LIMITS = {
    "HOROVOD_STALL_CHECK_TIME_SECONDS": 12,
    "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": 1_800,
}
# How long Gloo waits for another rank: at the start, and for a process that is
# stopped. Horovod's own 30 s end a run that is swapped out for a moment. An
# elastic run keeps them: after that time it continues without a host that is gone.
_GLOO_TIME_LIMIT = {"HOROVOD_GLOO_TIMEOUT_SECONDS": 300}


class HorovodDistribution(Distribution):
    """A run of as many processes as `horovodrun` started."""

    def __init__(self) -> None:
        import horovod.tensorflow as horovod

        self._horovod = horovod
        self.is_elastic = launched_elastic()
        set_time_limits(os.environ, self.is_elastic)
        horovod.init()
        self._state: Any = None
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
            return [tf.cast(one, tf.bfloat16) for one in sums]
        return self._horovod.grouped_allreduce(
            list(tensors),
            op=self._horovod.Sum,
            compression=compression.fp16 if as_float16 else compression.none,
            # The name, which every error quotes, marks a failure as one of
            # Horovod's: its text may be of Gloo's or NCCL's alone.
            name=f"Horovod_{name}",
            # Graphs of two processes may differ in their scopes, as by accumulation.
            ignore_name_scope=True,
        )

    def broadcast(self, variables: Sequence[Any]) -> None:
        values: list[tf.Variable] = [variable.value for variable in variables]
        others = [one for one in values if one.dtype != tf.bfloat16]
        self._horovod.broadcast_variables(others, root_rank=0)
        for number, variable in enumerate(values):
            if variable.dtype == tf.bfloat16:  # as bits of a type that it knows
                bits = tf.bitcast(variable, tf.float16)
                name = f"Horovod_bits_{number}"
                bits = self._horovod.broadcast(bits, root_rank=0, name=name)
                variable.assign(tf.bitcast(bits, tf.bfloat16))

    def broadcast_object(self, value: Any) -> Any:
        return self._clearly(
            lambda: self._horovod.broadcast_object(value, root_rank=0, name="object")
        )

    def gather(self, value: Any) -> list[Any]:
        return self._clearly(
            lambda: self._horovod.allgather_object(value, name="gathered")
        )

    @property
    def needs_regrouping(self) -> bool:
        return self._state is not None and not self._state._host_messages.empty()

    def regroup(self) -> None:
        from horovod.common.exceptions import HostsUpdatedInterrupt

        try:
            self._state.check_host_updates()
        except HostsUpdatedInterrupt:
            # Horovod leaves out the synchronisation where hosts only went. But one
            # that was spare may have come in for them, and would wait for it.
            raise HostsUpdatedInterrupt(skip_sync=False) from None

    def run(self, synchronise: Callable[[], None], train: Callable[[], Any]) -> Any:
        def watched() -> Any:
            names = self.gather(f"process {os.getpid()} on {socket.gethostname()}")
            store = silent_ranks.LauncherStore.of_launcher(os.environ)
            with silent_ranks.watching(self.rank, names, store):
                return train()

        if not self.is_elastic:
            return self._clearly(
                lambda: super(HorovodDistribution, self).run(synchronise, watched)
            )
        from horovod.common import elastic

        def reset() -> None:
            self._horovod.shutdown()
            self._horovod.init()

        self._state = _live_state(
            elastic,
            lambda: _as_horovod_error(synchronise),
            self.broadcast_object,
            lambda: self.rank,
        )
        return elastic.run_fn(lambda state: _as_horovod_error(watched), reset)(
            self._state
        )

    def _clearly(self, function: Callable[[], Any]) -> Any:
        """Calls `function`; where others failed, it says so without a trace.

        In an elastic run the error is left to `run`, which begins again.

        Raises:
            TrainingStopped: if Horovod failed.
        """
        try:
            return function()
        except tf.errors.OpError as error:
            if self._state is not None or not _is_of_horovod(error):
                raise
            raise TrainingStopped(
                f"{self.describe_failure()} Horovod says: {_first_line(error)}"
            ) from error


def join() -> Distribution:
    """The distribution that this process was started for.

    A process that no launcher started trains alone, with Horovod installed or not.

    Raises:
        TrainingStopped: if it is one of several and Horovod is missing.
    """
    if not was_launched():
        return Distribution()
    if importlib.util.find_spec("horovod") is None:
        raise TrainingStopped(
            f"{number_launched()} processes were started, but Horovod is not "
            "installed, so each would train by itself. Install it with `make setup "
            "HOROVOD=require`, or start one process without horovodrun; `python -m "
            "seg_tf.doctor` says more"
        )
    distribution = HorovodDistribution()
    # Horovod Elastic alone knows how many there are by now.
    if not distribution.is_elastic and distribution.size != number_launched():
        raise TrainingStopped(
            f"{number_launched()} processes were started, but Horovod found "
            f"{distribution.size}, so each would train by itself. It was built without "
            "the launcher's library, as for mpirun and srun without "
            "HOROVOD_WITH_MPI=1: start them with horovodrun, or build it anew; `python "
            "-m seg_tf.doctor` says more"
        )
    return distribution


def set_time_limits(environment: MutableMapping[str, str], is_elastic: bool) -> None:
    """Sets time limits of Horovod that the environment leaves open."""
    limits = _TIME_LIMITS if is_elastic else {**_TIME_LIMITS, **_GLOO_TIME_LIMIT}
    for name, seconds in limits.items():
        environment.setdefault(name, str(seconds))


def _use_one_gpu(local_rank: int) -> None:
    """Leaves this process one GPU of its host, and others the memory they need."""
    num_gpus = devices.num_gpus()
    if not num_gpus:
        return
    if local_rank >= num_gpus:
        raise TrainingStopped(
            f"{socket.gethostname()}: process {local_rank} of this host has no GPU, "
            f"since there are {num_gpus}. Start at most as many processes a host as "
            "it has GPUs: horovodrun -H host:GPUs"
        )
    devices.use_one_gpu(local_rank)


def _live_state(
    elastic: Any,
    synchronise: Callable[[], None],
    broadcast_object: Callable[[Any], Any],
    get_rank: Callable[[], int],
) -> Any:
    """State that Horovod Elastic synchronises: the variables as they are.

    Horovod's own states keep copies of all weights to go back to when a process
    fails. A training step changes nothing before its last sum, so there is nothing
    to go back from.
    """

    class LiveState(elastic.State):
        def save(self) -> None:
            """Nothing to keep."""

        def restore(self) -> None:
            """Nothing to undo."""

        def sync(self) -> None:
            synchronise()

    return LiveState(bcast_object=broadcast_object, get_rank=get_rank)


def _as_horovod_error(function: Callable[[], Any]) -> Any:
    """Calls `function`; a sum that failed in TensorFlow is raised as Horovod's error.

    Horovod's own translation knows three operators by name and takes any other
    failure, that of a grouped all-reduce too, for a normal end.
    """
    from horovod.common.exceptions import HorovodInternalError

    try:
        return function()
    except tf.errors.OpError as error:
        if _is_of_horovod(error):
            raise HorovodInternalError(error.message) from error
        raise


def _is_of_horovod(error: tf.errors.OpError) -> bool:
    return "Horovod" in error.message


def _first_line(error: tf.errors.OpError) -> str:
    """The line of a long message that names Horovod."""
    lines = [line for line in error.message.splitlines() if "Horovod" in line]
    return lines[0].strip()
