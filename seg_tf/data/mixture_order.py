"""Order of the samples of a mixture: which source gives sample k, a pure integer map.

With weights w the samples are taken in blocks of sum(w). Each block has exactly w_i
samples of source i, at the same places, spread evenly: its j-th of w_i comes at about
(j + 1/2) / w_i of the block (the method of Sainte-Laguë). Sample c is so sample
`c // sum(w) * w_i + r` of its source, the r-th of the source in its block, and nothing
needs to be remembered.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf


class MixtureOrder:
    """Maps samples of a mixture to the samples of its sources.

    For example, weights 3, 1 and 2 give blocks of the sources 0 2 0 1 2 0.

    Args:
        weights: w, positive integers.
    """

    def __init__(self, weights: Sequence[int]):
        self._weights = np.array(weights, np.int64)
        ranks = [np.arange(weight) for weight in weights]
        shares = [
            (2 * rank + 1) / weight for rank, weight in zip(ranks, weights, strict=True)
        ]
        # Of equal ones that of the first source comes first.
        order = np.argsort(np.concatenate(shares), kind="stable")
        self._sources = np.repeat(np.arange(len(weights)), weights)[order]
        self._ranks = np.concatenate(ranks)[order]

    def __call__(self, samples: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The source of each sample, and which of the source's samples it is.

        Args:
            samples: int64 tensor `(B,)`, counted from the run's start.

        Returns:
            Two int64 tensors `(B,)`.
        """
        places = samples % len(self._sources)
        sources = tf.gather(self._sources, places)
        before = samples // len(self._sources) * tf.gather(self._weights, sources)
        return sources, before + tf.gather(self._ranks, places)

    def counts(self, num_samples: int) -> list[int]:
        """Number of samples of each source among the first of the mixture."""
        blocks, rest = divmod(num_samples, len(self._sources))
        in_rest = np.bincount(self._sources[:rest], minlength=len(self._weights))
        return (blocks * self._weights + in_rest).tolist()

    def epoch(self, sizes: Sequence[int]) -> int:
        """Samples of the fewest whole blocks that hold every sample of all sources.

        Args:
            sizes: samples of an epoch of each source.
        """
        blocks = max(
            -(-size // weight)
            for size, weight in zip(sizes, self._weights.tolist(), strict=True)
        )
        return blocks * len(self._sources)
