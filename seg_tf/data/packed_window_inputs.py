"""Batches of rows that hold several windows each."""

from typing import Any

from seg_tf.data.packed_rows import PackedLayout
from seg_tf.data.window_inputs import WindowInputs


def packed_window_inputs(
    *, max_windows_per_row: int, seed: int, **arguments: Any
) -> WindowInputs:
    """`WindowInputs` whose samples are rows of several windows.

    The packing is drawn once and stays: an epoch is a permutation of the rows, and
    sample k of epoch e, its masking included, is a pure function of (seed, e, k).

    Args:
        max_windows_per_row: the most windows of a row.
        seed: seed of the run.
        **arguments: the other arguments of `WindowInputs`.

    Raises:
        ValueError: if the records do not fit the settings, or were built by a version
            that did not write their lengths.
    """
    layout = PackedLayout(max_windows_per_row=max_windows_per_row, seed=seed)
    return WindowInputs(seed=seed, layout=layout, **arguments)
