"""Contract between an objective and the training step."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol


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


class Objective(Protocol):
    """A layer that says how well a sequence output does.

    An objective may also have a method `derived_metrics(results)`: from its `loss` and
    its metrics, each divided by its weight, it makes further ones that are no quotient
    of sums.

    Attributes:
        loss_weight: factor of the loss in the total.
    """

    loss_weight: float

    def count(self, features: Mapping[str, Any]) -> Any:
        """The weight that the loss will be over, from the features alone.

        The training step adds it up over all micro-batches and ranks before any
        gradient is taken, so that each gradient is already that of its share in the
        global loss and no second accumulator is needed where objectives are joined.
        """

    def __call__(
        self, sequence_output: Any, features: Mapping[str, Any], training: bool
    ) -> ObjectiveOutput:
        """Loss, over the weight `count(features)`, and metrics of a batch.

        What is dear to measure may be left out of `training`.
        """
