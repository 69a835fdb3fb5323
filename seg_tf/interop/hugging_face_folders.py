"""BERT as Hugging Face holds it, and SegaBERT as its authors released it."""

import dataclasses
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

from seg_tf.interop import bert_config_file, bert_parts, layouts, tokenizer_files
from seg_tf.interop.errors import ForeignWeightsError
from seg_tf.interop.foreign_model import ForeignModel
from seg_tf.interop.pytorch_store import PyTorchStore, find_torch
from seg_tf.interop.tensor_stores import (
    SafetensorsStore,
    ShardedStore,
    TensorStore,
    prefix_of,
)

HUGGING_FACE, SEGABERT = "hugging_face", "segabert"
CONFIG_FILE, WEIGHTS_FILE = "config.json", "model.safetensors"
PYTORCH_FILE, INDEX_SUFFIX = "pytorch_model.bin", ".index.json"
VOCABULARY_FILE = "vocab.txt"
# What pretraining was run with; the published configs are those of fine-tuning.
_AUTHORS_EPSILON = 1e-5

_TABLES = ("position_index", "token_type")
_SEGABERT_TABLES = ("paragraph_index", "sentence_index", "token_index")


def read(folder: pathlib.Path) -> ForeignModel:
    """Opens a folder with `config.json` and weights.

    Those are `model.safetensors`, in one file or several with an index, or, without it
    and where PyTorch is installed, `pytorch_model.bin`, likewise.

    Args:
        folder: the folder; `vocab.txt` and files of the tokenizer may be in it.

    Raises:
        OSError: if a file cannot be read.
        ForeignWeightsError: if one is damaged, or the model no BERT that our encoders
            can be.
    """
    config_path = folder / CONFIG_FILE
    config = bert_config_file.read_config(config_path)
    check_model(config, config_path)
    sizes = bert_config_file.bert_sizes(config, config_path)
    normalization = tokenizer_files.read_normalization(folder)
    store, weight_files = _open_weights(folder)
    word_table = "embeddings.word_embeddings.weight"
    prefix = prefix_of(store.shapes, word_table)
    if prefix is None:
        raise ForeignWeightsError(
            f"{store.source}: the tensor {word_table!r} must be there, of shape (any, "
            f"{sizes.hidden_size}), with or without the prefix 'bert.'. Found: none "
            "of that name"
        )
    packed = _has(store, "attention.self.query_key_value.weight")
    gamma = _has(store, "embeddings.LayerNorm.gamma")
    norm_names = ("gamma", "beta") if gamma else ("weight", "bias")
    one_layer = dataclasses.replace(sizes, num_layers=1)
    bert_config_file.check_tensors(
        sizes,
        store,
        layouts.hugging_face(one_layer, prefix, norm_names, packed),
        config_path,
    )
    layout = layouts.hugging_face(sizes, prefix, norm_names, packed)
    rows = {
        feature: store.shapes[layout[bert_parts.table(feature)].name][0]
        for feature in (*_TABLES, *_SEGABERT_TABLES)
        if layout[bert_parts.table(feature)].name in store.shapes
    }
    is_authors = packed or "token_index" in rows
    epsilon = bert_config_file.number(config, "layer_norm_eps", config_path)
    vocabulary = folder / VOCABULARY_FILE
    return ForeignModel(
        format=SEGABERT if is_authors else HUGGING_FACE,
        store=store,
        layout=layout,
        sizes=sizes,
        table_rows=rows,
        # In the file of SegaBERT's authors, whose model never reads them.
        idle_tables=_TABLES[:1] if "token_index" in rows else (),
        vocab_size=bert_config_file.vocab_size(config, config_path),
        layer_norm_epsilon=(_AUTHORS_EPSILON if is_authors else epsilon),
        approximate_gelu=bert_config_file.approximate_gelu(config, config_path, False),
        dropout=bert_config_file.number(config, "hidden_dropout_prob", config_path),
        initializer_range=bert_config_file.number(
            config, "initializer_range", config_path
        ),
        vocabulary=vocabulary if vocabulary.is_file() else None,
        normalization=normalization,
        notes=_notes(epsilon, is_authors, rows),
        files=weight_files,
    )


