"""Errors that end a run for a reason that its user can act on."""


class TrainingStopped(Exception):
    """A run ended early. Its message says why and what to do; no trace is needed.

    Attributes:
        exit_code: of the process.
        is_common: whether all processes of a run end so, with the same message.
    """

    exit_code = 1
    is_common = False


class OutputFolderError(TrainingStopped):
    """The output folder holds another run, or is in use."""


class NonFiniteLossError(TrainingStopped):
    """Loss or gradient became infinite or not a number."""

    is_common = True


class NonFiniteSteps(Exception):
    """Too many steps in a row had a loss or gradient that was not finite.

    Args:
        num_steps: how many.
        samples: of the last of them, by rank, those whose own loss is not finite.
    """

    def __init__(self, num_steps: int, samples: list[list[int]]):
        super().__init__(f"{num_steps} steps in a row were not finite")
        self.num_steps = num_steps
        self.samples = samples


class Interrupted(TrainingStopped):
    """A signal asked the run to end; its state is in a checkpoint."""

    is_common = True

    def __init__(self, message: str, signal_number: int):
        super().__init__(message)
        self.exit_code = 128 + signal_number
