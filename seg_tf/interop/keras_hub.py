"""BERT as keras-hub's `BertBackbone`, and our encoders as presets: in and out."""

import pathlib
from collections.abc import Mapping
from typing import Any

import keras
import keras_hub
import tensorflow as tf
import tensorflow_text

from seg_tf import files, output_paths
from seg_tf.checkpoints.encoder_copies import copy_encoder
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.config import EncoderConfig
from seg_tf.interop import tensor_names, weights
from seg_tf.interop.settings import Settings
from seg_tf.interop.weights import ForeignModel, ForeignWeightsError, Store
from seg_tf.layouts.windows import window_rows
from seg_tf.models.encoder import Encoder
from seg_tf.text.graph.trees import Trees
from seg_tf.text.normalization import CONTINUATION
from seg_tf.text.vocabulary import UNK

FORMAT = "keras_hub"
CONFIG_FILE = "config.json"
WEIGHT_PATTERNS = [
    ("model*.weights.h5", "metadata.json", "assets/tokenizer/vocabulary.txt")
]
_SIZES = (
    *("vocabulary_size", "num_layers", "num_heads", "hidden_dim", "intermediate_dim"),
    *("max_sequence_length", "num_segments"),
)
# Fixed in keras-hub's BertBackbone.
_EPSILON = 1e-12


# === In ===


def matches(folder: pathlib.Path) -> bool:
    """True for the config of a Keras model."""
    return "registered_name" in Settings.optional(folder / CONFIG_FILE).values


def check(folder: pathlib.Path) -> None:
    """Raises `ForeignWeightsError` for a preset of another class."""
    Settings(folder / CONFIG_FILE).require(
        {"registered_name": "keras_hub>BertBackbone"}
    )


