"""Files of a checkpoint folder: how they are written, checked and read.

`encoder.weights.h5` holds the encoder's weights in Keras's own format, which any
encoder of the same config loads, and in an attribute the settings that they belong to.
`training_state.npz` holds every other variable
that the next update depends on: the objectives' weights, the optimizer, the loss
scale, the counters, the open log interval and the memory of a model that has one.
Dropout has no state: every step derives it from the seed and the number of the
sample. `vocab.txt` holds the tokens and `sentence_parameters.json` the tables of the
sentence splitter, so that the model can be used on text with nothing else at hand;
inputs that know of no text leave them out. `state.json` holds counters, the run's
config and the checksums of the others, and of itself.
"""

import json
import pathlib
import re
import types
from collections.abc import Iterable, Mapping
from typing import Any

import h5py
import keras

from seg_tf import files
from seg_tf.checkpoints import weight_files
from seg_tf.checkpoints.errors import CheckpointError, DamagedCheckpointError
from seg_tf.configuration.differences import differing_settings

ENCODER_FILE = "encoder.weights.h5"
TRAINING_STATE_FILE = "training_state.npz"
STATE_FILE = "state.json"
WEIGHT_FILES = (ENCODER_FILE, TRAINING_STATE_FILE)
_FORMAT_VERSION = 2
_SETTINGS = "settings"
_MAX_STATE_BYTES = 2**24
# A file may have holes and so any size; one of these takes minutes to read at most.
_MAX_BYTES = {ENCODER_FILE: 2**36, TRAINING_STATE_FILE: 2**38}
_MAX_OTHER_BYTES = 2**28
_SHA256 = re.compile("[0-9a-f]{64}")

# Types of what `state.json` holds; NoneType: the field may also be missing.
_FIELDS: Mapping[str, tuple[type, ...]] = {
    "config": (dict,),
    "checksums": (dict,),
    "updates": (int,),
    "samples": (int,),
    "validation": (dict, types.NoneType),
    "vocab_size": (int,),
    "vocab_checksum": (str, types.NoneType),
    "text": (dict, types.NoneType),
    "task": (dict, types.NoneType),
    "imported": (dict, types.NoneType),
    "records": (dict, list, types.NoneType),
    "versions": (dict, types.NoneType),
    "initial_weights": (str, types.NoneType),
    "deviations": (list, types.NoneType),
}
_TEXT_FIELDS: Mapping[str, tuple[type, ...]] = {
    "tokenizer": (str, types.NoneType),
    "lower_case": (bool, types.NoneType),
    "strip_accents": (bool, types.NoneType),
    "split_ideographs": (bool, types.NoneType),
    "sentence_splitter": (dict, types.NoneType),
}
_TASK_FIELDS: Mapping[str, tuple[type, ...]] = {"class": (str,), "settings": (dict,)}
_JSON_NAMES = {
    dict: "an object",
    list: "a list",
    int: "an integer",
    str: "a string",
    bool: "true or false",
    types.NoneType: "null",
}
_NONE: Mapping[str, Iterable[Any]] = types.MappingProxyType({})
_NO_FILES: Mapping[str, bytes] = types.MappingProxyType({})


