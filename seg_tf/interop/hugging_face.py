"""BERT as Hugging Face stores it, and SegaBERT as its authors did: in and out."""

import dataclasses
import importlib
import importlib.util
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from seg_tf import files, output_paths
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.interop import tensor_names, weights
from seg_tf.interop.settings import Settings
from seg_tf.interop.tensor_names import TensorNames
from seg_tf.interop.weights import ForeignModel, ForeignWeightsError, Store
from seg_tf.text.normalization import CONTINUATION, MAX_CHARACTERS_PER_WORD
from seg_tf.text.vocabulary import SPECIAL_TOKENS, UNK, decode_lines

FORMAT, SEGABERT = "hugging_face", "segabert"
CONFIG_FILE, VOCABULARY_FILE = "config.json", "vocab.txt"
WEIGHTS_FILE, PYTORCH_FILE = "model.safetensors", "pytorch_model.bin"
TOKENIZER_FILES = (
    *("tokenizer_config.json", "tokenizer.json"),
    *("added_tokens.json", "special_tokens_map.json"),
)
# Names of files with weights, the preferred format first.
WEIGHT_PATTERNS = [
    (name, f"{name}.index.json", "{}-*-of-*.{}".format(*name.split(".")))
    for name in (WEIGHTS_FILE, PYTORCH_FILE)
]
# The authors' pretraining; their published configs are those of fine-tuning.
_AUTHORS_EPSILON = 1e-5
# `weights_only` of earlier versions could be circumvented (CVE-2025-32434).
_OLDEST_TORCH = (2, 6)


def matches(folder: pathlib.Path) -> bool:
    """True for a config of Hugging Face's form; early ones have no `model_type`."""
    config = Settings.optional(folder / CONFIG_FILE).values
    return not config.keys().isdisjoint(("model_type", "hidden_size"))


def check(folder: pathlib.Path) -> None:
    """Raises `ForeignWeightsError` for a model that our encoders cannot be."""
    config = Settings(folder / CONFIG_FILE)
    required = {
        "model_type": "bert",
        "position_embedding_type": "absolute",
        "is_decoder": False,
        "add_cross_attention": False,
    }
    for name, expected in required.items():
        value = config.values.get(name, expected)
        if type(value) is not type(expected) or value != expected:
            raise config.error(name, repr(expected), value)


def read(folder: pathlib.Path) -> ForeignModel:
    """Opens a folder with `config.json` and weights.

    The weights are `model.safetensors` or, if PyTorch is installed,
    `pytorch_model.bin`, each in one file or sharded with an index.

    Raises:
        OSError: if a file cannot be read.
        ForeignWeightsError: if one is damaged, or if our encoders cannot be the model.
    """
    check(folder)
    store, weight_files = _open_weights(folder)
    names = _find_names(store)
    features = ("position_index", "token_type", *tensor_names.SEGABERT_TABLES)
    config = Settings(folder / CONFIG_FILE)
    model = config.model(store, names, features, plain_gelu=False)
    normalization, vocabulary, notes = read_tokenizer(folder)
    tables = model.index_tables
    is_packed = names.names == tensor_names.SEGABERT.names
    is_segabert = is_packed or "token_index" in tables
    if is_segabert and model.layer_norm_epsilon != _AUTHORS_EPSILON:
        notes.append(
            f"layer_norm_eps={model.layer_norm_epsilon:g} in config.json belongs "
            f"to the authors' fine-tuning; {_AUTHORS_EPSILON:g}, of their pretraining, "
            "is used"
        )
        model = dataclasses.replace(model, layer_norm_epsilon=_AUTHORS_EPSILON)
    has_idle_positions = {"token_index", "position_index"} <= tables.keys()
    if has_idle_positions:
        notes.append(
            "the file also has a table of positions, which pretraining with paragraph, "
            "sentence and token indices never used"
        )
    return ForeignModel(
        format=SEGABERT if is_segabert else FORMAT,
        store=store,
        names=names,
        model=model,
        idle_tables=("position_index",) if has_idle_positions else (),
        vocabulary=vocabulary,
        normalization=normalization,
        notes=tuple(notes),
        files=weight_files,
    )


