"""The parts of ReAT, the whole, and its objective."""

# Shape key: B batch, N sentences of a row, D hidden size.

import numpy as np
from keras import ops

from seg_tf.layers.alpha_transformer_layer import AlphaTransformerLayer
from seg_tf.layers.sentence_transformer_layer import SentenceTransformerLayer
from seg_tf.models.reat import ReAT
from seg_tf.objectives.exchange_sentence import ExchangeSentence
from seg_tf.ops.gathering import gather_vectors
from tests import numpy_reat, numpy_reference, text_batches
from tests.conformance.case import Case, waves

BLOCK_LENGTH = 10
SENTENCE_LAYER_ARGUMENTS = {
    "intermediate_size": 6,
    "num_heads": 2,
    "block_length": BLOCK_LENGTH,
    "dropout": 0.25,
    "attention_dropout": 0.125,
    "layer_norm_epsilon": 1e-3,
    "initializer_range": 0.3,
    "approximate_gelu": True,
    "recompute": True,
}
REAT_ARGUMENTS = {
    "vocab_size": 13,
    "block_length": BLOCK_LENGTH,
    "max_sentences": 4,
    "num_sentence_layers": 1,
    "num_alpha_layers": 1,
    "hidden_size": 4,
    "alpha_hidden_size": 6,
    "num_heads": 2,
    "alpha_num_heads": 3,
    "intermediate_size": 6,
    "alpha_intermediate_size": 8,
    "dropout": 0.25,
    "attention_dropout": 0.0,
    "layer_norm_epsilon": 1e-3,
    "initializer_range": 0.3,
    "approximate_gelu": True,
    "recompute_layers": True,
}
REAT_SETTINGS = {"epsilon": 1e-3, "approximate_gelu": True}


def _text_inputs(batch, length):
    """Rows of about `length` sentences, two in each block."""
    num_blocks = (length + 1) // 2
    return text_batches.text_rows(
        text_batches.some_rows(batch, num_blocks),
        block_length=BLOCK_LENGTH,
        num_blocks=num_blocks,
        num_sentences=2 * num_blocks,
    )


def _hidden_text_inputs(batch, length):
    inputs = _text_inputs(batch, length)
    return {
        "hidden": 3 * waves((*inputs["token_ids"].shape, 4), 2) - 1.5,
        **inputs,
    }


def _exchange_inputs(batch, length):
    inputs = _text_inputs(batch, length)
    shape = inputs["sentence_mask"].shape
    count = np.arange(np.prod(shape)).reshape(shape)
    return {
        "sequence_output": 3 * waves((*inputs["token_ids"].shape, 6), 4) - 1.5,
        "sentence_starts": inputs["sentence_starts"],
        "is_moved": inputs["sentence_mask"] & (count % 3 == 0),
        "can_move": inputs["sentence_mask"] & (count % 5 > 0),
    }


def _at_starts(outputs, inputs):
    """The outputs at the first position of each sentence; 0 where there is none."""
    vectors_BND = gather_vectors(outputs, inputs["sentence_starts"])
    mask_BN = ops.cast(inputs["sentence_mask"], vectors_BND.dtype)
    return vectors_BND * mask_BN[:, :, None]


def _apply_alpha_layer(layer, inputs):
    outputs = layer(
        inputs["hidden"],
        inputs["sentence_number"],
        inputs["text_number"],
        inputs["sentence_starts"] + 1,
        inputs["sentence_mask"],
    )
    return _at_starts(outputs, inputs)


def _reference_reat(layer, inputs):
    weights = numpy_reference.named_weights(layer)
    sequence = numpy_reat.reat(
        weights, inputs, num_sentence_layers=1, num_alpha_layers=1, **REAT_SETTINGS
    )
    return _at_starts(sequence, inputs)


def _reference_exchange(layer, inputs):
    mask = np.ones_like(inputs["can_move"])
    vectors = numpy_reat.pooled(
        numpy_reference.named_weights(layer.encoder),
        inputs["sequence_output"],
        {**inputs, "sentence_mask": mask},
    )
    weights = numpy_reference.named_weights(layer.classifier)
    logits = numpy_reference.dense(weights, vectors)
    return numpy_reat.exchange_sentence(logits, inputs["is_moved"], inputs["can_move"])


