"""Converts other libraries' tensors to our weights, named by path, and back."""

import dataclasses
import math
import pathlib
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from seg_tf import files
from seg_tf.checkpoints import weight_files
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.checkpoints.weight_files import DamagedCheckpointError
from seg_tf.config import EncoderConfig
from seg_tf.objectives.masked_lm import MaskedLM

HEAD, POOLER = "head/", "pooler/"
WORDS, OUTPUT_BIAS = "token_embedding/embeddings", "head/output_bias"
TABLES = "index_embedding/"
TOKEN_TYPES = f"{TABLES}token_type"
SEGABERT_TABLES = ("paragraph_index", "sentence_index", "token_index")
# Upper bound on the padding rows after a token table's last token.
MAX_PADDING = 1024
POOLER_FILE = "pooler.npz"
# Parts of the names of tensors that an encoder's output does not depend on: counters,
# heads and optimizer state.
_HARMLESS = re.compile(
    r"(^|[./])(position_ids|token_type_ids|cls|head|seq_relationship|next_sentence"
    r"|sentence_prediction|classifier|qa_outputs|pooler|pooler_transform|pooled_dense"
    r"|optimizer|adam\w*|lamb\w*|beta_?[12]_power|learning_rate|iter|iterations"
    r"|global_step|save_counter)([./]|$)",
    re.IGNORECASE,
)


class ForeignWeightsError(ValueError):
    """Raised if weights are damaged, incomplete or from an unsupported model."""


# === Names and formats ===

# Replacements, in this order, from our paths to names in BERT's TF 1 checkpoints.
_RENAMED = {
    "transformer_layer_": "bert/encoder/layer_",
    "self_attention_layer_norm": "attention/output/LayerNorm",
    "self_attention_layer/attention_output": "attention/output/dense",
    "self_attention_layer": "attention/self",
    "feedforward_layer_norm": "output/LayerNorm",
    "feedforward_intermediate_dense": "intermediate/dense",
    "feedforward_output_dense": "output/dense",
    "embeddings_layer_norm": "bert/embeddings/LayerNorm",
    "token_embedding/embeddings": "bert/embeddings/word_embeddings",
    "index_embedding/position_index": "bert/embeddings/position_embeddings",
    "index_embedding/token_type": "bert/embeddings/token_type_embeddings",
    # From SegaBERT's authors.
    "index_embedding/paragraph_index": "bert/embeddings/para_position_embeddings",
    "index_embedding/sentence_index": "bert/embeddings/sent_position_embeddings",
    "index_embedding/token_index": "bert/embeddings/token_position_embeddings",
    "pooler/": "bert/pooler/dense/",
    "head/intermediate_dense": "cls/predictions/transform/dense",
    "head/intermediate_layer_norm": "cls/predictions/transform/LayerNorm",
    "head/output_bias": "cls/predictions/output_bias",
}


def _google_name(weight: str) -> str:
    for ours, theirs in _RENAMED.items():
        weight = weight.replace(ours, theirs)
    return weight


def _hugging_face_name(weight: str) -> str:
    name = _google_name(weight).replace("/layer_", "/layer.")
    name = re.sub("(?<=_embeddings)$|/kernel$|/gamma$", "/weight", name)
    return re.sub("/beta$|/output_bias$", "/bias", name).replace("/", ".")


def _keras_hub_name(weight: str) -> str:
    weight = weight.replace(f"{TABLES}position_index", "position_embedding/embeddings")
    weight = weight.replace(TOKEN_TYPES, "segment_embedding/embeddings")
    return weight.replace(POOLER, "pooled_dense/")


