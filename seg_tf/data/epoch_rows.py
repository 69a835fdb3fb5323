"""Rows of an epoch, made of the windows of a split: by default, one window each.

Shape key: B batch.
"""

from typing import Protocol

import tensorflow as tf

from seg_tf.data import randomness
from seg_tf.data.window_records import WindowRecords
from seg_tf.layouts.windows import WINDOW_INDICES


class RowReader(Protocol):
    """Makes the rows of a split from its windows; as long as an epoch.

    Attributes:
        row_length: positions of a row.
        num_tokens: positions of all rows that are no padding.
        parts: what the rows are made of, "windows" or "texts".
        num_parts: how many of these all rows have.
    """

    row_length: int
    num_tokens: int
    parts: str
    num_parts: int

    def __len__(self) -> int: ...

    def __call__(
        self, numbers: tf.Tensor, epoch_places: tf.Tensor, epoch_streams: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Reads rows.

        Args:
            numbers: int64 tensor `(B,)`, which rows of the split.
            epoch_places: int64 tensor `(B,)`, where in the epoch each of them comes.
            epoch_streams: uint64 tensor `(B,)`, random stream of the epoch of each.

        Returns:
            `{feature name: tensor (B, …)}`.
        """

    def prefetch(self, numbers: tf.Tensor) -> list[tf.Tensor]:
        """Has the records of rows fetched that are wanted later.

        Args:
            numbers: int64 tensor `(B,)`, which rows of the split.

        Returns:
            What has to run for it; nothing where records lie on a disk.
        """


class RowLayout(Protocol):
    """Arrangement of windows in rows."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Features of a row that a window alone does not have."""

    @property
    def index_features(self) -> tuple[str, ...]:
        """Indices that its rows can have."""

    def read(self, windows: WindowRecords) -> RowReader:
        """The rows of the windows of a split."""


class OneWindowLayout:
    """Every window is a row."""

    feature_names = ()
    index_features = WINDOW_INDICES

    def read(self, windows: WindowRecords) -> RowReader:
        return OneWindowRows(windows)


class OneWindowRows:
    """Rows of one window each."""

    parts = "windows"

    def __init__(self, windows: WindowRecords):
        self._windows = windows
        self.row_length = windows.window_length
        self.num_tokens = windows.num_tokens
        self.num_parts = len(windows)

    def __len__(self) -> int:
        return len(self._windows)

    def __call__(
        self, numbers: tf.Tensor, epoch_places: tf.Tensor, epoch_streams: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        # The random stream of sample k of epoch e.
        return self._windows(
            numbers, randomness.extend_key(epoch_streams, epoch_places)
        )

    def prefetch(self, numbers: tf.Tensor) -> list[tf.Tensor]:
        return self._windows.prefetch(numbers)
