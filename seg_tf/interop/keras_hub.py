"""BERT as keras-hub's `BertBackbone`, and all our encoders as presets: in and out."""

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
from seg_tf.interop import layouts, weights
from seg_tf.interop.layouts import Sizes
from seg_tf.interop.settings import Settings
from seg_tf.interop.weights import ForeignModel, ForeignWeightsError, Store
from seg_tf.layouts.windows import window_rows
from seg_tf.models.encoder import Encoder
from seg_tf.text.graph.trees import Trees
from seg_tf.text.normalization import CONTINUATION
from seg_tf.text.vocabulary import UNK

KERAS_HUB = "keras_hub"
CONFIG_FILE = "config.json"
PATTERNS = ("metadata.json", "model*.weights.h5", "assets/tokenizer/vocabulary.txt")
_SIZES = (
    *("vocabulary_size", "num_layers", "num_heads", "hidden_dim", "intermediate_dim"),
    *("max_sequence_length", "num_segments"),
)
# What keras-hub's BertBackbone computes with, and no argument changes.
_EPSILON = 1e-12


# === In ===


def is_config(settings: Settings) -> bool:
    """True for the config of a Keras model."""
    return "registered_name" in settings.values


def read(folder: pathlib.Path) -> ForeignModel:
    """Opens the preset of a `BertBackbone`, as `save_to_preset` makes it.

    Raises:
        OSError: if a file cannot be read.
        ForeignWeightsError: if it is of another class, or keras-hub cannot load it.
    """
    weight_files = tuple(sorted(folder.glob("model*.weights.h5")))
    _check_config(Settings(folder / CONFIG_FILE), weight_files)
    try:
        backbone = keras_hub.models.BertBackbone.from_preset(str(folder))
    # What Keras and h5py raise for files that are damaged or of another shape.
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
        format=KERAS_HUB,
        store=Store.of_variables(variables, str(folder)),
        layout=layouts.KERAS_HUB,
        sizes=Sizes(
            num_layers=backbone.num_layers,
            hidden_size=backbone.hidden_dim,
            num_heads=backbone.num_heads,
            intermediate_size=backbone.intermediate_dim,
        ),
        table_rows={
            "position_index": backbone.max_sequence_length,
            "token_type": backbone.num_segments,
        },
        vocab_size=backbone.vocabulary_size,
        dropout=backbone.dropout,
        vocabulary=vocabulary if vocabulary.is_file() else None,
        normalization=_normalization(folder / "tokenizer.json"),
        files=weight_files,
    )


def _check_config(config: Settings, weight_files: tuple[pathlib.Path, ...]) -> None:
    """Checks what keras-hub would build before it reads a weight.

    A model of a thousand million layers would never be done.
    """
    name = config.values.get("registered_name")
    if name != "keras_hub>BertBackbone":
        raise config.error("registered_name", "'keras_hub>BertBackbone'", name)
    arguments = config.section("config")
    sizes = {key: arguments.positive(key) for key in _SIZES}
    arguments.number("dropout")
    width = sizes["hidden_dim"]
    rows = sum(
        sizes[key] for key in ("vocabulary_size", "max_sequence_length", "num_segments")
    )
    layers = sizes["num_layers"] * (4 * width + 2 * sizes["intermediate_dim"])
    numbers = width * (rows + layers)
    found = sum(one.stat().st_size for one in weight_files)
    if numbers > found:  # no number takes less than a byte
        raise ForeignWeightsError(
            f"{config.path}: {', '.join(f'`{key}`' for key in _SIZES)} must be those "
            f"of the weights beside it, of {found:,} bytes. Found: sizes of a model of "
            f"{numbers:,} numbers"
        )


def _normalization(path: pathlib.Path) -> dict[str, bool]:
    """The settings of a preset's tokenizer, which must compute what ours does."""
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
    # Presets do not save `split_on_cjk`: a tokenizer of one always splits.
    return {
        "lower_case": bool(arguments.flag("lowercase")),
        "strip_accents": bool(arguments.flag("strip_accents")),
        "split_ideographs": True,
    }


# === Out ===


def write_keras_file(pretrained: Pretrained, path: pathlib.Path) -> None:
    """Writes the encoder of any model as a file for `keras.saving.load_model`.

    The reader needs this package, and the module of the model's class imported. Text is
    not part of the file. An encoder with a table of token types reads `token_type`, the
    number of the text, and a row of an encoder like BERT is one window.

    Raises:
        ValueError: if the name does not end in `.keras`.
        OSError: if the file cannot be written.
    """
    if path.suffix != ".keras":
        raise ValueError(f"`path` must end in .keras. Received: {path}")
    with files.written_aside(path) as unfinished:
        _text_reader(pretrained).save(unfinished)


