"""The one list of public layers, models and objectives, and how to try each.

A new public class gets its case here; `test_conformance.py` fails without it.
"""

# Shape key: B batch, L sequence length, D hidden size.

import keras
import numpy as np
from keras import ops

from seg_tf.layers.adaptive import AdaptiveEmbedding, AdaptiveSoftmax
from seg_tf.layers.attention import MultiHeadAttention
from seg_tf.layers.common import Dropout
from seg_tf.layers.embeddings import IndexEmbedding
from seg_tf.layers.sequence_reconstructor import SequenceReconstructor
from seg_tf.layers.transformer import ModernTransformerLayer, TransformerEncoder
from seg_tf.models.encoder import Encoder
from seg_tf.objectives.causal_lm import CausalLM
from seg_tf.objectives.masked_lm import MaskedLM
from seg_tf.objectives.sentence_unshuffling import SentenceUnshuffling
from seg_tf.ops.attention import rotations
from tests import adaptive_reference, candidate_batches, numpy_reference
from tests.conformance import reat_cases, transformer_xl_cases
from tests.conformance.case import Case, waves
from tests.word_encoder import WordEncoder

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


_ROTARY_SIZES = {"position_index": 2, "token_index": 2}


def _reference_modern_encoder(layer, inputs):
    return numpy_reference.encoder(
        numpy_reference.named_weights(layer),
        inputs,
        num_layers=2,
        epsilon=1e-3,
        approximate_gelu=True,
        rotary_sizes={"sentence_index": 2, "token_index": 2},
        trunk="modern",
        local_window=3,
        global_every=2,
    )


def _reference_encoder(layer, inputs):
    return numpy_reference.encoder(
        numpy_reference.named_weights(layer),
        inputs,
        num_layers=1,
        epsilon=1e-3,
        approximate_gelu=True,
    )


def _attention_inputs(batch, length):
    """Queries of two groups or one, and keys of these, and of a third."""
    keys = length + 2
    return {
        "query": 3 * waves((batch, length, 4), 0) - 1.5,
        "value": 3 * waves((batch, keys, 6), 1) - 1.5,
        "query_group": np.tile(np.arange(length) % 2, (batch, 1)).astype("int32"),
        "key_group": np.tile(np.arange(keys) % 3, (batch, 1)).astype("int32"),
    }


def _reference_attention(layer, inputs):
    groups = (inputs["query_group"][:, :, None], inputs["key_group"][:, None, :])
    return numpy_reference.attention(
        numpy_reference.named_weights(layer),
        inputs["query"],
        inputs["value"],
        np.equal(*groups),
    )


def _reference_transformer_encoder(layer, inputs):
    group = inputs["query_group"]
    return numpy_reference.transformer_layer(
        numpy_reference.named_weights(layer),
        inputs["query"],
        group[:, :, None] == group[:, None, :],
        epsilon=1e-3,
        approximate_gelu=True,
    )


def _modern_inputs(batch, length):
    """As `_attention_inputs`, and a rotation by two indices."""
    inputs = _attention_inputs(batch, length)
    place = np.tile(np.arange(length), (batch, 1))
    indices = {"position_index": place, "token_index": place % 2}
    rotation = rotations(indices, _ROTARY_SIZES)
    return {**inputs, **indices, "rotation": np.asarray(rotation)}


def _reference_modern_layer(layer, inputs):
    group = inputs["query_group"]
    length = group.shape[1]
    place = np.tile(np.arange(length), (len(group), 1))
    return numpy_reference.modern_layer(
        numpy_reference.named_weights(layer),
        inputs["query"],
        (group[:, :, None] == group[:, None, :]) & numpy_reference.near(length, 3),
        1e-3,
        True,
        {"position_index": place, "token_index": place % 2},
        _ROTARY_SIZES,
    )


def _reference_masked_lm(layer, inputs):
    logits = numpy_reference.masked_lm_logits(
        numpy_reference.named_weights(layer.head),
        np.asarray(layer.encoder.token_embedding.embeddings, "float64"),
        inputs["sequence_output"],
        inputs["masked_positions"],
        epsilon=1e-3,
        approximate_gelu=True,
    )
    target = (inputs["masked_ids"], inputs["masked_weights"])
    weight = inputs["masked_weights"].sum()
    loss = (numpy_reference.cross_entropy(logits, *target), weight)
    return loss, {"accuracy": (numpy_reference.hits(logits, *target), weight)}


