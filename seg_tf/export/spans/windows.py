"""Windows of contexts, in the graph: those of `seg_tf.tasks.squad.windows`.

Shape key: B contexts, P pieces of all contexts, W windows, K pieces of all windows,
S windows of a context.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import tensorflow as tf

from seg_tf.text.marked_positions import count_off

if TYPE_CHECKING:
    from seg_tf.export.spans.contexts import GraphContexts
    from seg_tf.tasks.squad.windows import WindowSizes

# Behind all pieces of a context; twice as much is an int32 still.
_FAR = 1 << 30
# What a piece of a longer window is better by: BERT's.
_OF_LENGTH = 0.01


@dataclasses.dataclass(frozen=True)
class GraphWindows:
    """Windows, those of a context together and in its order.

    Attributes:
        contexts: int32 `(W,)`, which context each is of.
        lengths: int32 `(W,)`, pieces of each; none, of a context that has none.
        windows: int32 `(K,)`, which window a piece of a window stands in.
        offsets: int32 `(K,)`, how many of the window's pieces stand before it.
        pieces: int32 `(K,)`, which of the P pieces it is.
        is_max_context: bool `(K,)`, whether no other window shows it in more context.
    """

    contexts: tf.Tensor
    lengths: tf.Tensor
    windows: tf.Tensor
    offsets: tf.Tensor
    pieces: tf.Tensor
    is_max_context: tf.Tensor


def make_windows(
    contexts: GraphContexts, num_question_pieces: tf.Tensor, sizes: WindowSizes
) -> GraphWindows:
    """The windows of contexts, at least one of each.

    Args:
        contexts: what is asked about.
        num_question_pieces: int32 `(B,)`, of what is read of the questions.
        sizes: of the windows.
    """
    which, starts, stops = _bounds(contexts, num_question_pieces, sizes)
    lengths = stops - starts
    pieces, windows = count_off(
        starts + tf.gather(contexts.first_pieces, which), lengths
    )
    begins = tf.cumsum(lengths, exclusive=True)
    offsets = tf.range(tf.size(pieces)) - tf.gather(begins, windows)
    return GraphWindows(
        contexts=which,
        lengths=lengths,
        windows=windows,
        offsets=offsets,
        pieces=pieces,
        is_max_context=_max_context(
            pieces, offsets, tf.gather(lengths, windows), tf.size(contexts.ids)
        ),
    )


def _bounds(
    contexts: GraphContexts, num_question_pieces: tf.Tensor, sizes: WindowSizes
) -> tuple[tf.Tensor, ...]:
    """Context, first piece of it and the piece behind the last, of every window."""

    def by_context(values: tf.Tensor) -> tf.Tensor:
        ragged = tf.RaggedTensor.from_row_lengths(
            values, contexts.num_pieces, validate=False
        )
        return tf.pad(ragged.to_tensor(_FAR), [[0, 0], [0, 1]], constant_values=_FAR)

    sentences = by_context(contexts.sentences)
    number = tf.ragged.range(contexts.num_pieces).flat_values
    # Positions that a row needs up to each piece, counted from anywhere.
    needed = by_context(number + sizes.tokens_per_sentence * contexts.sentences)
    room = sizes.room(num_question_pieces) - sizes.tokens_per_sentence

    def at(values: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
        return tf.gather(values, positions, batch_dims=1)

    def first_from(values: tf.Tensor, bounds: tf.Tensor) -> tf.Tensor:
        """The first position of each row where a value is not below a bound."""
        return tf.searchsorted(values, bounds[:, tf.newaxis])[:, 0]

    def add(
        step: tf.Tensor, start: tf.Tensor, goes_on: tf.Tensor, *found: tf.TensorArray
    ) -> tuple[tf.Tensor | tf.TensorArray, ...]:
        stop = first_from(needed, at(needed, start) + room)
        if sizes.max_sentences is not None:
            behind = at(sentences, start) + sizes.max_sentences - 1
            stop = tf.minimum(stop, first_from(sentences, behind))
        stop = tf.minimum(stop, contexts.num_pieces)
        found = [
            array.write(step, values)
            for array, values in zip(found, (start, stop, goes_on), strict=True)
        ]
        next_start = start + tf.minimum(sizes.stride, stop - start)
        return step + 1, next_start, goes_on & (stop < contexts.num_pieces), *found

    none = tf.zeros_like(contexts.num_pieces)
    _, _, _, *found = tf.while_loop(
        lambda step, _, goes_on, *__: (step == 0) | tf.reduce_any(goes_on),
        add,
        (
            tf.constant(0),
            none,
            none == 0,
            *(
                tf.TensorArray(dtype, 0, dynamic_size=True, element_shape=[None])
                for dtype in (tf.int32, tf.int32, tf.bool)
            ),
        ),
    )
    starts_BS, stops_BS, is_window_BS = (tf.transpose(one.stack()) for one in found)
    which = tf.cast(tf.where(is_window_BS)[:, 0], tf.int32)
    return (
        which,
        tf.boolean_mask(starts_BS, is_window_BS),
        tf.boolean_mask(stops_BS, is_window_BS),
    )


def _max_context(
    pieces: tf.Tensor, offsets: tf.Tensor, lengths: tf.Tensor, num_pieces: tf.Tensor
) -> tf.Tensor:
    """Mask of pieces with more context than in any other window: bool `(K,)`."""
    less = tf.minimum(offsets, lengths - 1 - offsets)
    scores = tf.cast(less, tf.float64) + _OF_LENGTH * tf.cast(lengths, tf.float64)
    return first_of_best(scores, pieces, num_pieces)


def first_of_best(
    scores: tf.Tensor, groups: tf.Tensor, num_groups: tf.Tensor
) -> tf.Tensor:
    """Mask of the best score of each group, the first of equal ones.

    Args:
        scores: float `(K,)`.
        groups: int32 `(K,)`, which group each is of.
        num_groups: how many there are.

    Returns:
        bool `(K,)`, True once for each group that has a score.
    """
    best = tf.math.unsorted_segment_max(scores, groups, num_groups)
    is_best = scores == tf.gather(best, groups)
    number = tf.range(tf.size(groups))
    first = tf.math.unsorted_segment_min(
        tf.where(is_best, number, tf.int32.max), groups, num_groups
    )
    return number == tf.gather(first, groups)