def read(folder: pathlib.Path) -> ForeignModel:
    """Opens the preset of a `BertBackbone`, as `save_to_preset` writes it.

    Raises:
        OSError: if a file cannot be read.
        ForeignWeightsError: if it is of another class, or keras-hub cannot load it.
    """
    check(folder)
    weight_files = tuple(sorted(folder.glob("model*.weights.h5")))
    arguments = Settings(folder / CONFIG_FILE).section("config")
    arguments.number("dropout")
    sizes = {key: arguments.positive(key) for key in _SIZES}
    # keras-hub would build a thousand million layers before it reads a weight.
    width = sizes["hidden_dim"]
    rows = sizes["vocabulary_size"] + sizes["max_sequence_length"]
    layers = sizes["num_layers"] * (4 * width + 2 * sizes["intermediate_dim"])
    count = width * (rows + sizes["num_segments"] + layers)
    if count > (size := sum(path.stat().st_size for path in weight_files)):
        raise ForeignWeightsError(
            f"{folder / CONFIG_FILE}: `{'`, `'.join(_SIZES)}` must be the sizes of the "
            f"weights, of {size:,} bytes. Found: a model of {count:,} numbers"
        )
    try:
        backbone = keras_hub.models.BertBackbone.from_preset(str(folder))
    # Keras and h5py raise these for files that are damaged or of another shape.
    except (
        *(ValueError, OSError, KeyError, RuntimeError, TypeError),
        *(AttributeError, IndexError, ImportError),
    ) as error:
        raise ForeignWeightsError(
            f"{folder}: keras-hub cannot load the weights: "
            f"{' '.join(str(error).split())}"
        ) from error
    vocabulary = folder / "assets" / "tokenizer" / "vocabulary.txt"
    variables = {variable.path: variable for variable in backbone.weights}
    return ForeignModel(
        format=FORMAT,
        store=Store.from_variables(variables, str(folder)),
        names=tensor_names.KERAS_HUB,
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


def _normalization(path: pathlib.Path) -> dict[str, bool]:
    """Settings of a preset's tokenizer, which must compute what ours does."""
    if not path.is_file():
        return {}
    config = Settings(path, hint=", or our tokenizer gives other ids")
    config.require({"registered_name": "keras_hub>BertTokenizer"})
    arguments = config.section("config")
    arguments.require(
        {
            "split": True,
            "suffix_indicator": CONTINUATION,
            "oov_token": UNK,
            "special_tokens_in_strings": False,
        }
    )
    # Presets do not save `split_on_cjk`: their tokenizers always split.
    return {
        "lower_case": bool(arguments.flag("lowercase")),
        "strip_accents": bool(arguments.flag("strip_accents")),
        "split_ideographs": True,
    }


# === Out ===


def write_keras_file(pretrained: Pretrained, path: pathlib.Path) -> None:
    """Writes the encoder of any model as a file for `keras.saving.load_model`.

    Readers need this package, with the module of the model's class imported. The file
    has no tokenizer. An encoder with a table of token types reads `token_type`, the
    number of the text. For an encoder like BERT, a row is one window.

    Raises:
        ValueError: if the name does not end in `.keras`.
        OSError: if the file cannot be written.
    """
    if path.suffix != ".keras":
        raise ValueError(f"`path` must end in .keras. Received: {path}")
    with files.written_aside(path) as unfinished:
        _window_encoder(pretrained).save(unfinished)


def write_preset(pretrained: Pretrained, folder: pathlib.Path) -> str:
    """Writes encoder, tokenizer and preprocessor as a preset of keras-hub.

    A BERT that computes what keras-hub's does becomes a `BertBackbone`, for programs
    without this package. It has the imported pooler, or else a new one. Any other
    encoder stays an `Encoder` of this package, a backbone too: with this module
    imported, `from_preset` of `keras_hub.models.Backbone`,
    `keras_hub.tokenizers.BertTokenizer` and `WindowPreprocessor` load its parts. SLM,
    whose rows require a sentence splitter, has no preprocessor.

    Args:
        pretrained: an encoder like BERT.
        folder: new or empty; written as a whole or not at all.

    Returns:
        Class of the backbone, and the reasons if it is not keras-hub's.

    Raises:
        ForeignWeightsError: if the model is no such encoder, or presets cannot save
            its normalization.
        ValueError: if the folder is in use.
        OSError: if it cannot be written.
    """
    encoder, normalization = pretrained.encoder, pretrained.normalization
    if not isinstance(encoder, Encoder):
        raise ForeignWeightsError(
            "A preset must be of an encoder like BERT, which reads word pieces. "
            f"Received: {pretrained.config.name!r}, {type(encoder).__name__}"
        )
    if not normalization.split_ideographs:
        raise ForeignWeightsError(
            "A preset must be of a model whose text is split at ideographs: tokenizers "
            "of keras-hub do not save `split_on_cjk`. Received: "
            f"{pretrained.config.name!r}, whose text is {normalization}"
        )
    reasons = _differences_from_bert_backbone(encoder)
    tokenizer_class = (
        EncoderTokenizer if reasons else keras_hub.tokenizers.BertTokenizer
    )
    tokenizer = tokenizer_class(
        vocabulary=list(pretrained.vocabulary.tokens),
        # keras-hub's defaults differ.
        lowercase=normalization.lower_case,
        strip_accents=normalization.strip_accents,
    )
    if not reasons:
        backbone = _bert_backbone(pretrained)
        text_part = keras_hub.models.BertTextClassifierPreprocessor(
            tokenizer, sequence_length=backbone.max_sequence_length
        )
    else:
        backbone, text_part = _window_encoder(pretrained), tokenizer
        if "sentence_id" not in encoder.index_tables:
            text_part = WindowPreprocessor(
                tokenizer,
                encoder.index_tables,
                getattr(pretrained.config.inputs, "window_length", 512),
                encoder.num_token_types,
            )
    with output_paths.new_folder(folder) as unfinished:
        backbone.save_to_preset(str(unfinished))
        text_part.save_to_preset(str(unfinished))
    if not reasons:
        return "keras_hub.models.BertBackbone"
    return f"{type(backbone).__name__} of this package: {'; '.join(reasons)}"


def _differences_from_bert_backbone(encoder: Encoder) -> list[str]:
    reasons = []
    if not encoder.has_bert_layers:
        reasons.append("its layers are not BERT's")
    if list(encoder.index_tables) != ["position_index"]:
        reasons.append(f"it embeds {', '.join(encoder.index_tables) or 'no index'}")
    if not encoder.approximate_gelu:
        reasons.append("its GELU is exact, keras-hub's BERT computes it by tanh")
    if encoder.layer_norm_epsilon != _EPSILON:
        reasons.append(
            f"its LayerNorm has epsilon {encoder.layer_norm_epsilon:g}, keras-hub's "
            f"BERT {_EPSILON:g}"
        )
    return reasons


def _bert_backbone(pretrained: Pretrained) -> keras_hub.models.BertBackbone:
    encoder = pretrained.encoder
    values = weights.exported_values(pretrained, with_head=False)
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=encoder.vocab_size,
        num_layers=encoder.num_layers,
        num_heads=encoder.num_heads,
        hidden_dim=encoder.hidden_size,
        intermediate_dim=encoder.intermediate_size,
        dropout=encoder.dropout,
        max_sequence_length=encoder.index_tables["position_index"],
        num_segments=len(values[tensor_names.TOKEN_TYPES]),
        dtype="float32",
    )
    variables = {variable.path: variable for variable in backbone.weights}
    for weight, value in values.items():
        variables[tensor_names.KERAS_HUB.name(weight)].assign(value)
    return backbone


