"""Under which name, and in which form, each format holds each part of BERT."""

from collections.abc import Callable, Container, Mapping
from typing import NamedTuple

from seg_tf.interop import bert_parts
from seg_tf.interop.bert_parts import BertSizes
from seg_tf.interop.tensor_forms import (
    AsItIs,
    InputsByHead,
    OutputsByHead,
    StackedRows,
    TensorForm,
    Transposed,
)


class StoredTensor(NamedTuple):
    """Location of a part in a format.

    Attributes:
        name: of the tensor.
        form: in which the tensor holds the part.
    """

    name: str
    form: TensorForm = AsItIs()


Layout = Mapping[str, StoredTensor]


def google(sizes: BertSizes) -> Layout:
    """TF 1 checkpoints of BERT's authors (`bert_model.ckpt`)."""
    layout = {
        bert_parts.WORDS: "bert/embeddings/word_embeddings",
        bert_parts.POSITIONS: "bert/embeddings/position_embeddings",
        bert_parts.TOKEN_TYPES: "bert/embeddings/token_type_embeddings",
        f"{bert_parts.MASKED_LM}/output_bias": "cls/predictions/output_bias",
    }
    modules = _modules(
        sizes,
        {
            "query": "attention/self/query",
            "key": "attention/self/key",
            "value": "attention/self/value",
            "attention_output": "attention/output/dense",
            "attention_norm": "attention/output/LayerNorm",
            "intermediate": "intermediate/dense",
            "output": "output/dense",
            "output_norm": "output/LayerNorm",
        },
        "bert/encoder/layer_{}/{}",
    )
    modules |= {
        "embeddings_norm": "bert/embeddings/LayerNorm",
        bert_parts.POOLER: "bert/pooler/dense",
        f"{bert_parts.MASKED_LM}/dense": "cls/predictions/transform/dense",
        f"{bert_parts.MASKED_LM}/norm": "cls/predictions/transform/LayerNorm",
    }
    return _layout(sizes, layout, modules, _weight_below)


def hugging_face(
    sizes: BertSizes,
    prefix: str = "bert.",
    norm_names: tuple[str, str] = ("weight", "bias"),
    packed: bool = False,
) -> Layout:
    """Hugging Face BERT, and what SegaBERT's authors released.

    Args:
        sizes: the model's.
        prefix: in front of the encoder's names; that of a bare encoder is empty.
        norm_names: what scale and offset of LayerNorm are called; files converted
            early from TensorFlow have `gamma` and `beta`.
        packed: whether query, key and value are one tensor, as with the authors.
    """
    tables = f"{prefix}embeddings"
    layout = {
        bert_parts.WORDS: f"{tables}.word_embeddings.weight",
        bert_parts.POSITIONS: f"{tables}.position_embeddings.weight",
        bert_parts.TOKEN_TYPES: f"{tables}.token_type_embeddings.weight",
        # SegaBERT's.
        bert_parts.table(
            "paragraph_index"
        ): f"{tables}.para_position_embeddings.weight",
        bert_parts.table("sentence_index"): f"{tables}.sent_position_embeddings.weight",
        bert_parts.table("token_index"): f"{tables}.token_position_embeddings.weight",
        f"{bert_parts.MASKED_LM}/output_bias": "cls.predictions.bias",
    }
    modules = _modules(
        sizes,
        {
            "query": "attention.self.query",
            "key": "attention.self.key",
            "value": "attention.self.value",
            "attention_output": "attention.output.dense",
            "attention_norm": "attention.output.LayerNorm",
            "intermediate": "intermediate.dense",
            "output": "output.dense",
            "output_norm": "output.LayerNorm",
        },
        prefix + "encoder.layer.{}.{}",
    )
    modules |= {
        "embeddings_norm": f"{tables}.LayerNorm",
        bert_parts.POOLER: f"{prefix}pooler.dense",
        f"{bert_parts.MASKED_LM}/dense": "cls.predictions.transform.dense",
        f"{bert_parts.MASKED_LM}/norm": "cls.predictions.transform.LayerNorm",
    }
    weights = {
        "kernel": "weight",
        "bias": "bias",
        "gamma": norm_names[0],
        "beta": norm_names[1],
    }

    def stored(module: str, part: str, weight: str) -> StoredTensor:
        *_, name = part.split("/")
        if packed and name in ("query", "key", "value"):
            module = module.removesuffix(name) + "query_key_value"
            form = StackedRows(("query", "key", "value").index(name))
        else:
            form = Transposed() if weight == "kernel" else AsItIs()
        return StoredTensor(f"{module}.{weights[weight]}", form)

    return _layout(sizes, layout, modules, stored)


