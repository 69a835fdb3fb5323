"""Contract between an objective and the training step."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import keras

from seg_tf.layers.common import ArgumentsConfig

Features = Mapping[str, Any]


class ObjectiveOutput(NamedTuple):
    """Loss and metrics of one batch, each as a sum and its weight, float32 scalars.

    They are added over micro-batches and ranks; only the training step divides.
    """

    loss: tuple[Any, Any]
    metrics: Mapping[str, tuple[Any, Any]]


class Objective(Protocol):
    """A layer that computes the loss and the metrics of a sequence output.

    An objective may also have a method `derived_metrics(results)`, which computes
    further metrics from its `loss` and metrics, each divided by its weight.

    Attributes:
        loss_weight: factor of the loss in the total.
    """

    loss_weight: float

    def count(self, features: Features) -> Any:
        """Denominator of the loss, computed from the features.

        The training step sums it over all micro-batches and ranks.
        """

    def __call__(
        self, sequence_output: Any, features: Features, training: bool
    ) -> ObjectiveOutput:
        """Loss, with the weight `count(features)`, and metrics of a batch.

        Expensive metrics may be left out if `training`.
        """


class ObjectiveLayer(ArgumentsConfig, keras.layers.Layer):
    """An objective with weights, on the output of one encoder.

    Args:
        encoder: the encoder whose output is read. It determines sizes, initializer and
            dtype policy.
        loss_weight: float. Factor of this loss in the training step's total.
    """

    def __init__(self, encoder: Any, loss_weight: float = 1.0, **kwargs: Any):
        # Sums and weights stay float32; the layers inside cast their inputs.
        super().__init__(autocast=False, **kwargs)
        self.encoder = encoder
        self.loss_weight = loss_weight