@dataclasses.dataclass(frozen=True)
class TensorNames:
    """Names and shapes of the tensors in which a library stores our weights.

    `kernels` is the layout of kernels: "heads" has separate axes for attention heads,
    as in Keras; "matrix" is `(inputs, outputs)`; "transposed" is `(outputs, inputs)`.
    """

    name: Callable[[str], str]  # our weight -> their name
    encoder: str = ""  # prefix of the encoder's names
    kernels: str = "heads"

    def is_of_encoder(self, name: str) -> bool:
        """Returns whether the library's encoder may use a tensor of that name."""
        return name.startswith(self.encoder) and not _HARMLESS.search(name)

    def stored_shape(self, weight: str, shape: Collection[Any]) -> tuple[Any, ...]:
        """Returns the stored shape of a weight of `shape`. None stands for any size."""
        shape = tuple(shape)
        if self.kernels == "heads" or None in shape:
            return shape
        if weight.endswith("/bias"):
            return (math.prod(shape),)
        if not weight.endswith("/kernel"):
            return shape
        num_inputs = len(shape) - 1 if "attention_output" in weight else 1
        matrix = math.prod(shape[:num_inputs]), math.prod(shape[num_inputs:])
        return matrix[::-1] if self._is_transposed(weight) else matrix

    def to_ours(self, weight: str, stored: np.ndarray, shape: Any) -> np.ndarray:
        stored = stored.T if self._is_transposed(weight) else stored
        sizes = [-1 if size is None else size for size in shape]
        return np.ascontiguousarray(stored.reshape(sizes), np.float32)

    def to_theirs(self, weight: str, value: np.ndarray) -> np.ndarray:
        shape = self.stored_shape(weight, value.shape)
        if self._is_transposed(weight):
            value = value.reshape(shape[::-1]).T
        return np.ascontiguousarray(value.reshape(shape))

    def _is_transposed(self, weight: str) -> bool:
        return self.kernels == "transposed" and weight.endswith("/kernel")


OURS = TensorNames(str)
GOOGLE = TensorNames(_google_name, "bert/", "matrix")
HUGGING_FACE = TensorNames(_hugging_face_name, "bert.", "transposed")
KERAS_HUB = TensorNames(_keras_hub_name)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ForeignModel:
    """The tensors, settings and vocabulary of a model to import.

    `normalization` has the `Normalization` settings that the model's files contain.
    Missing settings are derived from the vocabulary.
    """

    format: str  # a key of `seg_tf.interop.convert.FORMATS`
    source: str  # path in messages
    tensors: Mapping[str, np.ndarray]
    names: TensorNames
    model: EncoderConfig  # with the sizes of all tables
    vocabulary: pathlib.Path | tuple[str, ...] | None = None  # file or rows
    normalization: Mapping[str, bool | None] = dataclasses.field(default_factory=dict)
    # Name and checksum of the splitter, if known, and the content of its file.
    sentence_splitter: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    sentence_parameters: bytes | None = None
    # Weights of our other objectives, in the order of `objective_variables`.
    objectives: Mapping[str, list[np.ndarray]] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()  # for the report
    files: tuple[pathlib.Path, ...] = ()  # with the weights


# === Settings of other libraries ===

# `hidden_act` -> whether it is the tanh approximation of GELU. `gelu` is approximate in
# Google's code and exact in Hugging Face's.
_ACTIVATIONS = {
    "gelu": None,
    "gelu_new": True,
    "gelu_pytorch_tanh": True,
    "gelu_python": False,
}
_SIZES = {
    "num_hidden_layers": "num_layers",
    "hidden_size": "hidden_size",
    "num_attention_heads": "num_heads",
    "intermediate_size": "intermediate_size",
}


def read_settings(path: pathlib.Path, *, optional: bool = False) -> dict[str, Any]:
    """Reads a JSON object from a file. Returns {} if an `optional` file is missing."""
    if optional and not path.is_file():
        return {}
    values = files.read_json(path)
    if not isinstance(values, dict):
        raise ForeignWeightsError(
            f"{path}: must be a JSON object. Found: {values!r:.60}"
        )
    return values


def require(
    path: pathlib.Path, values: Mapping[str, Any], expected: Mapping[str, Any]
) -> None:
    """Raises `ForeignWeightsError` if a value is present but not as expected."""
    for name, value in expected.items():
        actual = values.get(name)
        if isinstance(actual, Mapping):  # a token with its options
            actual = actual.get("content", actual)
        if actual is not None and (type(actual) is not type(value) or actual != value):
            raise ForeignWeightsError(
                f"{path}: `{name}` must be {value!r}. Found: {actual!r:.60}"
            )


