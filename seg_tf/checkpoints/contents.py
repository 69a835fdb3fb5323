"""Files of a checkpoint folder: how they are written, checked and read.

* `encoder.weights.h5`: the encoder's weights in Keras's format, and in an attribute the
  settings that they belong to.
* `training_state.npz`: every other variable that the next update depends on. These are
  the objectives' weights, the optimizer, the loss scale, the counters, the open log
  interval and the memory of a model that has one. Dropout has no state: each step
  derives it from the seed and the number of the sample.
* `vocab.txt` and `sentence_parameters.json`, if the inputs know of text: tokens and
  tables of the sentence splitter, so that the model can be used without other files.
* `state.json`: counters, the run's config, and the checksums of all files.
"""

import json
import pathlib
import re
import types
from collections.abc import Iterable, Mapping
from typing import Any

import h5py

from seg_tf import files
from seg_tf.checkpoints import weight_files
from seg_tf.checkpoints.errors import CheckpointError, DamagedCheckpointError, reading
from seg_tf.config import differing_settings
from seg_tf.config.base import typed

ENCODER_FILE = "encoder.weights.h5"
TRAINING_STATE_FILE = "training_state.npz"
STATE_FILE = "state.json"
WEIGHT_FILES = (ENCODER_FILE, TRAINING_STATE_FILE)
_FORMAT_VERSION = 4
_SETTINGS = "settings"
_MAX_STATE_BYTES = 2**24
# A file may have holes and so any size; one of these takes minutes to read at most.
_MAX_BYTES = {ENCODER_FILE: 2**36, TRAINING_STATE_FILE: 2**38}
_MAX_OTHER_BYTES = 2**28
_SHA256 = re.compile("[0-9a-f]{64}")

# Types of the fields of `state.json`; those that may be None may also be missing.
_FIELDS: Mapping[str, Any] = {
    "config": dict,
    "checksums": dict,
    "updates": int,
    "samples": int,
    "validation": dict | None,
    "vocab_size": int,
    "vocab_checksum": str | None,
    "text": {
        "tokenizer": str | None,
        "lower_case": bool | None,
        "strip_accents": bool | None,
        "split_ideographs": bool | None,
        "sentence_splitter": dict | None,
    },
    "task": {"class": str, "settings": dict},
    "imported": dict | None,
    "records": dict | list | None,
    "versions": dict | None,
    "initial_weights": str | None,
    "deviations": list | None,
}
_EMPTY: Mapping[str, Any] = types.MappingProxyType({})


def write(
    folder: pathlib.Path,
    encoder: Any,
    objectives: Mapping[str, Any],
    state: Mapping[str, Any],
    other_files: Mapping[str, bytes] = _EMPTY,
    training: Mapping[str, Iterable[Any]] = _EMPTY,
    compress: bool = False,
) -> None:
    """Writes all files into `folder`; files already there become part of it.

    Args:
        folder: an existing folder.
        encoder: the encoder.
        objectives: name -> objective.
        state: content of `state.json` besides the checksums.
        other_files: name -> content, such as those of `TextPreparation.files`.
        training: further variables, by group, which a run needs to continue. Without
            them a run can start from the checkpoint, but not continue.
        compress: whether to take time for files that are about 8 % smaller.
    """
    encoder.save_weights(folder / ENCODER_FILE)
    if compress:
        weight_files.compress_hdf5(folder / ENCODER_FILE)
    with h5py.File(folder / ENCODER_FILE, "a") as file:
        file.attrs[_SETTINGS] = json.dumps(_settings(state))
    variables = _by_name(encoder, objectives, training)
    weight_files.write_npz(folder / TRAINING_STATE_FILE, variables, compress)
    for name, content in other_files.items():
        (folder / name).write_bytes(content)
    checksums = {path.name: files.checksum(path) for path in sorted(folder.iterdir())}
    write_state(
        folder, {**state, "format_version": _FORMAT_VERSION, "checksums": checksums}
    )


def write_state(folder: pathlib.Path, state: Mapping[str, Any]) -> None:
    """Writes `state.json` atomically, with its own checksum in it."""
    content = {name: value for name, value in state.items() if name != "checksum"}
    content["checksum"] = files.content_checksum(content)
    files.write_json(folder / STATE_FILE, content)


def read_state(folder: pathlib.Path) -> dict[str, Any]:
    """Reads and checks `state.json`.

    Raises:
        DamagedCheckpointError: if it is missing or was changed.
        CheckpointError: if it has another format.
    """
    path = folder / STATE_FILE
    with reading(path):
        state = files.read_json(path, _MAX_STATE_BYTES)
        is_object = isinstance(state, dict)
        if not is_object or state.get("checksum") != files.content_checksum(state):
            raise DamagedCheckpointError(
                f"{path}: the content does not match its checksum"
            )
        if state.get("format_version") != _FORMAT_VERSION:
            raise CheckpointError(
                f"{path}: written in format {state.get('format_version')}; this "
                f"version of the program reads format {_FORMAT_VERSION} only. Make the "
                "checkpoint again with `seg-tf pretrain`, `seg-tf finetune` or `seg-tf "
                "import-weights`"
            )
        _check_types(state, _FIELDS)
        _check_values(state)
    return state