CASES = [
    Case(
        cls=SentenceTransformerLayer,
        arguments=SENTENCE_LAYER_ARGUMENTS,
        specs={
            "hidden": ((None, 4), "float32"),
            "sentence_number": ((None,), "int32"),
            "sentence_starts": ((None,), "int32"),
            "sentence_mask": ((None,), "bool"),
        },
        limits={},
        apply=lambda layer, inputs: _at_starts(
            layer(inputs["hidden"], inputs["sentence_number"]), inputs
        ),
        reference=lambda layer, inputs: _at_starts(
            numpy_reat.sentence_layer(
                numpy_reference.named_weights(layer),
                inputs["hidden"],
                inputs,
                **REAT_SETTINGS,
            ),
            inputs,
        ),
        golden=[
            [
                [0.35224, 0.36877, -0.03256, -1.87178],
                [0.9415, 0.41787, -0.96318, -1.52912],
                [-0.24004, 0.08592, 0.89921, -1.51772],
                [0.97877, 0.41394, -1.02441, -1.48324],
            ],
            [
                [2.18122, -0.28795, -0.90984, -1.22747],
                [1.47244, -0.7957, 0.71859, -1.02149],
                [1.4042, 0.25935, -1.77534, -0.56056],
                [0.0, 0.0, 0.0, 0.0],
            ],
        ],
        make_inputs=_hidden_text_inputs,
        compiled_within="ReAT",
    ),
    Case(
        cls=AlphaTransformerLayer,
        arguments=SENTENCE_LAYER_ARGUMENTS,
        specs={
            "hidden": ((None, 4), "float32"),
            "sentence_number": ((None,), "int32"),
            "text_number": ((None,), "int32"),
            "sentence_starts": ((None,), "int32"),
            "sentence_mask": ((None,), "bool"),
        },
        limits={},
        apply=_apply_alpha_layer,
        reference=lambda layer, inputs: _at_starts(
            numpy_reat.alpha_layer(
                numpy_reference.named_weights(layer),
                inputs["hidden"],
                inputs,
                **REAT_SETTINGS,
            ),
            inputs,
        ),
        golden=[
            [
                [-0.34168, 0.51773, -0.21593, -1.09433],
                [0.30422, 0.56555, -1.00713, -1.02206],
                [-0.61016, -0.12751, 1.21757, -0.81723],
                [0.2877, 0.57339, -1.14917, -0.82313],
            ],
            [
                [1.36986, -0.79839, 0.81035, -0.99996],
                [0.55746, -0.80034, 1.27941, -0.5255],
                [0.94802, 0.42745, -1.66495, -0.58191],
                [0.0, 0.0, 0.0, 0.0],
            ],
        ],
        make_inputs=_hidden_text_inputs,
        compiled_within="ReAT",
    ),
    Case(
        cls=ReAT,
        arguments=REAT_ARGUMENTS,
        specs={
            "token_ids": ((None,), "int32"),
            "position_index": ((None,), "int32"),
            "sentence_number": ((None,), "int32"),
            "text_number": ((None,), "int32"),
            "sentence_position": ((None,), "int32"),
            "sentence_starts": ((None,), "int32"),
            "sentence_mask": ((None,), "bool"),
        },
        limits={},
        apply=lambda layer, inputs: _at_starts(layer(inputs), inputs),
        reference=_reference_reat,
        golden=[
            [
                [-0.77344, 0.99756, 0.99576, -1.01636, -0.54071, 1.51576],
                [-0.77653, 0.99373, 1.00733, -1.01227, -0.54693, 1.5222],
                [-0.59169, 0.99531, 0.49919, -1.15707, -0.33264, 1.35704],
                [-0.77515, 0.99725, 1.00033, -1.01449, -0.54283, 1.51697],
            ],
            [
                [-0.77415, 0.99426, 1.00095, -1.01494, -0.5439, 1.52036],
                [-0.59497, 0.99594, 0.50828, -1.15546, -0.33611, 1.36036],
                [-0.77563, 0.99683, 1.00225, -1.01398, -0.54354, 1.51737],
                [0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            ],
        ],
        make_inputs=_text_inputs,
    ),
    Case(
        cls=ExchangeSentence,
        arguments={
            "encoder": lambda dtype: ReAT(**REAT_ARGUMENTS, dtype=dtype),
            "loss_weight": 0.25,
        },
        specs={
            "sequence_output": ((None, 6), "float32"),
            "sentence_starts": ((None,), "int32"),
            "is_moved": ((None,), "bool"),
            "can_move": ((None,), "bool"),
        },
        limits={},
        apply=lambda layer, inputs: layer(inputs["sequence_output"], inputs),
        reference=_reference_exchange,
        golden=(
            (4.18024, 5.0),
            {
                "accuracy": (2.0, 5.0),
                "positive_rate": (2.0, 5.0),
                "predicted_rate": (3.0, 5.0),
                "recall": (1.0, 2.0),
                "specificity": (1.0, 3.0),
                "f1": (2.0, 5.0),
                "recall_at_rate": (2.0, 2.0),
                "specificity_at_rate": (0.0, 3.0),
                "pair_accuracy": (1.0, 3.0),
            },
        ),
        float32_output=True,
        is_sum=True,
        make_inputs=_exchange_inputs,
    ),
]
