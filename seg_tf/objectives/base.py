"""Defines the interface between objectives and the training step."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import keras

from seg_tf.layers.common import ArgumentsConfig

Features = Mapping[str, Any]


class ObjectiveOutput(NamedTuple):
    """Loss and metrics of one batch, each as a pair (sum, weight) of float32 scalars.

    Pairs are added over micro-batches and ranks. Then sums are divided by weights.
    """

    loss: tuple[Any, Any]
    metrics: Mapping[str, tuple[Any, Any]]


class Objective(Protocol):
    """Interface of layers that compute a loss and metrics from an encoder's output.

    An objective may also have a method `derived_metrics(results)`, which computes
    further metrics from its `loss` and metrics after division by their weights.

    Attributes:
        loss_weight: float. Weight of the loss in the total loss.
    """

    loss_weight: float

    def count(self, features: Features) -> Any:
        """Computes the denominator of the loss from the features.

        The training step sums it over all micro-batches and ranks.
        """

    def __call__(
        self, sequence_output: Any, features: Features, training: bool
    ) -> ObjectiveOutput:
        """Computes a batch's metrics and its loss, whose weight is `count(features)`.

        If `training` is true, expensive metrics may be omitted.
        """


class ObjectiveLayer(ArgumentsConfig, keras.layers.Layer):
    """Base class of objectives that are layers on an encoder's output.

    Args:
        encoder: the encoder whose output is read. It determines sizes, initializer and
            dtype policy.
        loss_weight: float. Weight of this loss in the total loss.
    """

    def __init__(self, encoder: Any, loss_weight: float = 1.0, **kwargs: Any):
        # Sums and weights stay float32; the layers inside cast their inputs.
        super().__init__(autocast=False, **kwargs)
        self.encoder = encoder
        self.loss_weight = loss_weight
