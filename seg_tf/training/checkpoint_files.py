"""What lies in one checkpoint folder, how it is written, checked and read.

`encoder.weights.h5` holds the encoder's weights in Keras's own format, which any
encoder of the same config loads. `training_state.npz` holds every other variable
that the next update depends on: the objectives' weights, the state of the dropout
generators (which Keras's format leaves out), the open log interval and the
optimizer. `state.json` holds the counters, the run's config and the checksums of
the other two, and of itself.
"""

import hashlib
import json
import math
import pathlib
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from seg_tf import files
from seg_tf.training.errors import CheckpointError
from seg_tf.training.pretrainer import Pretrainer

ENCODER_FILE = "encoder.weights.h5"
TRAINING_STATE_FILE = "training_state.npz"
STATE_FILE = "state.json"
_FORMAT_VERSION = 1


class DamagedCheckpointError(CheckpointError):
    """A checkpoint folder is not what was written."""


def write(
    folder: pathlib.Path, pretrainer: Pretrainer, state: Mapping[str, Any]
) -> None:
    """Writes the three files into `folder`, which exists and is empty."""
    pretrainer.encoder.save_weights(folder / ENCODER_FILE)
    _write_variables(folder / TRAINING_STATE_FILE, _training_variables(pretrainer))
    checksums = {
        name: files.checksum(folder / name)
        for name in (ENCODER_FILE, TRAINING_STATE_FILE)
    }
    write_state(
        folder, {**state, "format_version": _FORMAT_VERSION, "checksums": checksums}
    )


def write_state(folder: pathlib.Path, state: Mapping[str, Any]) -> None:
    """Writes `state.json`, in one stroke and with its own checksum in it."""
    content = {name: value for name, value in state.items() if name != "checksum"}
    content["checksum"] = _state_checksum(content)
    files.write_text(folder / STATE_FILE, files.to_json(content))


def read_state(folder: pathlib.Path) -> dict[str, Any]:
    """Reads and checks `state.json`.

    Raises:
        DamagedCheckpointError: if it is missing or not as it was written.
    """
    path = folder / STATE_FILE
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DamagedCheckpointError(f"{path}: the file is missing") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DamagedCheckpointError(f"{path}: not valid JSON: {error}") from error
    found = state.get("checksum") if isinstance(state, dict) else None
    if found is None or found != _state_checksum(state):
        raise DamagedCheckpointError(f"{path}: the content does not match its checksum")
    if state["format_version"] != _FORMAT_VERSION:
        raise CheckpointError(
            f"{path}: written in format {state['format_version']}; this version of "
            f"the program reads format {_FORMAT_VERSION}"
        )
    return state


def check(folder: pathlib.Path, state: Mapping[str, Any], names: list[str]) -> None:
    """Compares files of `folder` with the checksums in its state.

    Raises:
        DamagedCheckpointError: naming the file, the checksum expected and found.
    """
    for name in names:
        path = folder / name
        expected = state["checksums"][name]
        if not path.exists():
            raise DamagedCheckpointError(f"{path}: the file is missing")
        found = files.checksum(path)
        if found != expected:
            raise DamagedCheckpointError(
                f"{path}: the checksum is {found}, expected {expected}"
            )


def restore(folder: pathlib.Path, pretrainer: Pretrainer) -> None:
    """Gives every variable of a built pretrainer the value it has in `folder`.

    Raises:
        CheckpointError: if the folder is of another model.
    """
    pretrainer.encoder.load_weights(folder / ENCODER_FILE)
    _read_variables(folder / TRAINING_STATE_FILE, _training_variables(pretrainer))


def size_in_bytes(pretrainer: Pretrainer) -> int:
    """About how much room `write` needs."""
    variables = [*pretrainer.encoder.weights, *_training_variables(pretrainer)]
    return 2**20 + sum(
        math.prod(variable.shape) * tf.as_dtype(variable.dtype).size
        for variable in variables
    )


def _training_variables(pretrainer: Pretrainer) -> list[Any]:
    """Everything but the encoder's weights, in an order that the model fixes."""
    in_encoder_file = {id(variable) for variable in pretrainer.encoder.weights}
    return [
        *(v for v in pretrainer.variables if id(v) not in in_encoder_file),
        *(v for metric in pretrainer.interval_metrics for v in metric.variables),
        *pretrainer.optimizer.variables,
    ]


def _entry_names(variables: list[Any]) -> list[str]:
    """Names in the archive, which the order makes unique; the rest is for people.

    Keras numbers layers as they come in a process, so that the names of one
    variable differ between two builds of a model. Only the numbers are compared.
    """
    return [f"{number:05d}.{one.name}" for number, one in enumerate(variables)]


def _write_variables(path: pathlib.Path, variables: list[Any]) -> None:
    """As `numpy.savez`, but with one variable at a time in memory."""
    with zipfile.ZipFile(path, "w", allowZip64=True) as archive:
        for name, variable in zip(_entry_names(variables), variables, strict=True):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.asarray(variable.value))


def _read_variables(path: pathlib.Path, variables: list[Any]) -> None:
    with np.load(path) as archive:
        if len(archive.files) != len(variables):
            raise CheckpointError(
                f"{path}: of another model: it holds {len(archive.files)} variables, "
                f"the model has {len(variables)}"
            )
        for name, variable in zip(archive.files, variables, strict=True):
            value = archive[name]
            dtype = np.asarray(variable.value).dtype
            if value.dtype.kind == "V":  # NumPy's files have no name for bfloat16
                value = value.view(dtype)
            if value.shape != tuple(variable.shape) or value.dtype != dtype:
                raise CheckpointError(
                    f"{path}: of another model: {name} is {value.dtype} of shape "
                    f"{value.shape}, the model's {variable.path} is {dtype} of shape "
                    f"{tuple(variable.shape)}"
                )
            variable.assign(value)


def _state_checksum(state: Mapping[str, Any]) -> str:
    content = {name: value for name, value in state.items() if name != "checksum"}
    return hashlib.sha256(files.to_json(content).encode()).hexdigest()
