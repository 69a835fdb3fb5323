"""The processes that train together, and what a launcher says of them."""

import os
from collections.abc import Callable, Sequence
from typing import Any

# Where a launcher says how many processes there are: horovodrun with Gloo, Open MPI,
# and other MPIs, in this order.
_SIZE_VARIABLES = ("HOROVOD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")


class Distribution:
    """A run of one process: sums are what they are summed from.

    Attributes:
        is_elastic: whether processes may come and go.
    """

    is_elastic = False

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
        """Adds tensors up over the processes, in one operation.

        Every process gets the same bits. Cannot be called inside a compiled function.

        Args:
            tensors: of one dtype; as many and of the same shapes on each process.
            name: the same on each process, and of this sum alone. Messages about a
                process that lags behind name it.
            as_float16: whether they travel as float16.
        """
        return list(tensors)

    def rows_at_once(self, micro_batch_size: int | None) -> int | None:
        """Rows that a process takes together; None where all take equally many."""
        return micro_batch_size

    def broadcast(self, variables: Sequence[Any]) -> None:
        """Gives Keras variables the values they have on the chief."""

    def broadcast_object(self, value: Any) -> Any:
        """The chief's value.

        Raises:
            TrainingStopped: if another process failed; as `gather`.
        """
        return value

    def gather(self, value: Any) -> list[Any]:
        """The values of all processes, in the order of their ranks."""
        return [value]

    @property
    def needs_regrouping(self) -> bool:
        """True if this process was told of hosts that came or will go."""
        return False

    def regroup(self) -> None:
        """Leaves what `run` runs if hosts came or will go; called by all at once."""

    def run(self, synchronise: Callable[[], None], train: Callable[[], Any]) -> Any:
        """Trains, again and again while the processes change.

        Args:
            synchronise: called before; gives all processes the state of the chief.
            train: continues from the state there is. Wherever a sum fails, it has to
                leave a state that training can continue from.

        Returns:
            What `train` returned.
        """
        synchronise()
        return train()


def was_launched() -> bool:
    """True if a launcher started this process as one of several."""
    return number_launched() > 1 or launched_elastic()


def launched_elastic() -> bool:
    """True if processes may come and go, as with `horovodrun --min-np`."""
    return os.environ.get("HOROVOD_ELASTIC", "0") == "1"


def number_launched() -> int:
    """Number of processes that a launcher started, this one included."""
    for name in _SIZE_VARIABLES:
        if os.environ.get(name):
            return int(os.environ[name])
    return 1
