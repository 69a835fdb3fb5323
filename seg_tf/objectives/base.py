"""What an objective hands to the training step."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class ObjectiveOutput(NamedTuple):
    """Loss and metrics of one batch, each as a sum and the weight it is over.

    Sums and weights add up over micro-batches and ranks; the training step, alone,
    divides. All are float32 scalars.

    Attributes:
        loss: `(sum, weight)`.
        metrics: `{name: (sum, weight)}`.
    """

    loss: tuple[Any, Any]
    metrics: Mapping[str, tuple[Any, Any]]
