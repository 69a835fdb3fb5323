"""Outputs and gradients of the cases on JAX: a process, which has one Keras backend.

  KERAS_BACKEND=jax python -m tests.conformance.jax_process FOLDER

writes an archive of all cases, whose entries are named by `entry`, and one of layers
that are recomputed, or not.
"""

import pathlib
import sys

import jax
import keras
import numpy as np
from keras import ops

from seg_tf.layers.common import Dropout
from tests.conformance.case import squares
from tests.conformance.cases import COMPILED
from tests.layers import recomputed_models


def entry(case, kind, name):
    """Name of an array in an archive."""
    return f"{case.name}/{kind}/{name}"


def of_kind(archive, case, kind):
    """The arrays of a kind, in the order in which they were stored."""
    prefix = entry(case, kind, "")
    return [archive[name] for name in archive.files if name.startswith(prefix)]


def compute(case):
    """Outputs of a case, compiled, and the gradients of the sum of their squares.

    The layer is built while it is traced: JAX would compile each operation of a
    building outside by itself, which takes longer than all the rest.
    """

    def traced(inputs):
        variables = (layer := case.build()).trainable_variables

        def total(values):
            with keras.StatelessScope(
                state_mapping=list(zip(variables, values, strict=True))
            ):
                outputs = keras.tree.flatten(case.apply(layer, inputs))
                return squares(outputs), outputs

        weights = [one.value for one in variables]
        (_, outputs), gradients = jax.value_and_grad(total, has_aux=True)(weights)
        return {"outputs": outputs, "gradients": gradients}

    computed = jax.jit(traced)(case.inputs(batch=3))
    jax.clear_caches()  # programs take memory
    return computed


def dropped(dtype):
    """Share of inputs that a rate of 0.1 drops; mean of the outputs over that before.

    The inputs are many and not all the same, so that rounding has no part in the mean.
    """
    inputs = ops.cast(np.linspace(1, 2, 2**22, dtype="float32"), dtype)
    outputs = Dropout(0.1, seed=1, dtype=dtype)(inputs, training=True)
    before, after = (
        np.asarray(ops.cast(values, "float32"), "float64")
        for values in (inputs, outputs)
    )
    return np.mean(after == 0), after.mean() / before.mean()


def main(folder):
    assert keras.backend.backend() == "jax"
    found = {
        entry(case, kind, number): np.asarray(value)
        for case in COMPILED
        for kind, values in compute(case).items()
        for number, value in enumerate(values)
    }
    for dtype in ("float16", "bfloat16"):
        found[f"dropped/{dtype}"] = np.asarray(dropped(dtype))
    np.savez(folder / "computed.npz", **found)
    np.savez(folder / "recomputed.npz", **recomputed_models.computed_on_jax())


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
