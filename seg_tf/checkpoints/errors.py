"""Errors of checkpoints, whose messages say what their user can do."""


class CheckpointError(Exception):
    """A checkpoint could not be written, or no intact one could be read."""


class DamagedCheckpointError(CheckpointError):
    """A checkpoint folder is not what was written."""