RECONSTRUCTOR_ARGUMENTS = {
    "num_layers": 2,
    "num_heads": 2,
    "intermediate_size": 6,
    "dropout": 0.25,
    "layer_norm_epsilon": 1e-3,
    "initializer_range": 0.3,
    "approximate_gelu": True,
}


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
    return {"sequence_output": 3 * waves(shape, 4) - 1.5, **features}


def _reconstructor_inputs(batch, length):
    inputs = _unshuffling_inputs(batch, length)
    mask = inputs["candidate_mask"]
    return {
        "candidates": 3 * waves((*mask.shape, 4), 0) - 1.5,
        "candidate_mask": mask,
        "gold_candidates": inputs["gold_candidates"],
    }


def _pointer_probabilities(layer, inputs):
    """The logits, 0 at steps that a row does not have."""
    names = ("candidates", "candidate_mask", "gold_candidates")
    probabilities_BSC = ops.softmax(layer(*(inputs[name] for name in names)), axis=-1)
    is_step_BS = ops.cast(inputs["candidate_mask"][:, 1:], "float32")
    return probabilities_BSC * is_step_BS[:, :, None]


def _reference_pointer_probabilities(layer, inputs):
    mask, gold = inputs["candidate_mask"], inputs["gold_candidates"]
    probabilities = np.zeros((*gold.shape, mask.shape[1]))
    for row, size in enumerate(mask.sum(axis=1)):
        logits = numpy_reference.pointer_logits(
            numpy_reference.named_weights(layer),
            inputs["candidates"][row, :size],
            [0, *gold[row, : size - 2]],
            num_layers=2,
            epsilon=1e-3,
            approximate_gelu=True,
        )
        probabilities[row, : size - 1, :size] = numpy_reference.softmax(logits)
    return probabilities


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


