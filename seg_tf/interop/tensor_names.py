"""Names and forms of BERT's tensors, one table for each program.

Weights have the paths of our encoder's variables. `TensorNames` maps them to another
program's tensors, for reading and for writing.
"""

# Shape key: V vocabulary, R rows of a table, D hidden size, H heads, K size of a head,
# I intermediate size.

import dataclasses
import math
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from seg_tf.features import INDEX_FEATURES

Shape = tuple[int | None, ...]

HEAD, POOLER = "head", "pooler"
WORDS, OUTPUT_BIAS = "token_embedding/embeddings", f"{HEAD}/output_bias"
SEGABERT_TABLES = ("paragraph_index", "sentence_index", "token_index")


def table(feature: str) -> str:
    """Weight of an index feature's table, or of the table of token types."""
    return f"index_embedding/{feature}"


POSITIONS, TOKEN_TYPES = table("position_index"), table("token_type")
EMBEDDINGS_NORM = "embeddings_layer_norm"
LAYER = "transformer_layer_{n}"
_QUERY, _KEY, _VALUE, _CONTEXT = (
    f"{LAYER}/self_attention_layer/{name}"
    for name in ("query", "key", "value", "attention_output")
)
_ATTENTION_NORM = f"{LAYER}/self_attention_layer_norm"
_INNER, _OUTPUT = (f"{LAYER}/feedforward_{n}_dense" for n in ("intermediate", "output"))
_OUTPUT_NORM = f"{LAYER}/feedforward_layer_norm"
_HEAD_DENSE, _HEAD_NORM = (
    f"{HEAD}/intermediate_dense",
    f"{HEAD}/intermediate_layer_norm",
)


def weight_shapes(model: Any, tables: Collection[str]) -> dict[str, Shape]:
    """Shape of every weight; None is any number of rows.

    Args:
        model: an encoder, or its config.
        tables: features that have a table, `token_type` included.
    """
    width, inner = (model.hidden_size,), (model.intermediate_size,)
    heads = (model.num_heads, model.hidden_size // model.num_heads)
    # Inputs and outputs of a dense layer; None for a normalization.
    modules: dict[str, Any] = {
        **dict.fromkeys((POOLER, _HEAD_DENSE), (width, width)),
        **dict.fromkeys((EMBEDDINGS_NORM, _HEAD_NORM)),
        **dict.fromkeys((_QUERY, _KEY, _VALUE), (width, heads)),
        **{_CONTEXT: (heads, width), _ATTENTION_NORM: None},
        **{_INNER: (width, inner), _OUTPUT: (inner, width), _OUTPUT_NORM: None},
    }
    shapes: dict[str, Shape] = {OUTPUT_BIAS: (None,)}
    shapes |= dict.fromkeys((WORDS, *map(table, tables)), (None, *width))
    for module, sizes in modules.items():
        for number in range(model.num_layers if LAYER in module else 1):
            name = module.format(n=number)
            if sizes is None:
                shapes |= {f"{name}/gamma": width, f"{name}/beta": width}
            else:
                shapes |= {f"{name}/kernel": sum(sizes, ()), f"{name}/bias": sizes[1]}
    return shapes


@dataclasses.dataclass(frozen=True, kw_only=True)
class TensorNames:
    """Names and forms of the tensors in which a program stores our weights.

    Attributes:
        names: our weight or module -> theirs. `{n}` is the number of a layer; a number
            after `#` selects one of three weights that are stored below each other.
        kinds: our kind of weight -> the end of their name.
        kernels: "heads" for `(D, H, K)` and `(H, K, D)`, as in Keras; "matrix" for
            `(inputs, outputs)`; "transposed" for `(outputs, inputs)`.
        prefix: start of all names outside the masked-LM head.
        aliases: our weight -> further full names of its tensor. Programs tie the output
            table of masked LM to the token table and store either or both.
    """

    names: Mapping[str, str]
    kinds: Mapping[str, str]
    kernels: str
    prefix: str = ""
    aliases: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)

    def find(self, weight: str) -> tuple[str, int | None] | None:
        """Name of a tensor, and which third of it; None if the program has none."""
        number = re.match(r"transformer_layer_(\d+)", weight)
        key = LAYER + weight[number.end() :] if number else weight
        module, _, kind = key.rpartition("/")
        if key in self.names:
            name, end = self.names[key], ""
        elif module in self.names:
            name, end = self.names[module], self.kinds[kind]
        else:
            return None
        name, _, third = name.format(n=number and number[1]).partition("#")
        prefix = "" if weight.startswith(f"{HEAD}/") else self.prefix
        return f"{prefix}{name}{end}", int(third) if third else None

    def name(self, weight: str) -> str:
        """Name of the tensor that holds a weight."""
        place = self.find(weight)
        assert place is not None, weight
        return place[0]

    def layer_numbers(self, names: Iterable[str]) -> dict[str, int]:
        """Layer of each tensor in a layer."""
        start, end = self.names[_QUERY].split("{n}")
        # At most six digits, or a name could make a number of thousands.
        pattern = rf"{re.escape(self.prefix + start)}(\d{{1,6}}){re.escape(end[0])}"
        matches = [match for match in map(re.compile(pattern).match, names) if match]
        return {match.string: int(match[1]) for match in matches}

    def stored_shape(self, weight: str, shape: Shape) -> Shape:
        """Shape of the tensor that holds a weight of shape `shape`."""
        place, stored = self.find(weight), self._flat(weight, shape)
        if self._is_transposed(weight):
            stored = stored[::-1]
        if place and place[1] is not None:
            stored = (3 * stored[0], *stored[1:])
        return stored

    def to_ours(self, weight: str, stored: np.ndarray, shape: Shape) -> np.ndarray:
        """Weight of shape `shape` in a tensor of its `stored_shape`."""
        _, third = self.find(weight) or ("", None)
        if third is not None:
            stored = np.split(stored, 3)[third]
        if self._is_transposed(weight):
            stored = stored.T
        return stored.reshape([-1 if size is None else size for size in shape])

    def to_theirs(self, weight: str, value: np.ndarray) -> np.ndarray:
        """Tensor of a weight that is stored separately."""
        stored = value.reshape(self._flat(weight, value.shape))
        return stored.T if self._is_transposed(weight) else stored

    def _is_transposed(self, weight: str) -> bool:
        return self.kernels == "transposed" and weight.endswith("/kernel")

    def _flat(self, weight: str, shape: Shape) -> Any:
        """Shape with all heads in one dimension, where the program stores them so."""
        if self.kernels == "heads" or None in shape:
            return shape
        if weight.endswith("/bias"):
            return (math.prod(shape),)
        if not weight.endswith("/kernel"):
            return shape
        num_inputs = len(shape) - 1 if "attention_output" in weight else 1
        return math.prod(shape[:num_inputs]), math.prod(shape[num_inputs:])


