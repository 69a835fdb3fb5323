"""The model of a probe, and one pass of its training."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from seg_tf.checkpoints.encoder_copies import seeded

# Those of PyTorch's Adam, which the benchmark's code leaves as they are.
LEARNING_RATE = 1e-3
_EPSILON = 1e-8


@dataclasses.dataclass(frozen=True)
class Labelled:
    """Features of examples, float32 `(examples, features)`, and their labels, ints."""

    features: np.ndarray
    labels: np.ndarray


def make_probe(
    num_features: int,
    num_classes: int,
    hidden_size: int,
    l2: float,
    seed: int,
) -> keras.Model:
    """A compiled Keras model: logistic regression, or with a hidden layer of sigmoids.

    Kernels and biases start uniform below 1 / sqrt(inputs), as PyTorch's do. The
    penalty is l2 / 2 times the sum of squares of both, whose gradient is what PyTorch's
    Adam calls weight decay.

    Args:
        num_features: inputs.
        num_classes: outputs, which are logits.
        hidden_size: width of the hidden layer; 0 for none.
        l2: strength of the penalty.
        seed: of the first weights.
    """

    def dense(inputs: int, units: int, activation: str | None, name: str) -> Any:
        bound = 1 / math.sqrt(inputs)
        initializer = keras.initializers.RandomUniform(-bound, bound)
        return keras.layers.Dense(
            units,
            activation=activation,
            kernel_initializer=initializer,
            bias_initializer=initializer.clone(),
            kernel_regularizer=keras.regularizers.L2(l2 / 2),
            bias_regularizer=keras.regularizers.L2(l2 / 2),
            # Whatever the encoder computes in, and on vectors of it.
            dtype="float32",
            name=name,
        )

    with seeded(seed):
        layers = [keras.Input((num_features,))]
        if hidden_size:
            layers.append(dense(num_features, hidden_size, "sigmoid", "hidden"))
        layers.append(
            dense(hidden_size or num_features, num_classes, None, "classifier")
        )
        probe = keras.Sequential(layers, name="probe")
    probe.compile(
        keras.optimizers.Adam(LEARNING_RATE, epsilon=_EPSILON),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,
    )
    return probe


def predict(model: keras.Model, features: np.ndarray) -> np.ndarray:
    """The label, of the largest logit, that a probe gives each example."""
    return np.argmax(model(tf.constant(features)), axis=1)


def pass_function(
    probe: keras.Model, examples: Labelled, batch_size: int
) -> Callable[[np.ndarray], float]:
    """Makes a function that trains a probe on all examples, once each.

    A pass is one graph. `fit` calls one for each batch, which with so small a model
    takes ten times as long.

    Args:
        probe: as `make_probe` returns it.
        examples: the training data.
        batch_size: examples of an update; the last one may have fewer.

    Returns:
        Function from the order of the examples to the mean loss of the updates,
        penalty included.
    """
    features, labels = tf.constant(examples.features), tf.constant(examples.labels)
    count = len(examples.labels)
    optimizer = probe.optimizer
    optimizer.build(probe.trainable_variables)

    def make_pass(order: tf.Tensor) -> tf.Tensor:
        total = tf.constant(0.0)
        for begin in tf.range(0, count, batch_size):
            numbers = order[begin : begin + batch_size]
            with tf.GradientTape() as tape:
                logits = probe(tf.gather(features, numbers), training=True)
                loss = probe.compute_loss(y=tf.gather(labels, numbers), y_pred=logits)
            gradients = tape.gradient(loss, probe.trainable_variables)
            optimizer.apply(gradients, probe.trainable_variables)
            total += loss
        return total / -(-count // batch_size)

    # Concrete, since TensorFlow takes function after function made of the same lines
    # for one that is compiled again and again, and warns.
    signature = [tf.TensorSpec([count], tf.int64)]
    compiled = tf.function(make_pass, signature).get_concrete_function()
    return lambda order: float(compiled(tf.constant(order, tf.int64)))