def read_model(
    path: pathlib.Path,
    tensors: Mapping[str, np.ndarray],
    names: TensorNames,
    tables: Collection[str],
    *,
    plain_gelu: bool,
) -> EncoderConfig:
    """Reads Google's or Hugging Face's config and checks it against the tensors.

    `tables` are the features that may have an embedding table. If `plain_gelu` is true,
    the activation `gelu` is the tanh approximation. Raises `ForeignWeightsError` if the
    config is incomplete or unsupported, or differs from the tensors.
    """
    values = read_settings(path)
    activation = values.get("hidden_act", "gelu")
    if activation not in [*_ACTIVATIONS]:
        raise ForeignWeightsError(
            f"{path}: `hidden_act` must be one of {', '.join(_ACTIVATIONS)}, which our "
            f"encoders can compute. Found: {activation!r}"
        )
    approximate = _ACTIVATIONS[activation]
    layers = 0
    layer = "transformer_layer_{}/"
    while names.name(f"{layer.format(layers)}feedforward_layer_norm/gamma") in tensors:
        layers += 1
    sizes = {"num_hidden_layers": layers}
    for key, weight in {
        "hidden_size": "embeddings_layer_norm/gamma",
        "intermediate_size": f"{layer.format(0)}feedforward_intermediate_dense/bias",
    }.items():
        if (tensor := tensors.get(names.name(weight))) is not None:
            sizes[key] = tensor.size
    require(path, values, sizes)
    rows = {
        table: len(tensors[name])
        for table in tables
        if (name := names.name(TABLES + table)) in tensors
    }
    dropout = values.get("hidden_dropout_prob", 0.1)
    attention = values.get("attention_probs_dropout_prob", dropout)
    try:
        return EncoderConfig(
            **{ours: values[theirs] for theirs, ours in _SIZES.items()},
            vocab_size=values.get("vocab_size"),
            num_token_types=rows.pop("token_type", 0),
            index_tables=rows,
            dropout=dropout,
            attention_dropout=None if attention == dropout else attention,
            layer_norm_epsilon=values.get("layer_norm_eps", 1e-12),
            initializer_range=values.get("initializer_range", 0.02),
            approximate_gelu=plain_gelu if approximate is None else approximate,
        )
    except KeyError as error:
        raise ForeignWeightsError(f"{path}: must have {error}. Found: none") from error
    except (TypeError, ValueError) as error:
        raise ForeignWeightsError(f"{path}: {error}") from error


# === Reading ===


