"""Writes a BERT of ours as a folder that Hugging Face's programs read."""

import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import safetensors.numpy

from seg_tf import files
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.interop import (
    bert_parts,
    hugging_face_folders,
    layouts,
    new_folder,
    own_weights,
    tokenizer_files,
)
from seg_tf.interop.errors import ForeignWeightsError
from seg_tf.text.vocabulary import CLS, MASK, PAD, SEP, UNK

# A tokenizer gives the second text of a pair the type 1, whether or not the model was
# trained with types.
_NUM_TYPES = 2


def write_hugging_face(pretrained: Pretrained, folder: pathlib.Path) -> None:
    """Writes config.json, model.safetensors, vocab.txt and tokenizer_config.json.

    The model comes with its masked-LM head, if it was trained, and with the pooler that
    it was imported with, if it was. A model without token types gets a table of two
    rows of zeros, which changes nothing.

    Args:
        pretrained: a BERT, whose only index table is that of positions.
        folder: where the files go, new or empty; it appears whole or not at all.

    Raises:
        ForeignWeightsError: if the model is another, naming the tables that Hugging
            Face's BERT has no place for.
        ValueError: if the folder is in use.
        OSError: if it cannot be written.
    """
    _check_model(pretrained)
    parts = _parts(pretrained)
    has_head = bert_parts.MASKED_LM in {bert_parts.group_of(part) for part in parts}
    tensors = _tensors(pretrained, parts)
    with new_folder.written_aside(folder) as aside:
        config = _config(pretrained, parts, has_head)
        files.write_json(aside / hugging_face_folders.CONFIG_FILE, config)
        weights = aside / hugging_face_folders.WEIGHTS_FILE
        # Readers ask for what program the names are those of.
        safetensors.numpy.save_file(tensors, weights, metadata={"format": "pt"})
        weights.chmod(0o644)
        (aside / hugging_face_folders.VOCABULARY_FILE).write_bytes(
            pretrained.vocabulary.to_bytes()
        )
        tokenizer = _tokenizer_config(pretrained)
        files.write_json(aside / tokenizer_files.CONFIG_FILE, tokenizer)


def is_bert(encoder: Any) -> bool:
    """Returns True for a BERT: its layers, and a table of positions alone."""
    has_layers = getattr(encoder, "has_bert_layers", False)
    return has_layers and list(encoder.index_tables) == ["position_index"]


def _check_model(pretrained: Pretrained) -> None:
    encoder = pretrained.encoder
    if not is_bert(encoder):
        tables = ", ".join(getattr(encoder, "index_tables", ())) or "no table"
        raise ForeignWeightsError(
            "Hugging Face's BERT has positions and nothing else to embed; the model "
            "must have BERT's layers and the table position_index alone. Received: "
            f"{pretrained.config.name!r}, {type(encoder).__name__} with {tables}, "
            f"trunk={getattr(encoder, 'trunk', None)!r}"
        )


def _parts(pretrained: Pretrained) -> dict[str, np.ndarray]:
    """All parts that there are, the masked-LM head if it was trained."""
    has_head = own_weights.has_trained_head(pretrained)
    return own_weights.parts_to_hand_on(
        pretrained, pretrained.objectives if has_head else {}
    )


def _tensors(
    pretrained: Pretrained, parts: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    layout = layouts.hugging_face(own_weights.sizes_of(pretrained.encoder))
    return {
        layout[part].name: np.ascontiguousarray(layout[part].form.stored(value))
        for part, value in parts.items()
    }


def _config(
    pretrained: Pretrained, parts: Mapping[str, np.ndarray], has_head: bool
) -> dict[str, Any]:
    encoder = pretrained.encoder
    return {
        "architectures": ["BertForMaskedLM" if has_head else "BertModel"],
        "model_type": "bert",
        "vocab_size": encoder.vocab_size,
        "hidden_size": encoder.hidden_size,
        "num_hidden_layers": encoder.num_layers,
        "num_attention_heads": encoder.num_heads,
        "intermediate_size": encoder.intermediate_size,
        "hidden_act": "gelu_new" if encoder.approximate_gelu else "gelu",
        "hidden_dropout_prob": encoder.dropout,
        "attention_probs_dropout_prob": encoder.attention_dropout,
        "max_position_embeddings": len(parts[bert_parts.POSITIONS]),
        "type_vocab_size": len(parts[bert_parts.TOKEN_TYPES]),
        "initializer_range": encoder.initializer_range,
        "layer_norm_eps": encoder.layer_norm_epsilon,
        "position_embedding_type": "absolute",
        "pad_token_id": pretrained.vocabulary.pad_id,
        "tie_word_embeddings": True,
    }


def _tokenizer_config(pretrained: Pretrained) -> dict[str, Any]:
    normalization = pretrained.normalization
    return {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": normalization.lower_case,
        "do_basic_tokenize": True,
        # Null follows `do_lower_case`, as with us.
        "strip_accents": normalization.described().get("strip_accents"),
        "tokenize_chinese_chars": normalization.split_ideographs,
        "model_max_length": pretrained.encoder.index_tables["position_index"],
        "unk_token": UNK,
        "sep_token": SEP,
        "pad_token": PAD,
        "cls_token": CLS,
        "mask_token": MASK,
    }
