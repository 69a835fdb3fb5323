"""Fine-tunes on a second CPU device in place of a GPU; see `test_optimizer.py`.

python -m tests.finetuning.second_device

As on a GPU, the variables lie on the device that computes, but for those of int32,
which stay on the host. Devices are set before TensorFlow starts, so that a process of
its own is needed.
"""

from unittest import mock

import keras
import numpy as np
import tensorflow as tf

from seg_tf.finetuning.optimizer import ReusableModel
from seg_tf.training import devices

HOST, DEVICE = "CPU:0", "CPU:1"


def _placed(next_creator, **arguments):
    value = arguments["initial_value"]
    value = tf.convert_to_tensor(value() if callable(value) else value)
    dtype = tf.as_dtype(arguments.get("dtype") or value.dtype)
    with tf.device(HOST if dtype == tf.int32 else DEVICE):
        return next_creator(**arguments)


def _make(seed: int) -> keras.Model:
    layers = [keras.layers.Dense(8), keras.layers.Dropout(0.5, seed=seed)]
    return keras.Sequential([keras.Input((3,)), *layers, keras.layers.Dense(1)])


def main() -> None:
    (cpu,) = tf.config.list_physical_devices("CPU")
    two = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(cpu, two)
    for dtype_policy in ("float32", "mixed_float16"):
        with (
            mock.patch.object(devices, "has_gpu", return_value=True),
            tf.variable_creator_scope(_placed),
            tf.device(DEVICE),
        ):
            reusable = ReusableModel(
                _make, lambda _: keras.losses.MeanSquaredError(), dtype_policy
            )
            model = reusable.start(seed=1, learning_rate=0.1, num_updates=2)
            model.fit(np.ones((4, 3)), np.ones((4, 1)), epochs=2, verbose=0)
        print(dtype_policy, model.jit_compile)


if __name__ == "__main__":
    main()
