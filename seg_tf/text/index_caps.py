"""Caps that keep indices below the sizes of their embedding tables."""

import tensorflow as tf


def slide_below_cap(paragraph_index: tf.Tensor, cap: int) -> tf.Tensor:
    """Slides a window's paragraphs down until they fit, or start at 0.

    This keeps the differences between the paragraphs of a window deep in a long
    document, where clamping alone would make them one (rule of the authors' code of
    SegaBERT).

    Args:
        paragraph_index: int32 tensor `(B, N)`, non-decreasing along a row.
        cap: rows of the paragraph table.
    """
    excess = tf.maximum(paragraph_index[:, -1:] - (cap - 1), 0)
    return paragraph_index - tf.minimum(excess, paragraph_index[:, :1])