def write(
    folder: pathlib.Path,
    encoder: keras.Model,
    objectives: Mapping[str, Any],
    state: Mapping[str, Any],
    other_files: Mapping[str, bytes] = _NO_FILES,
    training: Mapping[str, Iterable[Any]] = _NONE,
    compress: bool = False,
) -> None:
    """Writes all files into `folder`.

    Args:
        folder: where they go; what else is in it becomes part of the checkpoint.
        encoder: the encoder.
        objectives: name -> objective.
        state: what `state.json` says besides the checksums.
        other_files: name -> content, such as those of `TextPreparation.files`.
        training: further variables, by group: those that a run needs to continue.
            Without them a run can start from the checkpoint, but none can continue.
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
    # Everything else that the checkpoint consists of is in the folder by now.
    checksums = {path.name: files.checksum(path) for path in sorted(folder.iterdir())}
    write_state(
        folder, {**state, "format_version": _FORMAT_VERSION, "checksums": checksums}
    )


def write_state(folder: pathlib.Path, state: Mapping[str, Any]) -> None:
    """Writes `state.json`, in one stroke and with its own checksum in it."""
    content = {name: value for name, value in state.items() if name != "checksum"}
    content["checksum"] = files.content_checksum(content)
    files.write_json(folder / STATE_FILE, content)


def read_state(folder: pathlib.Path) -> dict[str, Any]:
    """Reads and checks `state.json`.

    Raises:
        DamagedCheckpointError: if it is missing or not as it was written.
    """
    path = folder / STATE_FILE
    try:
        state = files.read_json(path, _MAX_STATE_BYTES)
        found = state.get("checksum") if isinstance(state, dict) else None
        is_intact = found is not None and found == files.content_checksum(state)
    except FileNotFoundError:
        raise DamagedCheckpointError(f"{path}: the file is missing") from None
    except (OSError, ValueError, RecursionError) as error:
        text = str(error)
        raise DamagedCheckpointError(
            text if str(path) in text else f"{path}: not valid JSON: {text}"
        ) from error
    if not is_intact:
        raise DamagedCheckpointError(f"{path}: the content does not match its checksum")
    if state.get("format_version") != _FORMAT_VERSION:
        raise CheckpointError(
            f"{path}: written in format {state.get('format_version')}; this version of "
            f"the program reads format {_FORMAT_VERSION}"
        )
    _check_fields(path, state)
    return state


def _check_fields(path: pathlib.Path, state: Mapping[str, Any]) -> None:
    """Checks the types of all that the program reads of a state."""
    _check_types(path, state, _FIELDS, "")
    _check_types(path, state.get("text") or {}, _TEXT_FIELDS, "text.")
    if state.get("task") is not None:
        _check_types(path, state["task"], _TASK_FIELDS, "task.")
    for name in ("updates", "samples", "vocab_size"):
        if not int(name == "vocab_size") <= state.get(name, 1) < 2**63:
            raise CheckpointError(
                f"{path}: `{name}` must not be negative, and `vocab_size` at least 1. "
                f"Received: {name}={state[name]}"
            )
    validation = state.get("validation") or {"loss": 0}
    if "loss" not in validation or not all(
        isinstance(value, (int, float)) for value in validation.values()
    ):
        raise CheckpointError(
            f"{path}: `validation` must map `loss` and other metrics to numbers. "
            f"Received: {validation}"
        )
    checksums = state["checksums"]
    for name, checksum in checksums.items():
        is_plain = name not in ("", ".", "..", STATE_FILE) and not {"/", "\0"} & {*name}
        if not is_plain or not _SHA256.fullmatch(str(checksum)):
            raise CheckpointError(
                f"{path}: `checksums` must map names of files in this folder to "
                f"SHA-256 checksums. Received: {name!r}: {checksum!r}"
            )
    for name in WEIGHT_FILES:
        if name not in checksums:
            raise DamagedCheckpointError(f"{path}: `checksums` must have {name!r}")


def _check_types(
    path: pathlib.Path,
    values: Mapping[str, Any],
    fields: Mapping[str, tuple[type, ...]],
    prefix: str,
) -> None:
    for name, kinds in fields.items():
        is_left_out = name not in values and type(None) in kinds
        if not is_left_out and type(values.get(name)) not in kinds:
            expected = " or ".join(_JSON_NAMES[kind] for kind in kinds)
            found = repr(values[name])[:80] if name in values else "no such field"
            raise CheckpointError(
                f"{path}: `{prefix}{name}` must be {expected}. Received: {found}"
            )


def check(folder: pathlib.Path, state: Mapping[str, Any], names: list[str]) -> None:
    """Compares files of `folder` with the checksums in its state.

    Raises:
        DamagedCheckpointError: naming the file, the checksum expected and found.
    """
    for name in names:
        path = folder / name
        expected = state["checksums"][name]
        try:
            files.check_regular(path, _MAX_BYTES.get(name, _MAX_OTHER_BYTES))
            found = files.checksum(path)
        except FileNotFoundError:
            raise DamagedCheckpointError(f"{path}: the file is missing") from None
        except (OSError, ValueError) as error:
            raise DamagedCheckpointError(str(error)) from error
        if found != expected:
            raise DamagedCheckpointError(
                f"{path}: the checksum is {found}, expected {expected}"
            )
        if name == ENCODER_FILE:
            _check_settings(path, state)


def _check_settings(path: pathlib.Path, state: Mapping[str, Any]) -> None:
    """Compares the settings that the weights belong to with those of the state."""
    with weight_files.reading(path), h5py.File(path, "r") as file:
        # Checkpoints of earlier versions do not say.
        stored = json.loads(file.attrs.get(_SETTINGS, "null"))
    if stored is None or json.dumps(stored) == json.dumps(_settings(state)):
        return
    with weight_files.reading(path):
        differences = differing_settings(stored, _settings(state))
    raise DamagedCheckpointError(
        f"{path}: its weights belong to other settings than {STATE_FILE} names: "
        + ("; ".join(differences) or "they have another order")
    )


def _settings(state: Mapping[str, Any]) -> dict[str, Any]:
    """All that outputs of a model depend on, besides weights and files of text."""
    config = state.get("config") or {}
    parts = {name: config.get(name) for name in ("model", "inputs", "objectives")}
    names = ("vocab_size", "vocab_checksum", "text", "task")
    return {**parts, **{name: state.get(name) for name in names}}


def restore(
    folder: pathlib.Path,
    encoder: keras.Model,
    objectives: Mapping[str, Any],
    training: Mapping[str, Iterable[Any]] = _NONE,
    cast: bool = False,
) -> None:
    """Gives built variables the values that they have in `folder`.

    Args:
        folder: a checkpoint.
        encoder: of the same model.
        objectives: of the same model.
        training: as for `write`; without them, those of `folder` are left alone.
        cast: whether variables may have another dtype policy than in `folder`.

    Raises:
        CheckpointError: if the folder is of another model.
    """
    weight_files.load_hdf5(folder / ENCODER_FILE, encoder)
    restore_others(folder, encoder, objectives, training, cast)


def restore_others(
    folder: pathlib.Path,
    encoder: keras.Model,
    objectives: Mapping[str, Any],
    training: Mapping[str, Iterable[Any]] = _NONE,
    cast: bool = False,
) -> None:
    """As `restore`, the encoder's variables left alone."""
    variables = _by_name(encoder, objectives, training)
    weight_files.load_npz(folder / TRAINING_STATE_FILE, variables, cast)


def objective_variables(
    encoder: keras.Model, objectives: Mapping[str, Any]
) -> list[Any]:
    """Weights of the objectives that are not the encoder's, each once, in order."""
    seen = {id(variable) for variable in encoder.weights}
    found = []
    for objective in objectives.values():
        for variable in objective.weights:
            if id(variable) not in seen:
                seen.add(id(variable))
                found.append(variable)
    return found


def _by_name(
    encoder: keras.Model,
    objectives: Mapping[str, Any],
    training: Mapping[str, Iterable[Any]],
) -> dict[str, Any]:
    """Variables by their names in the archive, the encoder's left out."""
    groups = {"objectives": objective_variables(encoder, objectives), **training}
    # Numbers make the names unique. Keras numbers layers as they come in a process,
    # so that the paths of one variable differ between two builds of a model.
    return {
        f"{group}.{number:05d}.{variable.name}": variable
        for group, variables in groups.items()
        for number, variable in enumerate(variables)
    }


def weights_checksum(folder: pathlib.Path) -> str:
    """Checksum that tells the encoder's weights in a checkpoint from others.

    Raises:
        CheckpointError: if its state cannot be read.
    """
    return read_state(folder)["checksums"][ENCODER_FILE]
