"""Errors of checkpoints, whose messages say what to do."""

import contextlib
import pathlib
from collections.abc import Iterator


class CheckpointError(ValueError):
    """A checkpoint could not be written, or no intact one could be read."""


class DamagedCheckpointError(CheckpointError):
    """A file of a checkpoint is missing, changed or malformed."""


@contextlib.contextmanager
def reading(path: pathlib.Path, what: str = "cannot be read") -> Iterator[None]:
    """Raises every error inside as a `DamagedCheckpointError` that names the file."""
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
