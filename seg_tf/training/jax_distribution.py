"""Processes of `jax.distributed`, on one host or many, whose devices share a batch."""

import os
import pickle
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from seg_tf.training.distribution import Distribution
from seg_tf.training.errors import TrainingStopped

ADDRESS, NUMBER, OWN = (
    "JAX_COORDINATOR_ADDRESS",
    "JAX_NUM_PROCESSES",
    "JAX_PROCESS_ID",
)


def initialize() -> None:
    """Meets the other processes, where the environment has a coordinator's address.

    Number and own place are in the environment too, or found by JAX, as under Slurm
    and Open MPI. To be called before JAX looks for devices.

    Raises:
        TrainingStopped: if they cannot be found.
    """
    address = os.environ.get(ADDRESS)
    if not address:
        return
    # Of processes that compute on CPUs.
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    try:
        number, own = (
            int(os.environ[name]) if os.environ.get(name) else None
            for name in (NUMBER, OWN)
        )
        jax.distributed.initialize(address, number, own)
    except (ValueError, RuntimeError) as error:
        given = {name: os.environ.get(name) for name in (ADDRESS, NUMBER, OWN)}
        raise TrainingStopped(
            f"JAX could not meet the other processes: {error}. The environment has "
            f"{given}"
        ) from error


class JaxDistribution(Distribution):
    """The processes that `jax.distributed` joined.

    A step computes on the devices of all of them, so that its sums are those of all
    already. Each process reads equally many rows.
    """

    @property
    def rank(self) -> int:
        return jax.process_index()

    @property
    def size(self) -> int:
        return jax.process_count()

    def rows_at_once(self, micro_batch_size: int | None) -> int | None:
        return None

    def broadcast(self, variables: Sequence[Any]) -> None:
        own = [np.asarray(variable.value) for variable in variables]
        values = multihost_utils.broadcast_one_to_all(own)
        for variable, value in zip(variables, values, strict=True):
            variable.assign(np.asarray(value))

    def broadcast_object(self, value: Any) -> Any:
        return self.gather(value)[0]

    def gather(self, value: Any) -> list[Any]:
        own = np.frombuffer(pickle.dumps(value), "uint8")
        sizes = multihost_utils.process_allgather(np.array([len(own)])).ravel()
        padded = np.pad(own, (0, int(sizes.max()) - len(own)))
        rows = np.asarray(multihost_utils.process_allgather(padded))
        return [
            pickle.loads(row[:size].tobytes())
            for row, size in zip(rows, sizes, strict=True)
        ]
