"""BERT as Hugging Face stores it, and SegaBERT as its authors did: in and out."""

import dataclasses
import importlib
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from seg_tf import files, output_paths
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.interop import layouts, weights
from seg_tf.interop.settings import Settings
from seg_tf.interop.weights import ForeignModel, ForeignWeightsError, Store
from seg_tf.text.normalization import CONTINUATION, MAX_CHARACTERS_PER_WORD
from seg_tf.text.vocabulary import SPECIAL_TOKENS, UNK, decode_lines

HUGGING_FACE, SEGABERT = "hugging_face", "segabert"
CONFIG_FILE, VOCABULARY_FILE = "config.json", "vocab.txt"
WEIGHTS_FILE, PYTORCH_FILE = "model.safetensors", "pytorch_model.bin"
TOKENIZER_FILES = (
    *("tokenizer_config.json", "tokenizer.json"),
    *("added_tokens.json", "special_tokens_map.json"),
)
# What their pretraining was run with; the published configs are those of fine-tuning.
_AUTHORS_EPSILON = 1e-5
# Before it, `weights_only` could be got around (CVE-2025-32434).
_OLDEST_TORCH = (2, 6)


def is_config(settings: Settings) -> bool:
    """True for a config of Hugging Face's form; early ones lack `model_type`."""
    return not settings.values.keys().isdisjoint(("model_type", "hidden_size"))


def check_model(config: Settings) -> None:
    """Raises where the model computes what our encoders do not."""
    required = {
        "model_type": "bert",
        "position_embedding_type": "absolute",
        "is_decoder": False,
        "add_cross_attention": False,
    }
    for name, value in required.items():
        found = config.values.get(name, value)
        if type(found) is not type(value) or found != value:
            raise config.error(name, repr(value), found)


def read(folder: pathlib.Path) -> ForeignModel:
    """Opens a folder with `config.json` and weights.

    The weights are `model.safetensors` or, without it and where PyTorch is installed,
    `pytorch_model.bin`; each in one file or in several with an index.

    Raises:
        OSError: if a file cannot be read.
        ForeignWeightsError: if one is damaged, or the model is no BERT that our
            encoders can be.
    """
    config = Settings(folder / CONFIG_FILE)
    check_model(config)
    store, weight_files = _open_weights(folder)
    layout = _layout(store)
    sizes = config.sizes(store, layout)
    features = ("position_index", "token_type", *layouts.SEGABERT_TABLES)
    names = {one: layout.name(layouts.table(one)) for one in features}
    rows = {
        feature: store.shapes[name][0]
        for feature, name in names.items()
        if name in store.shapes
    }
    normalization, vocabulary, notes = read_tokenizer(folder)
    epsilon, idle = config.number("layer_norm_eps"), ()
    is_authors = layout.in_layer is layouts.SEGABERT.in_layer or "token_index" in rows
    if is_authors and epsilon != _AUTHORS_EPSILON:
        notes.append(
            f"config.json says layer_norm_eps={epsilon:g}, that of the authors' "
            f"fine-tuning; their pretraining computed with {_AUTHORS_EPSILON:g}, which "
            "is taken"
        )
        epsilon = _AUTHORS_EPSILON
    if {"token_index", "position_index"} <= rows.keys():
        idle = ("position_index",)
        notes.append(
            "the file has a table of positions too, which pretraining with paragraph, "
            "sentence and token indices never used"
        )
    return ForeignModel(
        format=SEGABERT if is_authors else HUGGING_FACE,
        store=store,
        layout=layout,
        sizes=sizes,
        table_rows=rows,
        idle_tables=idle,
        vocab_size=config.vocab_size(),
        layer_norm_epsilon=epsilon,
        approximate_gelu=config.approximate_gelu(plain_gelu=False),
        dropout=config.number("hidden_dropout_prob"),
        initializer_range=config.number("initializer_range"),
        vocabulary=vocabulary,
        normalization=normalization,
        notes=tuple(notes),
        files=weight_files,
    )


def _layout(store: Store) -> layouts.TensorNames:
    """The names in a file: with any prefix, packed or not, with early names or not."""
    layout = layouts.HUGGING_FACE
    if store.prefix_of("attention.self.query_key_value.weight") is not None:
        layout = layouts.SEGABERT
    words = "embeddings.word_embeddings.weight"
    gamma = "embeddings.LayerNorm.gamma"  # converted early from TensorFlow
    # Where the token table is stored by the name of the output table alone, the norm
    # tells the prefix.
    prefix = store.prefix_of(words, "embeddings.LayerNorm.weight", gamma)
    if prefix is None:
        raise ForeignWeightsError(
            f"{store.source}: the tensor {words!r} must be there, with or without the "
            "prefix 'bert.'. Found: none of that name"
        )
    kinds = dict(layout.kinds)
    if prefix + gamma in store.shapes:
        kinds |= {"gamma": ".gamma", "beta": ".beta"}
    return dataclasses.replace(layout, prefix=prefix, kinds=kinds)


