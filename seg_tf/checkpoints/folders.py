"""Folders of checkpoints: the best of them, and the one that is read."""

import pathlib
from typing import Any

from seg_tf.checkpoints import contents, folder_names
from seg_tf.checkpoints.errors import CheckpointError, DamagedCheckpointError

_INCLUDED = pathlib.Path(__file__).parent.parent / "presets"


def included() -> list[str]:
    """Names of the pretrained models that come with the package."""
    return sorted(
        path.parent.name for path in _INCLUDED.glob(f"*/{contents.STATE_FILE}")
    )


def validation_losses(folder: pathlib.Path) -> dict[int, float]:
    """Validation losses of the checkpoints in `folder` that have one, by updates."""
    losses = {}
    for updates in folder_names.existing(folder):
        try:
            state = contents.read_state(folder / folder_names.name(updates))
        except CheckpointError:
            continue
        if state.get("validation"):
            losses[updates] = state["validation"]["loss"]
    return losses


def best(folder: pathlib.Path) -> int | None:
    """Updates of the checkpoint with the lowest validation loss, if any."""
    losses = validation_losses(folder)
    return min(losses, key=lambda updates: (losses[updates], updates), default=None)


def read(folder: pathlib.Path) -> dict[str, Any]:
    """Reads a checkpoint's state after checking all of its files.

    Raises:
        DamagedCheckpointError: naming the file, expected and found.
    """
    state = contents.read_state(folder)
    if folder_names.updates_of(folder) not in (None, state["updates"]):
        raise DamagedCheckpointError(
            f"{folder}: its state is that of update {state['updates']}"
        )
    contents.check(folder, state, sorted(state["checksums"]))
    return state


def is_checkpoint(path: pathlib.Path) -> bool:
    """True for what `find_checkpoint` finds a checkpoint by."""
    path = _of_name(path)
    return (path / contents.STATE_FILE).exists() or bool(
        folder_names.existing(path / "checkpoints")
    )


def find_checkpoint(
    path: pathlib.Path, argument: str = "checkpoint_dir"
) -> pathlib.Path:
    """The checkpoint that a path refers to.

    Args:
        path: a checkpoint; or the output folder of a run, whose best checkpoint by
            validation loss it means (without a validation, the newest); or, where
            there is no such folder, the name of a model that comes with the package.
        argument: name of what the path was given by, for the message.

    Raises:
        CheckpointError: if there is none.
    """
    path = _of_name(path)
    if (path / contents.STATE_FILE).exists():
        return path
    checkpoints = path / "checkpoints"
    updates = folder_names.existing(checkpoints)
    if not updates:
        known = ["a checkpoint", "the output folder of a run", *included()]
        raise CheckpointError(
            f"`{argument}` must be {' or '.join(known)}. Received: {path}, which has "
            f"no {contents.STATE_FILE} and no checkpoints/update-*. Of weights of "
            "other programs `python -m seg_tf.commands.import_weights` makes one"
        )
    chosen = best(checkpoints)
    return checkpoints / folder_names.name(updates[-1] if chosen is None else chosen)


def _of_name(path: pathlib.Path) -> pathlib.Path:
    """The folder of an included model, if `path` is the name of one and no folder."""
    if path.exists() or str(path) not in included():
        return path
    return _INCLUDED / path
