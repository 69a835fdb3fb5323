"""Lanes of a stream of words, and the batches that they make.

Shape key: B lanes, L target length.
"""

import dataclasses
import functools

import numpy as np

from seg_tf.data.word_stream import WordStream
from seg_tf.features import FEATURES

_FEATURES_OF_WORDS = (
    "token_ids",
    "target_ids",
    "padding_mask",
    "stream_token",
    "stream_sentence",
    "stream_paragraph",
)
FEATURE_NAMES = (*_FEATURES_OF_WORDS, "lane", "sample_number")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lanes:
    """Division of a stream into lanes, each of which is read segment by segment.

    Attributes:
        number: B.
        length: words between the begins of two lanes.
        target_length: L.
        num_targets: words to predict, each by one lane; None makes the lanes endless.
    """

    number: int
    length: int
    target_length: int
    num_targets: int | None = None

    def begin(self, step: int, lane: int) -> int:
        """The position in the stream of a segment's first word."""
        return lane * self.length + step * self.target_length

    def batch(
        self, stream: WordStream, step: int, lanes: np.ndarray
    ) -> dict[str, np.ndarray]:
        """The segments of some lanes at one time step.

        Args:
            stream: the split.
            step: which segment of each lane, from 0.
            lanes: int array `(b,)`, which of the lanes.

        Returns:
            `{feature name: array (b, …)}`. What is padding has ids 0, while its
            counters continue.
        """
        shape = (len(lanes), self.target_length)
        batch = {
            name: np.zeros(shape, FEATURES[name].dtype) for name in _FEATURES_OF_WORDS
        }
        for row, lane in enumerate(lanes.tolist()):
            begin = self.begin(step, lane)
            words = stream.read(begin, self.target_length + 1)
            batch["token_ids"][row] = words.token_ids[:-1]
            batch["target_ids"][row] = words.token_ids[1:]
            batch["padding_mask"][row] = self._is_target(step, begin)
            # Counters wrap around where they leave int32: differences stay right.
            batch["stream_token"][row] = (begin + self._positions).astype(np.int32)
            batch["stream_sentence"][row] = words.sentences[:-1].astype(np.int32)
            batch["stream_paragraph"][row] = words.paragraphs[:-1].astype(np.int32)
        for name in ("token_ids", "target_ids"):
            batch[name][~batch["padding_mask"]] = 0
        batch["lane"] = lanes.astype(np.int32)
        batch["sample_number"] = (step * self.number + lanes).astype(np.int64)
        return batch

    @functools.cached_property
    def _positions(self) -> np.ndarray:
        return np.arange(self.target_length)

    def _is_target(self, step: int, begin: int) -> np.ndarray | bool:
        """Mask of the words that predict the next word; the rest is padding."""
        if self.num_targets is None:
            return True
        in_lane = step * self.target_length + self._positions < self.length
        return in_lane & (begin + self._positions < self.num_targets)
