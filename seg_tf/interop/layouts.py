"""Names and forms of BERT's tensors in other programs, as one table for each program.

Weights are named by the paths of our encoder's variables. `TensorNames` maps them to
the tensors of a program, for reading and for writing.
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

WORDS, OUTPUT_BIAS = "token_embedding/embeddings", "head/output_bias"
HEAD, POOLER = "head", "pooler"
SEGABERT_TABLES = ("paragraph_index", "sentence_index", "token_index")


def table(feature: str) -> str:
    """The table of an index feature, or of `token_type`."""
    return f"index_embedding/{feature}"


POSITIONS, TOKEN_TYPES = table("position_index"), table("token_type")
_QUERY, _KEY, _VALUE, _ATTENTION_OUTPUT = (
    f"self_attention_layer/{name}"
    for name in ("query", "key", "value", "attention_output")
)
_ATTENTION_NORM, _OUTPUT_NORM = "self_attention_layer_norm", "feedforward_layer_norm"
_INNER, _OUTPUT = "feedforward_intermediate_dense", "feedforward_output_dense"
_OURS_IN_LAYER = {
    name: name
    for name in (
        *(_QUERY, _KEY, _VALUE, _ATTENTION_OUTPUT, _ATTENTION_NORM),
        *(_INNER, _OUTPUT, _OUTPUT_NORM),
    )
}
_LAYER = re.compile(r"transformer_layer_(\d+)/(.*)")
_HEAD_DENSE, _HEAD_NORM = "head/intermediate_dense", "head/intermediate_layer_norm"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes that the shapes of all weights follow from, but for rows of tables."""

    num_layers: int
    hidden_size: int
    num_heads: int
    intermediate_size: int

    @classmethod
    def of(cls, model: Any) -> "Sizes":
        """Sizes of an encoder, or of the config of one."""
        fields = dataclasses.fields(cls)
        return cls(**{field.name: getattr(model, field.name) for field in fields})


def weight_shapes(sizes: Sizes, tables: Collection[str]) -> dict[str, Shape]:
    """Shape of every weight of a model; None stands for any number of rows.

    Args:
        sizes: the model's.
        tables: features that have a table, `token_type` included.
    """
    width, inner = (sizes.hidden_size,), (sizes.intermediate_size,)
    heads = (sizes.num_heads, sizes.hidden_size // sizes.num_heads)
    dense = {POOLER: (width, width), _HEAD_DENSE: (width, width)}
    norms = ["embeddings_layer_norm", _HEAD_NORM]
    for layer in range(sizes.num_layers):
        at = f"transformer_layer_{layer}"
        for name in (_QUERY, _KEY, _VALUE):
            dense[f"{at}/{name}"] = width, heads
        dense[f"{at}/{_ATTENTION_OUTPUT}"] = heads, width
        dense[f"{at}/{_INNER}"] = width, inner
        dense[f"{at}/{_OUTPUT}"] = inner, width
        norms += [f"{at}/{_ATTENTION_NORM}", f"{at}/{_OUTPUT_NORM}"]
    shapes: dict[str, Shape] = {OUTPUT_BIAS: (None,)}
    shapes |= dict.fromkeys((WORDS, *map(table, tables)), (None, *width))
    for name in norms:
        shapes |= {f"{name}/gamma": width, f"{name}/beta": width}
    for name, (inputs, outputs) in dense.items():
        shapes |= {f"{name}/kernel": inputs + outputs, f"{name}/bias": outputs}
    return shapes


@dataclasses.dataclass(frozen=True, kw_only=True)
class TensorNames:
    """Names and forms of the tensors in which a program stores our weights.

    Attributes:
        names: our weight, or our module, to theirs.
        layer: the start of the names in layer `{n}`.
        in_layer: as `names`, for what is in a layer. A number after `#` selects one of
            three weights that are stored below each other.
        kinds: our kind of weight to the end of their name.
        kernels: "heads" for `(D, H, K)` and `(H, K, D)`, as Keras has them; "matrix"
            for `(inputs, outputs)`; "transposed" for `(outputs, inputs)`.
        prefix: the start of all names but those of the masked-LM head.
        aliases: our weight to further names of its tensor, prefixes included. Programs
            tie the output table of masked LM to the token table and store either or
            both.
    """

    names: Mapping[str, str]
    layer: str
    in_layer: Mapping[str, str]
    kinds: Mapping[str, str]
    kernels: str
    prefix: str = ""
    aliases: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)

    def find(self, weight: str) -> tuple[str, int | None] | None:
        """The name of a tensor, and which third of it; None if there is no place."""
        names, start, rest = self.names, "", weight
        if match := _LAYER.fullmatch(weight):
            names, start, rest = self.in_layer, self.layer.format(n=match[1]), match[2]
        module, _, kind = rest.rpartition("/")
        name, end = names.get(rest), ""
        if name is None and module in names:
            name, end = names[module], self.kinds[kind]
        if name is None:
            return None
        name, _, third = name.partition("#")
        prefix = "" if weight.startswith("head/") else self.prefix
        return f"{prefix}{start}{name}{end}", int(third) if third else None

    def name(self, weight: str) -> str:
        """The name of the tensor that holds a weight."""
        found = self.find(weight)
        assert found is not None, weight
        return found[0]

    def layer_numbers(self, names: Iterable[str]) -> dict[str, int]:
        """The layer of each tensor that is named as one in a layer."""
        start, end = self.layer.split("{n}")
        # At most six digits, so that no name makes a number of thousands of them.
        pattern = rf"{re.escape(self.prefix + start)}(\d{{1,6}}){re.escape(end)}"
        matches = [match for match in map(re.compile(pattern).match, names) if match]
        return {match.string: int(match[1]) for match in matches}

    def stored_shape(self, weight: str, shape: Shape) -> Shape:
        """Shape of the tensor that holds a weight of shape `shape`."""
        found = self.find(weight)
        stored = self._flat(weight, shape)
        if self._is_transposed(weight):
            stored = stored[::-1]
        if found and found[1] is not None:
            stored = (3 * (stored[0] or 0), *stored[1:])
        return stored

    def to_ours(self, weight: str, stored: np.ndarray, shape: Shape) -> np.ndarray:
        """The weight of shape `shape` in a tensor of its `stored_shape`."""
        _, third = self.find(weight) or ("", None)
        if third is not None:
            stored = np.split(stored, 3)[third]
        if self._is_transposed(weight):
            stored = stored.T
        return stored.reshape([-1 if size is None else size for size in shape])

    def to_theirs(self, weight: str, value: np.ndarray) -> np.ndarray:
        """The tensor that holds a weight; not for packed ones."""
        stored = value.reshape(self._flat(weight, value.shape))
        return stored.T if self._is_transposed(weight) else stored

    def _is_transposed(self, weight: str) -> bool:
        return self.kernels == "transposed" and weight.endswith("/kernel")

    def _flat(self, weight: str, shape: Shape) -> Any:
        """The shape with all heads side by side, where the program has them so."""
        if self.kernels == "heads" or None in shape:
            return shape
        if weight.endswith("/bias"):
            return (math.prod(shape),)
        if not weight.endswith("/kernel"):
            return shape
        num_inputs = len(shape) - 1 if _ATTENTION_OUTPUT in weight else 1
        return math.prod(shape[:num_inputs]), math.prod(shape[num_inputs:])


