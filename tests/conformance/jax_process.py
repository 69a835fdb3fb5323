"""Outputs and gradients of every case on JAX: a process, which has one Keras backend.

  KERAS_BACKEND=jax python -m tests.conformance.jax_process GIVEN COMPUTED

GIVEN is an archive of weights and inputs, COMPUTED the one that is written; entries
of both are named by `entry`.
"""

import sys

import jax
import keras
import numpy as np

from tests.conformance.case import squares
from tests.conformance.cases import CASES


def entry(case, kind, name):
    """Name of an array in an archive."""
    return f"{case.name}/{kind}/{name}"


def of_kind(archive, case, kind):
    """The arrays of a kind, by their names, in the order in which they were stored."""
    prefix = entry(case, kind, "")
    return {
        name.removeprefix(prefix): archive[name]
        for name in archive.files
        if name.startswith(prefix)
    }


def compute(case, weights, inputs):
    """Outputs of a case, compiled, and the gradients of the sum of their squares."""
    layer = case.build()
    variables = layer.trainable_variables
    assert [one.shape for one in variables] == [value.shape for value in weights]

    def total(values):
        with keras.StatelessScope(
            state_mapping=list(zip(variables, values, strict=True))
        ):
            outputs = keras.tree.flatten(case.apply(layer, inputs))
            return squares(outputs), outputs

    (_, outputs), gradients = jax.jit(jax.value_and_grad(total, has_aux=True))(weights)
    return {"outputs": outputs, "gradients": gradients}


def main(given, computed):
    assert keras.backend.backend() == "jax"
    found = {}
    with np.load(given) as archive:
        for case in CASES:
            weights = list(of_kind(archive, case, "weights").values())
            results = compute(case, weights, of_kind(archive, case, "inputs"))
            for kind, values in results.items():
                for number, value in enumerate(values):
                    found[entry(case, kind, number)] = np.asarray(value)
    np.savez(computed, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
