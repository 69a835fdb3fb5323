"""Training passes of models with layers that are recomputed, and without."""

import keras
import numpy as np

from seg_tf.models.encoder import Encoder
from seg_tf.models.reat import ReAT
from seg_tf.models.transformer_xl import TransformerXL
from tests.conformance.case import set_fixed_weights, squares
from tests.conformance.cases import CASES

MODELS = {
    case.name: case
    for case in CASES
    if case.cls in (Encoder, ReAT, TransformerXL) and case.variant != "token_types"
}


def build(name, recompute_layers):
    """A model of two layers or more whose weights and seeds are always the same."""
    case = MODELS[name]
    arguments = {**case.make_arguments(), "recompute_layers": recompute_layers}
    if "num_layers" in arguments:
        arguments["num_layers"] = 2
    model = case.cls(**arguments)
    set_fixed_weights(model)
    for number, state in enumerate(states_of(model)):
        state.assign([number, 5])
    return model, case.inputs(batch=3)


def states_of(model):
    """States of the generators of dropout."""
    return [one for one in model.variables if one.path.endswith("generator_state")]


def loss(model, inputs):
    """A loss that every weight has a part in."""
    output = model(inputs, training=True)
    return squares([output[0] if isinstance(output, tuple) else output])


def on_jax(name, recompute_layers):
    """Loss, gradients and states of dropout afterwards; the number of checkpoints.

    The model is built while it is traced, as in `tests/conformance/jax_process.py`.
    """
    import jax

    def traced():
        model, inputs = build(name, recompute_layers)
        weights = model.trainable_variables

        def compute(values):
            with keras.StatelessScope(zip(weights, values, strict=True)) as scope:
                result = loss(model, inputs)
            changed = [scope.get_current_value(one) for one in states_of(model)]
            return result, changed

        differentiated = jax.value_and_grad(compute, has_aux=True)
        (total, states), gradients = differentiated([one.value for one in weights])
        return [total, *gradients, *states]

    trace = jax.jit(traced).trace()
    num_checkpoints = str(trace.jaxpr).count("prevent_cse=")
    return trace.lower().compile()(), num_checkpoints


def computed_on_jax():
    """What `on_jax` gives for an encoder.

    The layers of other models are recomputed by the same code.
    """
    found = {}
    for recompute_layers in (False, True):
        arrays, found[f"{recompute_layers}/checkpoints"] = on_jax(
            "Encoder", recompute_layers
        )
        for number, array in enumerate(arrays):
            found[f"{recompute_layers}/{number:03d}"] = np.asarray(array)
    return found
