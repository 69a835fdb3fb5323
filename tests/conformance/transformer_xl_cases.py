"""The parts of Sega-Transformer-XL, and the whole."""

import keras
import numpy as np
from keras import ops

from seg_tf.layers import (
    RelativePositions,
    SegmentRelativeAttention,
    TransformerXLLayer,
)
from seg_tf.layers.transformer_xl import PARTS
from seg_tf.models import TransformerXL
from tests import numpy_reference
from tests import numpy_relative_attention as reference
from tests.conformance.case import Case, feature_specs, waves

WIDTH, HEADS, HEAD_SIZE, MEMORY = 6, 2, 3, 2
BIASES = [waves((HEADS, HEAD_SIZE), number) for number in (5, 6)]
INDEX_SPECS = {
    "indices": ((None, 3), "int32"),
    "memory_indices": ((MEMORY, 3), "int32"),
}
ATTENTION_SPECS = {
    "hidden": ((None, WIDTH), "float32"),
    "memory": ((MEMORY, WIDTH), "float32"),
    **INDEX_SPECS,
}
MODEL_ARGUMENTS = {
    "vocab_size": 11,
    "position_parts": ("token", "paragraph"),
    "num_layers": 2,
    "hidden_size": WIDTH,
    "num_heads": HEADS,
    "head_size": HEAD_SIZE,
    "intermediate_size": 5,
    "memory_length": MEMORY,
    "dropout": 0.25,
    "attention_dropout": 0.2,
    "cutoffs": (4, 7),
    "embedding_size": 8,
    "tail_divisor": 2,
    "layer_norm_epsilon": 1e-3,
    "initializer_range": 0.3,
    "projection_range": 0.2,
    "static_shapes": True,
    "recompute_layers": True,
}


def _random_normal(dtype):
    return keras.initializers.RandomNormal(stddev=0.25)


def _indices(batch, length):
    """Rows of a stream whose sentences have two tokens; every third has no memory."""
    row, place = np.arange(batch)[:, None], np.arange(MEMORY + length)[None]
    token = 100 * row + place
    indices = np.stack([token, token // 2, token // 3], axis=-1).astype("int32")
    indices[2::3, :MEMORY, 0] = -(2**31)
    return indices[:, MEMORY:], indices[:, :MEMORY]


def _index_inputs(batch, length):
    return dict(zip(INDEX_SPECS, _indices(batch, length), strict=True))


def _attention_inputs(batch, length):
    states = 3 * waves((batch, MEMORY + length, WIDTH), 1) - 1.5
    hidden, memory = states[:, MEMORY:], states[:, :MEMORY]
    return {"hidden": hidden, "memory": memory, **_index_inputs(batch, length)}


def _apply_attention(layer, inputs):
    positions = RelativePositions(
        WIDTH, static_shapes=True, dtype=layer.dtype_policy, name="positions"
    )
    prepared = positions(inputs["indices"], inputs["memory_indices"])
    return layer(inputs["hidden"], inputs["memory"], *prepared, *BIASES)


def _reference_layer(function, **arguments):
    """A reference of a layer by a function of `numpy_relative_attention`."""

    def compute(layer, inputs):
        weights = numpy_reference.named_weights(layer)
        rows = zip(*(inputs[name] for name in ATTENTION_SPECS), strict=True)
        return np.stack(
            [function(weights, *row, BIASES, PARTS, **arguments) for row in rows]
        )

    return compute


def _apply_positions(layer, inputs):
    """Sines and cosines of sentences of queries and keys, and the mask."""
    positions, mask = layer(**inputs)
    sentence, _ = positions.segment_angles
    outputs = [*sentence.query[:2], *sentence.key]
    return ops.concatenate(outputs, axis=1), ops.cast(mask, layer.compute_dtype)


def _reference_positions(layer, inputs):
    outputs, masks = [], []
    for indices, memory_indices in zip(*inputs.values(), strict=True):
        is_there = memory_indices[:, 0] >= 0
        causal = np.tri(len(indices))
        mask = np.concatenate([is_there * np.ones((len(causal), 1)), causal], 1)
        first = indices[0, 1]
        queries = indices[:, 1] - first
        keys = np.where(is_there, memory_indices[:, 1] - first, 0)
        keys = np.concatenate([keys, queries])
        waves_of_row = [np.sin(queries), np.cos(queries), np.cos(keys), np.sin(keys)]
        outputs.append(np.concatenate(waves_of_row)[:, np.newaxis])
        masks.append([mask])
    return np.array(outputs), np.array(masks)


def _model_inputs(batch, length):
    indices, memory_indices = _indices(batch, length)
    count = np.arange(batch * length).reshape(batch, length)
    return {
        "token_ids": (7 * count % 11).astype("int32"),
        **{f"stream_{part}": indices[..., n] for n, part in enumerate(PARTS)},
        "memory_hidden": 3 * waves((batch, 2, MEMORY, WIDTH), 2) - 1.5,
        "memory_indices": memory_indices,
    }


def _apply_model(model, inputs):
    output, memory = model(inputs)
    return output, memory["memory_hidden"]


CASES = [
    Case(
        cls=RelativePositions,
        arguments={
            "width": WIDTH,
            "parts": PARTS,
            "dropout": 0.25,
            "static_shapes": True,
        },
        specs=INDEX_SPECS,
        apply=_apply_positions,
        reference=_reference_positions,
        make_inputs=_index_inputs,
        compiled_within="TransformerXL",
    ),
    Case(
        cls=SegmentRelativeAttention,
        arguments={
            "num_heads": HEADS,
            "head_size": HEAD_SIZE,
            "dropout": 0.25,
            "kernel_initializer": _random_normal,
        },
        specs=ATTENTION_SPECS,
        apply=_apply_attention,
        reference=_reference_layer(reference.attention),
        make_inputs=_attention_inputs,
        saved_within="TransformerXL",
        compiled_within="TransformerXL",
    ),
    Case(
        cls=TransformerXLLayer,
        arguments={
            "num_heads": HEADS,
            "head_size": HEAD_SIZE,
            "intermediate_size": 5,
            "dropout": 0.25,
            "attention_dropout": 0.2,
            "layer_norm_epsilon": 1e-3,
            "initializer_range": 0.25,
            "recompute": True,
        },
        specs=ATTENTION_SPECS,
        apply=_apply_attention,
        reference=_reference_layer(reference.layer, epsilon=1e-3),
        make_inputs=_attention_inputs,
        saved_within="TransformerXL",
        compiled_within="TransformerXL",
    ),
    Case(
        cls=TransformerXL,
        arguments=MODEL_ARGUMENTS,
        specs={
            **feature_specs("token_ids", *(f"stream_{part}" for part in PARTS)),
            "memory_hidden": ((2, MEMORY, WIDTH), "float32"),
            "memory_indices": ((MEMORY, 3), "int32"),
        },
        apply=_apply_model,
        reference=lambda model, inputs: reference.transformer_xl(
            numpy_reference.named_weights(model),
            inputs,
            num_layers=2,
            parts=("token", "paragraph"),
            cutoffs=(4, 7),
            epsilon=1e-3,
        ),
        make_inputs=_model_inputs,
    ),
]
