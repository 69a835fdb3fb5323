"""Packs several windows into each row: `[CLS] a [SEP] [CLS] b [SEP] … padding`.

Indices and masks are computed for each window separately. `window_number` assigns
positions to windows, and windows do not attend to each other, so the summed loss is the
same as with one window per row.

Shape key: W windows of a batch, B rows, L row length, P predictions of a row.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from seg_tf.config import configured_by
from seg_tf.data import packing, randomness
from seg_tf.data.configs import PackedWindowInputsConfig
from seg_tf.data.manifest import NUM_SPECIAL_TOKENS
from seg_tf.data.window_inputs import WindowInputs
from seg_tf.data.window_records import Features, Rows, WindowRecords
from seg_tf.features import FEATURES

WINDOW_NUMBER = "window_number"


@configured_by(PackedWindowInputsConfig)
class PackedWindowInputs(WindowInputs):
    """`WindowInputs` with at most `max_windows_per_row` windows per row.

    Windows are packed once, and each epoch is a permutation of the rows. The masks of a
    window do not depend on the other windows of its row.
    """

    row_features = (WINDOW_NUMBER,)

    def __init__(self, *, max_windows_per_row: int, **arguments: Any):
        super().__init__(**arguments)
        self._max_windows = max_windows_per_row

    def build_rows(self, windows: WindowRecords) -> Rows:
        parts, max_predictions = [], 0
        manifest, row_length = windows.manifest, windows.window_length
        for shards in packing.groups_of_shards(manifest, windows.split, "records"):
            lengths = windows.lengths(shards)
            part = packing.pack(lengths, row_length, self._max_windows, seed=self._seed)
            num_pieces = tf.constant(lengths - NUM_SPECIAL_TOKENS, tf.int32)
            predictions = windows.masking.num_predictions(num_pieces).numpy()
            in_rows = np.add.reduceat(predictions[part.members], part.offsets[:-1])
            max_predictions = max(max_predictions, int(in_rows.max(initial=0)))
            parts.append(part)
        packs = packing.Packs.joined(parts)

        def members_of(numbers: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            members, row_sizes = tf.numpy_function(
                packs.of_rows, [numbers], [tf.int64, tf.int64], stateful=False
            )
            return (
                tf.ensure_shape(members, [None]),
                tf.ensure_shape(row_sizes, numbers.shape),
            )

        def read(
            numbers: tf.Tensor, epoch_places: tf.Tensor, epoch_streams: tf.Tensor
        ) -> Features:
            members, row_sizes = members_of(numbers)
            streams = tf.repeat(epoch_streams, row_sizes)
            rows = join_windows(
                windows.read_masked(members, randomness.extend_key(streams, members)),
                row_sizes,
                row_length=row_length,
                max_predictions=max_predictions,
                pad_id=windows.special_ids["pad"],
            )
            return {
                name: tf.ensure_shape(values, [*numbers.shape, *values.shape[1:]])
                for name, values in rows.items()
            }

        return Rows(
            count=len(packs),
            length=row_length,
            num_tokens=windows.num_tokens,
            read=read,
            prefetch=lambda numbers: windows.prefetch(members_of(numbers)[0]),
        )


def join_windows(
    windows: Mapping[str, tf.Tensor],
    row_sizes: tf.Tensor,
    *,
    row_length: int,
    max_predictions: int,
    pad_id: int,
) -> Features:
    """Concatenates masked windows into rows, and adds the feature `window_number`.

    For example, windows `[CLS] 7 [SEP]` and `[CLS] 8 9 [SEP]` become

      tokens           [CLS]  7  [SEP]  [CLS]  8  9  [SEP]  [PAD]
      window_number        1  1      1      2  2  2      2      0
      position_index       0  1      2      0  1  2      3      0

    `windows` are features `(W, …)`, and `row_sizes`, int64 `(B,)`, is the number of
    windows of each row, in order. Returns features `(B, row_length)` and, of masked
    positions, `(B, max_predictions)`. Raises a tf.errors.InvalidArgumentError if the
    windows or predictions of a row do not fit.
    """

    def by_row(values: tf.Tensor, row_sizes: tf.Tensor) -> tf.RaggedTensor:
        return tf.RaggedTensor.from_row_lengths(values, row_sizes, validate=False)

    def sources(is_used: tf.Tensor, width: int) -> tf.Tensor:
        """Returns the flat index of the value at each position of the rows."""
        counts = by_row(tf.math.count_nonzero(is_used, axis=1), row_sizes)
        counts = tf.reduce_sum(counts, axis=1)
        tf.debugging.assert_less_equal(
            counts,
            tf.constant(width, tf.int64),
            "The windows of a row do not fit: the records and the lengths next to them "
            "differ. Run `seg-tf check-records` to find out where",
        )
        used = tf.where(tf.reshape(is_used, [-1]))[:, 0]
        padding = tf.size(is_used, out_type=tf.int64)
        return by_row(used, counts).to_tensor(padding, shape=[None, width])

    is_token, is_prediction = windows["padding_mask"], windows["masked_weights"] > 0
    lengths = by_row(tf.math.count_nonzero(is_token, axis=1), row_sizes)
    starts = tf.cast(tf.cumsum(lengths, axis=1, exclusive=True).values, tf.int32)
    number = 1 + tf.cast(tf.ragged.range(row_sizes).values, tf.int32)
    windows = {
        **windows,
        "masked_positions": windows["masked_positions"] + starts[:, tf.newaxis],
        WINDOW_NUMBER: tf.broadcast_to(number[:, tf.newaxis], tf.shape(is_token)),
    }
    sources_by_axis = {
        "L": sources(is_token, row_length),
        "P": sources(is_prediction, max_predictions),
    }
    rows = {}
    for name, values in windows.items():
        empty = tf.cast([pad_id if name == "token_ids" else 0], values.dtype)
        padded = tf.concat([tf.reshape(values, [-1]), empty], 0)
        rows[name] = tf.gather(padded, sources_by_axis[FEATURES[name].shape[1]])
    return rows
