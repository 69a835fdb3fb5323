"""Folders of checkpoints: their names, the best of them, and which one is read."""

import contextlib
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
    """`update-00001000` for the checkpoint after 1,000 updates."""
    return f"update-{updates:08d}"


def updates_of(folder: pathlib.Path) -> int | None:
    """Updates in the name of a folder; None for any other name."""
    match = _NAME.fullmatch(folder.name)
    return int(match[1]) if match else None


def existing(folder: pathlib.Path) -> list[int]:
    """Updates of the checkpoints in `folder`, in ascending order."""
    if not folder.is_dir():
        return []
    updates = map(updates_of, folder.iterdir())
    return sorted(number for number in updates if number is not None)


def included() -> list[str]:
    """Names of the pretrained models that the package includes."""
    return sorted(
        path.parent.name for path in _INCLUDED.glob(f"*/{contents.STATE_FILE}")
    )


def validation_losses(folder: pathlib.Path) -> dict[int, float]:
    """Validation losses of the checkpoints in `folder` that have one, by updates."""
    losses = {}
    for updates in existing(folder):
        path = folder / name(updates)
        with contextlib.suppress(CheckpointError), reading(path):
            if validation := contents.read_state(path).get("validation"):
                losses[updates] = float(validation["loss"])
    return losses


def best(folder: pathlib.Path) -> int | None:
    """Updates of the checkpoint with the lowest validation loss, if any."""
    losses = validation_losses(folder)
    return min(losses, key=lambda updates: (losses[updates], updates), default=None)


def read(folder: pathlib.Path) -> dict[str, Any]:
    """Reads a checkpoint's state after checking all of its files."""
    state = contents.read_state(folder)
    if updates_of(folder) not in (None, state.get("updates")):
        raise DamagedCheckpointError(
            f"{folder}: its state is that of update {state.get('updates')}"
        )
    contents.check(folder, state, sorted(state["checksums"]))
    return state


def is_checkpoint(path: pathlib.Path) -> bool:
    """True if `find_checkpoint` finds a checkpoint by this path."""
    path = _included_folder(path)
    return (path / contents.STATE_FILE).exists() or bool(existing(path / "checkpoints"))


def find_checkpoint(
    path: pathlib.Path, argument: str = "checkpoint_dir"
) -> pathlib.Path:
    """The checkpoint that a path refers to.

    That is a checkpoint; the output folder of a run, for its best checkpoint by
    validation loss (without a validation, the newest); or the name of an included
    model, if there is no such folder.

    Raises:
        CheckpointError: naming the argument, if there is no checkpoint.
    """
    path = _included_folder(path)
    if (path / contents.STATE_FILE).exists():
        return path
    checkpoints = path / "checkpoints"
    updates = existing(checkpoints)
    if not updates:
        known = ["a checkpoint", "the output folder of a run", *included()]
        raise CheckpointError(
            f"`{argument}` must be {' or '.join(known)}. Received: {path}, which has "
            f"no {contents.STATE_FILE} and no checkpoints/update-*. `seg-tf "
            "import-weights` converts the weights of other programs"
        )
    chosen = best(checkpoints)
    return checkpoints / name(updates[-1] if chosen is None else chosen)


def _included_folder(path: pathlib.Path) -> pathlib.Path:
    """The folder of an included model, if `path` is its name and no folder."""
    if path.exists() or str(path) not in included():
        return path
    return _INCLUDED / path
