"""The list of public layers, models and objectives, and how to try each.

A new public class gets its case here; `test_conformance.py` fails without it.
"""

# Shape key: B batch, L sequence length, D hidden size.
import functools

import keras
import numpy as np
from keras import ops

from seg_tf.layers import (
    AdaptiveEmbedding,
    AdaptiveSoftmax,
    Dropout,
    IndexEmbedding,
    ModernTransformerLayer,
    MultiHeadAttention,
    SequenceReconstructor,
    TransformerEncoder,
)
from seg_tf.models import Encoder
from seg_tf.objectives import CausalLM, MaskedLM, SentenceUnshuffling
from tests import adaptive_reference, candidate_batches, numpy_reference
from tests.conformance import reat_cases, transformer_xl_cases
from tests.conformance.case import Case, call_with_arguments, feature_specs, waves
from tests.numpy_reference import named_weights
from tests.word_encoder import WordEncoder

SETTINGS = {"epsilon": 1e-3, "approximate_gelu": True}
LAYER_ARGUMENTS = {
    "intermediate_size": 6,
    "num_heads": 2,
    "dropout": 0.25,
    "attention_dropout": 0.0,
    "layer_norm_epsilon": 1e-3,
    "initializer_range": 0.3,
    "approximate_gelu": True,
    "recompute": True,
}
ENCODER_ARGUMENTS = {
    "vocab_size": 13,
    "index_tables": {"sentence_index": 3, "token_index": 6},
    "num_layers": 1,
    "hidden_size": 4,
    "num_heads": 2,
    "intermediate_size": 6,
    "dropout": 0.25,
    "attention_dropout": 0.125,
    "layer_norm_epsilon": 1e-3,
    "initializer_range": 0.3,
    "approximate_gelu": True,
    "num_token_types": 2,
    "recompute_layers": True,
}
# One word in the middle part.
ADAPTIVE_ARGUMENTS = {
    "vocab_size": 9,
    "hidden_size": 4,
    "embedding_size": 6,
    "cutoffs": (3, 4),
    "tail_divisor": 2,
    "initializer_range": 0.3,
    "projection_range": 0.2,
}
SEQUENCE = {"sequence_output": ((None, 4), "float32")}
QUERY = {"query": ((None, 4), "float32"), "query_group": ((None,), "int32")}


def _encoder(dtype, **arguments):
    return Encoder(**ENCODER_ARGUMENTS, **arguments, dtype=dtype)


def _random_normal(dtype):
    return keras.initializers.RandomNormal(mean=0.5, stddev=0.25)


def _reference_encoder(layer, inputs, **arguments):
    settings = {"num_layers": 1, **SETTINGS, **arguments}
    return numpy_reference.encoder(named_weights(layer), inputs, **settings)


def _encoder_case(variant="", feature=None, reference=_reference_encoder, **arguments):
    names = ["token_ids", "padding_mask", "sentence_index", "token_index"]
    if feature:
        names.insert(2, feature)
    return Case(
        cls=Encoder,
        variant=variant,
        arguments={**ENCODER_ARGUMENTS, **arguments},
        specs=feature_specs(*names),
        limits={
            "token_ids": 13,
            "window_number": 3,
            "sentence_index": 3,
            "token_index": 6,
        },
        reference=reference,
    )


def _attention_inputs(batch, length):
    """Queries of two groups, keys of these and of a third, and a rotation."""
    keys = length + 2
    place = np.tile(np.arange(length), (batch, 1))
    # Two dimensions of a head for each of two indices.
    angles = np.stack([place, place % 2], axis=-1)
    rotation = np.concatenate([np.cos(angles), np.sin(angles)], axis=-1)
    return {
        "query": 3 * waves((batch, length, 4), 0) - 1.5,
        "value": 3 * waves((batch, keys, 6), 1) - 1.5,
        "query_group": np.tile(np.arange(length) % 2, (batch, 1)).astype("int32"),
        "key_group": np.tile(np.arange(keys) % 3, (batch, 1)).astype("int32"),
        "rotation": rotation.astype("float32"),
    }


def _apply_to_itself(layer, inputs):
    group = inputs["query_group"]
    rotation = (inputs["rotation"],) if "rotation" in inputs else ()
    return layer(inputs["query"], group, group, *rotation)


def _reference_attention(layer, inputs):
    sees = inputs["query_group"][:, :, None] == inputs["key_group"][:, None, :]
    return numpy_reference.attention(
        named_weights(layer), inputs["query"], inputs["value"], sees
    )


def _reference_transformer_encoder(layer, inputs):
    group = inputs["query_group"]
    sees = group[:, :, None] == group[:, None, :]
    return numpy_reference.transformer_layer(
        named_weights(layer), inputs["query"], sees, **SETTINGS
    )