def is_one(folder: pathlib.Path) -> bool:
    """Recognises a folder by its config in Hugging Face's form."""
    path = folder / CONFIG_FILE
    return path.is_file() and "model_type" in bert_config_file.read_config(path)


def _open_weights(
    folder: pathlib.Path,
) -> tuple[TensorStore, tuple[pathlib.Path, ...]]:
    """The tensors, and the files that they are in."""
    if (found := _find_weights(folder, WEIGHTS_FILE)) is not None:
        return _open_files(found, SafetensorsStore)
    found = _find_weights(folder, PYTORCH_FILE)
    # Imported only where there is need of it: it takes seconds.
    torch = find_torch() if found is not None else None
    if found is not None and torch is not None:
        return _open_files(found, lambda path: PyTorchStore(path, torch))
    raise ForeignWeightsError(
        f"`--from` must hold {WEIGHTS_FILE}, or {PYTORCH_FILE} where PyTorch is "
        f"installed. Received: {folder}, which has none{_hint(folder, found)}"
    )


def _find_weights(folder: pathlib.Path, name: str) -> pathlib.Path | None:
    """The file of that name, or the index of several; None if there is neither."""
    paths = (folder / name, folder / f"{name}{INDEX_SUFFIX}")
    return next((path for path in paths if path.is_file()), None)


def _open_files(
    path: pathlib.Path, open_file: Callable[[pathlib.Path], TensorStore]
) -> tuple[TensorStore, tuple[pathlib.Path, ...]]:
    if not path.name.endswith(INDEX_SUFFIX):
        return open_file(path), (path,)
    store = ShardedStore(path, open_file)
    return store, (path, *store.paths)


def _hint(folder: pathlib.Path, found: pathlib.Path | None) -> str:
    """The way to read a folder that holds a pickle of PyTorch."""
    others = sorted(folder.glob("*.bin")) + sorted(folder.glob("*.pt"))
    if found is None and not others:
        return ""
    if found is None:
        remedy = f"If it holds the weights, call it {PYTORCH_FILE}"
    else:
        remedy = "Install PyTorch (the package torch), which reads its tensors alone"
    return (
        f" of them that can be read, but {(found or others[0]).name}, of PyTorch, "
        f"whose files are pickles and can run any code. {remedy}; or, where PyTorch "
        f"is, make {WEIGHTS_FILE} of it: `safetensors.torch.save_file({{name: "
        "tensor.clone() for name, tensor in state.items()}, …)`"
    )


def check_model(config: Mapping[str, Any], path: pathlib.Path) -> None:
    """Raises where the folder holds what our encoders do not compute."""
    required = {
        "model_type": "bert",
        "position_embedding_type": "absolute",
        "is_decoder": False,
        "add_cross_attention": False,
    }
    for name, value in required.items():
        found = config.get(name, value)
        if type(found) is not type(value) or found != value:
            raise ForeignWeightsError(
                f"{path}: `{name}` must be {value!r}. Found: "
                f"{bert_config_file.shown(found)}"
            )


def _notes(said: float, is_authors: bool, rows: Mapping[str, int]) -> tuple[str, ...]:
    notes = []
    if is_authors and said != _AUTHORS_EPSILON:
        notes.append(
            f"config.json says layer_norm_eps={said:g}, that of the authors' "
            f"fine-tuning; their pretraining computed with {_AUTHORS_EPSILON:g}, which "
            "is taken"
        )
    if "token_index" in rows and "position_index" in rows:
        notes.append(
            "the file has a table of positions too, which pretraining with paragraph, "
            "sentence and token indices never used"
        )
    return tuple(notes)


def _has(store: TensorStore, ending: str) -> bool:
    return prefix_of(store.shapes, ending) is not None