def _check_types(
    values: Mapping[str, Any], fields: Mapping[str, Any], prefix: str = ""
) -> None:
    for name, hint in fields.items():
        value, has_parts = values.get(name), isinstance(hint, Mapping)
        typed(f"{prefix}{name}", value, dict | None if has_parts else hint)
        if has_parts and value is not None:
            _check_types(value, hint, f"{prefix}{name}.")


def _check_values(state: Mapping[str, Any]) -> None:
    for name, least in (("updates", 0), ("samples", 0), ("vocab_size", 1)):
        if not least <= state[name] < 2**63:
            raise ValueError(
                f"`{name}` must be at least {least} and below 2**63. Received: "
                f"{name}={state[name]}"
            )
    validation = state.get("validation") or {"loss": 0}
    if "loss" not in validation or not all(
        isinstance(value, (int, float)) for value in validation.values()
    ):
        raise ValueError(
            "`validation` must map `loss` and other metrics to numbers. Received: "
            f"{validation}"
        )
    for name, checksum in state["checksums"].items():
        is_plain = name not in ("", ".", "..", STATE_FILE) and not {"/", "\0"} & {*name}
        if not is_plain or not _SHA256.fullmatch(str(checksum)):
            raise ValueError(
                "`checksums` must map names of files in this folder to SHA-256 "
                f"checksums. Received: {name!r}: {checksum!r}"
            )
    for name in WEIGHT_FILES:
        if name not in state["checksums"]:
            raise ValueError(f"`checksums` must have {name!r}")


def check(folder: pathlib.Path, state: Mapping[str, Any], names: list[str]) -> None:
    """Compares files of `folder` with the checksums in its state.

    Raises:
        DamagedCheckpointError: naming the file and both checksums.
    """
    for name in names:
        path, expected = folder / name, state["checksums"][name]
        with reading(path):
            files.check_regular(path, _MAX_BYTES.get(name, _MAX_OTHER_BYTES))
            checksum = files.checksum(path)
        if checksum != expected:
            raise DamagedCheckpointError(
                f"{path}: the checksum is {checksum}, expected {expected}"
            )
        if name == ENCODER_FILE:
            _check_settings(path, state)


def _check_settings(path: pathlib.Path, state: Mapping[str, Any]) -> None:
    """Compares the settings that the weights belong to with the state."""
    with reading(path):
        with h5py.File(path, "r") as file:
            # The weights of the included models do not say.
            stored = json.loads(file.attrs.get(_SETTINGS, "null"))
        if stored is None or json.dumps(stored) == json.dumps(_settings(state)):
            return
        differences = differing_settings(stored, _settings(state))
        raise DamagedCheckpointError(
            f"{path}: its weights belong to other settings than {STATE_FILE} names: "
            + ("; ".join(differences) or "they have another order")
        )


def _settings(state: Mapping[str, Any]) -> dict[str, Any]:
    """All that a model's outputs depend on, besides weights and files of text."""
    config = state.get("config") or {}
    parts = {name: config.get(name) for name in ("model", "inputs", "objectives")}
    names = ("vocab_size", "vocab_checksum", "text", "task")
    return {**parts, **{name: state.get(name) for name in names}}


def restore(
    folder: pathlib.Path,
    encoder: Any,
    objectives: Mapping[str, Any],
    training: Mapping[str, Iterable[Any]] = _EMPTY,
    cast: bool = False,
) -> None:
    """Sets built variables to their values in `folder`.

    Args:
        folder: a checkpoint.
        encoder: of the same model.
        objectives: of the same model.
        training: as for `write`; without it, those in `folder` are ignored.
        cast: whether variables may have another dtype policy than in `folder`.

    Raises:
        CheckpointError: if the folder belongs to another model.
    """
    weight_files.load_hdf5(folder / ENCODER_FILE, encoder)
    restore_others(folder, encoder, objectives, training, cast)


def restore_others(
    folder: pathlib.Path,
    encoder: Any,
    objectives: Mapping[str, Any],
    training: Mapping[str, Iterable[Any]] = _EMPTY,
    cast: bool = False,
) -> None:
    """Like `restore`, without the encoder's variables."""
    variables = _by_name(encoder, objectives, training)
    weight_files.load_npz(folder / TRAINING_STATE_FILE, variables, cast)


def objective_variables(encoder: Any, objectives: Mapping[str, Any]) -> list[Any]:
    """Weights of the objectives that the encoder does not have, each once."""
    weights = {
        id(variable): variable
        for objective in objectives.values()
        for variable in objective.weights
    }
    for variable in encoder.weights:
        weights.pop(id(variable), None)
    return list(weights.values())


def _by_name(
    encoder: Any, objectives: Mapping[str, Any], training: Mapping[str, Iterable[Any]]
) -> dict[str, Any]:
    """Variables by their names in the archive, without the encoder's."""
    groups = {"objectives": objective_variables(encoder, objectives), **training}
    # Numbers make the names unique. Keras numbers the layers of a process, so paths of
    # one variable differ between two builds of a model.
    return {
        f"{group}.{number:05d}.{variable.name}": variable
        for group, variables in groups.items()
        for number, variable in enumerate(variables)
    }


def weights_checksum(folder: pathlib.Path) -> str:
    """Checksum of the encoder's weights in a checkpoint.

    Raises:
        CheckpointError: if its state cannot be read.
    """
    return read_state(folder)["checksums"][ENCODER_FILE]
