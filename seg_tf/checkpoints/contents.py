"""Files of a checkpoint folder: how they are written, checked and read.

* `encoder.weights.h5`: the encoder's weights in Keras's format.
* `training_state.npz`: every other variable that the next update depends on. These are
  the objectives' weights, the optimizer, the loss scale, the counters, the open log
  interval and the memory of a model that has one. Dropout has no state: each step
  derives it from the seed and the number of the sample.
* `vocab.txt` and `sentence_parameters.json`, if the inputs know of text: tokens and
  tables of the sentence splitter, so that the model can be used without other files.
* `state.json`: counters, the run's config, and the checksums of all files.
"""

import math
import pathlib
import types
from collections.abc import Iterable, Mapping
from typing import Any

from seg_tf import files
from seg_tf.checkpoints import weight_files
from seg_tf.checkpoints.weight_files import (
    CheckpointError,
    DamagedCheckpointError,
    reading,
)

ENCODER_FILE = "encoder.weights.h5"
TRAINING_STATE_FILE = "training_state.npz"
STATE_FILE = "state.json"
WEIGHT_FILES = (ENCODER_FILE, TRAINING_STATE_FILE)
_FORMAT_VERSION = 4
_MAX_STATE_BYTES = 2**24
# A file may have holes and so any size; one of these takes minutes to read at most.
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
    """Writes all files into an existing folder; files already there become part of it.

    `state` is the content of `state.json` besides the checksums, `other_files` are by
    name, such as those of `TextPreparation.files`; `training` has further variables, by
    group, which a run needs to continue.
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
    """Compares files of `folder` with the checksums in its state."""
    for name in names:
        path, expected = folder / name, state["checksums"][name]
        with reading(path):
            files.check_regular(path, _MAX_BYTES.get(name, _MAX_OTHER_BYTES))
            checksum = files.checksum(path)
        if checksum != expected:
            raise DamagedCheckpointError(
                f"{path}: the checksum is {checksum}, expected {expected}"
            )


def restore(
    folder: pathlib.Path,
    encoder: Any,
    objectives: Mapping[str, Any],
    training: Mapping[str, Iterable[Any]] = _EMPTY,
    cast: bool = False,
) -> None:
    """Sets the variables of a built model to their values in a checkpoint of it.

    `training` is as for `write`; without it, those variables in `folder` are ignored.
    `cast` allows another dtype policy than in `folder`.
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