# === Weights ===


def find_torch() -> ModuleType | None:
    """PyTorch, if it is installed."""
    try:
        return importlib.import_module("torch")
    except ImportError:
        return None


def weight_patterns() -> list[tuple[str, ...]]:
    """Names of files with weights that can be read, the best first."""
    names = [WEIGHTS_FILE, *([PYTORCH_FILE] if find_torch() else [])]
    return [
        (name, f"{name}.index.json", "{}-*-of-*.{}".format(*name.split(".")))
        for name in names
    ]


def _open_weights(folder: pathlib.Path) -> tuple[Store, tuple[pathlib.Path, ...]]:
    """The tensors, and the files that they are in."""

    def find(name: str) -> pathlib.Path | None:
        paths = (folder / name, folder / f"{name}.index.json")
        return next((path for path in paths if path.is_file()), None)

    if path := find(WEIGHTS_FILE):
        return _open_files(path, _open_safetensors)
    path = find(PYTORCH_FILE)
    # Imported only where it is needed, since that takes seconds.
    if path and (torch := find_torch()):
        return _open_files(path, lambda one: _open_pytorch(one, torch))
    raise ForeignWeightsError(
        f"`--from` must hold {WEIGHTS_FILE}, or {PYTORCH_FILE} where PyTorch is "
        f"installed. Received: {folder}"
        + (
            f", which has {path.name}, a pickle that can run any code. Install PyTorch "
            "(the package torch), which reads its tensors alone; or, where PyTorch is, "
            f"make {WEIGHTS_FILE} of it: `safetensors.torch.save_file({{name: "
            "tensor.clone() for name, tensor in state.items()}, …)`"
            if path
            else ", which has none"
        )
    )


def _open_files(
    path: pathlib.Path, open_file: Callable[[pathlib.Path], Store]
) -> tuple[Store, tuple[pathlib.Path, ...]]:
    """Opens a file of weights, or an index of several and all of these."""
    if not path.name.endswith(".index.json"):
        return open_file(path), (path,)
    index = Settings(path)
    file_of = index.section("weight_map").values
    for name, file in file_of.items():
        # A file elsewhere did not come with the index.
        if not isinstance(file, str) or pathlib.PurePath(file).name != file:
            raise index.error("weight_map", "of names of files beside it", {name: file})
    stores = {file: open_file(path.with_name(file)) for file in {*file_of.values()}}
    for name, file in file_of.items():
        if name not in stores[file].shapes:
            raise ForeignWeightsError(
                f"{stores[file].source}: the tensor {name!r} must be there, as "
                f"{path.name} says. Found: none of that name"
            )
    shapes = {name: stores[file].shapes[name] for name, file in file_of.items()}
    store = Store(str(path), shapes, lambda name: stores[file_of[name]].read(name))
    return store, (path, *(path.with_name(file) for file in sorted(stores)))


def _open_safetensors(path: pathlib.Path) -> Store:
    path.stat()  # raises the error that says which file is missing
    try:
        file = safetensors.safe_open(path, framework="np")
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
    except (safetensors.SafetensorError, ValueError) as error:
        raise ForeignWeightsError(
            f"{path}: damaged, cut short or no safetensors file: {error}"
        ) from error

    def read_tensor(name: str) -> np.ndarray:
        if (dtype := slices[name].get_dtype()) not in ("F64", "F32", "F16"):
            raise ForeignWeightsError(
                f"{path}: the tensor {name!r} must hold numbers of one of the types "
                f"F64, F32, F16. Found: {dtype}"
            )
        return file.get_tensor(name)

    shapes = {name: tuple(one.get_shape()) for name, one in slices.items()}
    return Store(str(path), shapes, read_tensor)