_SLASHES = {kind: f"/{kind}" for kind in ("kernel", "bias", "gamma", "beta")}

# TF 1 checkpoints of BERT's authors (`bert_model.ckpt`).
GOOGLE = TensorNames(
    names={
        WORDS: "bert/embeddings/word_embeddings",
        POSITIONS: "bert/embeddings/position_embeddings",
        TOKEN_TYPES: "bert/embeddings/token_type_embeddings",
        EMBEDDINGS_NORM: "bert/embeddings/LayerNorm",
        POOLER: "bert/pooler/dense",
        OUTPUT_BIAS: "cls/predictions/output_bias",
        _HEAD_DENSE: "cls/predictions/transform/dense",
        _HEAD_NORM: "cls/predictions/transform/LayerNorm",
        _QUERY: "bert/encoder/layer_{n}/attention/self/query",
        _KEY: "bert/encoder/layer_{n}/attention/self/key",
        _VALUE: "bert/encoder/layer_{n}/attention/self/value",
        _CONTEXT: "bert/encoder/layer_{n}/attention/output/dense",
        _ATTENTION_NORM: "bert/encoder/layer_{n}/attention/output/LayerNorm",
        _INNER: "bert/encoder/layer_{n}/intermediate/dense",
        _OUTPUT: "bert/encoder/layer_{n}/output/dense",
        _OUTPUT_NORM: "bert/encoder/layer_{n}/output/LayerNorm",
    },
    kinds=_SLASHES,
    kernels="matrix",
)

OURS = TensorNames(
    names={name: name for name in (*GOOGLE.names, *map(table, INDEX_FEATURES))},
    kinds=_SLASHES,
    kernels="heads",
)

HUGGING_FACE = TensorNames(
    names={
        **{
            weight: re.sub("/", ".", name.removeprefix("bert/").replace("r_{", "r.{"))
            for weight, name in GOOGLE.names.items()
        },
        WORDS: "embeddings.word_embeddings.weight",
        POSITIONS: "embeddings.position_embeddings.weight",
        TOKEN_TYPES: "embeddings.token_type_embeddings.weight",
        OUTPUT_BIAS: "cls.predictions.bias",
        # Names of SegaBERT's authors.
        table("paragraph_index"): "embeddings.para_position_embeddings.weight",
        table("sentence_index"): "embeddings.sent_position_embeddings.weight",
        table("token_index"): "embeddings.token_position_embeddings.weight",
    },
    kinds={"kernel": ".weight", "bias": ".bias", "gamma": ".weight", "beta": ".bias"},
    kernels="transposed",
    prefix="bert.",
    aliases={
        WORDS: ("cls.predictions.decoder.weight", "cls.predictions.decoder_weight"),
        OUTPUT_BIAS: ("cls.predictions.decoder.bias",),
    },
)
# SegaBERT's authors built on Megatron-LM, which packs query, key and value.
_PACKED = "encoder.layer.{n}.attention.self.query_key_value"
SEGABERT = dataclasses.replace(
    HUGGING_FACE,
    names={
        **HUGGING_FACE.names,
        **{name: f"{_PACKED}#{n}" for n, name in enumerate((_QUERY, _KEY, _VALUE))},
    },
)

# keras-hub's `BertBackbone`, by the paths of its variables.
KERAS_HUB = dataclasses.replace(
    OURS,
    names={
        **{name: name for name in (WORDS, EMBEDDINGS_NORM)},
        **{name: name for name in GOOGLE.names if LAYER in name},
        POSITIONS: "position_embedding/embeddings",
        TOKEN_TYPES: "segment_embedding/embeddings",
        POOLER: "pooled_dense",
    },
)


def shape_text(shape: Shape) -> str:
    """A shape for messages: `(any, 768)`."""
    return f"({', '.join('any' if size is None else str(size) for size in shape)})"