_SLASHES = {kind: f"/{kind}" for kind in ("kernel", "bias", "gamma", "beta")}

OURS = TensorNames(
    names={
        name: name
        for name in (
            *(WORDS, OUTPUT_BIAS, "embeddings_layer_norm", POOLER),
            *(_HEAD_DENSE, _HEAD_NORM),
            *map(table, (*INDEX_FEATURES, "token_type")),
        )
    },
    layer="transformer_layer_{n}/",
    in_layer=_OURS_IN_LAYER,
    kinds=_SLASHES,
    kernels="heads",
)

# TF 1 checkpoints of BERT's authors (`bert_model.ckpt`).
GOOGLE = TensorNames(
    names={
        WORDS: "bert/embeddings/word_embeddings",
        POSITIONS: "bert/embeddings/position_embeddings",
        TOKEN_TYPES: "bert/embeddings/token_type_embeddings",
        "embeddings_layer_norm": "bert/embeddings/LayerNorm",
        POOLER: "bert/pooler/dense",
        OUTPUT_BIAS: "cls/predictions/output_bias",
        _HEAD_DENSE: "cls/predictions/transform/dense",
        _HEAD_NORM: "cls/predictions/transform/LayerNorm",
    },
    layer="bert/encoder/layer_{n}/",
    in_layer={
        _QUERY: "attention/self/query",
        _KEY: "attention/self/key",
        _VALUE: "attention/self/value",
        _ATTENTION_OUTPUT: "attention/output/dense",
        _ATTENTION_NORM: "attention/output/LayerNorm",
        _INNER: "intermediate/dense",
        _OUTPUT: "output/dense",
        _OUTPUT_NORM: "output/LayerNorm",
    },
    kinds=_SLASHES,
    kernels="matrix",
)

HUGGING_FACE = TensorNames(
    names={
        WORDS: "embeddings.word_embeddings.weight",
        POSITIONS: "embeddings.position_embeddings.weight",
        TOKEN_TYPES: "embeddings.token_type_embeddings.weight",
        # The names of SegaBERT's authors.
        table("paragraph_index"): "embeddings.para_position_embeddings.weight",
        table("sentence_index"): "embeddings.sent_position_embeddings.weight",
        table("token_index"): "embeddings.token_position_embeddings.weight",
        "embeddings_layer_norm": "embeddings.LayerNorm",
        POOLER: "pooler.dense",
        OUTPUT_BIAS: "cls.predictions.bias",
        _HEAD_DENSE: "cls.predictions.transform.dense",
        _HEAD_NORM: "cls.predictions.transform.LayerNorm",
    },
    layer="encoder.layer.{n}.",
    in_layer={
        _QUERY: "attention.self.query",
        _KEY: "attention.self.key",
        _VALUE: "attention.self.value",
        _ATTENTION_OUTPUT: "attention.output.dense",
        _ATTENTION_NORM: "attention.output.LayerNorm",
        _INNER: "intermediate.dense",
        _OUTPUT: "output.dense",
        _OUTPUT_NORM: "output.LayerNorm",
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
_PACKED = "attention.self.query_key_value"
SEGABERT = dataclasses.replace(
    HUGGING_FACE,
    in_layer={
        **HUGGING_FACE.in_layer,
        **{name: f"{_PACKED}#{n}" for n, name in enumerate((_QUERY, _KEY, _VALUE))},
    },
)

# keras-hub's `BertBackbone`, by the paths of its variables.
KERAS_HUB = TensorNames(
    names={
        WORDS: WORDS,
        POSITIONS: "position_embedding/embeddings",
        TOKEN_TYPES: "segment_embedding/embeddings",
        "embeddings_layer_norm": "embeddings_layer_norm",
        POOLER: "pooled_dense",
    },
    layer="transformer_layer_{n}/",
    in_layer=_OURS_IN_LAYER,
    kinds=_SLASHES,
    kernels="heads",
)


def shape_text(shape: Shape) -> str:
    """A shape as messages show it: `(any, 768)`."""
    return f"({', '.join('any' if size is None else str(size) for size in shape)})"
