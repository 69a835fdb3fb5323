"""Writes models of ours as presets of keras-hub and as `.keras` files."""

import pathlib

import keras
import keras_hub

from seg_tf import files
from seg_tf.checkpoints.encoder_copies import copy_encoder
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.interop import (
    bert_parts,
    layouts,
    new_folder,
    own_weights,
)
from seg_tf.interop.encoder_tokenizer import EncoderTokenizer
from seg_tf.interop.errors import ForeignWeightsError
from seg_tf.interop.window_preprocessor import WindowPreprocessor
from seg_tf.models.encoder import Encoder

# What keras-hub's BertBackbone computes with, and no argument changes.
_EPSILON = 1e-12


def write_keras_file(pretrained: Pretrained, path: pathlib.Path) -> None:
    """Writes the encoder as a Keras file, which `keras.saving.load_model` reads.

    The reader needs this package, and the module of the model's class imported. Text is
    not part of the file. An encoder with a table of token types reads `token_type`, the
    number of the text, and a row of an encoder like BERT is one window.

    Args:
        pretrained: any model.
        path: a name that ends in `.keras`.

    Raises:
        ValueError: if it does not.
        OSError: if the file cannot be written.
    """
    if path.suffix != ".keras":
        raise ValueError(f"`path` must end in .keras. Received: {path}")
    with files.written_aside(path) as aside:
        _text_reader(pretrained).save(aside)


def write_preset(pretrained: Pretrained, folder: pathlib.Path) -> str:
    """Writes encoder, tokenizer and preprocessor as a preset of keras-hub.

    A BERT that computes as keras-hub's does becomes a `BertBackbone`, which programs
    without this package load. Its pooler is that which the model was imported with; one
    that had none gets a new one of chance, to be fine-tuned. Every other encoder stays
    an `Encoder` of this package, itself a backbone of keras-hub: with
    `seg_tf.interop.window_preprocessor` imported, `from_preset` of
    `keras_hub.models.Backbone`, `keras_hub.tokenizers.BertTokenizer` and
    `WindowPreprocessor` load its three parts. With a table of token types it reads
    `token_type`, by which BERT tells the second text of a pair from the first. SLM,
    whose rows need sentences to be found first, has no preprocessor.

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
    reasons = why_not_bert_backbone(encoder)
    tokenizer_class = (
        EncoderTokenizer if reasons else keras_hub.tokenizers.BertTokenizer
    )
    tokenizer = tokenizer_class(
        vocabulary=list(pretrained.vocabulary.tokens),
        # keras-hub's own defaults are other ones.
        lowercase=pretrained.normalization.lower_case,
        strip_accents=pretrained.normalization.strip_accents,
    )
    with new_folder.written_aside(folder) as aside:
        if reasons:
            backbone = _text_reader(pretrained)
            preprocessor = _own_preprocessor(backbone, tokenizer, pretrained)
        else:
            backbone = bert_backbone(pretrained)
            preprocessor = keras_hub.models.BertTextClassifierPreprocessor(
                tokenizer, sequence_length=backbone.max_sequence_length
            )
        backbone.save_to_preset(str(aside))
        (preprocessor or tokenizer).save_to_preset(str(aside))
    if not reasons:
        return "keras_hub.models.BertBackbone"
    return f"{type(backbone).__name__} of this package: {'; '.join(reasons)}"


def why_not_bert_backbone(encoder: Encoder) -> list[str]:
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


def bert_backbone(pretrained: Pretrained) -> keras_hub.models.BertBackbone:
    """A BERT of ours as keras-hub's `BertBackbone`, with the same outputs.

    Raises:
        ForeignWeightsError: if keras-hub's cannot compute what the model computes.
    """
    encoder = pretrained.encoder
    reasons = why_not_bert_backbone(encoder)
    if reasons:
        raise ForeignWeightsError(
            "The model must be one that keras-hub's BertBackbone can be. Received: "
            f"{pretrained.config.name!r}; {'; '.join(reasons)}"
        )
    parts = own_weights.parts_to_hand_on(pretrained, {})
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=encoder.vocab_size,
        num_layers=encoder.num_layers,
        num_heads=encoder.num_heads,
        hidden_dim=encoder.hidden_size,
        intermediate_dim=encoder.intermediate_size,
        dropout=encoder.dropout,
        max_sequence_length=encoder.index_tables["position_index"],
        num_segments=len(parts[bert_parts.TOKEN_TYPES]),
        dtype="float32",
    )
    layout = layouts.keras_hub_bert(own_weights.sizes_of(encoder))
    variables = {variable.path: variable for variable in backbone.weights}
    for part, value in parts.items():
        variables[layout[part].name].assign(layout[part].form.stored(value))
    return backbone


def _text_reader(pretrained: Pretrained) -> keras.Model:
    """The encoder as texts are read with, which pretraining's may not be.

    That one adds type 0 everywhere, and may tell the windows of packed rows apart.
    """
    encoder = pretrained.encoder
    return copy_encoder(pretrained) if isinstance(encoder, Encoder) else encoder


def _own_preprocessor(
    encoder: Encoder,
    tokenizer: EncoderTokenizer,
    pretrained: Pretrained,
) -> WindowPreprocessor | None:
    """None for a model with `[SENT]`s, whose rows need sentences to be found first."""
    if "sentence_id" in encoder.index_tables:
        return None
    length = getattr(pretrained.config.inputs, "window_length", 512)
    return WindowPreprocessor(
        tokenizer, encoder.index_tables, length, encoder.num_token_types
    )