def _reference_modern_layer(layer, inputs):
    group = inputs["query_group"]
    length = group.shape[1]
    place = np.tile(np.arange(length), (len(group), 1))
    return numpy_reference.modern_layer(
        named_weights(layer),
        inputs["query"],
        (group[:, :, None] == group[:, None, :]) & numpy_reference.near(length, 3),
        *SETTINGS.values(),
        {"position_index": place, "token_index": place % 2},
        {"position_index": 2, "token_index": 2},
    )


def _reference_masked_lm(layer, inputs):
    logits = numpy_reference.masked_lm_logits(
        named_weights(layer.head),
        np.asarray(layer.encoder.token_embedding.embeddings, "float64"),
        inputs["sequence_output"],
        inputs["masked_positions"],
        **SETTINGS,
    )
    target = (inputs["masked_ids"], inputs["masked_weights"])
    weight = inputs["masked_weights"].sum()
    loss = (numpy_reference.cross_entropy(logits, *target), weight)
    return loss, {"accuracy": (numpy_reference.hits(logits, *target), weight)}


def _masked_lm_case(variant="", **arguments):
    return Case(
        cls=MaskedLM,
        variant=variant,
        arguments={
            "encoder": functools.partial(_encoder, **arguments),
            "loss_weight": 0.25,
            "vocab_multiple": 4,
        },
        specs={
            **SEQUENCE,
            **feature_specs("masked_positions", "masked_ids", "masked_weights"),
        },
        limits={"masked_positions": 3, "masked_ids": 13},
        reference=_reference_masked_lm,
    )


def _unshuffling_inputs(batch, length):
    """Rows of at most `length` sentences, every third one shorter or not shuffled."""
    orders = [
        [1 + (row - place) % num_sentences for place in range(num_sentences)]
        for row, num_sentences in enumerate(
            length - row % 3 % length for row in range(batch)
        )
    ]
    features = candidate_batches.candidate_features(
        orders, length + 2, [row % 3 != 1 for row in range(batch)]
    )
    shape = (batch, candidate_batches.row_length(length + 2), 4)
    candidates = 3 * waves((*features["candidate_mask"].shape, 4), 0) - 1.5
    sequence = 3 * waves(shape, 4) - 1.5
    return {"sequence_output": sequence, "candidates": candidates, **features}


def _pointer_probabilities(layer, inputs):
    """Probabilities of candidates, 0 at steps that a row does not have."""
    names = ("candidates", "candidate_mask", "gold_candidates")
    probabilities_BSC = ops.softmax(layer(*(inputs[name] for name in names)), axis=-1)
    is_step_BS = ops.cast(inputs["candidate_mask"][:, 1:], "float32")
    return probabilities_BSC * is_step_BS[:, :, None]


def _reference_pointer_probabilities(layer, inputs):
    mask, gold = inputs["candidate_mask"], inputs["gold_candidates"]
    probabilities = np.zeros((*gold.shape, mask.shape[1]))
    for row, size in enumerate(mask.sum(axis=1)):
        logits = numpy_reference.pointer_logits(
            named_weights(layer),
            inputs["candidates"][row, :size],
            [0, *gold[row, : size - 2]],
            num_layers=2,
            **SETTINGS,
        )
        probabilities[row, : size - 1, :size] = numpy_reference.softmax(logits)
    return probabilities


def _reference_adaptive_losses(layer, hidden, targets, weights):
    logs = adaptive_reference.log_probabilities(
        adaptive_reference.softmax_weights(layer), hidden, vocab_size=9, cutoffs=(3, 4)
    )
    return adaptive_reference.losses(logs, targets) * weights


def _reference_causal_lm(layer, inputs):
    mask = inputs["padding_mask"]
    losses = _reference_adaptive_losses(
        layer.softmax, inputs["sequence_output"], inputs["target_ids"], mask
    )
    return (losses.sum(), mask.sum()), {}


