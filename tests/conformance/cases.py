"""The one list of public layers, models and objectives, and how to try each.

A new public class gets its case here; `test_conformance.py` fails without it.
"""

# Shape key: B batch, L sequence length, D hidden size.

import keras
import numpy as np
from keras import ops

from seg_tf.layers.adaptive_embedding import AdaptiveEmbedding
from seg_tf.layers.adaptive_softmax import AdaptiveSoftmax
from seg_tf.layers.dropout import Dropout
from seg_tf.layers.index_embedding import IndexEmbedding
from seg_tf.layers.modern_transformer_layer import ModernTransformerLayer
from seg_tf.layers.multi_head_attention import MultiHeadAttention
from seg_tf.layers.sequence_reconstructor import SequenceReconstructor
from seg_tf.layers.transformer_encoder import TransformerEncoder
from seg_tf.models.encoder import Encoder
from seg_tf.objectives.causal_lm import CausalLM
from seg_tf.objectives.masked_lm import MaskedLM
from seg_tf.objectives.sentence_unshuffling import SentenceUnshuffling
from seg_tf.ops.rotary import rotations
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
        golden=[
            [[1.0, 0.5403], [0.41615, 0.98999], [0.65364, 0.28366]],
            [[0.96017, 0.7539], [0.1455, 0.91113], [0.83907, 0.00443]],
        ],
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
        golden=[
            [
                [-0.10484, 0.14669, 0.06704, -0.16397],
                [-0.28419, 0.16559, 0.24152, -0.22783],
                [0.18406, -0.10725, -0.15643, 0.14756],
            ],
            [
                [-0.19128, -0.39179, 0.29224, 0.31649],
                [0.06043, 0.05826, -0.07544, -0.03882],
                [-0.31531, 0.18373, 0.26797, -0.25278],
            ],
        ],
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
        golden=[[0.55999, 2.97934, 2.55561], [0.9474, 1.80278, 1.36755]],
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
        golden=[
            [
                [0.49927, 0.45826, -0.61736, -0.29917],
                [0.52571, -0.04835, -0.51325, 0.18061],
                [0.85032, 0.41206, -0.9565, -0.16558],
            ],
            [
                [0.4474, 0.21681, -0.50326, -0.08712],
                [0.28419, -0.1, -0.25842, 0.1666],
                [0.92885, 0.16079, -0.97029, 0.08924],
            ],
        ],
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
        golden=[
            [
                [0.02758, 0.73795, -0.21774, -0.68184],
                [0.08279, 0.93152, -0.32283, -0.84833],
                [0.04399, 0.79559, -0.24901, -0.73143],
            ],
            [
                [0.02431, 0.69178, -0.20257, -0.63958],
                [-0.03736, 0.46002, -0.08118, -0.4391],
                [0.02412, 0.70905, -0.20684, -0.65575],
            ],
        ],
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
        golden=[
            [
                [1.78406, 0.0534, -1.78081, -0.46818],
                [0.29655, -0.39044, 1.28924, -1.39466],
                [0.09737, 0.26921, 0.40188, -1.83219],
            ],
            [
                [1.37196, 0.28208, -1.72055, -0.66022],
                [2.15787, -0.23519, -1.02198, -1.19445],
                [-0.18255, 0.09976, 0.86033, -1.58402],
            ],
        ],
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
        golden=[
            [
                [1.54794, -0.06065, -0.25271, 1.65183],
                [0.69942, -1.06521, 1.24927, 1.21172],
                [-1.55005, 1.34737, 1.47439, -1.71851],
            ],
            [
                [0.80146, 1.46598, -0.92247, 0.4923],
                [1.39792, -1.01887, 0.54475, 1.79404],
                [0.09737, -0.22201, 1.22086, 0.5356],
            ],
        ],
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
        golden=[
            [
                [-1.56833, -1.44318, 0.39063, 0.79717],
                [0.41359, -2.02543, 0.01569, 0.9656],
                [0.07979, -2.04689, 0.11221, 0.95564],
            ],
            [
                [0.4655, -2.01632, 9e-05, 0.96701],
                [-0.14955, -2.02803, 0.17082, 0.94823],
                [0.0557, -2.04624, 0.11878, 0.95471],
            ],
        ],
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
        golden=[
            [
                [-1.52498, 0.18231, 0.35503, 0.5189],
                [-0.1491, -0.72145, -0.37247, 2.59556],
                [-1.10573, 0.46921, 0.22409, -0.61304],
            ],
            [
                [-0.11966, -0.70691, -0.44833, 2.64121],
                [-0.99406, -0.46826, 0.03449, 2.253],
                [-0.89683, -0.50868, -0.01744, 2.33318],
            ],
        ],
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
        golden=[
            [
                [-1.34426, 0.36221, 0.30307, -0.13801],
                [-0.17316, -0.70452, -0.40003, 2.6219],
                [-1.17775, -0.37319, 0.11679, 2.07354],
            ],
            [
                [0.24335, -0.76578, -0.60052, 2.60789],
                [-1.49259, -0.11057, 0.28503, 1.435],
                [-1.22078, -0.34767, 0.13866, 2.01793],
            ],
        ],
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
        golden=[
            [
                [-1.37812, 0.34385, 0.3069, -0.04939],
                [-0.84688, -0.52973, -0.03598, 2.36189],
                [-1.23383, -0.34257, 0.16212, 1.98113],
            ],
            [
                [-0.11795, -0.70742, -0.44854, 2.64088],
                [-1.50802, -0.08642, 0.30099, 1.35867],
                [-1.43673, -0.17918, 0.26091, 1.6022],
            ],
        ],
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
        golden=((10.27767, 2.88747), {"accuracy": (0.28366, 2.88747)}),
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
        golden=((7.32251, 2.88747), {"accuracy": (0.65364, 2.88747)}),
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
        golden=((9.44084, 4.0), {}),
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
        golden=[
            [
                [0.40493, 0.01134, 0.00178, 0.4332, 0.14874],
                [0.40553, 0.0485, 0.00625, 0.22115, 0.31857],
                [0.28289, 0.00569, 0.00329, 0.64165, 0.06648],
                [0.19037, 0.00445, 0.01043, 0.75814, 0.03661],
            ],
            [
                [0.03498, 0.4957, 0.44208, 0.02725, 0.0],
                [0.00302, 0.02595, 0.94821, 0.02282, 0.0],
                [0.0037, 0.06868, 0.91967, 0.00794, 0.0],
                [0.0, 0.0, 0.0, 0.0, 0.0],
            ],
        ],
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
        golden=(
            (12.93805, 2.0),
            {
                "pointer_accuracy": (1.0, 3.0),
                "pointer_chance": (1.83333, 3.0),
                "pointer_longest_first": (1.0, 3.0),
                "position_accuracy": (1.0, 3.0),
                "position_chance": (1.0, 3.0),
                "position_longest_first": (1.0, 3.0),
                "perfect_match": (0.0, 1.0),
                "perfect_match_chance": (0.16667, 1.0),
                "perfect_match_longest_first": (0.0, 1.0),
                "kendall_tau": (0.33333, 1.0),
                "kendall_tau_longest_first": (-1.0, 1.0),
                "kendall_tau_in_paragraphs": (1.0, 1.0),
                "kendall_tau_in_paragraphs_longest_first": (-1.0, 1.0),
            },
        ),
        float32_output=True,
        is_sum=True,
        make_inputs=_unshuffling_inputs,
    ),
]
COMPILED = [case for case in CASES if not case.compiled_within]
