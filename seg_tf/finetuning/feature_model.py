"""Base of this package's Keras models: inputs by name, and `fit`."""

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from seg_tf.finetuning.optimizer import LinearWarmupDecay
from seg_tf.models.own_features import own_features


class FeatureModel(keras.Model):
    """A functional model whose inputs are features of the batch contract, by name.

    Args:
        **arguments: those of a functional model: `inputs`, `outputs`, `name` and
            `trainable`.

    Call arguments:
        inputs: dict of the features that `feature_names` names. Others are left alone.

    Raises:
        ValueError: if one is missing.
    """

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features that the model reads from a batch."""
        return tuple(self.input)

    def __call__(self, inputs: Mapping[str, Any], **kwargs: Any) -> Any:
        return super().__call__(own_features(inputs, self.feature_names), **kwargs)

    def fit(
        self, x: Any = None, *args: Any, shuffle: bool | None = None, **kwargs: Any
    ) -> keras.callbacks.History:
        """As of every Keras model; datasets shuffle themselves, without a warning.

        Args:
            x: as for `keras.Model.fit`.
            *args: likewise.
            shuffle: likewise; None shuffles whatever is no dataset.
            **kwargs: as for `keras.Model.fit`.

        Raises:
            ValueError: if the learning rate has already fallen to 0.
        """
        if shuffle is None:
            shuffle = not isinstance(x, tf.data.Dataset)
        schedule = self._schedule()
        if schedule is not None:
            updates = int(self.optimizer.iterations)
            num_updates = schedule.get_config()["num_updates"]
            if 0 < num_updates <= updates:
                raise ValueError(
                    "`fit` would change no weight: the schedule of the optimizer has "
                    "reached its end, a learning rate of 0. Call `compile` with a new "
                    f"optimizer first. Received: {updates} updates of {num_updates}"
                )
        optimizer = getattr(self, "optimizer", None)
        if optimizer is not None and not optimizer.built:
            # Variables made while the step is traced have it traced a second time.
            optimizer.build(self.trainable_variables)
        return super().fit(x, *args, shuffle=shuffle, **kwargs)

    def _schedule(self) -> LinearWarmupDecay | None:
        """The fine-tuning schedule that the model was compiled with, if any."""
        # In float16 there is a loss scale around the optimizer.
        optimizer = getattr(self, "optimizer", None)
        optimizer = getattr(optimizer, "inner_optimizer", optimizer)
        schedule = getattr(optimizer, "_learning_rate", None)
        return schedule if isinstance(schedule, LinearWarmupDecay) else None


class WithoutDropout(keras.layers.Layer):
    """Calls a model as in inference, whatever the model around it is doing.

    A functional model hands its own `training` to all of its layers.

    Args:
        model: what is called, with weights that are not trained.
        **kwargs: arguments of `keras.layers.Layer`.
    """

    def __init__(self, model: keras.Model, **kwargs: Any):
        super().__init__(autocast=False, **kwargs)
        self.model = model

    def call(self, inputs: Mapping[str, Any]) -> Any:
        return self.model(inputs, training=False)
