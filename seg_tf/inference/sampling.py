"""Drawing one of many by its probability.

Shape key: V what there is to draw from.
"""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sampling:
    """Truncation and temperature of a distribution that is drawn from.

    Attributes:
        temperature: below 1 makes the probable more probable, above 1 less; 0 takes
            the most probable.
        top_k: draws from so many of the most probable; 0 from all.
        top_p: draws from as many of these, the most probable first, as it takes to
            reach this share of their probability; 1 from all.

    Raises:
        ValueError: if one is out of its range.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    def __post_init__(self):
        if self.temperature < 0 or self.top_k < 0 or not 0 < self.top_p <= 1:
            raise ValueError(
                "`temperature` and `top_k` must be at least 0, `top_p` above 0 and at "
                f"most 1. Received: temperature={self.temperature}, "
                f"top_k={self.top_k}, top_p={self.top_p}"
            )

    def choose(self, log_probabilities: np.ndarray, random: np.random.Generator) -> int:
        """Draws.

        Args:
            log_probabilities: float array `(V,)`, up to a constant; minus infinity for
                what must not be drawn.
            random: where chance comes from.

        Returns:
            The number of what was drawn.

        Raises:
            ValueError: if everything has minus infinity.
        """
        # The most probable first; of equals, the first.
        order = np.argsort(-log_probabilities, kind="stable")
        order = order[np.isfinite(log_probabilities[order])]
        if not len(order):
            raise ValueError("There must be something to draw. Received: nothing")
        if self.temperature == 0:
            return int(order[0])
        order = order[: self.top_k or None]
        differences = log_probabilities[order] - log_probabilities[order[0]]
        sums = np.cumsum(np.exp(differences / self.temperature))
        sums = sums[: 1 + np.searchsorted(sums, self.top_p * sums[-1])]
        return int(order[np.searchsorted(sums, random.random() * sums[-1], "right")])
