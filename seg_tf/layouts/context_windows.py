"""Windows of a context, each of which is read together with the question.

Contexts longer than a row are read in windows that overlap, as BERT does (Devlin et
al., 2019, and its published code): each starts `stride` pieces after the one before.

Shape key: Q questions, P pieces of all contexts, W windows, K pieces of all windows.
"""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from seg_tf.config.base import Count, Whole, check_ranges
from seg_tf.layouts.contexts import Contexts, Questions
from seg_tf.text.marked_positions import count_off

# What a piece of a longer window is better by: BERT's.
_OF_LENGTH = 0.01


@dataclasses.dataclass(frozen=True, kw_only=True)
class WindowSizes:
    """Lengths of question and window. Defaults are BERT's.

    Attributes:
        max_length: positions of a row, special tokens included.
        stride: pieces from the start of a window to that of the next.
        max_question_pieces: what is read of a question.
        num_special_tokens: of a row: `[CLS] question [SEP] context [SEP]` has 3.
        tokens_per_sentence: special tokens before every sentence, the question among
            them: 1 where `[SENT]` is (SLM), with 2 special tokens in
            `[CLS] [SENT] question [SENT] s1 [SENT] s2 … [SEP]`.
        max_sentences: sentences of a row, the question among them; None is any number.
    """

    max_length: int = 384
    stride: Count = 128
    max_question_pieces: Count = 64
    num_special_tokens: Whole = 3
    tokens_per_sentence: Whole = 0
    max_sentences: int | None = None

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.max_sentences is not None and self.max_sentences < 2:
            raise ValueError(
                "`max_sentences` must be at least 2, for the question and a sentence. "
                f"Received: max_sentences={self.max_sentences}"
            )
        if self.capacity(self.max_question_pieces) < 1:
            raise ValueError(
                "`max_length` must be enough for the longest question, the special "
                "tokens and a piece of context. Received: "
                f"max_length={self.max_length}, "
                f"max_question_pieces={self.max_question_pieces}, "
                f"num_special_tokens={self.num_special_tokens}, "
                f"tokens_per_sentence={self.tokens_per_sentence}"
            )

    def num_tokens(
        self,
        num_question_pieces: int | tf.Tensor,
        num_pieces: int | tf.Tensor,
        num_sentences: int | tf.Tensor,
    ) -> int | tf.Tensor:
        """Positions that a row of so much of a question and a context takes."""
        return (
            self.num_special_tokens
            + num_question_pieces
            + num_pieces
            + self.tokens_per_sentence * (1 + num_sentences)
        )

    def capacity(self, num_question_pieces: int | tf.Tensor) -> int | tf.Tensor:
        """The most pieces of a window that shows one sentence."""
        return self.max_length - self.num_tokens(num_question_pieces, 0, 1)