def _find_names(store: Store) -> TensorNames:
    """The names in a file: any prefix, packed or not, with early names or not."""
    is_packed = store.find_prefix("attention.self.query_key_value.weight") is not None
    names = tensor_names.SEGABERT if is_packed else tensor_names.HUGGING_FACE
    words = "embeddings.word_embeddings.weight"
    gamma = "embeddings.LayerNorm.gamma"  # early conversions from TensorFlow
    # The token table may be stored under the name of the output table only.
    prefix = store.find_prefix(words, "embeddings.LayerNorm.weight", gamma)
    if prefix is None:
        raise ForeignWeightsError(
            f"{store.source}: must have the tensor {words!r}, with or without the "
            "prefix 'bert.'. Found: none of that name"
        )
    kinds = dict(names.kinds)
    if prefix + gamma in store.shapes:
        kinds |= {"gamma": ".gamma", "beta": ".beta"}
    return dataclasses.replace(names, prefix=prefix, kinds=kinds)


# === Weights ===


def _open_weights(folder: pathlib.Path) -> tuple[Store, tuple[pathlib.Path, ...]]:
    """The tensors, and the files that contain them."""
    names = [names[i] for names in WEIGHT_PATTERNS for i in (0, 1)]
    paths = [folder / name for name in names if (folder / name).is_file()]
    is_pickle = paths and paths[0].name.startswith(PYTORCH_FILE)
    if not paths or (is_pickle and not importlib.util.find_spec("torch")):
        reason = "which has neither"
        if paths:
            reason = (
                f"which has {paths[0].name}, a pickle, which can run any code. Install "
                f"torch, which can read its tensors only; or convert it to "
                f"{WEIGHTS_FILE} elsewhere: `safetensors.torch.save_file({{name: "
                "tensor.clone() for name, tensor in state.items()}, …)`"
            )
        raise ForeignWeightsError(
            f"`--from` must have {WEIGHTS_FILE}, or {PYTORCH_FILE} with PyTorch "
            f"installed. Received: {folder}, {reason}"
        )
    path, open_file = paths[0], _open_pytorch if is_pickle else _open_safetensors
    if not path.name.endswith(".index.json"):
        return open_file(path), (path,)
    index = Settings(path)
    file_names = index.section("weight_map").values
    for name, file in file_names.items():
        # Other folders were not downloaded with the index.
        if not isinstance(file, str) or pathlib.PurePath(file).name != file:
            raise index.error("weight_map", "files in the same folder", {name: file})
    shards = {file: open_file(folder / file) for file in sorted({*file_names.values()})}
    for name, file in file_names.items():
        if name not in shards[file].shapes:
            raise ForeignWeightsError(
                f"{shards[file].source}: must have the tensor {name!r}, according to "
                f"{path.name}. Found: none of that name"
            )
    shapes = {name: shards[file].shapes[name] for name, file in file_names.items()}
    store = Store(str(path), shapes, lambda name: shards[file_names[name]].read(name))
    return store, (path, *(folder / file for file in shards))


def _open_safetensors(path: pathlib.Path) -> Store:
    path.stat()  # a missing file is an error that names it
    try:
        file = safetensors.safe_open(path, framework="np")
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
    except (safetensors.SafetensorError, ValueError) as error:
        raise ForeignWeightsError(
            f"{path}: damaged, cut short or not a safetensors file: {error}"
        ) from error

    def read_tensor(name: str) -> np.ndarray:
        if (dtype := slices[name].get_dtype()) not in ("F64", "F32", "F16"):
            raise ForeignWeightsError(
                f"{path}: the tensor {name!r} must be of type F64, F32 or F16. Found: "
                f"{dtype}"
            )
        return file.get_tensor(name)

    shapes = {name: tuple(part.get_shape()) for name, part in slices.items()}
    return Store(str(path), shapes, read_tensor)


def _open_pytorch(path: pathlib.Path) -> Store:
    """Opens a pickle, without running code in it."""
    torch = importlib.import_module("torch")  # slow to import
    numbers = re.match(r"(\d+)\.(\d+)", torch.__version__)
    if numbers is None or tuple(map(int, numbers.groups())) < _OLDEST_TORCH:
        raise ForeignWeightsError(
            f"PyTorch must be {'.'.join(map(str, _OLDEST_TORCH))} or newer to read the "
            f"pickle {path} without running code in it. Found: {torch.__version__}"
        )
    path.stat()
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # damaged pickles raise any class
        reason = str(error).strip().partition("\n")[0].partition(". ")[0]
        raise ForeignWeightsError(
            f"{path}: damaged, cut short or not a PyTorch file with tensors only: "
            f"{reason or type(error).__name__}"
        ) from error
    entries = state.items() if isinstance(state, Mapping) else [("", state)]
    for name, tensor in entries:
        if not (
            name
            and isinstance(name, str)
            and isinstance(tensor, torch.Tensor)
            and tensor.is_floating_point()
        ):
            raise ForeignWeightsError(
                f"{path}: must have floating-point tensors by name. Found: {name!r}, "
                f"{getattr(tensor, 'dtype', type(tensor).__name__)}"
            )
    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
    # NumPy has no bfloat16.
    return Store(str(path), shapes, lambda name: state[name].float().numpy())


