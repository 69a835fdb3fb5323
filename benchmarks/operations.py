r"""Compares our GELU, cross entropy and argmax on TensorFlow with Keras's.

  python -m benchmarks.operations
  python -m benchmarks.operations --dtype=float32

Runs each with its gradient on one core, in TensorFlow's deterministic mode, as in
pretraining. The sizes are those of a mini model with rows of 128: 4,096 positions of
width 1,024, and 640 predictions over 8,192 word pieces. Target: twice Keras's speed.
"""

import os
from collections.abc import Callable, Sequence

# Read when TensorFlow is imported.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")

import keras
import numpy as np
import tensorflow as tf
from absl import flags
from keras import ops

from benchmarks import paired
from seg_tf import command_line
from seg_tf.layers.common import gelu
from seg_tf.ops.losses import masked_accuracy, masked_cross_entropy

_DTYPE = flags.DEFINE_enum("dtype", "bfloat16", ["bfloat16", "float32"], "Of inputs.")
_STEPS = flags.DEFINE_integer("steps", 5, "Calls in a round.")
_ROUNDS = flags.DEFINE_integer("rounds", 15, "Counted rounds.")


def _with_gradient(
    function: Callable[[tf.Tensor], tf.Tensor], inputs: tf.Tensor
) -> Callable[[], np.ndarray]:
    @tf.function(autograph=False)
    def run(inputs: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            total = tf.reduce_sum(function(inputs))
        gradient = tape.gradient(total, inputs)
        return total if gradient is None else gradient

    return lambda: run(inputs).numpy()


def main(_: Sequence[str]) -> None:
    paired.pin_to_one_core()
    paired.print_machine()
    keras.utils.set_random_seed(0)
    tf.config.experimental.enable_op_determinism()
    hidden = tf.cast(tf.random.normal((4_096, 1_024)), _DTYPE.value)
    logits = tf.cast(tf.random.normal((32, 20, 8_192)), _DTYPE.value)
    labels = tf.random.uniform((32, 20), 0, 8_192, tf.int32)
    weights = tf.ones((32, 20))

    def keras_loss(logits: tf.Tensor) -> tf.Tensor:
        return ops.sparse_categorical_crossentropy(
            labels, ops.cast(logits, "float32"), from_logits=True
        )

    def keras_hits(logits: tf.Tensor) -> tf.Tensor:
        return ops.cast(ops.equal(ops.argmax(logits, axis=-1), labels), "float32")

    cases = {
        "GELU": (hidden, gelu(approximate=False), keras.activations.gelu),
        "cross entropy": (
            logits,
            lambda logits: masked_cross_entropy(logits, labels, weights)[0],
            keras_loss,
        ),
        "accuracy": (
            logits,
            lambda logits: masked_accuracy(logits, labels, weights)[0],
            keras_hits,
        ),
    }
    for name, (inputs, ours, theirs) in cases.items():
        sides = {
            f"{name}, {side}": paired.repeated(
                _with_gradient(function, inputs), _STEPS.value
            )
            for side, function in (("ours", ours), ("Keras", theirs))
        }
        rates = paired.interleave(sides, _ROUNDS.value)
        of, against = sides
        paired.report(rates, of=of, against=against, unit="calls/s", target=2)
    paired.print_machine()


if __name__ == "__main__":
    command_line.run(main)
