"""Writes, checks and reads the files of a checkpoint folder.

* `encoder.weights.h5`: the encoder's weights in Keras's format.
* `training_state.npz`: every other variable that the next update depends on. These are
  the objectives' weights, the optimizer state, the loss scale, the counters, the sums
  of the unfinished log interval, and the memory of recurrent models. Dropout has no
  state: each step derives its seeds from the run's seed and the sample number.
* `vocab.txt` and `sentence_parameters.json`: the vocabulary and the sentence splitter's
  tables. They are absent if the run's records do not contain them.
* `state.json`: the counters, the run's config, and the checksums of all other files.
"""

import math
import pathlib
import types
from collections.abc import Iterable, Mapping
from typing import Any

from seg_tf import files
from seg_tf.checkpoints import weight_files

ENCODER_FILE = "encoder.weights.h5"
TRAINING_STATE_FILE = "training_state.npz"
STATE_FILE = "state.json"
WEIGHT_FILES = (ENCODER_FILE, TRAINING_STATE_FILE)
_FORMAT_VERSION = 4
_MAX_STATE_BYTES = 2**24
# Sparse files can claim any size. Reading a file of these sizes takes minutes.
_MAX_BYTES = {ENCODER_FILE: 2**36, TRAINING_STATE_FILE: 2**38}
_MAX_OTHER_BYTES = 2**28
_EMPTY: Mapping[str, Any] = types.MappingProxyType({})


def write(
    folder: pathlib.Path,
    encoder: Any,
    objectives: Mapping[str, Any],
    state: Mapping[str, Any],
    other_files: Mapping[str, bytes] = _EMPTY,
    training: Mapping[str, Iterable[Any]] = _EMPTY,
) -> None:
    """Writes a checkpoint to an existing folder, with checksums of all its files.

    `state` is the content of `state.json` without the checksums. `other_files` maps
    file names to contents, for example `TextPreparation.files()`. `training` maps group
    names to other variables that a run needs to resume.
    """
    encoder.save_weights(folder / ENCODER_FILE)
    variables = _by_name(encoder, objectives, training)
    weight_files.write_npz(folder / TRAINING_STATE_FILE, variables)
    for name, content in other_files.items():
        (folder / name).write_bytes(content)
    checksums = {path.name: files.checksum(path) for path in sorted(folder.iterdir())}
    write_state(
        folder, {**state, "format_version": _FORMAT_VERSION, "checksums": checksums}
    )


def write_state(folder: pathlib.Path, state: Mapping[str, Any]) -> None:
    """Writes `state.json` atomically, including a checksum of its content."""
    content = {name: value for name, value in state.items() if name != "checksum"}
    content["checksum"] = files.content_checksum(content)
    files.write_json(folder / STATE_FILE, content)


def read_state(folder: pathlib.Path) -> dict[str, Any]:
    """Reads and checks `state.json`.

    Raises:
        DamagedCheckpointError: if the file is missing, was changed or is not valid.
        CheckpointError: if the file has another format version.
    """
    path = folder / STATE_FILE
    with weight_files.reading(path):
        state = files.read_json(path, _MAX_STATE_BYTES)
        is_object = isinstance(state, dict)
        if not is_object or state.get("checksum") != files.content_checksum(state):
            raise weight_files.DamagedCheckpointError(
                f"{path}: the content does not match its checksum"
            )
        if state.get("format_version") != _FORMAT_VERSION:
            raise weight_files.CheckpointError(
                f"{path}: written in format {state.get('format_version')}; this "
                f"version of the program reads format {_FORMAT_VERSION} only. Make the "
                "checkpoint again with `seg-tf pretrain`, `seg-tf finetune` or `seg-tf "
                "import-weights`"
            )
        rate = state.get("finetuning_learning_rate")
        if rate is not None and not (isinstance(rate, float) and 0 < rate < math.inf):
            raise ValueError(
                f"`finetuning_learning_rate` must be positive. Received: {rate!r}"
            )
        checksums = dict(state["checksums"])
        for name in {*checksums, *WEIGHT_FILES}:
            if name not in checksums or pathlib.PurePath(name).name != name:
                raise ValueError(
                    "`checksums` must have the weight files and only files of this "
                    f"folder. Received: {[*checksums]}"
                )
    return state


def check(folder: pathlib.Path, state: Mapping[str, Any], names: list[str]) -> None:
    """Raises `DamagedCheckpointError` if a file in `names` is missing or changed."""
    for name in names:
        path, expected = folder / name, state["checksums"][name]
        with weight_files.reading(path):
            files.check_regular(path, _MAX_BYTES.get(name, _MAX_OTHER_BYTES))
            checksum = files.checksum(path)
        if checksum != expected:
            raise weight_files.DamagedCheckpointError(
                f"{path}: the checksum is {checksum}, expected {expected}"
            )


def restore(
    folder: pathlib.Path,
    encoder: Any,
    objectives: Mapping[str, Any],
    training: Mapping[str, Iterable[Any]] = _EMPTY,
    *,
    cast: bool = False,
    with_encoder: bool = True,
) -> None:
    """Restores the variables of a built model from a checkpoint.

    `training` is as in `write`. The checkpoint's other groups are ignored. With `cast`,
    the dtype policy may differ. If `with_encoder` is False, the encoder is unchanged.
    Raises a `CheckpointError` if files are damaged or belong to another model.
    """
    if with_encoder:
        weight_files.load_hdf5(folder / ENCODER_FILE, encoder)
    variables = _by_name(encoder, objectives, training)
    weight_files.load_npz(folder / TRAINING_STATE_FILE, variables, cast)


def objective_variables(encoder: Any, objectives: Mapping[str, Any]) -> list[Any]:
    """Returns the objectives' weights without duplicates or encoder weights."""
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
    """Maps names in `training_state.npz` to all variables except the encoder's."""
    groups = {"objectives": objective_variables(encoder, objectives), **training}
    # Numbers make the names unique. Paths are not used, because Keras numbers layers
    # per process, so the path of a variable differs between two builds of a model.
    return {
        f"{group}.{number:05d}.{variable.name}": variable
        for group, variables in groups.items()
        for number, variable in enumerate(variables)
    }
