"""The parts of Sega-Transformer-XL, and the whole."""

import keras
import numpy as np
from keras import ops

from seg_tf.layers.relative_positions import PARTS, RelativePositions
from seg_tf.layers.segment_relative_attention import SegmentRelativeAttention
from seg_tf.layers.transformer_xl_layer import TransformerXLLayer
from seg_tf.models.transformer_xl import TransformerXL
from tests import numpy_reference
from tests import numpy_relative_attention as reference
from tests.conformance.case import Case, waves

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
    "position_form": "eq3",
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


def _of_rows(function, inputs):
    rows = zip(*(inputs[name] for name in ATTENTION_SPECS), strict=True)
    return np.stack([function(*row) for row in rows])


def _reference_attention(layer, inputs):
    weights = numpy_reference.named_weights(layer)
    return _of_rows(
        lambda *row: reference.attention(weights, *row, BIASES, PARTS), inputs
    )


def _reference_layer(layer, inputs):
    weights = numpy_reference.named_weights(layer)
    return _of_rows(
        lambda *row: reference.layer(weights, *row, BIASES, PARTS, epsilon=1e-3),
        inputs,
    )


def _apply_positions(layer, inputs):
    positions, mask = layer(**inputs)
    return positions.vectors, ops.cast(mask, positions.vectors.dtype)