def official(sizes: BertSizes, prefix: str = "", head_prefix: str = "") -> Layout:
    """Encoders of tf-models-official, by the full names of their variables.

    Args:
        sizes: the model's.
        prefix: in front of the encoder's names, such as `bert_encoder_v2/`.
        head_prefix: in front of `cls/predictions`.
    """
    layout = {
        bert_parts.WORDS: f"{prefix}word_embeddings/embeddings",
        bert_parts.POSITIONS: f"{prefix}position_embedding/embeddings",
        bert_parts.TOKEN_TYPES: f"{prefix}type_embeddings/embeddings",
        f"{bert_parts.MASKED_LM}/output_bias": (
            f"{head_prefix}cls/predictions/output_bias/bias"
        ),
    }
    modules = _modules(
        sizes,
        {
            "query": "self_attention/query",
            "key": "self_attention/key",
            "value": "self_attention/value",
            "attention_output": "self_attention/attention_output",
            "attention_norm": "self_attention_layer_norm",
            "intermediate": "intermediate",
            "output": "output",
            "output_norm": "output_layer_norm",
        },
        prefix + "transformer/layer_{}/{}",
    )
    head = f"{head_prefix}cls/predictions/transform"
    modules |= {
        "embeddings_norm": f"{prefix}embeddings/layer_norm",
        bert_parts.POOLER: f"{prefix}pooler_transform",
        f"{bert_parts.MASKED_LM}/dense": f"{head}/dense",
        f"{bert_parts.MASKED_LM}/norm": f"{head}/LayerNorm",
    }
    return _layout(sizes, layout, modules, _weight_by_heads(sizes))


def keras_hub_bert(sizes: BertSizes) -> Layout:
    """keras-hub's `BertBackbone`, by the paths of its variables."""
    layout = {
        bert_parts.WORDS: "token_embedding/embeddings",
        bert_parts.POSITIONS: "position_embedding/embeddings",
        bert_parts.TOKEN_TYPES: "segment_embedding/embeddings",
    }
    modules = _keras_hub_layers(sizes) | {bert_parts.POOLER: "pooled_dense"}
    return _layout(sizes, layout, modules, _weight_by_heads(sizes))


def own(sizes: BertSizes, tables: Container[str]) -> Layout:
    """Our encoder with its masked-LM head, by the paths of their variables.

    The pooler is one that came with a checkpoint (`seg_tf.interop.pooler_file`).

    Args:
        sizes: the model's.
        tables: index features that have a table, `token_type` among them.
    """
    layout = {
        bert_parts.WORDS: "token_embedding/embeddings",
        f"{bert_parts.MASKED_LM}/output_bias": "head/output_bias",
    }
    layout |= {bert_parts.table(name): f"index_embedding/{name}" for name in tables}
    modules = _keras_hub_layers(sizes) | {
        f"{bert_parts.MASKED_LM}/dense": "head/intermediate_dense",
        f"{bert_parts.MASKED_LM}/norm": "head/intermediate_layer_norm",
        bert_parts.POOLER: "pooler",
    }
    return _layout(sizes, layout, modules, _weight_by_heads(sizes))


def _keras_hub_layers(sizes: BertSizes) -> dict[str, str]:
    modules = _modules(
        sizes,
        {
            "query": "self_attention_layer/query",
            "key": "self_attention_layer/key",
            "value": "self_attention_layer/value",
            "attention_output": "self_attention_layer/attention_output",
            "attention_norm": "self_attention_layer_norm",
            "intermediate": "feedforward_intermediate_dense",
            "output": "feedforward_output_dense",
            "output_norm": "feedforward_layer_norm",
        },
        "transformer_layer_{}/{}",
    )
    return modules | {"embeddings_norm": "embeddings_layer_norm"}


def _modules(
    sizes: BertSizes, names: Mapping[str, str], template: str
) -> dict[str, str]:
    """The format's name of each dense layer and LayerNorm of every layer."""
    return {
        f"layers/{layer}/{ours}": template.format(layer, theirs)
        for layer in range(sizes.num_layers)
        for ours, theirs in names.items()
    }


def _layout(
    sizes: BertSizes,
    tables: Mapping[str, str],
    modules: Mapping[str, str],
    stored: Callable[[str, str, str], StoredTensor],
) -> Layout:
    """Names of tables, and those of all weights of the modules."""
    layout = {part: StoredTensor(name) for part, name in tables.items()}
    for part in bert_parts.part_shapes(sizes, ()):
        module, _, weight = part.rpartition("/")
        if module in modules:
            layout[part] = stored(modules[module], module, weight)
    return layout


def _weight_below(module: str, part: str, weight: str) -> StoredTensor:
    return StoredTensor(f"{module}/{weight}")


def _weight_by_heads(sizes: BertSizes) -> Callable[[str, str, str], StoredTensor]:
    """Names of Keras' attention layers, whose weights keep the heads apart."""

    def stored(module: str, part: str, weight: str) -> StoredTensor:
        *_, name = part.split("/")
        form: TensorForm = AsItIs()
        if name in ("query", "key", "value"):
            form = OutputsByHead(sizes.num_heads)
        elif name == "attention_output" and weight == "kernel":
            form = InputsByHead(sizes.num_heads)
        return StoredTensor(f"{module}/{weight}", form)

    return stored