# === Tokenizer ===

_CLASSES = ("BertTokenizer", "BertTokenizerFast")
# Their behavior is defined by tokenizer.json.
_GENERAL_CLASSES = ("PreTrainedTokenizerFast", "TokenizersBackend")
# Values with which Hugging Face's tokenizers compute what ours does.
_CONFIG = {
    "do_basic_tokenize": True,
    "do_word_tokenize": True,
    "do_subword_tokenize": True,
    "clean_text": True,
    "word_tokenizer_type": "basic",
    "subword_tokenizer_type": "wordpiece",
    "wordpieces_prefix": CONTINUATION,
    **{f"{token.strip('[]').lower()}_token": token for token in SPECIAL_TOKENS},
}
_FAST = {
    "normalizer": {"type": "BertNormalizer", "clean_text": True},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "model": {
        "type": "WordPiece",
        "unk_token": UNK,
        "continuing_subword_prefix": CONTINUATION,
        "max_input_chars_per_word": MAX_CHARACTERS_PER_WORD,
    },
}
# Setting of `Normalization` -> key of tokenizer_config.json and of tokenizer.json.
_KEYS = {
    "lower_case": ("do_lower_case", "lowercase"),
    "strip_accents": ("strip_accents", "strip_accents"),
    "split_ideographs": ("tokenize_chinese_chars", "handle_chinese_chars"),
}


def read_tokenizer(
    folder: pathlib.Path,
) -> tuple[dict[str, bool], pathlib.Path | tuple[str, ...] | None, list[str]]:
    """Reads a tokenizer's files, any of which may be missing.

    Returns:
        Its settings of `Normalization`; the vocabulary, a file or its rows, if there
        is one; notes for the report.

    Raises:
        OSError: if a file cannot be read.
        ForeignWeightsError: naming file and key, if our tokenizer cannot do what a
            setting says, or if two files contradict each other.
    """
    hint = ", or our tokenizer gives other ids"
    config, fast, added, special, model = (
        Settings.optional(folder / name, hint)
        for name in (*TOKENIZER_FILES, CONFIG_FILE)
    )
    classes = (*_CLASSES, *(_GENERAL_CLASSES if fast.values else ()))
    for settings in (config, model):
        if (name := settings.values.get("tokenizer_class")) not in (None, *classes):
            raise settings.error("tokenizer_class", " or ".join(classes), name)
    if "AutoTokenizer" in (auto_map := config.section("auto_map", default={}).values):
        raise config.error("auto_map", "without a tokenizer", auto_map)
    config.require(_CONFIG)
    never_text = {
        *SPECIAL_TOKENS,
        *config.tokens("additional_special_tokens"),
        *special.tokens("additional_special_tokens"),
    }
    if words := {*config.tokens("never_split")} - never_text:
        raise config.error("never_split", "of special tokens", sorted(words))
    values = {name: config.flag(key) for name, (key, _) in _KEYS.items()}
    if fast.values:
        for section, expected in _FAST.items():
            fast.section(section).require(expected)
        values = _combine(values, fast.section("normalizer"))
    if config.values or fast.values:
        values["split_ideographs"] = values["split_ideographs"] is not False
    vocabulary, notes = _read_vocabulary(folder, config, fast, added, never_text)
    known = {name: value for name, value in values.items() if value is not None}
    return known, vocabulary, notes


def _combine(
    slow: Mapping[str, bool | None], normalizer: Settings
) -> dict[str, bool | None]:
    """The settings of both files, which must not contradict each other."""
    fast = {name: normalizer.flag(key) for name, (_, key) in _KEYS.items()}
    for name, (key, fast_key) in _KEYS.items():
        # Null accents follow the case.
        default = "lower_case" if name == "strip_accents" else name
        before, value = (
            settings[default] if settings[name] is None else settings[name]
            for settings in (slow, fast)
        )
        if None not in (before, value) and before != value:
            expected = f"{before}, as `{key}` of tokenizer_config.json"
            raise normalizer.error(fast_key, expected, value)
    return {name: slow[name] if fast[name] is None else fast[name] for name in _KEYS}


def _added_tokens(
    config: Settings, fast: Settings, added: Settings
) -> Iterator[tuple[Settings, str, Any, Any]]:
    """File, key, id and token, with its options if it has any."""
    for number, token in config.section("added_tokens_decoder", {}).values.items():
        is_number = number.isdecimal() and number.isascii()
        yield config, "added_tokens_decoder", int(number) if is_number else None, token
    for token in fast.values.get("added_tokens") or []:
        number = token.get("id") if isinstance(token, Mapping) else None
        yield fast, "added_tokens", number, token
    for token, number in added.values.items():
        yield added, token, number, token