def read(
    foreign: ForeignModel, variables: Mapping[str, Any], width: int
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Reads weights from `foreign`, whose pooler and masked-LM head may be missing.

    `variables` are from `named_variables`, and `width` is the hidden size. Returns two
    dicts by our weight names: float32 arrays, and names of source tensors. Raises
    `ForeignWeightsError` if a tensor is missing or has a wrong shape, type or value.
    """
    shapes = {
        name: tuple(variable.shape)
        for name, variable in variables.items()
        if not name.startswith(TABLES)
    }
    model = foreign.model
    features = [*model.index_tables, *["token_type"] * (model.num_token_types > 0)]
    tables = [WORDS, *(TABLES + name for name in features)]
    shapes |= dict.fromkeys(tables, (None, width))
    shapes |= {f"{POOLER}kernel": (width, width), f"{POOLER}bias": (width,)}
    if OUTPUT_BIAS in shapes:
        shapes[OUTPUT_BIAS] = (None,)
    sources = {weight: foreign.names.name(weight) for weight in shapes}
    for group in (POOLER, HEAD):
        members = [weight for weight in shapes if weight.startswith(group)]
        if not any(sources[weight] in foreign.tensors for weight in members):
            for weight in members:
                del shapes[weight], sources[weight]
    values = {}
    for weight, shape in shapes.items():
        name, expected = sources[weight], foreign.names.stored_shape(weight, shape)
        stored = foreign.tensors.get(name)
        if stored is None:
            raise ForeignWeightsError(
                f"{foreign.source}: the tensor {name!r} is missing"
            )
        if not tf.TensorShape(expected).is_compatible_with(stored.shape):
            raise ForeignWeightsError(
                f"{foreign.source}: the tensor {name!r} must have the shape "
                f"{expected}, where None is any size. Found: {stored.shape}"
            )
        if stored.dtype.kind != "f" or not np.isfinite(stored).all():
            raise ForeignWeightsError(
                f"{foreign.source}: the tensor {name!r} must have finite numbers of a "
                f"floating-point type. Found: {stored.dtype}, or NaN or infinity"
            )
        values[weight] = foreign.names.to_ours(weight, stored, shape)
    rows = len(values[WORDS])
    if OUTPUT_BIAS in values and len(values[OUTPUT_BIAS]) != rows:
        raise ForeignWeightsError(
            f"{foreign.source}: the tensor {sources[OUTPUT_BIAS]!r} must have a value "
            f"for each of the {rows} rows of {sources[WORDS]!r}. Found: "
            f"{len(values[OUTPUT_BIAS])}"
        )
    return values, sources


# === Our own models ===


def named_variables(encoder: Any, objectives: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the variables of an encoder and its masked-LM head, if any, by name."""
    variables = {variable.path: variable for variable in encoder.weights}
    for objective in objectives.values():
        if isinstance(objective, MaskedLM):
            for variable in objective.head.weights:
                _, head, name = f"/{variable.path}".rpartition(f"/{HEAD}")
                # The head also has the token table, under another path.
                if head and not any(variable is other for other in encoder.weights):
                    variables[HEAD + name] = variable
    return variables


def has_trained_head(pretrained: Pretrained) -> bool:
    """Returns whether there is a masked-LM head with trained or imported weights."""
    has_head = any(isinstance(o, MaskedLM) for o in pretrained.objectives.values())
    return has_head and not any(f"/{HEAD}" in path for path in pretrained.new_weights)


def check_is_bert(pretrained: Pretrained) -> None:
    """Raises `ForeignWeightsError` unless layers and index tables are as in BERT."""
    encoder = pretrained.encoder
    tables = list(getattr(encoder, "index_tables", ()))
    trunk = getattr(encoder, "trunk", None)
    if trunk != "bert" or encoder.rotary_shares or tables != ["position_index"]:
        raise ForeignWeightsError(
            "BERT in other libraries only embeds positions: the model must have BERT's "
            "layers and only the table position_index. Any encoder can be written as "
            f"a Keras file, --to=keras. Received: {pretrained.config.name!r}, "
            f"{type(encoder).__name__} with {', '.join(tables) or 'no table'}, "
            f"trunk={trunk!r}"
        )


def exported_values(
    pretrained: Pretrained, *, with_head: bool
) -> dict[str, np.ndarray]:
    """Returns float32 weights for another library's BERT, by our names.

    Includes any imported pooler. Token type tables with fewer than two rows get two.
    """
    encoder = pretrained.encoder
    variables = named_variables(encoder, pretrained.objectives if with_head else {})
    values = {
        name: np.asarray(variable.value, np.float32)
        for name, variable in variables.items()
    }
    # Tokenizers assign type 1 to the second text of a pair.
    zeros = np.zeros((1, encoder.hidden_size), np.float32)
    types = values.get(TOKEN_TYPES, zeros)
    values[TOKEN_TYPES] = types if len(types) > 1 else types.repeat(2, 0)
    return values | (read_pooler(pretrained.folder) or {})


def write_pooler(folder: pathlib.Path, values: Mapping[str, np.ndarray]) -> None:
    """Stores BERT's pooler, which our encoders do not have, in a checkpoint."""
    arrays = {name: values[POOLER + name] for name in ("kernel", "bias")}
    np.savez(folder / POOLER_FILE, **arrays)


def read_pooler(folder: pathlib.Path) -> dict[str, np.ndarray] | None:
    """Reads a checkpoint's pooler weights by name. Returns None if it has none."""
    path = folder / POOLER_FILE
    if not path.is_file():
        return None
    arrays = weight_files.read_npz(path)
    kernel, bias = arrays.get("kernel"), arrays.get("bias")
    if kernel is None or bias is None or kernel.shape[1:] != bias.shape:
        raise DamagedCheckpointError(f"{path}: must have a `kernel` and a `bias`")
    return {f"{POOLER}kernel": kernel, f"{POOLER}bias": bias}
