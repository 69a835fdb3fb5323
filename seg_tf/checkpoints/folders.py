"""Names, lists and finds checkpoint folders."""

import contextlib
import difflib
import pathlib
import re
from typing import Any

from seg_tf.checkpoints import contents
from seg_tf.checkpoints.weight_files import (
    CheckpointError,
    DamagedCheckpointError,
    reading,
)

_NAME = re.compile(r"update-(\d{8,})")
_INCLUDED = pathlib.Path(__file__).parent.parent / "presets"


def name(updates: int) -> str:
    """Returns a checkpoint's folder name, such as `update-00001000`."""
    return f"update-{updates:08d}"


def updates_of(folder: pathlib.Path) -> int | None:
    """Returns the update number in a folder's name, or None for any other name."""
    match = _NAME.fullmatch(folder.name)
    return int(match[1]) if match else None


def existing(folder: pathlib.Path) -> list[int]:
    """Returns the update numbers of the checkpoints in `folder`, in ascending order."""
    if not folder.is_dir():
        return []
    updates = map(updates_of, folder.iterdir())
    return sorted(number for number in updates if number is not None)


def included() -> list[str]:
    """Returns the names of the pretrained models that the package includes."""
    return sorted(
        path.parent.name for path in _INCLUDED.glob(f"*/{contents.STATE_FILE}")
    )


def validation_losses(folder: pathlib.Path) -> dict[int, float]:
    """Returns the validation losses of readable checkpoints, by update number."""
    losses = {}
    for updates in existing(folder):
        path = folder / name(updates)
        with contextlib.suppress(CheckpointError), reading(path):
            if validation := contents.read_state(path).get("validation"):
                losses[updates] = float(validation["loss"])
    return losses


def best(folder: pathlib.Path) -> int | None:
    """Returns the update with the lowest validation loss, or None if none is known."""
    losses = validation_losses(folder)
    return min(losses, key=lambda updates: (losses[updates], updates), default=None)


def read(folder: pathlib.Path) -> dict[str, Any]:
    """Returns a checkpoint's state. Raises CheckpointError if any file is damaged."""
    state = contents.read_state(folder)
    if updates_of(folder) not in (None, state.get("updates")):
        raise DamagedCheckpointError(
            f"{folder}: its state belongs to update {state.get('updates')}"
        )
    contents.check(folder, state, sorted(state["checksums"]))
    return state


def is_checkpoint(path: pathlib.Path) -> bool:
    """Returns whether `find_checkpoint` finds a checkpoint for this path."""
    path = _included_folder(path)
    return (path / contents.STATE_FILE).exists() or bool(existing(path / "checkpoints"))


def find_checkpoint(
    path: pathlib.Path, argument: str = "checkpoint_dir"
) -> pathlib.Path:
    """Returns the checkpoint folder that a path refers to.

    The path is a checkpoint folder, a run's output folder, or the name of an included
    model. In an output folder, the checkpoint with the lowest validation loss is chosen
    or, without validations, the newest one. If there is no checkpoint, raises a
    `CheckpointError` that names `argument`.
    """
    path = _included_folder(path)
    if (path / contents.STATE_FILE).exists():
        return path
    checkpoints = path / "checkpoints"
    updates = existing(checkpoints)
    if not updates:
        known = ["a checkpoint", "the output folder of a run", *included()]
        close = difflib.get_close_matches(str(path), included())
        close += map(str, path.glob("trials/*/model"))
        raise CheckpointError(
            f"`{argument}` must be {' or '.join(known)}. Received: {path}, which has "
            f"no {contents.STATE_FILE} and no checkpoints/update-*. "
            f"{f'Did you mean {close[0]}? ' if close else ''}`seg-tf "
            "import-weights` converts the weights of other libraries, which "
            "`from_preset` takes directly, as a folder or hf://organization/name"
        )
    chosen = best(checkpoints)
    return checkpoints / name(updates[-1] if chosen is None else chosen)


def _included_folder(path: pathlib.Path) -> pathlib.Path:
    """Returns an included model's folder if `path` is its name, otherwise `path`."""
    if path.exists() or str(path) not in included():
        return path
    return _INCLUDED / path
