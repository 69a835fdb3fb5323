"""Batches of rows of whole sentences in any order, with `[SENT]` or without (SLM)."""

from typing import Any

from seg_tf.data.sentence_layout import SentenceRowLayout
from seg_tf.data.window_inputs import WindowInputs


def sentence_inputs(
    *, max_sentences: int, shuffle_rate: float, **arguments: Any
) -> WindowInputs:
    """`WindowInputs` whose rows are made of whole sentences in any order.

    Training merges and shuffles anew in every epoch; both, like the masks, are
    functions of (seed, epoch, sample). Validation takes the order that is stored with
    each record.

    Args:
        max_sentences: the most sentences of a row; rows are so many positions longer
            than windows.
        shuffle_rate: probability that a row is shuffled.
        **arguments: the other arguments of `WindowInputs`.

    Raises:
        ValueError: if the records do not fit the settings, have sentences cut to fill
            windows, or a vocabulary without a row for `[SENT]`.
    """
    layout = SentenceRowLayout(max_sentences=max_sentences, shuffle_rate=shuffle_rate)
    return WindowInputs(layout=layout, **arguments)


def shuffled_window_inputs(
    *, max_sentences: int, shuffle_rate: float, **arguments: Any
) -> WindowInputs:
    """`sentence_inputs` without `[SENT]`, sentence ids and candidates.

    The same sentences are merged and shuffled, and take the same places. Arguments and
    errors are those of `sentence_inputs`; rows are as long as windows.
    """
    layout = SentenceRowLayout(
        max_sentences=max_sentences, shuffle_rate=shuffle_rate, sentence_tokens=False
    )
    return WindowInputs(layout=layout, **arguments)