def write_preset(pretrained: Pretrained, folder: pathlib.Path) -> str:
    """Writes encoder, tokenizer and preprocessor as a preset of keras-hub.

    A BERT that computes as keras-hub's does becomes a `BertBackbone`, which programs
    without this package load; without a pooler from an import it gets a new one. Every
    other encoder stays an `Encoder` of this package, itself a backbone of keras-hub:
    with this module imported, `from_preset` of `keras_hub.models.Backbone`,
    `keras_hub.tokenizers.BertTokenizer` and `WindowPreprocessor` load its three parts.
    SLM, whose rows need sentences to be found first, has no preprocessor.

    Args:
        pretrained: an encoder like BERT.
        folder: new or empty; it appears whole or not at all.

    Returns:
        Name of the class of the backbone, and why if it is not keras-hub's own.

    Raises:
        ForeignWeightsError: if the model is no such encoder, or its text has a
            normalization that presets do not save.
        ValueError: if the folder is in use.
        OSError: if it cannot be written.
    """
    encoder = pretrained.encoder
    if not isinstance(encoder, Encoder):
        raise ForeignWeightsError(
            "A preset must be of an encoder like BERT, which reads word pieces. "
            f"Received: {pretrained.config.name!r}, {type(encoder).__name__}"
        )
    if not pretrained.normalization.split_ideographs:
        raise ForeignWeightsError(
            "A preset must be of a model whose text is split at ideographs: tokenizers "
            "of keras-hub do not save `split_on_cjk`. Received: "
            f"{pretrained.config.name!r}, whose text is {pretrained.normalization}"
        )
    reasons = _why_not_bert_backbone(encoder)
    tokenizer_class = (
        EncoderTokenizer if reasons else keras_hub.tokenizers.BertTokenizer
    )
    tokenizer = tokenizer_class(
        vocabulary=list(pretrained.vocabulary.tokens),
        # keras-hub's own defaults are other ones.
        lowercase=pretrained.normalization.lower_case,
        strip_accents=pretrained.normalization.strip_accents,
    )
    if not reasons:
        backbone = _bert_backbone(pretrained)
        text_part = keras_hub.models.BertTextClassifierPreprocessor(
            tokenizer, sequence_length=backbone.max_sequence_length
        )
    else:
        backbone, text_part = _text_reader(pretrained), tokenizer
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


def _why_not_bert_backbone(encoder: Encoder) -> list[str]:
    """Reasons why no `BertBackbone` has the outputs of an encoder; [] if one has."""
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
    values = weights.values_to_hand_on(pretrained, with_head=False)
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=encoder.vocab_size,
        num_layers=encoder.num_layers,
        num_heads=encoder.num_heads,
        hidden_dim=encoder.hidden_size,
        intermediate_dim=encoder.intermediate_size,
        dropout=encoder.dropout,
        max_sequence_length=encoder.index_tables["position_index"],
        num_segments=len(values[layouts.TOKEN_TYPES]),
        dtype="float32",
    )
    variables = {variable.path: variable for variable in backbone.weights}
    for weight, value in values.items():
        variables[layouts.KERAS_HUB.name(weight)].assign(value)
    return backbone


def _text_reader(pretrained: Pretrained) -> keras.Model:
    """The encoder as texts are read with, which pretraining's may not be.

    That one adds type 0 everywhere, and may tell the windows of packed rows apart.
    """
    encoder = pretrained.encoder
    return copy_encoder(pretrained) if isinstance(encoder, Encoder) else encoder


@keras.saving.register_keras_serializable(package="seg_tf")
class EncoderTokenizer(keras_hub.tokenizers.BertTokenizer):
    """`keras_hub.tokenizers.BertTokenizer` for presets of our `Encoder`.

    keras-hub looks tokenizers up by the class of the preset's backbone. With this
    module imported, `keras_hub.tokenizers.BertTokenizer.from_preset` finds it.
    """

    backbone_cls = Encoder


@keras.saving.register_keras_serializable(package="seg_tf")
class WindowPreprocessor(keras_hub.models.Preprocessor):
    """Makes `[CLS] A [SEP] B [SEP]` of texts, each of them one sentence.

    The indices are those of fine-tuning: text n is sentence 0 of paragraph n. It does
    not split texts into sentences; to do so, export the model with its text encoding.

    Args:
        tokenizer: an `EncoderTokenizer`.
        index_tables: the encoder's; indices stay below the rows of their tables.
        sequence_length: int. Positions of a row.
        num_token_types: int. Rows of the encoder's table of token types, below which
            the number of the text stays; 0 where it reads none.
        **kwargs: of `keras_hub.models.Preprocessor`.

    Call arguments:
        texts: strings `(B,)`, or several such, of texts that belong together.

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
        # A tokenizer that is loaded gets its vocabulary by now.
        self.built = True

    def call(self, texts: Any) -> dict[str, tf.Tensor]:
        texts = texts if isinstance(texts, tuple) else (texts,)
        pieces = [self._spell(text) for text in texts]
        capacity = self.sequence_length - 1 - len(texts)
        kept = tensorflow_text.RoundRobinTrimmer(capacity).trim(pieces)
        types = {"token_type": self.num_token_types} if self.num_token_types else {}
        features = window_rows(
            Trees.of_texts(kept),
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

    def _spell(self, texts: Any) -> tf.RaggedTensor:
        pieces = self.tokenizer(tf.convert_to_tensor(texts))
        # Outside of a graph, keras-hub turns ragged tensors into lists.
        if not isinstance(pieces, tf.RaggedTensor):
            pieces = tf.ragged.constant(pieces, tf.int32, ragged_rank=1)
        return tf.cast(pieces, tf.int32)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "index_tables": self.index_tables,
            "sequence_length": self.sequence_length,
            "num_token_types": self.num_token_types,
        }
