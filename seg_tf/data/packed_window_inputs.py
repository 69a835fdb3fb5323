"""Inputs of rows that hold several windows: `[CLS] a [SEP] [CLS] b [SEP] … padding`.

Every window keeps the indices, masks and predictions that it would have alone in a row.
`window_number` says which positions belong together, and the encoder lets only those
see each other. So the summed loss equals that of one window a row.

Shape key: W windows of a batch, B rows, L row length.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from seg_tf import features
from seg_tf.config import configured_by
from seg_tf.data import packing, randomness
from seg_tf.data.configs import PackedWindowInputsConfig
from seg_tf.data.manifest import NUM_SPECIAL_TOKENS
from seg_tf.data.window_inputs import WindowInputs
from seg_tf.data.window_records import RowReader, WindowRecords

WINDOW_NUMBER = "window_number"


@configured_by(PackedWindowInputsConfig)
class PackedWindowInputs(WindowInputs):
    """`WindowInputs` whose samples are rows of several windows.

    The packing is drawn once and stays: an epoch is a permutation of the rows, and
    sample k of epoch e, its masking included, is a pure function of (seed, e, k).

    Args:
        max_windows_per_row: the most windows of a row.
        **arguments: the other arguments of `WindowInputs`.

    Raises:
        ValueError: if the records do not fit the settings, or were built by a version
            that did not write their lengths.
    """

    row_features = (WINDOW_NUMBER,)

    def __init__(self, *, max_windows_per_row: int, **arguments: Any):
        super().__init__(**arguments)
        self._max_windows = max_windows_per_row

    def read_rows(self, windows: WindowRecords) -> RowReader:
        groups = packing.groups_of_shards(windows.manifest, windows.split, "records")
        plan = packing.planned(
            windows,
            groups,
            self._parts(windows, groups),
            settings={
                "rows": "packed windows",
                "row_length": windows.window_length,
                "max_windows": self._max_windows,
                "seed": self._seed,
                "predictions": windows.masking.num_predictions(
                    tf.range(windows.window_length)
                )
                .numpy()
                .tolist(),
            },
        )
        packs = packing.Packs(plan["offsets"], plan["members"])
        max_predictions = int(plan["most_predictions"].max())
        return PackedRows(windows, packs, max_predictions=max_predictions)

    def _parts(
        self, windows: WindowRecords, groups: Sequence[range]
    ) -> Iterator[packing.Arrays]:
        """The plan, group by group; windows are numbered through all of them."""
        first_window, first_offset = 0, np.zeros(1, np.int64)
        for shards in groups:
            lengths = windows.lengths(shards)
            packs = packing.pack(
                lengths, windows.window_length, self._max_windows, seed=self._seed
            )
            num_pieces = tf.constant(lengths - NUM_SPECIAL_TOKENS, tf.int32)
            predictions = windows.masking.num_predictions(num_pieces).numpy()
            in_rows = np.add.reduceat(predictions[packs.members], packs.offsets[:-1])
            yield {
                "offsets": np.append(first_offset, first_window + packs.offsets[1:]),
                "members": first_window + packs.members,
                "most_predictions": in_rows.max(initial=0, keepdims=True),
            }
            first_window += len(lengths)
            first_offset = first_offset[:0]


class PackedRows:
    """Reads the rows of a packed split, whose rows have P predictions at most.

    A window's masks do not depend on the windows that it shares a row with.
    """

    parts = "windows"

    def __init__(
        self, windows: WindowRecords, packs: packing.Packs, *, max_predictions: int
    ):
        self._windows = windows
        self._packs = packs
        self._max_predictions = max_predictions
        self.row_length = windows.window_length
        self.num_tokens = windows.num_tokens
        self.num_parts = len(windows)

    def __len__(self) -> int:
        return len(self._packs)

    def __call__(
        self, numbers: tf.Tensor, epoch_places: tf.Tensor, epoch_streams: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        members, row_sizes = self._members(numbers)
        streams = randomness.extend_key(tf.repeat(epoch_streams, row_sizes), members)
        rows = join_windows(
            self._windows(members, streams),
            row_sizes,
            row_length=self.row_length,
            max_predictions=self._max_predictions,
            pad_id=self._windows.special_ids["pad"],
        )
        return {
            name: tf.ensure_shape(values, [*numbers.shape, *values.shape[1:]])
            for name, values in rows.items()
        }

    def prefetch(self, numbers: tf.Tensor) -> list[tf.Tensor]:
        return self._windows.prefetch(self._members(numbers)[0])

    def _members(self, numbers: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        members, row_sizes = tf.numpy_function(
            self._packs.of_rows, [numbers], [tf.int64, tf.int64], stateful=False
        )
        return (
            tf.ensure_shape(members, [None]),
            tf.ensure_shape(row_sizes, numbers.shape),
        )


def join_windows(
    windows: Mapping[str, tf.Tensor],
    row_sizes: tf.Tensor,
    *,
    row_length: int,
    max_predictions: int,
    pad_id: int,
) -> dict[str, tf.Tensor]:
    """Concatenates windows into rows.

    For example, windows `[CLS] 7 [SEP]` and `[CLS] 8 9 [SEP]` become

      tokens           [CLS]  7  [SEP]  [CLS]  8  9  [SEP]  [PAD]
      window_number        1  1      1      2  2  2      2      0
      position_index       0  1      2      0  1  2      3      0

    Args:
        windows: `{feature name: tensor (W, …)}` of one window a row, masked.
        row_sizes: int64 tensor `(B,)`, how many windows each row takes, in order.
        row_length: L.
        max_predictions: P.
        pad_id: id of `[PAD]`.

    Returns:
        `{feature name: tensor (B, …)}`, `window_number` among them.

    Raises:
        tf.errors.InvalidArgumentError: if the windows of a row, or their predictions,
            do not fit.
    """
    is_token, is_prediction = windows["padding_mask"], windows["masked_weights"] > 0
    lengths = _by_row(tf.math.count_nonzero(is_token, axis=1), row_sizes)
    starts = tf.cumsum(lengths, axis=1, exclusive=True).values
    windows = {
        **windows,
        "masked_positions": windows["masked_positions"]
        + tf.cast(starts, tf.int32)[:, tf.newaxis],
        WINDOW_NUMBER: tf.broadcast_to(
            1 + tf.cast(tf.ragged.range(row_sizes).values, tf.int32)[:, tf.newaxis],
            tf.shape(is_token),
        ),
    }
    sources = {
        "L": _sources(is_token, row_sizes, row_length),
        "P": _sources(is_prediction, row_sizes, max_predictions),
    }
    return {
        name: _take(
            values,
            sources[features.FEATURES[name].shape[1]],
            empty=pad_id if name == "token_ids" else 0,
        )
        for name, values in windows.items()
    }


def _sources(is_taken: tf.Tensor, row_sizes: tf.Tensor, width: int) -> tf.Tensor:
    """Flat index of the windows' value that fills each position of a row."""
    counts = _by_row(tf.math.count_nonzero(is_taken, axis=1), row_sizes)
    counts = tf.reduce_sum(counts, axis=1)
    tf.debugging.assert_less_equal(
        counts,
        tf.constant(width, tf.int64),
        "The windows of a row do not fit it: the records and the lengths beside them "
        "differ. `python -m data_pipelines.check_records` says where",
    )
    taken = tf.where(tf.reshape(is_taken, [-1]))[:, 0]
    nothing = tf.size(is_taken, out_type=tf.int64)
    return _by_row(taken, counts).to_tensor(nothing, shape=[None, width])


def _take(values: tf.Tensor, sources: tf.Tensor, *, empty: int) -> tf.Tensor:
    padded = tf.concat([tf.reshape(values, [-1]), tf.cast([empty], values.dtype)], 0)
    return tf.gather(padded, sources)


def _by_row(values: tf.Tensor, row_sizes: tf.Tensor) -> tf.RaggedTensor:
    return tf.RaggedTensor.from_row_lengths(values, row_sizes, validate=False)
