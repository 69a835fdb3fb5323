"""A probe as a Keras model, and its training with early stopping on dev."""

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from seg_tf.checkpoints.encoder_copies import seeded
from seg_tf.tasks.discoeval import ProbeSettings

# The defaults of PyTorch's Adam, which the benchmark's code uses.
LEARNING_RATE = 1e-3
_EPSILON = 1e-8


@dataclasses.dataclass(frozen=True)
class Labelled:
    """Features of examples, float32 `(examples, features)`, and integer labels."""

    features: np.ndarray
    labels: np.ndarray


@dataclasses.dataclass(frozen=True)
class TrainedProbe:
    """A probe, and the history of its training.

    Attributes:
        model: the model, with the weights that were best on dev.
        l2: strength of its penalty.
        dev_accuracy: the best accuracy.
        accuracies: accuracy of each evaluation on dev.
        losses: mean loss, including the penalty, of the passes before each evaluation.
    """

    model: keras.Model
    l2: float
    dev_accuracy: float
    accuracies: tuple[float, ...]
    losses: tuple[float, ...]


def make_probe(
    num_features: int, num_classes: int, hidden_size: int, l2: float, seed: int
) -> keras.Model:
    """Builds a compiled logistic regression, or one with a hidden layer of sigmoids.

    Kernels and biases start uniform below 1 / sqrt(inputs), as in PyTorch. The penalty
    is l2 / 2 times the sum of squares of both. Its gradient is the weight decay of
    PyTorch's Adam.

    Args:
        num_features: number of inputs.
        num_classes: number of outputs, which are logits.
        hidden_size: width of the hidden layer; 0 for none.
        l2: strength of the penalty.
        seed: seed of the initial weights.
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
            # Whatever the precision of the encoder.
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
    """Predicts the label of each example."""
    return np.argmax(model(tf.constant(features)), axis=1)


def pass_function(
    probe: keras.Model, examples: Labelled, batch_size: int
) -> Callable[[np.ndarray], float]:
    """Returns a function that trains a probe for one pass over all examples.

    A pass is one graph: `fit`, which calls a graph for each batch, takes ten times as
    long for so small a model.

    Args:
        probe: result of `make_probe`.
        examples: training data.
        batch_size: examples of an update; the last one may have fewer.

    Returns:
        Function from the order of the examples to the mean loss of the updates,
        including the penalty.
    """
    features, labels = tf.constant(examples.features), tf.constant(examples.labels)
    count = len(examples.labels)
    optimizer = probe.optimizer
    optimizer.build(probe.trainable_variables)

    def train(order: tf.Tensor) -> tf.Tensor:
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

    # Concrete: TensorFlow warns if functions with the same code are traced repeatedly.
    signature = [tf.TensorSpec([count], tf.int64)]
    compiled = tf.function(train, signature).get_concrete_function()
    return lambda order: float(compiled(tf.constant(order, tf.int64)))


def max_evaluations(settings: ProbeSettings) -> int:
    """Maximum number of evaluations on dev, over all strengths of the penalty."""
    # The last one follows passes that start at `max_passes`.
    per_strength = settings.max_passes // settings.passes_per_evaluation + 1
    return per_strength * len(settings.l2)


def train_probe(
    train: Labelled,
    dev: Labelled,
    num_classes: int,
    settings: ProbeSettings,
    seed: int,
    callbacks: Sequence[keras.callbacks.Callback] = (),
) -> list[TrainedProbe]:
    """Trains a probe with each `l2` of the settings.

    All start from the same weights and see the examples in the same order, as in the
    benchmark's code.

    Args:
        train: training data, reordered in each pass.
        dev: data for early stopping.
        num_classes: number of labels.
        settings: settings of the protocol.
        seed: seed of initial weights and orders.
        callbacks: called as for a single training, whose epochs lie between two
            evaluations, with `loss`, `dev_accuracy` and `l2` in their logs. They cannot
            stop it.

    Returns:
        Trained probes, best first; ties in the order of `l2`.
    """
    num_features = train.features.shape[1]
    models = [
        make_probe(num_features, num_classes, settings.hidden_size, l2, seed)
        for l2 in settings.l2
    ]
    num_batches = -(-len(train.labels) // settings.batch_size)
    listeners = keras.callbacks.CallbackList(
        list(callbacks),
        model=models[0],
        epochs=max_evaluations(settings),
        steps=num_batches * settings.passes_per_evaluation,
        verbose=0,
    )
    epochs = itertools.count()
    listeners.on_train_begin()
    trained, best_weights = [], []
    for model, l2 in zip(models, settings.l2, strict=True):
        listeners.set_model(model)
        train_pass = pass_function(model, train, settings.batch_size)
        generator = np.random.default_rng(seed)
        losses, accuracies, weights = [], [], model.get_weights()
        num_passes = num_failures = 0
        while num_passes <= settings.max_passes and num_failures <= settings.tenacity:
            epoch = next(epochs)
            listeners.on_epoch_begin(epoch)
            pass_losses = [
                train_pass(generator.permutation(len(train.labels)))
                for _ in range(settings.passes_per_evaluation)
            ]
            num_passes += settings.passes_per_evaluation
            losses.append(float(np.mean(pass_losses)))
            accuracy = float(np.mean(predict(model, dev.features) == dev.labels))
            logs = {"loss": losses[-1], "dev_accuracy": accuracy, "l2": l2}
            if accuracy > max(accuracies, default=-1.0):
                weights = model.get_weights()
            else:
                # In total: an improvement in between does not reset the count.
                num_failures += 1
            accuracies.append(accuracy)
            listeners.on_epoch_end(epoch, logs)
        best_weights.append(weights)
        trained.append(
            TrainedProbe(model, l2, max(accuracies), tuple(accuracies), tuple(losses))
        )
    listeners.on_train_end()
    # Last, since a callback may have set other weights.
    for probe, weights in zip(trained, best_weights, strict=True):
        probe.model.set_weights(weights)
    return sorted(trained, key=lambda probe: -probe.dev_accuracy)
