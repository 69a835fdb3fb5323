"""Processes of `jax.distributed`, on one host or many, whose devices share a batch."""

import atexit
import contextlib
import os
import pickle
import re
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from seg_tf.training.distribution import (
    JAX_ADDRESS,
    JAX_PROCESS,
    JAX_PROCESSES,
    Distribution,
)
from seg_tf.training.errors import TrainingStopped

_PATIENCE = 30.0  # seconds until a rank says that it waits
# What only errors of the exchange between processes say.
_EXCHANGE = re.compile(r"gloo|nccl|coordination", re.IGNORECASE)


def initialize() -> None:
    """Meets the other processes, where the environment has a coordinator's address.

    Number and own place are in the environment too, or found by JAX, as under Slurm
    and Open MPI. To be called before JAX looks for devices.

    Raises:
        TrainingStopped: if they cannot be found.
    """
    address = os.environ.get(JAX_ADDRESS)
    if not address:
        return
    # Of processes that compute on CPUs.
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    try:
        number, own = (
            int(os.environ[name]) if os.environ.get(name) else None
            for name in (JAX_PROCESSES, JAX_PROCESS)
        )
        # JAX aborts the process after five minutes, without saying what to do.
        waiting = threading.Timer(_PATIENCE, _say_whom_we_wait_for, [address])
        waiting.daemon = True
        waiting.start()
        try:
            jax.distributed.initialize(address, number, own)
        finally:
            waiting.cancel()
    except (ValueError, RuntimeError) as error:
        names = (JAX_ADDRESS, JAX_PROCESSES, JAX_PROCESS)
        given = {name: os.environ.get(name) for name in names}
        raise TrainingStopped(
            "The processes of --engine=jax must all be started, with that engine, and "
            f"reach one another. Received: {given} ({error})"
        ) from error


def _say_whom_we_wait_for(address: str) -> None:
    print(
        f"Rank {os.environ.get(JAX_PROCESS, '?')} of "
        f"{os.environ.get(JAX_PROCESSES, '?')} ({socket.gethostname()}) is waiting for "
        f"the others at {address}. Each must be started with --engine=jax; this rank "
        "ends after 5 minutes",
        file=sys.stderr,
        flush=True,
    )


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
        with self.failures_explained():
            values = multihost_utils.broadcast_one_to_all(own)
        for variable, value in zip(variables, values, strict=True):
            variable.assign(np.asarray(value))

    def broadcast_object(self, value: Any) -> Any:
        return self.gather(value)[0]

    def gather(self, value: Any) -> list[Any]:
        own = np.frombuffer(pickle.dumps(value), "uint8")
        with self.failures_explained():
            sizes = multihost_utils.process_allgather(np.array([len(own)])).ravel()
            padded = np.pad(own, (0, int(sizes.max()) - len(own)))
            rows = np.asarray(multihost_utils.process_allgather(padded))
        return [
            pickle.loads(row[:size].tobytes())
            for row, size in zip(rows, sizes, strict=True)
        ]

    @contextlib.contextmanager
    def failures_explained(self) -> Iterator[None]:
        try:
            yield
        except jax.errors.JaxRuntimeError as error:
            if not _EXCHANGE.search(str(error)):
                raise
            atexit.register(_exit_at_once)
            line = str(error).splitlines()[0]
            raise TrainingStopped(
                f"{self.describe_failure()} JAX says: {line}"
            ) from error


def _exit_at_once() -> None:
    """Leaves out JAX's own end, which waits for the dead process and then aborts."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(TrainingStopped.exit_code)
