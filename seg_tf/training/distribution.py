"""The processes that train together, and how a launcher describes them."""

import contextlib
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from seg_tf.config.base import flat
from seg_tf.training.errors import TrainingStopped

_Result = TypeVar("_Result")

# Number of processes, as set by horovodrun with Gloo, Open MPI and other MPIs.
_SIZES = ("HOROVOD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")

# Address by which processes of the engine jax connect, their number, and their rank.
JAX_ADDRESS = "JAX_COORDINATOR_ADDRESS"
JAX_PROCESSES, JAX_PROCESS = "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"


class Distribution:
    """A run of one process; the interface of runs of several.

    Attributes:
        computes_together: whether a step is one computation of all processes, which
            then have the same variables after it.
    """

    computes_together = False

    @property
    def rank(self) -> int:
        """Number of this process, from 0."""
        return 0

    @property
    def size(self) -> int:
        """Number of processes that train together."""
        return 1

    @property
    def is_chief(self) -> bool:
        """True for the one process that writes checkpoints and logs."""
        return self.rank == 0

    def sum(
        self, tensors: Sequence[Any], name: str, as_float16: bool = False
    ) -> list[Any]:
        """Sums tensors of one dtype over the processes, in one operation.

        Every process gets the same bits. Cannot be called inside a compiled function.

        Args:
            tensors: tensors with the same shapes on each process.
            name: unique name of this sum, the same on each process.
            as_float16: whether they are sent as float16.
        """
        return list(tensors)

    def local_micro_batch_size(self, micro_batch_size: int | None) -> int | None:
        """Rows that a process reads together; None gives all equally many rows."""
        return micro_batch_size

    def broadcast(self, variables: Sequence[Any]) -> None:
        """Sets Keras variables to their values on the chief."""

    def broadcast_object(self, value: Any) -> Any:
        """The chief's value."""
        return value

    def gather(self, value: Any) -> list[Any]:
        """The values of all processes, in the order of their ranks."""
        return [value]

    def describe_failure(self) -> str:
        """Message for the end of a run whose processes cannot exchange values."""
        return (
            f"Rank {self.rank} of {self.size} ({socket.gethostname()}): a sum over the "
            "processes failed, because one of them failed, was stopped or could not be "
            "reached. Its own output says more. Run the same command again to continue "
            "from the newest checkpoint."
        )

    def check_agreement(self, facts: Mapping[str, Any]) -> None:
        """Ends all ranks if their facts differ; called by all of them.

        Only the folder of the records may differ.
        """
        named = flat(facts)
        named.pop("config.records_dir", None)
        first, *rest = self.gather(named)
        # The order matters: a config's index tables and their weights share it.
        if all([*other.items()] == [*first.items()] for other in rest):
            return
        names = dict.fromkeys(name for facts in (first, *rest) for name in facts)
        differing = [
            name
            for name in names
            if any(other.get(name) != first.get(name) for other in rest)
        ]
        raise TrainingStopped(
            "All ranks must have the same settings, data and software. They differ in "
            f"{', '.join(differing) or 'the order of their settings'}"
        )

    def call_together(self, function: Callable[[], _Result]) -> _Result:
        """Calls `function` on every rank; if it fails on one, all ranks stop."""
        failure = report = None
        try:
            result = function()
        except Exception as error:
            failure = error
            report = f"Rank {self.rank} on {socket.gethostname()}: {error}"
        reports = list(filter(None, self.gather(report)))
        if failure is not None:
            raise failure
        if reports:
            raise TrainingStopped("; ".join(reports))
        return result

    @contextlib.contextmanager
    def failures_explained(self) -> Iterator[None]:
        """Raises `TrainingStopped` in place of a failed exchange of values."""
        yield


def number_launched() -> int:
    """Number of processes that a launcher started, this one included."""
    numbers = (os.environ[name] for name in _SIZES if os.environ.get(name))
    return int(next(numbers, 1))