def _read_vocabulary(
    folder: pathlib.Path,
    config: Settings,
    fast: Settings,
    added: Settings,
    never_text: set[Any],
) -> tuple[pathlib.Path | tuple[str, ...] | None, list[str]]:
    """The rows of vocab.txt or tokenizer.json, with added tokens; notes."""
    path = folder / VOCABULARY_FILE
    pieces = fast.section("model").section("vocab", {}) if fast.values else fast
    rows: dict[Any, Any] = {}
    if path.is_file():
        rows = dict(enumerate(decode_lines(path.read_bytes(), str(path))))
    limit = (len(rows) or len(pieces.values)) + weights.MAX_PADDING
    for token, number in pieces.values.items():
        if type(number) is not int or not 0 <= number < limit:
            raise pieces.error(token, f"an id below {limit}", number)
        if path.is_file() and rows.get(number) != token:
            raise pieces.error(token, f"its id in {path}", number)
        rows[number] = token
    if not rows:
        return (path if path.is_file() else None), []
    num_rows, text_tokens = max(rows) + 1, []
    for settings, key, number, token in _added_tokens(config, fast, added):
        content = token.get("content") if isinstance(token, Mapping) else token
        is_id = type(number) is int and 0 <= number < num_rows + weights.MAX_PADDING
        if not (is_id and isinstance(content, str)):
            raise settings.error(key, "a token with its id", [number, token])
        if rows.setdefault(number, content) != content:
            expected = f"{rows[number]!r} at {number}, as in the vocabulary"
            raise settings.error(key, expected, content)
        is_special = isinstance(token, Mapping) and token.get("special") is True
        if not (is_special or content in never_text or content in text_tokens):
            text_tokens.append(content)
    notes = []
    if text_tokens:
        notes.append(
            f"added tokens of text, such as {', '.join(text_tokens[:3])}: Hugging Face "
            "finds them before it splits words, our tokenizer as whole words only"
        )
    if path.is_file() and len(rows) == num_rows:
        return path, notes
    return tuple(rows.get(number, "") for number in range(max(rows) + 1)), notes


# === Out ===


def write(pretrained: Pretrained, folder: pathlib.Path) -> None:
    """Writes a BERT as config.json, model.safetensors and a tokenizer's files.

    A trained masked-LM head and an imported pooler are included. A model without token
    types gets a table of two rows of zeros, which changes nothing.

    Args:
        pretrained: a BERT, whose only index table is that of positions.
        folder: new or empty; written as a whole or not at all.

    Raises:
        ForeignWeightsError: if the model is no such BERT.
        ValueError: if the folder is in use.
        OSError: if it cannot be written.
    """
    encoder, normalization = pretrained.encoder, pretrained.normalization
    tables = list(getattr(encoder, "index_tables", ()))
    if not getattr(encoder, "has_bert_layers", False) or tables != ["position_index"]:
        raise ForeignWeightsError(
            "Hugging Face's BERT embeds positions only: the model must have BERT's "
            "layers and only the table position_index. Received: "
            f"{pretrained.config.name!r}, {type(encoder).__name__} with "
            f"{', '.join(tables) or 'no table'}, "
            f"trunk={getattr(encoder, 'trunk', None)!r}"
        )
    has_head = weights.has_trained_head(pretrained)
    values = weights.exported_values(pretrained, with_head=has_head)
    names = tensor_names.HUGGING_FACE
    tensors = {
        names.name(weight): np.ascontiguousarray(names.to_theirs(weight, value))
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
        "type_vocab_size": len(values[tensor_names.TOKEN_TYPES]),
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
        # Null follows `do_lower_case`, here too.
        "strip_accents": normalization.described().get("strip_accents"),
        "tokenize_chinese_chars": normalization.split_ideographs,
        "model_max_length": max_length,
        **{f"{token.strip('[]').lower()}_token": token for token in SPECIAL_TOKENS},
    }
    with output_paths.new_folder(folder) as unfinished:
        files.write_json(unfinished / CONFIG_FILE, config)
        path = unfinished / WEIGHTS_FILE
        # Readers require the framework's name.
        safetensors.numpy.save_file(tensors, path, metadata={"format": "pt"})
        path.chmod(0o644)
        vocabulary = pretrained.vocabulary.to_bytes()
        (unfinished / VOCABULARY_FILE).write_bytes(vocabulary)
        files.write_json(unfinished / TOKENIZER_FILES[0], tokenizer)
