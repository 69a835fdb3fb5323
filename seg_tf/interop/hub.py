"""Models of the Hugging Face hub, `hf://organisation/name`, in the hub's own cache.

Only files that are read are downloaded: the config first, so that a model that cannot
be read costs nothing; then weights in safetensors; PyTorch's file only where there are
none and PyTorch is installed to read it.
"""

import os
import pathlib
import re
from collections.abc import Sequence

import huggingface_hub

from seg_tf.interop import (
    bert_config_file,
    hugging_face_folders,
    keras_hub_presets,
    tensorflow_checkpoints,
    tokenizer_files,
)
from seg_tf.interop.errors import ForeignWeightsError
from seg_tf.interop.pytorch_store import find_torch

SCHEME = "hf://"
# A revision, which is a branch, a tag or a commit, may follow an @.
_URL = re.compile(r"hf://([\w.-]+/[\w.-]+|[\w.-]+)(?:@([\w./-]+))?", re.ASCII)

_DESCRIPTIONS = (
    hugging_face_folders.CONFIG_FILE,
    hugging_face_folders.VOCABULARY_FILE,
    tokenizer_files.CONFIG_FILE,
    tokenizer_files.FAST_FILE,
    tokenizer_files.ADDED_FILE,
    tensorflow_checkpoints.CONFIG_FILE,
)
_KERAS_HUB = (
    "metadata.json",
    "model*.weights.h5",
    "assets/tokenizer/vocabulary.txt",
)
_TENSORFLOW = ("*.index", "*.data-*")


def is_url(source: str) -> bool:
    """True for a model of the hub."""
    return source.startswith(SCHEME)


def download(url: str) -> pathlib.Path:
    """Downloads what is read of a model, unless the hub's cache has it.

    Args:
        url: `hf://organisation/name`, or `hf://organisation/name@revision`.

    Returns:
        The folder of the revision, whose name is its commit.

    Raises:
        ForeignWeightsError: if that is no name of a model, the model cannot be had, or
            none that can be read.
    """
    match = _URL.fullmatch(url)
    if match is None:
        raise ForeignWeightsError(
            "`--from` must be hf://organisation/name, maybe with @revision, of a model "
            f"of the hub. Received: {url}"
        )
    name, revision = match.groups()
    folder = _fetch(url, name, revision, _DESCRIPTIONS)
    # What follows is of the same commit, and asks the hub for no other.
    for patterns in _weights(url, folder):
        _fetch(url, name, folder.name, patterns)
        if _has_any(folder, patterns):
            return folder
    raise ForeignWeightsError(
        f"{url} must have weights that can be read: "
        f"{hugging_face_folders.WEIGHTS_FILE}, or, where PyTorch is installed, "
        f"{hugging_face_folders.PYTORCH_FILE}. Found: none of them"
        + ("" if find_torch() else "; PyTorch is not installed")
    )


def _weights(url: str, folder: pathlib.Path) -> list[tuple[str, ...]]:
    """Names of the files with weights of a model, best first, by its config."""
    if keras_hub_presets.is_one(folder):
        return [_KERAS_HUB]
    if hugging_face_folders.is_one(folder):
        path = folder / hugging_face_folders.CONFIG_FILE
        hugging_face_folders.check_model(bert_config_file.read_config(path), path)
        names = [hugging_face_folders.WEIGHTS_FILE]
        if find_torch() is not None:
            names.append(hugging_face_folders.PYTORCH_FILE)
        return [_with_shards(name) for name in names]
    if (folder / tensorflow_checkpoints.CONFIG_FILE).is_file():
        return [_TENSORFLOW]
    raise ForeignWeightsError(
        f"{url} must have {hugging_face_folders.CONFIG_FILE} with `model_type`, as "
        "models of Hugging Face's form, a preset of keras-hub, or "
        f"{tensorflow_checkpoints.CONFIG_FILE}. Found: none of them"
    )


def _with_shards(name: str) -> tuple[str, ...]:
    stem, _, ending = name.partition(".")
    index = f"{name}{hugging_face_folders.INDEX_SUFFIX}"
    return name, index, f"{stem}-*-of-*.{ending}"


def _has_any(folder: pathlib.Path, patterns: Sequence[str]) -> bool:
    return any(next(folder.glob(pattern), None) for pattern in patterns)


def _fetch(
    url: str, name: str, revision: str | None, patterns: Sequence[str]
) -> pathlib.Path:
    """The folder of a revision, with the files that match a pattern."""
    try:
        folder = huggingface_hub.snapshot_download(
            repo_id=name, revision=revision, allow_patterns=list(patterns)
        )
    # Of HTTP, of the file system, and of names that the hub does not allow.
    except (OSError, ValueError) as error:
        raise ForeignWeightsError(_explain(url, error)) from error
    return pathlib.Path(folder)


def _explain(url: str, error: Exception) -> str:
    """One line: what could not be had, why, and what to change."""
    settings = ", ".join(
        f"{name}={os.environ.get(name, 'unset')}"
        for name in ("HF_ENDPOINT", "HF_HUB_OFFLINE")
    )
    # One of a missing file speaks of the cache; its cause says why it is not there.
    if isinstance(error, FileNotFoundError) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    reason = str(error).strip().partition("\n")[0]
    return (
        f"{url} could not be downloaded, and is not in the cache: "
        f"{type(error).__name__}: {reason}. Check the name and the network, or copy "
        "the model's files here and give their folder. The settings of the hub: "
        f"{settings}"
    )