def _window_encoder(pretrained: Pretrained) -> keras.Model:
    """The encoder for rows of one window, with token types in the batch."""
    encoder = pretrained.encoder
    return copy_encoder(pretrained) if isinstance(encoder, Encoder) else encoder


@keras.saving.register_keras_serializable(package="seg_tf")
class EncoderTokenizer(keras_hub.tokenizers.BertTokenizer):
    """Tokenizer of presets of our `Encoder`.

    keras-hub finds tokenizers by the class of the backbone. With this module imported,
    `keras_hub.tokenizers.BertTokenizer.from_preset` finds this class.
    """

    backbone_cls = Encoder


@keras.saving.register_keras_serializable(package="seg_tf")
class WindowPreprocessor(keras_hub.models.Preprocessor):
    """Converts texts to `[CLS] A [SEP] B [SEP]`, with each text as one sentence.

    Indices are those of fine-tuning: text n is sentence 0 of paragraph n. For models
    that need texts split into sentences, export a SavedModel.

    Args:
        tokenizer: an `EncoderTokenizer`.
        index_tables: index feature -> rows of the encoder's table, which cap indices.
        sequence_length: int. Length of a row.
        num_token_types: int. Rows of the encoder's table of token types, which cap
            the number of the text; 0 without such a table.
        **kwargs: arguments of `keras_hub.models.Preprocessor`.

    Call arguments:
        texts: strings `(B,)`, or a tuple of several such.

    Returns:
        Dict of tensors `(B, sequence_length)`: int32 `token_ids`, bool `padding_mask`,
        an index for each table and, with `num_token_types`, `token_type`: the number
        of the text, from 0.
    """

    backbone_cls = Encoder
    tokenizer_cls = EncoderTokenizer

    def __init__(
        self,
        tokenizer: Any,
        index_tables: Mapping[str, int],
        sequence_length: int = 512,
        num_token_types: int = 0,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.tokenizer = tokenizer
        self.index_tables = dict(index_tables)
        self.sequence_length = sequence_length
        self.num_token_types = num_token_types

    def build(self, input_shape: Any) -> None:
        # Loaded tokenizers have a vocabulary now.
        self.built = True

    def call(self, texts: Any) -> dict[str, tf.Tensor]:
        texts = texts if isinstance(texts, tuple) else (texts,)
        pieces = [self.tokenizer(tf.convert_to_tensor(batch)) for batch in texts]
        # Outside a graph, keras-hub converts ragged tensors to lists.
        pieces = [
            tf.cast(
                batch
                if isinstance(batch, tf.RaggedTensor)
                else tf.ragged.constant(batch, tf.int32, ragged_rank=1),
                tf.int32,
            )
            for batch in pieces
        ]
        capacity = self.sequence_length - 1 - len(texts)
        pieces = tensorflow_text.RoundRobinTrimmer(capacity).trim(pieces)
        types = {"token_type": self.num_token_types} if self.num_token_types else {}
        features = window_rows(
            Trees.of_texts(pieces),
            special_ids={
                "cls": self.tokenizer.cls_token_id,
                "sep": self.tokenizer.sep_token_id,
                "pad": self.tokenizer.pad_token_id,
            },
            row_length=self.sequence_length,
            caps={**self.index_tables, **types},
        )
        del features["sentence_number"]
        return features

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "index_tables": self.index_tables,
            "sequence_length": self.sequence_length,
            "num_token_types": self.num_token_types,
        }
