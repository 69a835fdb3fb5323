"""The Keras model that pretraining fits: an encoder and its objectives."""

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from seg_tf.training.metrics import Latest, Ratio, Total

# Kept over a log interval, beside the objectives' own.
_GRADIENT_NORM = "gradient_norm"


class Pretrainer(keras.Model):
    """Trains an encoder on the weighted sum of its objectives' losses.

    Objectives return sums and counts; only here is a sum divided by its count,
    so that a metric over many batches is one ratio, not a mean of means.

    Metrics exist twice: those in `metrics`, which Keras resets at every Keras
    epoch and before every validation, and `interval_metrics`, which are read and
    reset at every log interval and travel in checkpoints.

    Args:
        encoder: layer from a batch of features to a sequence `(B, L, D)`.
        objectives: mapping of name to a layer that is called with the sequence
            and the features and returns `loss`, a pair (sum, weight), and
            `metrics`, a mapping of name to such a pair. Its `loss_weight` weighs
            the loss in the total.

    Raises:
        ValueError: if there is no objective.
    """

    def __init__(self, encoder: keras.layers.Layer, objectives: Mapping[str, Any]):
        # Each part casts its own inputs; counts and weights stay as they are.
        super().__init__(autocast=False, name="pretrainer")
        if not objectives:
            raise ValueError(
                "`objectives` must name at least one objective. "
                f"Received: objectives={dict(objectives)}"
            )
        self.encoder = encoder
        self.objectives = dict(objectives)
        # Filled by `build_from`, once the objectives have said what they measure.
        self.epoch_ratios: dict[str, Ratio] = {}
        self.interval_ratios: dict[str, Ratio] = {}
        self.tokens_seen = Total("tokens_seen")
        self.learning_rate = Latest("learning_rate")

    def build_from(self, features: Mapping[str, tf.Tensor]) -> None:
        """Creates every variable, of metrics and optimizer too; needs `compile`.

        Args:
            features: a batch with the shapes of training; its values do not
                matter, and no random state is used up.
        """
        results = self._apply_objectives(features, training=False)
        names = [name for name, _ in _named_pairs(results)]
        self.epoch_ratios = {name: Ratio(name) for name in names}
        self.interval_ratios = {name: Ratio(name) for name in (*names, _GRADIENT_NORM)}
        self.optimizer.build(self.trainable_variables)
        self.built = True

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """What Keras resets at the start of a Keras epoch and of a validation."""
        return list(self.epoch_ratios.values())

    @property
    def interval_metrics(self) -> list[keras.metrics.Metric]:
        """What is read at a log interval: ratios, and two that nothing resets."""
        return [*self.interval_ratios.values(), self.tokens_seen, self.learning_rate]

    def get_metrics_result(self) -> dict[str, Any]:
        return self._with_total(self.epoch_ratios)

    def interval_results(self) -> dict[str, float]:
        """Metrics since `reset_interval`, as Python floats."""
        results = self._with_total(self.interval_ratios)
        return {name: float(value) for name, value in results.items()}

    def reset_interval(self) -> None:
        for ratio in self.interval_ratios.values():
            ratio.reset_state()

    def train_step(self, features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """One update from one batch."""
        with tf.GradientTape() as tape:
            results = self._apply_objectives(features, training=True)
            loss = self._total_loss(results)
        variables = self.trainable_variables
        gradients = _dense(tape.gradient(loss, variables))
        self.learning_rate.update_state(self.optimizer.learning_rate)
        self.optimizer.apply(gradients, variables)  # clips, then updates

        self.tokens_seen.update_state(features["padding_mask"])
        self.interval_ratios[_GRADIENT_NORM].update_state(
            tf.linalg.global_norm(gradients), 1
        )
        self._count(results, self.interval_ratios)
        self._count(results, self.epoch_ratios)
        return self.get_metrics_result()

    def test_step(self, features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Measures one batch."""
        self._count(self._apply_objectives(features, training=False), self.epoch_ratios)
        return self.get_metrics_result()

    def _apply_objectives(
        self, features: Mapping[str, tf.Tensor], training: bool
    ) -> dict[str, Any]:
        sequence_output = self.encoder(features, training=training)
        return {
            name: objective(sequence_output, features, training=training)
            for name, objective in self.objectives.items()
        }

    def _total_loss(self, results: Mapping[str, Any]) -> tf.Tensor:
        return tf.add_n(
            [
                self.objectives[name].loss_weight * tf.math.divide_no_nan(*result.loss)
                for name, result in results.items()
            ]
        )

    def _with_total(self, ratios: Mapping[str, Ratio]) -> dict[str, Any]:
        """Results of the ratios, and the weighted sum of the losses as `loss`."""
        results = {name: ratio.result() for name, ratio in ratios.items()}
        losses = [
            objective.loss_weight * results[f"{name}_loss"]
            for name, objective in self.objectives.items()
            if f"{name}_loss" in results
        ]
        return {"loss": sum(losses), **results}

    def _count(self, results: Mapping[str, Any], ratios: Mapping[str, Ratio]) -> None:
        for name, pair in _named_pairs(results):
            ratios[name].update_state(*pair)


def _named_pairs(results: Mapping[str, Any]) -> list[tuple[str, tuple]]:
    """(name, (sum, weight)) of every loss and metric of every objective."""
    pairs = []
    for objective, result in results.items():
        pairs.append((f"{objective}_loss", result.loss))
        for metric, pair in result.metrics.items():
            pairs.append((f"{objective}_{metric}", pair))
    return pairs


def _dense(gradients: list) -> list:
    """The gradients as ordinary tensors.

    The gradient of an embedding table may come as a list of rows, some of them
    twice; a norm or a square taken row by row would be that of another gradient.
    """
    return [
        tf.convert_to_tensor(gradient)
        if isinstance(gradient, tf.IndexedSlices)
        else gradient
        for gradient in gradients
    ]
