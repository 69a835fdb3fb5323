"""Reads and writes BERT in Hugging Face's format, and reads the original SegaBERT."""

import dataclasses
import pathlib
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
import tokenizers

from seg_tf import files
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.interop import weights
from seg_tf.interop.weights import HUGGING_FACE, ForeignModel, ForeignWeightsError
from seg_tf.text.normalization import (
    CASED,
    CONTINUATION,
    MAX_CHARACTERS_PER_WORD,
    word_splitter,
)
from seg_tf.text.vocabulary import SPECIAL_TOKENS, UNK, decode_lines

FORMAT, SEGABERT = "hugging_face", "segabert"
CONFIG_FILE, VOCABULARY_FILE = "config.json", "vocab.txt"
WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = f"{WEIGHTS_FILE}.index.json"
TOKENIZER_FILES = ("tokenizer_config.json", "tokenizer.json")
ADDED_FILE = "added_tokens.json"
DOWNLOADS = (WEIGHTS_FILE, INDEX_FILE, "model-*-of-*.safetensors")
# SegaBERT's value in pretraining. The published configs are from fine-tuning.
_AUTHORS_EPSILON = 1e-5
_REQUIRED = {
    "model_type": "bert",
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
}
_WORDS = "bert.embeddings.word_embeddings.weight"
_POSITIONS = "bert.embeddings.position_embeddings.weight"
_BIAS, _TIED_BIAS = "cls.predictions.bias", "cls.predictions.decoder.bias"
_OUTPUT_TABLES = ("cls.predictions.decoder.weight", "cls.predictions.decoder_weight")


def matches(folder: pathlib.Path) -> bool:
    """Returns whether a folder's config.json has `model_type` or `hidden_size`."""
    config = weights.read_settings(folder / CONFIG_FILE, optional=True)
    return not config.keys().isdisjoint(("model_type", "hidden_size"))


def check(folder: pathlib.Path) -> None:
    """Raises `ForeignWeightsError` unless the config is that of a BERT encoder."""
    path = folder / CONFIG_FILE
    weights.require(path, weights.read_settings(path), _REQUIRED)


def read(folder: pathlib.Path) -> ForeignModel:
    """Reads a model folder: config, weights in safetensors files, and any tokenizer.

    Raises `ForeignWeightsError` if a file is damaged or the model is not supported.
    """
    check(folder)
    paths = _weight_files(folder)
    tensors: dict[str, np.ndarray] = {}
    for path in paths:
        path.stat()  # raises an error that names a missing file
        if path.suffix == ".json":
            continue
        try:
            tensors |= safetensors.numpy.load_file(path)
        except (safetensors.SafetensorError, ValueError, KeyError, TypeError) as error:
            raise ForeignWeightsError(
                f"{path}: damaged, cut short or of a dtype that NumPy does not have: "
                f"{error}"
            ) from error
    tensors, notes = _in_usual_form(tensors, folder)
    features = ("position_index", "token_type", *weights.SEGABERT_TABLES)
    model = weights.read_model(
        folder / CONFIG_FILE, tensors, HUGGING_FACE, features, plain_gelu=False
    )
    is_segabert = "token_index" in model.index_tables
    if is_segabert and model.layer_norm_epsilon != _AUTHORS_EPSILON:
        notes.append(
            f"layer_norm_eps={model.layer_norm_epsilon:g} in config.json belongs "
            f"to the authors' fine-tuning; {_AUTHORS_EPSILON:g}, of their pretraining, "
            "is used"
        )
        model = dataclasses.replace(model, layer_norm_epsilon=_AUTHORS_EPSILON)
    normalization, vocabulary, tokenizer_notes = read_tokenizer(folder)
    return ForeignModel(
        format=SEGABERT if is_segabert else FORMAT,
        source=str(folder),
        tensors=tensors,
        names=HUGGING_FACE,
        model=model,
        vocabulary=vocabulary,
        normalization=normalization,
        notes=(*notes, *tokenizer_notes),
        files=paths,
    )


def _weight_files(folder: pathlib.Path) -> tuple[pathlib.Path, ...]:
    if (folder / WEIGHTS_FILE).is_file():
        return (folder / WEIGHTS_FILE,)
    index = folder / INDEX_FILE
    if not index.is_file():
        raise ForeignWeightsError(
            f"{folder}: must have {WEIGHTS_FILE}. Found: none. PyTorch converts "
            "pytorch_model.bin: `safetensors.torch.save_file({name: tensor.clone() for "
            "name, tensor in torch.load(path, weights_only=True).items()}, …)`"
        )
    names = {*weights.read_settings(index).get("weight_map", {}).values()}
    # Files in other folders are not downloaded.
    if not all(isinstance(name, str) and "/" not in name for name in names):
        raise ForeignWeightsError(f"{index}: `weight_map` must name files next to it")
    return (index, *(folder / name for name in sorted(names)))