@dataclasses.dataclass(frozen=True, eq=False)
class Windows:
    """Consecutive pieces of contexts, read together with a question.

    Attributes:
        questions: int32 `(W,)`, the question of each.
        starts: int32 `(W,)`, its first piece, counted through all contexts.
        stops: int32 `(W,)`, the piece after its last; the first again, of a context
            without a piece.
    """

    questions: tf.Tensor
    starts: tf.Tensor
    stops: tf.Tensor

    def take(self, numbers: tf.Tensor) -> Windows:
        """Some of the windows."""
        fields = (self.questions, self.starts, self.stops)
        return Windows(*(tf.gather(values, numbers) for values in fields))

    def lengths(self) -> tf.Tensor:
        """Pieces of each: int32 `(W,)`."""
        return self.stops - self.starts

    def pieces(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Pieces of all windows, and the window that each is in: int32 `(K,)`."""
        return count_off(self.starts, self.lengths())

    def num_sentences(self, contexts: Contexts) -> tf.Tensor:
        """Sentences that each shows, parts counted: int32 `(W,)`."""
        padded = tf.pad(contexts.sentences, [[0, 1]])
        last = tf.gather(padded, tf.maximum(self.stops - 1, 0))
        number = 1 + last - tf.gather(padded, self.starts)
        return tf.where(self.stops > self.starts, number, 0)

    def shown_most(self, num_questions: int | tf.Tensor) -> tf.Tensor:
        """Mask of pieces that no other window shows in more context: bool `(K,)`.

        Context is what is less, left or right of the piece; between windows that are
        equal in that, the longer one is better by BERT's hundredth of its length, and
        then the first. Answers are to start at these pieces only.

        Args:
            num_questions: Q.
        """
        pieces, windows = self.pieces()
        lengths = tf.gather(self.lengths(), windows)
        offsets = pieces - tf.gather(self.starts, windows)
        less = tf.minimum(offsets, lengths - 1 - offsets)
        scores = tf.cast(less, tf.float64) + _OF_LENGTH * tf.cast(lengths, tf.float64)
        # Each piece of a question's context is a group of its own.
        first = tf.math.unsorted_segment_min(self.starts, self.questions, num_questions)
        last = tf.math.unsorted_segment_max(self.stops, self.questions, num_questions)
        base = tf.cumsum(last - first, exclusive=True) - first
        groups = pieces + tf.gather(base, tf.gather(self.questions, windows))
        return first_of_best(scores, groups, tf.reduce_sum(last - first))


def make_windows(
    contexts: Contexts, questions: Questions, sizes: WindowSizes
) -> Windows:
    """The windows of all questions, at least one of each, those of one adjacent.

    Args:
        contexts: what is asked about.
        questions: what is asked.
        sizes: of the windows.
    """
    begins, ends = (
        tf.gather(values, questions.contexts)
        for values in (contexts.bounds[:-1], contexts.bounds[1:])
    )
    # The sentence before every piece and after the last, rising.
    sentences = tf.concat([contexts.sentences, contexts.sentences[-1:]], 0)
    sentences = tf.pad(sentences, [[0, tf.cast(tf.size(sentences) == 0, tf.int32)]])
    # Positions that a row needs up to each piece, counted from anywhere.
    needed = tf.range(tf.size(sentences)) + sizes.tokens_per_sentence * sentences
    capacity = sizes.capacity(questions.num_pieces())

    def add(
        step: tf.Tensor, starts: tf.Tensor, goes_on: tf.Tensor, *found: tf.TensorArray
    ) -> tuple[tf.Tensor | tf.TensorArray, ...]:
        stops = tf.searchsorted(needed, tf.gather(needed, starts) + capacity)
        if sizes.max_sentences is not None:
            after = tf.gather(sentences, starts) + sizes.max_sentences - 1
            stops = tf.minimum(stops, tf.searchsorted(sentences, after))
        stops = tf.minimum(stops, ends)
        found = tuple(
            array.write(step, values)
            for array, values in zip(found, (starts, stops, goes_on), strict=True)
        )
        next_starts = starts + tf.minimum(sizes.stride, stops - starts)
        return step + 1, next_starts, goes_on & (stops < ends), *found

    _, _, _, *found = tf.while_loop(
        lambda step, _, goes_on, *__: (step == 0) | tf.reduce_any(goes_on),
        add,
        (
            tf.constant(0),
            begins,
            tf.ones_like(begins, tf.bool),
            *(
                tf.TensorArray(dtype, 0, dynamic_size=True, element_shape=[None])
                for dtype in (tf.int32, tf.int32, tf.bool)
            ),
        ),
    )
    starts_QS, stops_QS, is_window_QS = (tf.transpose(one.stack()) for one in found)
    return Windows(
        tf.cast(tf.where(is_window_QS)[:, 0], tf.int32),
        tf.boolean_mask(starts_QS, is_window_QS),
        tf.boolean_mask(stops_QS, is_window_QS),
    )


def first_of_best(
    scores: tf.Tensor, groups: tf.Tensor, num_groups: int | tf.Tensor
) -> tf.Tensor:
    """Mask of the best score of each group, the first of equal ones.

    Args:
        scores: float `(K,)`.
        groups: int32 `(K,)`, the group of each.
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
