"""Which part of a distributed run this process is: the one place that knows."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Distribution:
    """This process among the processes of a run.

    Inputs take `rank` and `size` to read their rows of each global batch; only
    the chief writes checkpoints and logs.

    Attributes:
        rank: number of this process, from 0.
        size: how many processes train together.
    """

    rank: int = 0
    size: int = 1

    def __post_init__(self):
        if not 0 <= self.rank < self.size:
            raise ValueError(
                "`rank` must be at least 0 and below `size`. Received: "
                f"rank={self.rank}, size={self.size}"
            )

    @property
    def is_chief(self) -> bool:
        return self.rank == 0


def current() -> Distribution:
    """The distribution this process belongs to: itself alone."""
    return Distribution()
