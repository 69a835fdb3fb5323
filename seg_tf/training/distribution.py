"""Defines the interface between the processes that train together."""

import contextlib
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from seg_tf.config.base import flat
from seg_tf.training.errors import TrainingStopped

_Result = TypeVar("_Result")

# Number of processes, set by horovodrun with Gloo, Open MPI and other MPIs.
_SIZES = ("HOROVOD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")

# Address at which JAX processes connect, number of processes, and rank.
JAX_ADDRESS = "JAX_COORDINATOR_ADDRESS"
JAX_PROCESSES, JAX_PROCESS = "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"


class Distribution:
    """The processes of a run. This base class is for a run of one process.

    Attributes:
        computes_together: bool. Whether all processes execute a step as one
            computation, after which their variables are identical.
    """

    computes_together = False

    @property
    def rank(self) -> int:
        """Index of this process, starting at 0."""
        return 0

    @property
    def size(self) -> int:
        """Number of processes that train together."""
        return 1

    @property
    def is_chief(self) -> bool:
        """Returns whether this is rank 0, which writes checkpoints and logs."""
        return self.rank == 0

    def sum(
        self, tensors: Sequence[Any], name: str, as_float16: bool = False
    ) -> list[Any]:
        """Returns the sum of each tensor over all processes, in one operation.

        Results are bit-identical on all processes. XLA cannot compile this function.

        Args:
            tensors: list of tensors of one dtype, with equal shapes on all processes.
            name: str. Unique name of this sum, the same on all processes.
            as_float16: bool. Whether to send the tensors as float16.
        """
        return list(tensors)

    def local_micro_batch_size(self, micro_batch_size: int | None) -> int | None:
        """Returns the micro-batch size, or None if ranks must get equal row counts."""
        return micro_batch_size

    def broadcast(self, variables: Sequence[Any]) -> None:
        """Sets Keras variables to the chief's values on all processes."""

    def broadcast_object(self, value: Any) -> Any:
        """Returns the chief's value on all processes."""
        return value

    def gather(self, value: Any) -> list[Any]:
        """Returns the values of all processes, ordered by rank."""
        return [value]

    def describe_failure(self) -> str:
        """Returns the message that explains a failed exchange between processes."""
        return (
            f"Rank {self.rank} of {self.size} ({socket.gethostname()}): a sum over the "
            "processes failed, because one of them failed, was stopped or could not be "
            "reached. See its output for details. Run the same command again to resume "
            "from the newest checkpoint."
        )

    def check_agreement(self, facts: Mapping[str, Any]) -> None:
        """Raises `TrainingStopped` on all ranks if their facts differ.

        All ranks must call this method. Only `config.records_dir` may differ.
        """
        named = flat(facts)
        named.pop("config.records_dir", None)
        first, *rest = self.gather(named)
        # The order matters, because it determines the order of a config's index tables.
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
        """Calls `function` on every rank and returns its result, if no call fails.

        A rank on which the call fails raises its error. All other ranks then raise
        `TrainingStopped`. All ranks must call this method.
        """
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
        """Context manager that turns communication errors into `TrainingStopped`."""
        yield


def number_launched() -> int:
    """Returns the number of launched processes, or 1 if no launcher was used."""
    numbers = (os.environ[name] for name in _SIZES if os.environ.get(name))
    return int(next(numbers, 1))