def _open_pytorch(path: pathlib.Path, torch: ModuleType) -> Store:
    """Opens a pickle, which could run any code if it were read in any other way."""
    numbers = re.match(r"(\d+)\.(\d+)", torch.__version__)
    if numbers is None or tuple(map(int, numbers.groups())) < _OLDEST_TORCH:
        raise ForeignWeightsError(
            f"PyTorch must be {'.'.join(map(str, _OLDEST_TORCH))} or newer to read "
            f"{path}, a pickle, without running code in it. Found: PyTorch "
            f"{torch.__version__}"
        )
    path.stat()
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    # An error of any class may come out of a damaged pickle.
    except Exception as error:
        reason = str(error).strip().partition("\n")[0].partition(". ")[0]
        raise ForeignWeightsError(
            f"{path}: damaged, cut short or no PyTorch file of tensors alone, all that "
            f"is read of one: {reason or type(error).__name__}"
        ) from error
    entries = state.items() if isinstance(state, Mapping) else [("", state)]
    for name, tensor in entries:
        if not (name and isinstance(name, str) and isinstance(tensor, torch.Tensor)):
            raise ForeignWeightsError(
                f"{path}: must hold tensors by name. Found: {name!r}, of "
                f"{type(tensor).__name__}"
            )

    def read_tensor(name: str) -> np.ndarray:
        if not state[name].is_floating_point():
            raise ForeignWeightsError(
                f"{path}: the tensor {name!r} must hold floating-point numbers. Found: "
                f"{state[name].dtype}"
            )
        # NumPy has no bfloat16.
        return np.asarray(state[name].detach().float().numpy())

    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
    return Store(str(path), shapes, read_tensor)


# === Tokenizer ===

_CLASSES = ("BertTokenizer", "BertTokenizerFast")
# These are what tokenizer.json makes them.
_GENERAL_CLASSES = ("PreTrainedTokenizerFast", "TokenizersBackend")
# Key -> value that it must have, where it is there, for our tokenizer to be the same.
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
    """Reads the files of a tokenizer, any of which may be missing.

    Returns:
        The settings of `Normalization` that they give; the vocabulary, a file or its
        rows, if there is one; notes for the report.

    Raises:
        OSError: if a file cannot be read.
        ForeignWeightsError: naming file and key, if our tokenizer does not compute what
            a setting says, or two files contradict each other.
    """
    hint = ", or our tokenizer gives other ids"
    config, fast, added, special, model = (
        Settings.optional(folder / name, hint)
        for name in (*TOKENIZER_FILES, CONFIG_FILE)
    )
    classes = (*_CLASSES, *(_GENERAL_CLASSES if fast.values else ()))
    for one in (config, model):
        if (name := one.values.get("tokenizer_class")) not in (None, *classes):
            raise one.error("tokenizer_class", " or ".join(classes), name)
    if "AutoTokenizer" in (auto_map := config.section("auto_map", default={}).values):
        raise config.error("auto_map", "without a tokenizer", auto_map)
    config.require(_CONFIG)
    never_text = {
        *SPECIAL_TOKENS,
        *config.tokens("additional_special_tokens"),
        *special.tokens("additional_special_tokens"),
    }
    if words := [one for one in config.tokens("never_split") if one not in never_text]:
        raise config.error("never_split", "of special tokens", words)
    found = {name: config.flag(key) for name, (key, _) in _KEYS.items()}
    if fast.values:
        for section, expected in _FAST.items():
            fast.section(section).require(expected)
        found = _combine(found, fast.section("normalizer"))
    if config.values or fast.values:
        found["split_ideographs"] = found["split_ideographs"] is not False
    vocabulary, notes = _read_vocabulary(folder, config, fast, added, never_text)
    known = {name: value for name, value in found.items() if value is not None}
    return known, vocabulary, notes


def _combine(
    found: Mapping[str, bool | None], normalizer: Settings
) -> dict[str, bool | None]:
    """The settings of both files, which must not contradict each other."""
    fast = {name: normalizer.flag(key) for name, (_, key) in _KEYS.items()}
    # Null accents follow the case.
    ours, theirs = (
        {**one, "strip_accents": one["lower_case"]}
        if one["strip_accents"] is None
        else one
        for one in (found, fast)
    )
    for name, (key, fast_key) in _KEYS.items():
        if None not in (ours[name], theirs[name]) and ours[name] != theirs[name]:
            as_in = f"{ours[name]}, as `{key}` of tokenizer_config.json"
            raise normalizer.error(fast_key, as_in, theirs[name])
    return {name: found[name] if fast[name] is None else fast[name] for name in _KEYS}


