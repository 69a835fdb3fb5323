"""The processes that train together, and what a launcher says of them."""

import contextlib
import hashlib
import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from seg_tf.config.base import flat
from seg_tf.training.errors import TrainingStopped

_Result = TypeVar("_Result")
# Facts of a rank that no result depends on.
_MAY_DIFFER = ("config.records_dir", "versions.python")

# Where a launcher says how many processes there are: horovodrun with Gloo, Open MPI,
# and other MPIs, in this order.
_SIZE_VARIABLES = ("HOROVOD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
_RANK_VARIABLES = ("HOROVOD_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")

# Where processes of the engine jax find one another, and their number and own place.
JAX_ADDRESS = "JAX_COORDINATOR_ADDRESS"
JAX_PROCESSES, JAX_PROCESS = "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"


class Distribution:
    """A run of one process: sums are what they are summed from."""

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

        The first exchange has the same size whatever the facts are, so that no
        difference can block it.

        Args:
            facts: plain values, maybe nested. The path of the records and the version
                of Python may differ.

        Raises:
            TrainingStopped: on every rank, naming each fact that differs, with the
                ranks and their values.
        """
        named = {
            name: value
            for name, value in flat(facts).items()
            if name not in _MAY_DIFFER
        }
        # The order matters: that of a config's index tables is that of their weights.
        text = json.dumps(named)
        digest = hashlib.sha256(text.encode()).hexdigest()
        if len(set(self.gather(digest))) == 1:
            return
        of_ranks = [json.loads(other) for other in self.gather(text)]
        hosts = self.gather(socket.gethostname())
        raise TrainingStopped(
            "All ranks must have the same settings, data and software, wherever their "
            "files are. Received:\n" + _describe_differences(of_ranks, hosts)
        )

    def call_together(self, function: Callable[[], _Result]) -> _Result:
        """Calls `function` on every rank; if it fails on one, it fails on all.

        Otherwise the other ranks would wait for one that has ended.

        Raises:
            TrainingStopped: if `function` failed on other ranks only. Its own error is
                raised as it is.
        """
        failure = report = None
        try:
            result = function()
        except Exception as error:
            failure = error
            report = f"{socket.gethostname()} could not start: {error}"
        reports = self.gather(report)
        if failure is not None:
            raise failure
        if any(reports):
            raise TrainingStopped(
                "; ".join(
                    f"Rank {rank} on {text}"
                    for rank, text in enumerate(reports)
                    if text
                )
            )
        return result

    @contextlib.contextmanager
    def failures_explained(self) -> Iterator[None]:
        """Raises `TrainingStopped` in place of a failed exchange of values."""
        yield


def number_launched() -> int:
    """Number of processes that a launcher started, this one included."""
    return _number_in_environment(_SIZE_VARIABLES, 1)


def rank_launched() -> int:
    """Number of this process among those that a launcher started, from 0."""
    return _number_in_environment(_RANK_VARIABLES, 0)


def _number_in_environment(names: Sequence[str], default: int) -> int:
    values = (os.environ[name] for name in names if os.environ.get(name))
    return int(next(values, default))


def _describe_differences(
    of_ranks: Sequence[Mapping[str, Any]], hosts: Sequence[str]
) -> str:
    """A line for each fact that differs: its values, and the ranks with each."""
    lines = []
    for name in dict.fromkeys(name for facts in of_ranks for name in facts):
        ranks: dict[str, list[int]] = {}
        for rank, facts in enumerate(of_ranks):
            value = json.dumps(facts[name]) if name in facts else "nothing"
            ranks.setdefault(value, []).append(rank)
        if len(ranks) > 1:
            values = (
                f"{value} on {_name_ranks(ranks[value], hosts)}" for value in ranks
            )
            lines.append(f"  `{name}`: {', '.join(values)}")
    return "\n".join(lines) or "  the same settings in another order"


def _name_ranks(ranks: Sequence[int], hosts: Sequence[str]) -> str:
    named = [f"{rank} ({hosts[rank]})" for rank in ranks[:4]]
    if len(ranks) > 4:
        named.append(f"{len(ranks) - 4} more")
    return ("rank " if len(ranks) == 1 else "ranks ") + " and ".join(named)