def _in_usual_form(
    tensors: Mapping[str, np.ndarray], folder: pathlib.Path
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Converts tensors to today's `BertForPreTraining` format. Also returns notes.

    Encoders without a head lack the prefix `bert.`. Early files have TensorFlow's names
    for LayerNorm. SegaBERT, like Megatron-LM, packs query, key and value.
    """
    has_prefix = any(name.startswith("bert.") for name in tensors)
    usual, notes = {}, []
    for name, tensor in tensors.items():
        if not has_prefix and not name.startswith("cls."):
            name = f"bert.{name}"
        name = re.sub(r"\.gamma$", ".weight", re.sub(r"\.beta$", ".bias", name))
        if "self.query_key_value." in name and len(tensor) % 3 == 0:
            for part, third in zip(
                ("query", "key", "value"), np.split(tensor, 3), strict=True
            ):
                usual[name.replace("query_key_value", part)] = third
        else:
            usual[name] = tensor
    # The output table of masked LM is the token table, stored under either name.
    for name in {*_OUTPUT_TABLES} & usual.keys():
        if np.array_equal(usual.setdefault(_WORDS, usual[name]), usual[name]):
            del usual[name]
    if _BIAS not in usual and _TIED_BIAS in usual:
        usual[_BIAS] = usual.pop(_TIED_BIAS)
    has_tokens = HUGGING_FACE.name(f"{weights.TABLES}token_index") in usual
    if has_tokens and usual.pop(_POSITIONS, None) is not None:
        notes.append(
            f"{_POSITIONS} is left out: pretraining with paragraph, sentence and token "
            "indices never used it"
        )
    if _WORDS not in usual:
        raise ForeignWeightsError(
            f"{folder}: must have the tensor {_WORDS!r}, with or without the prefix "
            "'bert.'. Found: none of that name"
        )
    return usual, notes


# === Tokenizer ===

_CLASSES = (None, "BertTokenizer", "BertTokenizerFast")
# The behavior of these classes is defined by tokenizer.json.
_GENERAL_CLASSES = ("PreTrainedTokenizerFast", "TokenizersBackend")
# Settings with which Hugging Face's tokenizers agree with ours.
_CONFIG = {
    "do_basic_tokenize": True,
    "do_word_tokenize": True,
    "do_subword_tokenize": True,
    "clean_text": True,
    "word_tokenizer_type": "basic",
    "subword_tokenizer_type": "wordpiece",
    "wordpieces_prefix": CONTINUATION,
    "never_split": [],
    "auto_map": {},
    **{f"{token.strip('[]').lower()}_token": token for token in SPECIAL_TOKENS},
}
_FAST = {
    "normalizer": "BertNormalizer",
    "pre_tokenizer": "BertPreTokenizer",
    "model": "WordPiece",
    "clean_text": True,
    "unk_token": UNK,
    "continuing_subword_prefix": CONTINUATION,
    "max_input_chars_per_word": MAX_CHARACTERS_PER_WORD,
}
# `Normalization` setting -> keys in tokenizer_config.json and tokenizer.json.
_KEYS = {
    "lower_case": ("do_lower_case", "lowercase"),
    "strip_accents": ("strip_accents", "strip_accents"),
    "split_ideographs": ("tokenize_chinese_chars", "handle_chinese_chars"),
}


def read_tokenizer(
    folder: pathlib.Path,
) -> tuple[dict[str, Any], pathlib.Path | tuple[str, ...] | None, list[str]]:
    """Reads a tokenizer's files, any of which may be missing.

    Returns the `Normalization` settings (None where unknown), the vocabulary (a file,
    its rows or None), and notes for the report. Raises `ForeignWeightsError` if our
    tokenizer would return other ids.
    """
    path, fast_path = (folder / name for name in TOKENIZER_FILES)
    config = weights.read_settings(path, optional=True)
    fast = _open_fast(fast_path) if fast_path.is_file() else None
    model_config = weights.read_settings(folder / CONFIG_FILE, optional=True)
    classes = (*_CLASSES, *(_GENERAL_CLASSES if fast else ()))
    for file, values in ((path, config), (folder / CONFIG_FILE, model_config)):
        if (name := values.get("tokenizer_class")) not in classes:
            raise ForeignWeightsError(
                f"{file}: `tokenizer_class` must be one of {classes[1:]}, or our "
                f"tokenizer would return other ids. Found: {name!r:.60}"
            )
    weights.require(path, config, _CONFIG)
    settings = {name: config.get(key) for name, (key, _) in _KEYS.items()}
    for name, (key, fast_key) in _KEYS.items():
        if settings[name] not in (None, True, False):
            raise ForeignWeightsError(
                f"{path}: `{key}` must be true or false. Found: {settings[name]!r:.60}"
            )
        # If transformers uses a BERT tokenizer, its config takes precedence.
        if fast and (
            key not in config or config.get("tokenizer_class") not in _CLASSES
        ):
            settings[name] = getattr(fast.normalizer, fast_key)
    if settings["split_ideographs"] is None and config:
        settings["split_ideographs"] = True
    loose = weights.read_settings(folder / ADDED_FILE, optional=True)
    try:
        added = {int(number): (token, False) for token, number in loose.items()}
    except (TypeError, ValueError) as error:
        raise ForeignWeightsError(
            f"{folder / ADDED_FILE}: must have ids by their tokens: {error}"
        ) from error
    try:
        added |= {
            int(number): (token["content"], token.get("special"))
            for number, token in config.get("added_tokens_decoder", {}).items()
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ForeignWeightsError(
            f"{path}: `added_tokens_decoder` must have tokens by their ids: {error!r}"
        ) from error
    rows: dict[int, str] = {}
    vocabulary = folder / VOCABULARY_FILE
    if vocabulary.is_file():
        lines = decode_lines(vocabulary.read_bytes(), str(vocabulary))
        rows = dict(enumerate(lines))
    if fast:
        for number, token in fast.get_added_tokens_decoder().items():
            added[number] = token.content, token.special
        pieces = fast.get_vocab(with_added_tokens=False)
        rows = rows or {number: token for token, number in pieces.items()}
    if not rows:
        return settings, None, []
    num_lines = len(rows)
    for number, (token, _) in added.items():
        if 0 <= number < num_lines + weights.MAX_PADDING:
            rows.setdefault(number, token)
    notes = []
    text_tokens = [token for token, is_special in added.values() if not is_special]
    split = word_splitter(CASED)
    for is_word, result in (
        (True, "as whole words only"),
        (False, "never, because it splits them into several words"),
    ):
        group = [token for token in text_tokens if (split(token) == [token]) is is_word]
        if group := [token for token in group if token not in SPECIAL_TOKENS]:
            notes.append(
                f"added tokens of text, such as {', '.join(group[:3])}: Hugging Face "
                f"finds them before it splits words, our tokenizer {result}"
            )
    if vocabulary.is_file() and len(rows) == num_lines:
        return settings, vocabulary, notes
    tokens = tuple(rows.get(number, "") for number in range(max(rows) + 1))
    return settings, tokens, notes


def _open_fast(path: pathlib.Path) -> tokenizers.Tokenizer:
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the class that `tokenizers` raises
        raise ForeignWeightsError(f"{path}: no tokenizer: {error}") from error
    parts = {name: getattr(tokenizer, name) for name in list(_FAST)[:3]}
    for key, expected in _FAST.items():
        if key in parts:
            value: Any = type(parts[key]).__name__
        else:
            owner = "normalizer" if key == "clean_text" else "model"
            value = getattr(parts[owner], key)
        if value != expected:
            raise ForeignWeightsError(
                f"{path}: `{key}` must be {expected!r}, or our tokenizer would return "
                f"other ids. Found: {value!r:.60}"
            )
    return tokenizer


# === Export ===


def write(pretrained: Pretrained, folder: pathlib.Path) -> None:
    """Writes a BERT as config.json, model.safetensors and tokenizer files.

    Includes a trained masked-LM head and an imported pooler. A model without token
    types gets a table of two rows of zeros. `folder` must be new or empty, or a
    ValueError is raised. It appears complete or not at all. Raises
    `ForeignWeightsError` if the model is not a BERT.
    """
    encoder, normalization = pretrained.encoder, pretrained.normalization
    weights.check_is_bert(pretrained)
    has_head = weights.has_trained_head(pretrained)
    values = weights.exported_values(pretrained, with_head=has_head)
    tensors = {
        HUGGING_FACE.name(weight): HUGGING_FACE.to_theirs(weight, value)
        for weight, value in values.items()
    }
    max_length = encoder.index_tables["position_index"]
    config = {
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
        "max_position_embeddings": max_length,
        "type_vocab_size": len(values[weights.TOKEN_TYPES]),
        "initializer_range": encoder.initializer_range,
        "layer_norm_eps": encoder.layer_norm_epsilon,
        "position_embedding_type": "absolute",
        "pad_token_id": pretrained.vocabulary.pad_id,
        "tie_word_embeddings": True,
    }
    tokenizer = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": normalization.lower_case,
        "do_basic_tokenize": True,
        # As in ours, null means that `do_lower_case` decides.
        "strip_accents": normalization.described().get("strip_accents"),
        "tokenize_chinese_chars": normalization.split_ideographs,
        "model_max_length": max_length,
        **{f"{token.strip('[]').lower()}_token": token for token in SPECIAL_TOKENS},
    }
    with files.new_folder(folder) as unfinished:
        files.write_json(unfinished / CONFIG_FILE, config)
        path = unfinished / WEIGHTS_FILE
        # Readers require the framework's name.
        safetensors.numpy.save_file(tensors, path, metadata={"format": "pt"})
        path.chmod(0o644)
        vocabulary = pretrained.vocabulary.to_bytes()
        (unfinished / VOCABULARY_FILE).write_bytes(vocabulary)
        files.write_json(unfinished / TOKENIZER_FILES[0], tokenizer)
