"""Errors of checkpoints, whose messages say what their user can do."""

import contextlib
import pathlib
from collections.abc import Iterator


class CheckpointError(Exception):
    """A checkpoint could not be written, or no intact one could be read."""


class DamagedCheckpointError(CheckpointError):
    """A checkpoint folder is not what was written."""


@contextlib.contextmanager
def reading(path: pathlib.Path, what: str = "cannot be read") -> Iterator[None]:
    """Names the file in every error inside, whichever library raises it.

    Args:
        path: the file.
        what: what an error inside means, for the message.

    Raises:
        DamagedCheckpointError: for any error but a `CheckpointError`, which passes.
    """
    try:
        yield
    except CheckpointError:
        raise
    except FileNotFoundError:
        raise DamagedCheckpointError(f"{path}: the file is missing") from None
    except Exception as error:  # Libraries raise almost anything for damaged files.
        text = str(error)[:300]
        if not text.startswith(f"{path}:"):
            kind = "" if type(error) is ValueError else f"{type(error).__name__}: "
            text = f"{path}: {what}: {kind}{text}"
        raise DamagedCheckpointError(text) from error
