"""The checkpoint a command starts from: ours, or another program's, converted once."""

import contextlib
import pathlib
from collections.abc import Callable, Collection
from typing import Any

from seg_tf import files
from seg_tf.checkpoints import contents, folders
from seg_tf.config import RunConfig, to_dict
from seg_tf.interop import conversion, formats
from seg_tf.interop.errors import ForeignWeightsError
from seg_tf.training.distribution import Distribution

FOLDER = "initial_checkpoint"
"""The folder of a conversion, inside the output folder of the command."""
_REQUEST_FILE = "request.json"


def find(
    given: str,
    output_dir: pathlib.Path,
    argument: str,
    config: RunConfig | None = None,
    asked: Collection[str] = (),
    *,
    processes: Distribution | None = None,
    made_in: pathlib.Path | None = None,
    overwrite: bool = False,
    report: Callable[[str], Any] = print,
    **text: Any,
) -> pathlib.Path:
    """The checkpoint that a flag names; one of another program is converted first.

    The conversion stays in the output folder, so that the same command, given again,
    neither downloads nor converts anything.

    Args:
        given: a checkpoint of ours, the output folder of a run, or what
            `formats.open_model` opens.
        output_dir: that of the command.
        argument: the flag, for messages.
        config: the run that is to start from the weights; None keeps the model as it
            is.
        asked: paths of the fields of `config` that the user set.
        processes: those that call this; None is this one alone.
        made_in: folder for a conversion that the output folder does not hold, such as
            a temporary one; None is the output folder.
        overwrite: whether the conversion of another model may be replaced.
        report: called with the report of a conversion.
        **text: `vocab_file` and `lower_case` of `conversion.convert`.

    Raises:
        CheckpointError: if there is neither.
        ForeignWeightsError: if the weights cannot be read or do not fit, or the output
            folder holds the conversion of others.
        OSError: if a file cannot be read or written.
    """
    path = pathlib.Path(given)
    folder = output_dir / FOLDER
    # The source of a conversion may be gone when the command is given again.
    is_other = formats.can_open(given) or (folder / _REQUEST_FILE).is_file()
    if folders.is_checkpoint(path) or not is_other:
        return folders.find_checkpoint(path, argument)
    request = {
        "source": given,
        "config": config and _of_weights(config),
        "asked": sorted(name for name in asked if name.startswith("model.")),
        **{name: value and str(value) for name, value in text.items()},
    }
    processes = processes or Distribution()
    if made_in is not None and not _is_of(folder, request):
        folder = made_in / FOLDER

    def convert_once() -> None:
        with _waiting_for_others():
            if _is_done(folder, request, overwrite, argument):
                return
            found = conversion.convert(
                formats.open_model(given),
                folder,
                config,
                asked=asked if config else None,
                **text,
            )
            files.write_json(folder / _REQUEST_FILE, request)
        report(f"{found.to_text()}\nWritten: {folder}")

    # The others find what the chief made. On a host that lacks its folders they make
    # it once more.
    for has_turn in (processes.is_chief, not processes.is_chief):
        processes.call_together(convert_once if has_turn else lambda: None)
    return folder


def _waiting_for_others() -> contextlib.AbstractContextManager[None]:
    """Lets one process of this host at a time convert."""
    folder = files.cache_dir()
    folder.mkdir(parents=True, exist_ok=True)
    return files.locked(folder)


def _of_weights(config: RunConfig) -> dict[str, Any]:
    """The settings of a run that the weights of a conversion depend on."""
    return {
        "model": to_dict(config.model),
        "objectives": to_dict(config.objectives),
        "seed": config.training.seed,
    }


def _is_of(folder: pathlib.Path, request: dict[str, Any]) -> bool:
    path = folder / _REQUEST_FILE
    return path.is_file() and files.read_json(path) == request


def _is_done(
    folder: pathlib.Path, request: dict[str, Any], overwrite: bool, argument: str
) -> bool:
    """Tells if the folder holds what is asked for; removes what may be replaced."""
    if not (folder / contents.STATE_FILE).exists():
        return False
    if _is_of(folder, request):
        return True
    # Without the file it is one whose writer was killed just before the end.
    path = folder / _REQUEST_FILE
    before = files.read_json(path) if path.is_file() else None
    if before is not None and not overwrite:
        raise ForeignWeightsError(
            f"`{argument}` must be the one whose conversion {folder} holds, of "
            f"{before['source']}, with the same model. Received: {request['source']}. "
            "Choose another --output_dir, or remove that folder"
        )
    files.remove_folder(folder)
    return False
