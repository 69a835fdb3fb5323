"""Memory of a model for the text of each lane, kept from step to step.

A batch has a row for every lane of a stream, and continues where the one before it
stopped. Models with memory take that of their rows with the features and return the
memory for the next batch, which is stored by what each engine has for it.
"""

from collections.abc import Mapping
from typing import Any

from seg_tf.training.distribution import Distribution


class NoMemory:
    """Memory of models without memory: nothing."""

    @property
    def variables(self) -> tuple[Any, ...]:
        """All of it, for a checkpoint."""
        return ()

    def read(self, features: Mapping[str, Any]) -> dict[str, Any]:
        """The memory of the rows of a batch."""
        return {}

    def write(self, features: Mapping[str, Any], memory: Mapping[str, Any]) -> None:
        """Keeps what a model returned for these rows, where that is finite."""

    def collect(self, distribution: Distribution) -> None:
        """Gives every process the lanes of all; each has to call it."""

    def share(self) -> None:
        """Says that `variables` were set, alike on every process."""
