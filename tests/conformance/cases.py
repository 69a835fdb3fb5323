"""The one list of public layers, models and objectives, and how to try each.

A new public class gets its case here; `test_conformance.py` fails without it.
"""

# Shape key: B batch, L sequence length, D hidden size.

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from seg_tf.layers.alpha_transformer_layer import AlphaTransformerLayer
from seg_tf.layers.index_embedding import IndexEmbedding
from seg_tf.layers.sentence_transformer_layer import SentenceTransformerLayer
from seg_tf.layers.sequence_reconstructor import SequenceReconstructor
from seg_tf.models.encoder import Encoder
from seg_tf.models.reat import ReAT
from seg_tf.objectives.exchange_sentence import ExchangeSentence
from seg_tf.objectives.masked_lm import MaskedLM
from seg_tf.objectives.sentence_unshuffling import SentenceUnshuffling
from seg_tf.ops.gathering import gather_vectors
from tests import candidate_batches, numpy_reat, numpy_reference, text_batches


@dataclasses.dataclass(frozen=True)
class Case:
    """One public class and what its properties are tried with.

    Attributes:
        cls: the class.
        arguments: arguments of its constructor, none of them a default.
        specs: `{name: (shape without batch, dtype)}` of its inputs.
        limits: exclusive upper bound of each integer input.
        apply: calls the layer on a dict of inputs.
        reference: the same in NumPy, from the layer and the inputs.
        golden: what `reference` says for `inputs(batch=2, length=3)`, 5 digits.
        float32_output: whether the output is float32 whatever the policy.
        is_sum: whether the outputs are sums over the rows of a batch.
        make_inputs: makes the inputs from batch and length, where they hang on one
            another; None fills every shape for itself.
        variant: what tells it from another case of the same class.
    """

    cls: type
    arguments: Mapping[str, Any]
    specs: Mapping[str, tuple[tuple[int | None, ...], str]]
    limits: Mapping[str, int]
    apply: Callable[[Any, Mapping[str, Any]], Any]
    reference: Callable[[Any, Mapping[str, np.ndarray]], Any]
    golden: Any
    float32_output: bool = False
    is_sum: bool = False
    make_inputs: Callable[[int, int], dict[str, np.ndarray]] | None = None
    variant: str = ""

    @property
    def name(self) -> str:
        return self.cls.__name__ + (f"-{self.variant}" if self.variant else "")

    def make_arguments(self, dtype: str | None = None) -> dict[str, Any]:
        """The constructor's arguments; those given as functions of a dtype are made."""
        return {
            name: value(dtype) if callable(value) else value
            for name, value in self.arguments.items()
        }

    def build(self, dtype: str | None = None) -> keras.layers.Layer:
        """A built layer whose weights are the same numbers every time."""
        layer = self.cls(**self.make_arguments(dtype), dtype=dtype)
        self.apply(layer, self.inputs(batch=1))
        set_fixed_weights(layer)
        return layer

    def inputs(self, batch: int, length: int = 5) -> dict[str, np.ndarray]:
        """Inputs that depend on nothing but their shape."""
        if self.make_inputs:
            made = self.make_inputs(batch, length)
            return {name: made[name] for name in self.specs}
        values = {}
        for number, (name, (shape, dtype)) in enumerate(self.specs.items()):
            full = (batch, *(length if size is None else size for size in shape))
            count = np.arange(np.prod(full)).reshape(full)
            if dtype == "float32":
                values[name] = waves(full, number)
            else:
                limit = self.limits.get(name, 2)
                values[name] = ((7 * count + number) % limit).astype(dtype)
        if "padding_mask" in values:
            values["padding_mask"][:, 0] = True
        return values

    def model(self, layer: keras.layers.Layer) -> keras.Model:
        """A Keras model of nothing but the layer, its outputs a flat list."""
        inputs = {
            name: keras.Input(shape, dtype=dtype, name=name)
            for name, (shape, dtype) in self.specs.items()
        }
        return keras.Model(inputs, keras.tree.flatten(self.apply(layer, inputs)))


def waves(shape: tuple[int, ...], number: int) -> np.ndarray:
    """Float values of input number `number`."""
    count = np.arange(np.prod(shape)).reshape(shape)
    return np.abs(np.cos(count + number)).astype("float32")


def set_fixed_weights(layer: keras.layers.Layer) -> None:
    """Sets weight number n, in the order of their paths, to waves around its start."""
    weights = {weight.path: weight for weight in layer.trainable_weights}
    for number, path in enumerate(sorted(weights)):
        offset = 1.0 if path.endswith("gamma") else 0.0
        count = np.arange(np.prod(weights[path].shape)).reshape(weights[path].shape)
        weights[path].assign(offset + 0.5 * np.sin(1.7 * count + number))


ENCODER_ARGUMENTS = {
    "vocab_size": 13,
    "index_tables": {"sentence_index": 3, "token_index": 6},
    "num_layers": 1,
    "hidden_size": 4,
    "num_heads": 2,
    "intermediate_size": 6,
    "dropout": 0.25,
    "layer_norm_epsilon": 1e-3,
    "initializer_range": 0.3,
    "approximate_gelu": True,
    "num_token_types": 2,
}


def _reference_encoder(layer, inputs):
    return numpy_reference.encoder(
        numpy_reference.named_weights(layer),
        inputs,
        num_layers=1,
        epsilon=1e-3,
        approximate_gelu=True,
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
    """What the logits say, 0 at steps that a row does not have."""
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


BLOCK_LENGTH = 10
SENTENCE_LAYER_ARGUMENTS = {
    "intermediate_size": 6,
    "num_heads": 2,
    "block_length": BLOCK_LENGTH,
    "dropout": 0.25,
    "layer_norm_epsilon": 1e-3,
    "initializer_range": 0.3,
    "approximate_gelu": True,
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
    "layer_norm_epsilon": 1e-3,
    "initializer_range": 0.3,
    "approximate_gelu": True,
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
                "pair_accuracy": (1.0, 3.0),
            },
        ),
        float32_output=True,
        is_sum=True,
        make_inputs=_exchange_inputs,
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
        arguments={**ENCODER_ARGUMENTS, "packed_windows": True},
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
        cls=MaskedLM,
        arguments={
            "encoder": lambda dtype: Encoder(**ENCODER_ARGUMENTS, dtype=dtype),
            "loss_weight": 0.25,
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
                "position_accuracy": (1.0, 3.0),
                "position_chance": (1.0, 3.0),
                "perfect_match": (0.0, 1.0),
                "perfect_match_chance": (0.16667, 1.0),
                "kendall_tau": (0.33333, 1.0),
            },
        ),
        float32_output=True,
        is_sum=True,
        make_inputs=_unshuffling_inputs,
    ),
]