CASES = [
    *transformer_xl_cases.CASES,
    *reat_cases.CASES,
    Case(
        cls=Dropout,
        arguments={"rate": 0.25, "seed": 3},
        specs={"inputs": ((None, 2), "float32")},
        # In inference nothing is dropped; `test_dropout_is_unbiased` has the rest.
        apply=call_with_arguments,
        reference=lambda layer, inputs: inputs["inputs"],
    ),
    Case(
        cls=AdaptiveEmbedding,
        arguments=ADAPTIVE_ARGUMENTS,
        specs=feature_specs("token_ids"),
        limits={"token_ids": 9},
        apply=call_with_arguments,
        reference=lambda layer, inputs: adaptive_reference.embedding(
            named_weights(layer), inputs["token_ids"], hidden_size=4, cutoffs=(3, 4)
        ),
        compiled_within="TransformerXL",
    ),
    Case(
        cls=AdaptiveSoftmax,
        arguments={
            "embedding": lambda dtype: AdaptiveEmbedding(
                **ADAPTIVE_ARGUMENTS, dtype=dtype, name="embedding"
            ),
            "static_shapes": True,
            "vocab_multiple": 4,
        },
        specs={
            "hidden": ((None, 4), "float32"),
            "targets": ((None,), "int32"),
            "weights": ((None,), "float32"),
        },
        limits={"targets": 9},
        apply=call_with_arguments,
        reference=lambda layer, inputs: _reference_adaptive_losses(layer, **inputs),
        float32_output=True,
        compiled_within="CausalLM",
    ),
    Case(
        cls=IndexEmbedding,
        arguments={
            "tables": {"paragraph_index": 3, "token_index": 5},
            "hidden_size": 4,
            "embeddings_initializer": _random_normal,
        },
        specs=feature_specs("paragraph_index", "token_index"),
        limits={"paragraph_index": 3, "token_index": 5},
        reference=lambda layer, inputs: numpy_reference.index_embedding(
            named_weights(layer), inputs
        ),
        compiled_within="Encoder",
    ),
    Case(
        cls=MultiHeadAttention,
        arguments={
            "num_heads": 2,
            "dropout": 0.25,
            "kernel_initializer": _random_normal,
        },
        specs={
            "query": ((None, 4), "float32"),
            "value": ((None, 6), "float32"),
            "query_group": ((None,), "int32"),
            "key_group": ((None,), "int32"),
        },
        apply=call_with_arguments,
        reference=_reference_attention,
        make_inputs=_attention_inputs,
        compiled_within="Encoder-packed",
    ),
    Case(
        cls=TransformerEncoder,
        arguments=LAYER_ARGUMENTS,
        specs=QUERY,
        apply=_apply_to_itself,
        reference=_reference_transformer_encoder,
        make_inputs=_attention_inputs,
        compiled_within="Encoder-packed",
    ),
    Case(
        cls=ModernTransformerLayer,
        arguments={
            **LAYER_ARGUMENTS,
            "num_heads": 1,
            "attention_dropout": 0.125,
            "gated": True,
            "window": 3,
        },
        specs={**QUERY, "rotation": ((None, 4), "float32")},
        apply=_apply_to_itself,
        reference=_reference_modern_layer,
        make_inputs=_attention_inputs,
        compiled_within="Encoder-modern",
    ),
    _encoder_case(
        "modern",
        "window_number",
        functools.partial(
            _reference_encoder,
            num_layers=2,
            rotary_sizes={"sentence_index": 2, "token_index": 2},
            trunk="modern",
            local_window=3,
            global_every=2,
        ),
        num_layers=2,
        num_heads=1,
        attention_dropout=0.0,
        packed_windows=True,
        trunk="modern",
        rotary_shares={"sentence_index": 1, "token_index": 1},
        local_window=3,
        global_every=2,
    ),
    _encoder_case(),
    _encoder_case(
        "packed", "window_number", attention_dropout=0.0, packed_windows=True
    ),
    _encoder_case("token_types", "token_type", reads_token_types=True),
    _masked_lm_case(),
    _masked_lm_case("modern", trunk="modern"),
    Case(
        cls=CausalLM,
        arguments={
            "encoder": lambda dtype: WordEncoder(ADAPTIVE_ARGUMENTS, dtype=dtype),
            "loss_weight": 0.25,
            "static_shapes": True,
            "vocab_multiple": 4,
        },
        specs={**SEQUENCE, **feature_specs("target_ids", "padding_mask")},
        limits={"target_ids": 9},
        reference=_reference_causal_lm,
    ),
    Case(
        cls=SequenceReconstructor,
        arguments={
            "num_layers": 2,
            "num_heads": 2,
            "intermediate_size": 6,
            "dropout": 0.25,
            "layer_norm_epsilon": 1e-3,
            "initializer_range": 0.3,
            "approximate_gelu": True,
        },
        specs={
            "candidates": ((None, 4), "float32"),
            **feature_specs("candidate_mask", "gold_candidates"),
        },
        apply=_pointer_probabilities,
        reference=_reference_pointer_probabilities,
        float32_output=True,
        make_inputs=_unshuffling_inputs,
        compiled_within="SentenceUnshuffling",
    ),
    Case(
        cls=SentenceUnshuffling,
        arguments={"encoder": _encoder, "num_layers": 1, "loss_weight": 0.25},
        specs={
            **SEQUENCE,
            **feature_specs(
                "candidate_positions",
                "candidate_mask",
                "gold_candidates",
                "gold_lengths",
                "gold_paragraphs",
                "is_shuffled",
            ),
        },
        reference=lambda layer, inputs: numpy_reference.sentence_unshuffling(
            named_weights(layer.reconstructor),
            inputs["sequence_output"],
            inputs,
            num_layers=1,
            **SETTINGS,
        ),
        make_inputs=_unshuffling_inputs,
    ),
]
COMPILED = [case for case in CASES if not case.compiled_within]
