"""Files of a checkpoint folder: how they are written, checked and read.

`encoder.weights.h5` holds the encoder's weights in Keras's own format, which any
encoder of the same config loads. `training_state.npz` holds every other variable
that the next update depends on: the objectives' weights, the optimizer, the loss
scale, the counters, the open log interval and the memory of a model that has one.
Dropout has no state: every step derives it from the seed and the number of the
sample. `vocab.txt` holds the tokens and `sentence_parameters.json` the tables of the
sentence splitter, so that the model can be used on text with nothing else at hand;
inputs that know of no text leave them out. `state.json` holds counters, the run's
config and the checksums of the others, and of itself.
"""

import hashlib
import json
import pathlib
import types
import zipfile
from collections.abc import Iterable, Mapping
from typing import Any

import h5py
import keras
import numpy as np
import tensorflow as tf

from seg_tf import files
from seg_tf.checkpoints.errors import CheckpointError, DamagedCheckpointError

ENCODER_FILE = "encoder.weights.h5"
TRAINING_STATE_FILE = "training_state.npz"
STATE_FILE = "state.json"
WEIGHT_FILES = (ENCODER_FILE, TRAINING_STATE_FILE)
_FORMAT_VERSION = 2
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
        _compress_datasets(folder / ENCODER_FILE)
    variables = _by_name(encoder, objectives, training)
    _write_variables(folder / TRAINING_STATE_FILE, variables, compress)
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
    encoder.load_weights(folder / ENCODER_FILE)
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
    _read_variables(folder / TRAINING_STATE_FILE, variables, cast)


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


def _compress_datasets(path: pathlib.Path) -> None:
    """Writes an HDF5 file once more, its arrays compressed."""
    aside = path.with_name(f"{path.name}.compressed")
    with h5py.File(path) as source, h5py.File(aside, "w") as target:

        def copy(name: str, found: h5py.Group | h5py.Dataset) -> None:
            if isinstance(found, h5py.Dataset) and found.ndim:
                # Signs and exponents are alike, and side by side when shuffled.
                made = target.create_dataset(
                    name, data=found[()], compression="gzip", shuffle=True
                )
                made.attrs.update(found.attrs)
            elif isinstance(found, h5py.Dataset):
                source.copy(found, target, name)
            else:
                target.require_group(name).attrs.update(found.attrs)

        target.attrs.update(source.attrs)
        source.visititems(copy)
    aside.replace(path)


def _write_variables(
    path: pathlib.Path, variables: Mapping[str, Any], compress: bool
) -> None:
    """As `numpy.savez`, but with one variable at a time in memory."""
    method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w", method, allowZip64=True) as archive:
        for name, variable in variables.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.asarray(variable.value))


def _read_variables(
    path: pathlib.Path, variables: Mapping[str, Any], cast: bool = False
) -> None:
    """Sets variables to the values in the archive under their numbers.

    Args:
        path: the archive.
        variables: by their names in it.
        cast: whether a variable may have another type than what is stored.

    Raises:
        CheckpointError: if one is not there, or has another type or shape.
    """
    groups = {_number(name)[0] for name in variables}
    with np.load(path) as archive:
        stored = {_number(name): name for name in archive.files}
        stored = {
            number: name for number, name in stored.items() if number[0] in groups
        }
        if len(stored) != len(variables):
            raise CheckpointError(
                f"{path}: of another model: it holds {len(stored)} variables of "
                f"{', '.join(sorted(groups))}, the model has {len(variables)}"
            )
        for name, variable in variables.items():
            found = stored[_number(name)]
            where = f"{path}: of another model: {found}"
            _set(variable, archive[found], where, cast)


def _number(name: str) -> tuple[str, ...]:
    """Group and number of a name in the archive; the rest differs by builds."""
    return tuple(name.split(".")[:2])


def _set(variable: Any, value: np.ndarray, where: str, cast: bool) -> None:
    dtype = np.asarray(variable.value).dtype
    if value.dtype.kind == "V":  # NumPy's files have no name for bfloat16
        value = value.view(tf.bfloat16.as_numpy_dtype)
    if cast or _holds(dtype, value):
        value = value.astype(dtype)
    if value.shape != tuple(variable.shape) or value.dtype != dtype:
        raise CheckpointError(
            f"{where} is {value.dtype} of shape {value.shape}, the model's "
            f"{variable.path} is {dtype} of shape {tuple(variable.shape)}"
        )
    variable.assign(value)


def _holds(dtype: np.dtype, value: np.ndarray) -> bool:
    """True if `dtype` has every number of `value`, which may come from elsewhere.

    The engines count in integers of different widths, sums of metrics were float32
    once, and weights that are handed on are float16.
    """
    if value.dtype.kind == dtype.kind == "i":
        return np.array_equal(value, value.astype(dtype))
    return (
        value.dtype.kind == dtype.kind == "f" and value.dtype.itemsize < dtype.itemsize
    )


def weights_checksum(folder: pathlib.Path) -> str:
    """Checksum that tells the encoder's weights in a checkpoint from others.

    Raises:
        CheckpointError: if its state cannot be read.
    """
    return read_state(folder)["checksums"][ENCODER_FILE]


def _state_checksum(state: Mapping[str, Any]) -> str:
    content = {name: value for name, value in state.items() if name != "checksum"}
    return hashlib.sha256(files.to_json(content).encode()).hexdigest()