def _added_tokens(
    config: Settings, fast: Settings, added: Settings
) -> Iterator[tuple[Settings, str, Any, Any]]:
    """File, key, id and token, with its options if it has any."""
    for number, token in config.section("added_tokens_decoder", {}).values.items():
        number = int(number) if number.isdecimal() and number.isascii() else number
        yield config, "added_tokens_decoder", number, token
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
    """The rows of vocab.txt or tokenizer.json, with the tokens that were added."""
    path = folder / VOCABULARY_FILE
    pieces = fast.section("model").section("vocab", {}) if fast.values else fast
    rows: dict[Any, Any] = {number: token for token, number in pieces.values.items()}
    most = len(rows) + weights.MAX_PADDING
    for token, number in pieces.values.items():
        if type(number) is not int or not 0 <= number < most:
            raise pieces.error(token, f"an id below {most}", number)
    if path.is_file():
        lines = dict(enumerate(decode_lines(path.read_bytes(), str(path))))
        for number, token in rows.items():
            if lines.get(number) != token:
                as_in = f"the id that {path} has for it"
                raise pieces.error(token, as_in, number)
        rows = lines
    if not rows and not path.is_file():
        return None, []
    num_rows, of_text = max(rows, default=-1) + 1, []
    for settings, key, number, token in _added_tokens(config, fast, added):
        content = token.get("content") if isinstance(token, Mapping) else token
        is_id = type(number) is int and 0 <= number < num_rows + weights.MAX_PADDING
        if not (is_id and isinstance(content, str)):
            raise settings.error(key, "a token with its id", [number, token])
        if rows.setdefault(number, content) != content:
            expected = f"{rows[number]!r} at {number}, as in the vocabulary"
            raise settings.error(key, expected, content)
        is_special = isinstance(token, Mapping) and token.get("special") is True
        if not (is_special or content in never_text or content in of_text):
            of_text.append(content)
    notes = []
    if of_text:
        notes.append(
            f"added tokens that stand for text, such as {', '.join(of_text[:3])}: "
            "Hugging Face looks for them before words are split, our tokenizer finds "
            "them as whole words alone"
        )
    if path.is_file() and len(rows) == num_rows:
        return path, notes
    return tuple(rows.get(number, "") for number in range(max(rows) + 1)), notes


# === Writing ===


def is_bert(encoder: Any) -> bool:
    """True for BERT's layers under positions alone."""
    has_layers = getattr(encoder, "has_bert_layers", False)
    return has_layers and list(encoder.index_tables) == ["position_index"]


def write(pretrained: Pretrained, folder: pathlib.Path) -> None:
    """Writes config.json, model.safetensors, vocab.txt and tokenizer_config.json.

    The masked-LM head comes along if it was trained, and so does a pooler that the
    model was imported with. A model without token types gets a table of two rows of
    zeros, which changes nothing.

    Args:
        pretrained: a BERT, whose only index table is that of positions.
        folder: new or empty; it appears whole or not at all.

    Raises:
        ForeignWeightsError: if the model is another.
        ValueError: if the folder is in use.
        OSError: if it cannot be written.
    """
    encoder, normalization = pretrained.encoder, pretrained.normalization
    if not is_bert(encoder):
        tables = ", ".join(getattr(encoder, "index_tables", ())) or "no table"
        raise ForeignWeightsError(
            "Hugging Face's BERT has positions and nothing else to embed; the model "
            "must have BERT's layers and the table position_index alone. Received: "
            f"{pretrained.config.name!r}, {type(encoder).__name__} with {tables}, "
            f"trunk={getattr(encoder, 'trunk', None)!r}"
        )
    has_head = weights.has_trained_head(pretrained)
    values = weights.values_to_hand_on(pretrained, with_head=has_head)
    layout = layouts.HUGGING_FACE
    tensors = {
        layout.name(weight): np.ascontiguousarray(layout.to_theirs(weight, value))
        for weight, value in values.items()
    }
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
        "max_position_embeddings": encoder.index_tables["position_index"],
        "type_vocab_size": len(values[layouts.TOKEN_TYPES]),
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
        # Null follows `do_lower_case`, as with us.
        "strip_accents": normalization.described().get("strip_accents"),
        "tokenize_chinese_chars": normalization.split_ideographs,
        "model_max_length": encoder.index_tables["position_index"],
        **{f"{token.strip('[]').lower()}_token": token for token in SPECIAL_TOKENS},
    }
    with output_paths.new_folder(folder) as unfinished:
        files.write_json(unfinished / CONFIG_FILE, config)
        path = unfinished / WEIGHTS_FILE
        # Readers ask which program's names these are.
        safetensors.numpy.save_file(tensors, path, metadata={"format": "pt"})
        path.chmod(0o644)
        vocabulary = pretrained.vocabulary.to_bytes()
        (unfinished / VOCABULARY_FILE).write_bytes(vocabulary)
        files.write_json(unfinished / TOKENIZER_FILES[0], tokenizer)