def _reference_adaptive_losses(layer, hidden, targets, weights):
    softmax_weights = adaptive_reference.softmax_weights(layer)
    logs = adaptive_reference.log_probabilities(
        softmax_weights, hidden, vocab_size=9, cutoffs=(3, 4)
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
        limits={},
        # In inference nothing is dropped; `test_dropout_is_unbiased` has the rest.
        apply=lambda layer, inputs: layer(inputs["inputs"]),
        reference=lambda layer, inputs: inputs["inputs"],
    ),
    Case(
        cls=AdaptiveEmbedding,
        arguments=ADAPTIVE_ARGUMENTS,
        specs={"token_ids": ((None,), "int32")},
        limits={"token_ids": 9},
        apply=lambda layer, inputs: layer(inputs["token_ids"]),
        reference=lambda layer, inputs: adaptive_reference.embedding(
            numpy_reference.named_weights(layer),
            inputs["token_ids"],
            hidden_size=4,
            cutoffs=(3, 4),
        ),
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
        apply=lambda layer, inputs: layer(**inputs),
        reference=lambda layer, inputs: _reference_adaptive_losses(layer, **inputs),
        float32_output=True,
        compiled_within="CausalLM",
    ),
    Case(
        cls=IndexEmbedding,
        arguments={
            "tables": {"paragraph_index": 3, "token_index": 5},
            "hidden_size": 4,
            "embeddings_initializer": lambda dtype: keras.initializers.RandomNormal(
                mean=0.5, stddev=0.25
            ),
        },
        specs={
            "paragraph_index": ((None,), "int32"),
            "token_index": ((None,), "int32"),
        },
        limits={"paragraph_index": 3, "token_index": 5},
        apply=lambda layer, inputs: layer(inputs),
        reference=lambda layer, inputs: numpy_reference.index_embedding(
            numpy_reference.named_weights(layer), inputs
        ),
    ),
    Case(
        cls=MultiHeadAttention,
        arguments={
            "num_heads": 2,
            "dropout": 0.25,
            "kernel_initializer": lambda dtype: keras.initializers.RandomNormal(
                mean=0.5, stddev=0.25
            ),
        },
        specs={
            "query": ((None, 4), "float32"),
            "value": ((None, 6), "float32"),
            "query_group": ((None,), "int32"),
            "key_group": ((None,), "int32"),
        },
        limits={},
        apply=lambda layer, inputs: layer(**inputs),
        reference=_reference_attention,
        make_inputs=_attention_inputs,
    ),
    Case(
        cls=TransformerEncoder,
        arguments={
            "intermediate_size": 6,
            "num_heads": 2,
            "dropout": 0.25,
            "attention_dropout": 0.0,
            "layer_norm_epsilon": 1e-3,
            "initializer_range": 0.3,
            "approximate_gelu": True,
            "recompute": True,
        },
        specs={
            "query": ((None, 4), "float32"),
            "query_group": ((None,), "int32"),
        },
        limits={},
        apply=lambda layer, inputs: layer(
            inputs["query"], inputs["query_group"], inputs["query_group"]
        ),
        reference=_reference_transformer_encoder,
        make_inputs=_attention_inputs,
        compiled_within="Encoder-packed",
    ),
    Case(
        cls=ModernTransformerLayer,
        arguments={
            "intermediate_size": 6,
            "num_heads": 1,
            "dropout": 0.25,
            "attention_dropout": 0.125,
            "layer_norm_epsilon": 1e-3,
            "initializer_range": 0.3,
            "approximate_gelu": True,
            "recompute": True,
            "gated": True,
            "window": 3,
        },
        specs={
            "query": ((None, 4), "float32"),
            "query_group": ((None,), "int32"),
            "rotation": ((None, 4), "float32"),
        },
        limits={},
        apply=lambda layer, inputs: layer(
            inputs["query"],
            inputs["query_group"],
            inputs["query_group"],
            inputs["rotation"],
        ),
        reference=_reference_modern_layer,
        make_inputs=_modern_inputs,
        compiled_within="Encoder-modern",
    ),
    Case(
        cls=Encoder,
        variant="modern",
        arguments={
            **ENCODER_ARGUMENTS,
            "num_layers": 2,
            "num_heads": 1,
            "attention_dropout": 0.0,
            "packed_windows": True,
            "trunk": "modern",
            "rotary_shares": {"sentence_index": 1, "token_index": 1},
            "local_window": 3,
            "global_every": 2,
        },
        specs={
            "token_ids": ((None,), "int32"),
            "padding_mask": ((None,), "bool"),
            "window_number": ((None,), "int32"),
            "sentence_index": ((None,), "int32"),
            "token_index": ((None,), "int32"),
        },
        limits={
            "token_ids": 13,
            "window_number": 3,
            "sentence_index": 3,
            "token_index": 6,
        },
        apply=lambda layer, inputs: layer(inputs),
        reference=_reference_modern_encoder,
    ),
    Case(
        cls=Encoder,
        arguments=ENCODER_ARGUMENTS,
        specs={
            "token_ids": ((None,), "int32"),
            "padding_mask": ((None,), "bool"),
            "sentence_index": ((None,), "int32"),
            "token_index": ((None,), "int32"),
        },
        limits={"token_ids": 13, "sentence_index": 3, "token_index": 6},
        apply=lambda layer, inputs: layer(inputs),
        reference=_reference_encoder,
    ),
    Case(
        cls=Encoder,
        variant="packed",
        arguments={
            **ENCODER_ARGUMENTS,
            "attention_dropout": 0.0,
            "packed_windows": True,
        },
        specs={
            "token_ids": ((None,), "int32"),
            "padding_mask": ((None,), "bool"),
            "window_number": ((None,), "int32"),
            "sentence_index": ((None,), "int32"),
            "token_index": ((None,), "int32"),
        },
        limits={
            "token_ids": 13,
            "window_number": 3,
            "sentence_index": 3,
            "token_index": 6,
        },
        apply=lambda layer, inputs: layer(inputs),
        reference=_reference_encoder,
    ),
    Case(
        cls=Encoder,
        variant="token_types",
        arguments={**ENCODER_ARGUMENTS, "reads_token_types": True},
        specs={
            "token_ids": ((None,), "int32"),
            "padding_mask": ((None,), "bool"),
            "token_type": ((None,), "int32"),
            "sentence_index": ((None,), "int32"),
            "token_index": ((None,), "int32"),
        },
        limits={
            "token_ids": 13,
            "token_type": 2,
            "sentence_index": 3,
            "token_index": 6,
        },
        apply=lambda layer, inputs: layer(inputs),
        reference=_reference_encoder,
    ),
    Case(
        cls=MaskedLM,
        arguments={
            "encoder": lambda dtype: Encoder(**ENCODER_ARGUMENTS, dtype=dtype),
            "loss_weight": 0.25,
            "vocab_multiple": 4,
        },
        specs={
            "sequence_output": ((None, 4), "float32"),
            "masked_positions": ((2,), "int32"),
            "masked_ids": ((2,), "int32"),
            "masked_weights": ((2,), "float32"),
        },
        limits={"masked_positions": 3, "masked_ids": 13},
        apply=lambda layer, inputs: layer(inputs["sequence_output"], inputs),
        reference=_reference_masked_lm,
        float32_output=True,
        is_sum=True,
    ),
    Case(
        cls=MaskedLM,
        variant="modern",
        arguments={
            "encoder": lambda dtype: Encoder(
                **ENCODER_ARGUMENTS, trunk="modern", dtype=dtype
            ),
            "loss_weight": 0.25,
            "vocab_multiple": 4,
        },
        specs={
            "sequence_output": ((None, 4), "float32"),
            "masked_positions": ((2,), "int32"),
            "masked_ids": ((2,), "int32"),
            "masked_weights": ((2,), "float32"),
        },
        limits={"masked_positions": 3, "masked_ids": 13},
        apply=lambda layer, inputs: layer(inputs["sequence_output"], inputs),
        reference=_reference_masked_lm,
        float32_output=True,
        is_sum=True,
    ),
    Case(
        cls=CausalLM,
        arguments={
            "encoder": lambda dtype: WordEncoder(ADAPTIVE_ARGUMENTS, dtype=dtype),
            "loss_weight": 0.25,
            "static_shapes": True,
            "vocab_multiple": 4,
        },
        specs={
            "sequence_output": ((None, 4), "float32"),
            "target_ids": ((None,), "int32"),
            "padding_mask": ((None,), "bool"),
        },
        limits={"target_ids": 9},
        apply=lambda layer, inputs: layer(inputs["sequence_output"], inputs),
        reference=_reference_causal_lm,
        float32_output=True,
        is_sum=True,
    ),
    Case(
        cls=SequenceReconstructor,
        arguments=RECONSTRUCTOR_ARGUMENTS,
        specs={
            "candidates": ((None, 4), "float32"),
            "candidate_mask": ((None,), "bool"),
            "gold_candidates": ((None,), "int32"),
        },
        limits={},
        apply=_pointer_probabilities,
        reference=_reference_pointer_probabilities,
        float32_output=True,
        make_inputs=_reconstructor_inputs,
        compiled_within="SentenceUnshuffling",
    ),
    Case(
        cls=SentenceUnshuffling,
        arguments={
            "encoder": lambda dtype: Encoder(**ENCODER_ARGUMENTS, dtype=dtype),
            "num_layers": 1,
            "loss_weight": 0.25,
        },
        specs={
            "sequence_output": ((None, 4), "float32"),
            "candidate_positions": ((None,), "int32"),
            "candidate_mask": ((None,), "bool"),
            "gold_candidates": ((None,), "int32"),
            "gold_lengths": ((None,), "int32"),
            "gold_paragraphs": ((None,), "int32"),
            "is_shuffled": ((), "bool"),
        },
        limits={},
        apply=lambda layer, inputs: layer(inputs["sequence_output"], inputs),
        reference=lambda layer, inputs: numpy_reference.sentence_unshuffling(
            numpy_reference.named_weights(layer.reconstructor),
            inputs["sequence_output"],
            inputs,
            num_layers=1,
            epsilon=1e-3,
            approximate_gelu=True,
        ),
        float32_output=True,
        is_sum=True,
        make_inputs=_unshuffling_inputs,
    ),
]
COMPILED = [case for case in CASES if not case.compiled_within]
