"""Reads and writes keras-hub's `BertBackbone`, and writes encoders as Keras files."""

import pathlib
from typing import Any

import keras_hub
import numpy as np

from seg_tf import files
from seg_tf.checkpoints.encoder_copies import copy_encoder
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.config import EncoderConfig
from seg_tf.interop import weights
from seg_tf.interop.weights import ForeignModel, ForeignWeightsError
from seg_tf.models.encoder import Encoder
from seg_tf.text.normalization import CONTINUATION
from seg_tf.text.vocabulary import UNK

FORMAT = "keras_hub"
CONFIG_FILE = "config.json"
DOWNLOADS = ("model*.weights.h5", "metadata.json", "assets/tokenizer/vocabulary.txt")
_SIZES = (
    *("vocabulary_size", "num_layers", "num_heads", "hidden_dim", "intermediate_dim"),
    *("max_sequence_length", "num_segments"),
)
# Fixed in keras-hub's BertBackbone.
_EPSILON = 1e-12


def matches(folder: pathlib.Path) -> bool:
    """Returns whether a folder has the config of a Keras model."""
    config = weights.read_settings(folder / CONFIG_FILE, optional=True)
    return "registered_name" in config


def check(folder: pathlib.Path) -> None:
    """Raises `ForeignWeightsError` unless the preset is a `BertBackbone`."""
    path = folder / CONFIG_FILE
    expected = {"registered_name": "keras_hub>BertBackbone"}
    weights.require(path, weights.read_settings(path), expected)


def read(folder: pathlib.Path) -> ForeignModel:
    """Reads a `BertBackbone` preset. Raises `ForeignWeightsError` if this fails."""
    check(folder)
    weight_files = tuple(sorted(folder.glob("model*.weights.h5")))
    try:
        sizes = weights.read_settings(folder / CONFIG_FILE)["config"]
        words, layers, _, width, inner, length, types = (int(sizes[s]) for s in _SIZES)
        # keras-hub would build a billion layers before it reads a weight.
        count = width * (words + length + types + layers * (4 * width + 2 * inner))
        if count > (size := sum(path.stat().st_size for path in weight_files)):
            raise ValueError(
                f"{', '.join(_SIZES)} must be the sizes of the weights, of {size:,} "
                f"bytes. Found: a model of {count:,} numbers"
            )
        backbone = keras_hub.models.BertBackbone.from_preset(str(folder))
    # Keras and h5py raise all kinds of errors for damaged or mismatched files.
    except Exception as error:
        raise ForeignWeightsError(
            f"{folder}: keras-hub cannot load the model: {' '.join(str(error).split())}"
        ) from error
    vocabulary = folder / "assets" / "tokenizer" / "vocabulary.txt"
    return ForeignModel(
        format=FORMAT,
        source=str(folder),
        tensors={variable.path: np.asarray(variable) for variable in backbone.weights},
        names=weights.KERAS_HUB,
        model=EncoderConfig(
            vocab_size=backbone.vocabulary_size,
            num_layers=backbone.num_layers,
            hidden_size=backbone.hidden_dim,
            num_heads=backbone.num_heads,
            intermediate_size=backbone.intermediate_dim,
            index_tables={"position_index": backbone.max_sequence_length},
            num_token_types=backbone.num_segments,
            dropout=backbone.dropout,
            approximate_gelu=True,
        ),
        vocabulary=vocabulary if vocabulary.is_file() else None,
        normalization=_normalization(folder / "tokenizer.json"),
        files=weight_files,
    )


def _normalization(path: pathlib.Path) -> dict[str, Any]:
    """Returns a preset's `Normalization` settings, or {} if there are none."""
    config = weights.read_settings(path, optional=True)
    weights.require(path, config, {"registered_name": "keras_hub>BertTokenizer"})
    if not (arguments := config.get("config")):
        return {}
    expected = {
        "split": True,
        "suffix_indicator": CONTINUATION,
        "oov_token": UNK,
        "special_tokens_in_strings": False,
    }
    weights.require(path, arguments, expected)
    # Presets do not save `split_on_cjk`, so their tokenizers always split.
    return {
        "lower_case": bool(arguments.get("lowercase")),
        "strip_accents": bool(arguments.get("strip_accents")),
        "split_ideographs": True,
    }


def write_keras_file(pretrained: Pretrained, path: pathlib.Path) -> None:
    """Writes any model's encoder as a `.keras` file for `keras.saving.load_model`.

    To load it, first import the module of the model's class from this package. The file
    has no tokenizer. An encoder with a token type table also reads `token_type`, the
    index of the text at each position. BERT-like encoders read one window per row.
    """
    encoder = pretrained.encoder
    if isinstance(encoder, Encoder):
        encoder = copy_encoder(pretrained)
    with files.written_aside(path) as unfinished:
        encoder.save(unfinished)


def write_preset(pretrained: Pretrained, folder: pathlib.Path) -> None:
    """Writes a `BertBackbone` with its tokenizer and preprocessor as a preset.

    The pooler is imported or, if there is none, newly initialized. `folder` must be new
    or empty, or a ValueError is raised. It appears complete or not at all. Raises
    `ForeignWeightsError` if a `BertBackbone` would compute different outputs.
    """
    encoder, normalization = pretrained.encoder, pretrained.normalization
    weights.check_is_bert(pretrained)
    reasons = {
        "its GELU is exact, keras-hub's is approximate": not encoder.approximate_gelu,
        f"its LayerNorm's epsilon is {encoder.layer_norm_epsilon:g}, keras-hub's "
        f"{_EPSILON:g}": encoder.layer_norm_epsilon != _EPSILON,
        "its text is not split at ideographs, and tokenizers of keras-hub do not save "
        "`split_on_cjk`": not normalization.split_ideographs,
    }
    if differences := [reason for reason, applies in reasons.items() if applies]:
        raise ForeignWeightsError(
            "A preset must be of a model that computes what keras-hub's BertBackbone "
            "does; --to=keras writes any encoder. Received: "
            f"{pretrained.config.name!r}: {'; '.join(differences)}"
        )
    values = weights.exported_values(pretrained, with_head=False)
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=encoder.vocab_size,
        num_layers=encoder.num_layers,
        num_heads=encoder.num_heads,
        hidden_dim=encoder.hidden_size,
        intermediate_dim=encoder.intermediate_size,
        dropout=encoder.dropout,
        max_sequence_length=encoder.index_tables["position_index"],
        num_segments=len(values[weights.TOKEN_TYPES]),
        dtype="float32",
    )
    variables = {variable.path: variable for variable in backbone.weights}
    for weight, value in values.items():
        variables[weights.KERAS_HUB.name(weight)].assign(value)
    tokenizer = keras_hub.tokenizers.BertTokenizer(
        vocabulary=list(pretrained.vocabulary.tokens),
        # The defaults of keras-hub differ.
        lowercase=normalization.lower_case,
        strip_accents=normalization.strip_accents,
    )
    preprocessor = keras_hub.models.BertTextClassifierPreprocessor(
        tokenizer, sequence_length=backbone.max_sequence_length
    )
    with files.new_folder(folder) as unfinished:
        backbone.save_to_preset(str(unfinished))
        preprocessor.save_to_preset(str(unfinished))
