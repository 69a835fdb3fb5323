"""BERT in TensorFlow checkpoints: its authors' (TF 1), tf-models-official's (TF 2)."""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

from seg_tf.interop import bert_config_file, bert_parts, layouts
from seg_tf.interop.bert_parts import BertSizes
from seg_tf.interop.errors import ForeignWeightsError
from seg_tf.interop.foreign_model import ForeignModel
from seg_tf.interop.layouts import Layout
from seg_tf.interop.tensor_stores import (
    TensorFlowStore,
    TensorStore,
    prefix_of,
)

GOOGLE, OFFICIAL = "google", "official"
CONFIG_FILE = "bert_config.json"
_INDEX = ".index"


def find_prefix(path: pathlib.Path) -> pathlib.Path | None:
    """The checkpoint that a path, a folder or a prefix of files, refers to.

    Raises:
        ForeignWeightsError: if a folder holds several.
    """
    if path.name and path.with_name(path.name + _INDEX).is_file():
        return path
    if path.name.endswith(_INDEX) and path.is_file():
        return path.with_name(path.name.removesuffix(_INDEX))
    found = sorted(path.glob(f"*{_INDEX}")) if path.is_dir() else []
    if len(found) > 1:
        names = ", ".join(one.name.removesuffix(_INDEX) for one in found)
        raise ForeignWeightsError(
            f"`--from` must name one checkpoint. Received: {path}, which holds {names}"
        )
    return found[0].with_name(found[0].name.removesuffix(_INDEX)) if found else None


def read(prefix: pathlib.Path) -> ForeignModel:
    """Opens a checkpoint with the `bert_config.json` beside it.

    One of tf-models-official says by itself how large the model is, but for what its
    config may add.

    Raises:
        OSError: if a file cannot be read.
        ForeignWeightsError: if the checkpoint is damaged or no BERT's.
    """
    store = TensorFlowStore(prefix)
    path = prefix.parent / CONFIG_FILE
    config = None
    if path.is_file() or not store.is_of_objects:
        config = bert_config_file.read_config(path)
    vocabulary = prefix.parent / "vocab.txt"
    found = sorted(prefix.parent.glob(f"{prefix.name}.*"))
    rest = {
        "vocabulary": vocabulary if vocabulary.is_file() else None,
        "files": tuple(one for one in found if one.suffix != ".meta"),
    }
    if store.is_of_objects:
        return from_official(store, config or {}, path, **rest)
    sizes = bert_config_file.bert_sizes(config, path)
    one_layer = layouts.google(dataclasses.replace(sizes, num_layers=1))
    bert_config_file.check_tensors(sizes, store, one_layer, path)
    return _model(GOOGLE, store, layouts.google(sizes), sizes, config, path, **rest)


def from_official(
    store: TensorStore,
    config: Mapping[str, Any] | None = None,
    path: pathlib.Path = pathlib.Path(CONFIG_FILE),
    **rest: Any,
) -> ForeignModel:
    """An encoder of tf-models-official.

    Args:
        store: its variables by their full names.
        config: content of its `bert_config.json`, if there is one.
        path: that file, for messages.
        **rest: further attributes of a `ForeignModel`.

    Raises:
        ForeignWeightsError: if it is no BERT encoder.
    """
    names = list(store.shapes)
    prefix = prefix_of(names, "word_embeddings/embeddings")
    head_prefix = prefix_of(names, "cls/predictions/output_bias/bias") or ""
    if prefix is None:
        raise ForeignWeightsError(
            f"{store.source}: the tensor 'word_embeddings/embeddings', of shape (any, "
            f"any), must be there, with or without a prefix. Found: {_some(names)}"
        )
    sizes = _sizes_of_official(store, prefix)
    config = dict(config or {})
    bert_config_file.check_sizes(config, sizes, store.source, path)
    layout = layouts.official(sizes, prefix, head_prefix)
    return _model(OFFICIAL, store, layout, sizes, config, path, **rest)


def _model(
    name: str,
    store: TensorStore,
    layout: Layout,
    sizes: BertSizes,
    config: Mapping[str, Any],
    path: pathlib.Path,
    **rest: Any,
) -> ForeignModel:
    tables = {
        "position_index": layout[bert_parts.POSITIONS].name,
        "token_type": layout[bert_parts.TOKEN_TYPES].name,
    }
    return ForeignModel(
        format=name,
        store=store,
        layout=layout,
        sizes=sizes,
        table_rows={
            feature: store.shapes[tensor][0]
            for feature, tensor in tables.items()
            if tensor in store.shapes
        },
        vocab_size=bert_config_file.vocab_size(config, path),
        approximate_gelu=bert_config_file.approximate_gelu(config, path, True),
        dropout=bert_config_file.number(config, "hidden_dropout_prob", path),
        initializer_range=bert_config_file.number(config, "initializer_range", path),
        **rest,
    )


def _sizes_of_official(store: TensorStore, prefix: str) -> BertSizes:
    shapes = store.shapes
    layer = prefix + "transformer/layer_{}/"
    query = layer.format(0) + "self_attention/query/kernel"
    inner = layer.format(0) + "intermediate/kernel"
    for name in (query, inner):
        if name not in shapes:
            raise ForeignWeightsError(
                f"{store.source}: the tensor {name!r} must be there. Found: none of "
                "that name; the checkpoint is of no BERT encoder of tf-models-official"
            )
    num_layers = 0
    while any(name.startswith(layer.format(num_layers)) for name in shapes):
        num_layers += 1
    if len(shapes[query]) != 3 or len(shapes[inner]) != 2:
        raise ForeignWeightsError(
            f"{store.source}: the tensor {query!r} must have the shape (any, any, any) "
            f"and {inner!r} (any, any). Found: {shapes[query]} and {shapes[inner]}"
        )
    return BertSizes(
        num_layers=num_layers,
        hidden_size=shapes[query][0],
        num_heads=shapes[query][1],
        intermediate_size=shapes[inner][1],
    )


def _some(names: list[str]) -> str:
    shown = ", ".join(sorted(names)[:5])
    return f"{len(names)} tensors: {shown}, …" if len(names) > 5 else shown or "none"
