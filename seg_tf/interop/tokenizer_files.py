"""Settings of a foreign BERT's tokenizer, in Hugging Face's files.

Our word pieces can be cased or not, with or without accents, with ideographs split or
whole. Any other setting that changes ids is refused.
"""

import pathlib
from collections.abc import Mapping
from typing import Any

from seg_tf.interop import bert_config_file
from seg_tf.interop.errors import ForeignWeightsError
from seg_tf.text.normalization import CONTINUATION, MAX_CHARACTERS_PER_WORD
from seg_tf.text.vocabulary import SPECIAL_TOKENS, UNK

MODEL_FILE, CONFIG_FILE = "config.json", "tokenizer_config.json"
FAST_FILE, ADDED_FILE = "tokenizer.json", "added_tokens.json"

_CLASSES = ("BertTokenizer", "BertTokenizerFast")
# These are what tokenizer.json makes them.
_GENERAL_CLASSES = ("PreTrainedTokenizerFast", "TokenizersBackend")

# Key -> value that it must have, where it is there.
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
# Setting of `Normalization` -> key of either file.
_KEYS = {
    "lower_case": ("do_lower_case", "lowercase"),
    "strip_accents": ("strip_accents", "strip_accents"),
    "split_ideographs": ("tokenize_chinese_chars", "handle_chinese_chars"),
}


def read_normalization(folder: pathlib.Path) -> dict[str, bool]:
    """Reads the settings of `Normalization` that the files of a folder give.

    Args:
        folder: may hold `tokenizer_config.json`, `tokenizer.json` and
            `added_tokens.json`. The class of the tokenizer may be in `config.json`.

    Returns:
        The settings that are there and not null. Without `strip_accents`, accents
        follow `lower_case`.

    Raises:
        OSError: if a file cannot be read.
        ForeignWeightsError: if our tokenizer does not compute what a setting says, or
            two files contradict each other; the message names file and key.
    """
    path, fast_path = folder / CONFIG_FILE, folder / FAST_FILE
    config, fast, added, model = (
        bert_config_file.read_config(folder / name) if (folder / name).is_file() else {}
        for name in (CONFIG_FILE, FAST_FILE, ADDED_FILE, MODEL_FILE)
    )
    classes = (*_CLASSES, *(_GENERAL_CLASSES if fast else ()))
    for where, values in ((path, config), (folder / MODEL_FILE, model)):
        name = values.get("tokenizer_class")
        if name is not None and name not in classes:
            raise _refused(where, "tokenizer_class", " or ".join(classes), name)
    if "AutoTokenizer" in _mapping(config, "auto_map", path):
        raise _refused(path, "auto_map", "without a tokenizer", config["auto_map"])
    check_values(config, _CONFIG, path)
    _check_added_tokens(config, fast, added, folder)
    found = {
        name: bert_config_file.flag(config, key, path)
        for name, (key, _) in _KEYS.items()
    }
    if fast:
        for section, expected in _FAST.items():
            values = bert_config_file.section(fast, section, fast_path)
            check_values(values, expected, fast_path, f"{section}.")
        found = _combined(found, fast["normalizer"], fast_path)
    if config or fast:
        found = {**found, "split_ideographs": found["split_ideographs"] is not False}
    return {name: value for name, value in found.items() if value is not None}


def check_values(
    config: Mapping[str, Any],
    expected: Mapping[str, Any],
    path: pathlib.Path,
    prefix: str = "",
) -> None:
    """Raises where a key has another value than the one that we compute.

    Args:
        config: the file's content, or a section of it.
        expected: key -> value that it must have, if it is there and not null.
        path: the file.
        prefix: the section and a point.

    Raises:
        ForeignWeightsError: naming file and key.
    """
    for name, value in expected.items():
        found = _content(config.get(name))
        if found is not None and (type(found) is not type(value) or found != value):
            raise _refused(path, f"{prefix}{name}", repr(value), found)


def _combined(
    found: Mapping[str, bool | None], normalizer: Mapping[str, Any], path: pathlib.Path
) -> dict[str, bool | None]:
    """The settings of both files, which must not contradict each other."""
    fast = {
        name: bert_config_file.flag(normalizer, key, path)
        for name, (_, key) in _KEYS.items()
    }
    # Null accents follow the case.
    ours, theirs = (
        {**one, "strip_accents": one["lower_case"]}
        if one["strip_accents"] is None
        else one
        for one in (found, fast)
    )
    for name, (key, fast_key) in _KEYS.items():
        if None not in (ours[name], theirs[name]) and ours[name] != theirs[name]:
            raise _refused(
                path,
                f"normalizer.{fast_key}",
                f"{ours[name]}, as `{key}` of {CONFIG_FILE}",
                theirs[name],
            )
    return {name: found[name] if fast[name] is None else fast[name] for name in _KEYS}


def _check_added_tokens(
    config: Mapping[str, Any],
    fast: Mapping[str, Any],
    added: Mapping[str, Any],
    folder: pathlib.Path,
) -> None:
    """Raises where a token is looked for in text before words are split.

    Special tokens do not matter: they stand for no text.
    """
    path, fast_path = folder / CONFIG_FILE, folder / FAST_FILE
    tokens = [*_mapping(config, "added_tokens_decoder", path).values()]
    special = {
        *SPECIAL_TOKENS,
        *map(_content, _list(config, "additional_special_tokens", path)),
    }
    for where, key, values in (
        (path, "added_tokens_decoder", tokens),
        (path, "never_split", _list(config, "never_split", path)),
        (fast_path, "added_tokens", _list(fast, "added_tokens", fast_path)),
        (folder / ADDED_FILE, "", added),
    ):
        for token in values:
            content = _content(token)
            if isinstance(token, Mapping) and token.get("special") is True:
                special.add(str(content))
            if not isinstance(content, str) or content not in special:
                raise _refused(where, key or content, "of special tokens", content)


def _content(token: Any) -> Any:
    """A token without its options."""
    return token.get("content") if isinstance(token, Mapping) else token


def _mapping(
    config: Mapping[str, Any], name: str, path: pathlib.Path
) -> Mapping[str, Any]:
    if config.get(name) is None:
        return {}
    return bert_config_file.section(config, name, path)


def _list(config: Mapping[str, Any], name: str, path: pathlib.Path) -> list[Any]:
    value = config.get(name) or []
    if not isinstance(value, list) or not all(
        isinstance(_content(token), str) for token in value
    ):
        raise _refused(path, name, "a list of tokens", value)
    return value


def _refused(
    path: pathlib.Path, name: str, expected: str, found: Any
) -> ForeignWeightsError:
    return ForeignWeightsError(
        f"{path}: `{name}` must be {expected}, or our tokenizer gives other ids. "
        f"Found: {bert_config_file.shown(found)}"
    )