def _reference_positions(layer, inputs):
    vectors, masks = [], []
    for indices, memory_indices in zip(*inputs.values(), strict=True):
        is_there = memory_indices[:, 0] >= 0
        memory_indices = np.where(is_there[:, None], memory_indices, indices[0])
        both = np.concatenate([memory_indices, indices])
        vectors.append(reference.released_vectors(both, WIDTH))
        causal = np.tri(len(indices))
        masks.append(
            [np.concatenate([is_there * np.ones((len(causal), 1)), causal], 1)]
        )
    return np.array(vectors), np.array(masks)


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
            "form": "released",
            "dropout": 0.25,
            "static_shapes": True,
        },
        specs=INDEX_SPECS,
        limits={},
        apply=_apply_positions,
        reference=_reference_positions,
        golden=(
            [
                [
                    [-0.7568, -0.65364, 0.9093, -0.41615, 0.84147, 0.5403],
                    [0.14112, -0.98999, 0.9093, -0.41615, 0.84147, 0.5403],
                    [0.9093, -0.41615, 0.84147, 0.5403, 0.84147, 0.5403],
                    [0.84147, 0.5403, 0.84147, 0.5403, 0.0, 1.0],
                    [0.0, 1.0, 0.0, 1.0, 0.0, 1.0],
                ],
                [
                    [-0.7568, -0.65364, 0.9093, -0.41615, 0.84147, 0.5403],
                    [0.14112, -0.98999, 0.9093, -0.41615, 0.84147, 0.5403],
                    [0.9093, -0.41615, 0.84147, 0.5403, 0.0, 1.0],
                    [0.84147, 0.5403, 0.84147, 0.5403, 0.0, 1.0],
                    [0.0, 1.0, 0.0, 1.0, 0.0, 1.0],
                ],
            ],
            [
                [
                    [
                        [1.0, 1.0, 1.0, 0.0, 0.0],
                        [1.0, 1.0, 1.0, 1.0, 0.0],
                        [1.0, 1.0, 1.0, 1.0, 1.0],
                    ]
                ],
                [
                    [
                        [1.0, 1.0, 1.0, 0.0, 0.0],
                        [1.0, 1.0, 1.0, 1.0, 0.0],
                        [1.0, 1.0, 1.0, 1.0, 1.0],
                    ]
                ],
            ],
        ),
        make_inputs=_index_inputs,
    ),
    Case(
        cls=SegmentRelativeAttention,
        arguments={
            "num_heads": HEADS,
            "head_size": HEAD_SIZE,
            "dropout": 0.25,
            "kernel_initializer": lambda dtype: keras.initializers.RandomNormal(
                stddev=0.25
            ),
        },
        specs=ATTENTION_SPECS,
        limits={},
        apply=_apply_attention,
        reference=_reference_attention,
        golden=[
            [
                [0.78075, -1.30334, -0.44489, 1.41798, 0.07949, -1.43847],
                [1.07862, -1.11952, -0.79013, 1.32313, 0.44917, -1.43887],
                [1.1081, -0.73787, -0.91796, 0.97442, 0.66686, -1.14626],
            ],
            [
                [-0.42297, 1.03748, 0.15562, -1.07759, 0.12206, 1.04613],
                [-0.2141, 1.18677, -0.09172, -1.16313, 0.39144, 1.06226],
                [-0.11874, 1.38712, -0.23871, -1.32561, 0.5803, 1.17607],
            ],
        ],
        make_inputs=_attention_inputs,
        saved_within="TransformerXL",
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
            "kernel_initializer": lambda dtype: keras.initializers.RandomNormal(
                stddev=0.25
            ),
            "recompute": True,
        },
        specs=ATTENTION_SPECS,
        limits={},
        apply=_apply_attention,
        reference=_reference_layer,
        golden=[
            [
                [0.38856, -2.41148, 0.70707, 0.33587, -0.46867, -0.75342],
                [0.23859, -1.81633, 0.74883, 0.46274, -0.40606, -1.58483],
                [0.15798, -1.04681, 0.40181, 0.48526, -0.17494, -2.18335],
            ],
            [
                [-1.37729, 2.42204, 0.31841, -0.7631, -0.3878, 1.5013],
                [-1.35597, 2.10394, 0.26683, -0.82869, -0.23138, 1.80594],
                [-1.39146, 1.83416, 0.20415, -0.8067, -0.18245, 2.09835],
            ],
        ],
        make_inputs=_attention_inputs,
        saved_within="TransformerXL",
        compiled_within="TransformerXL",
    ),
    Case(
        cls=TransformerXL,
        arguments=MODEL_ARGUMENTS,
        specs={
            "token_ids": ((None,), "int32"),
            **{f"stream_{part}": ((None,), "int32") for part in PARTS},
            "memory_hidden": ((2, MEMORY, WIDTH), "float32"),
            "memory_indices": ((MEMORY, 3), "int32"),
        },
        limits={},
        apply=_apply_model,
        reference=lambda model, inputs: reference.transformer_xl(
            numpy_reference.named_weights(model),
            inputs,
            num_layers=2,
            parts=("token", "paragraph"),
            cutoffs=(4, 7),
            epsilon=1e-3,
        ),
        golden=(
            [
                [
                    [2.40306, 0.16345, -0.86207, -1.57722, 2.29247, -0.1453],
                    [2.49415, 0.1348, -0.88935, -1.47562, 2.22066, -0.1537],
                    [1.93331, 0.20405, -0.64694, -2.01535, 2.56035, -0.1218],
                ],
                [
                    [-1.51392, 1.31406, -0.05728, -2.17115, 1.14756, 0.62962],
                    [-0.98062, 1.13443, -0.10774, -2.47037, 1.74558, 0.46849],
                    [-1.91509, 1.47366, -0.06545, -1.60104, 0.23658, 0.8175],
                ],
            ],
            [
                [
                    [
                        [0.10071, -0.29904, -0.02365, 0.30513, -0.05498, -0.29096],
                        [-0.05235, 0.25188, -0.01256, -0.24865, 0.07663, 0.2289],
                    ],
                    [
                        [2.25256, -0.08132, -0.83365, -0.51174, 2.0115, -0.36368],
                        [1.70653, 0.64498, -0.81929, -1.39798, 2.43919, -0.07341],
                    ],
                ],
                [
                    [
                        [0.59146, 0.05518, -0.60568, 0.1009, 0.57968, -0.25027],
                        [-0.54902, 0.17842, 0.50304, -0.30805, -0.42366, 0.41722],
                    ],
                    [
                        [-0.40835, 1.75588, -0.31319, -2.2794, 1.73046, 0.68218],
                        [-1.89015, 1.70925, 0.17711, -1.45219, -0.43244, 1.29803],
                    ],
                ],
            ],
        ),
        make_inputs=_model_inputs,
    ),
]
