"""What ends a run for a reason that its user can act on."""


class TrainingStopped(Exception):
    """A run ended early. Its message says why and what to do; no trace is needed."""

    exit_code = 1


class OutputFolderError(TrainingStopped):
    """The output folder holds another run, or is in use."""


class CheckpointError(TrainingStopped):
    """A checkpoint could not be written, or no intact one could be read."""


class NonFiniteLossError(TrainingStopped):
    """Loss or gradient became infinite or not a number."""


class Interrupted(TrainingStopped):
    """A signal asked the run to end; its state is in a checkpoint."""

    def __init__(self, message: str, signal_number: int):
        super().__init__(message)
        self.exit_code = 128 + signal_number
