"""Sizes of the windows in which a model reads contexts: the papers', or those given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seg_tf.layouts.contexts import WindowSizes

if TYPE_CHECKING:
    from seg_tf.checkpoints.pretrained import Pretrained

# BERT's published code, and SLM's appendix A.
_LENGTH_OF_WINDOWS = 384
_LENGTH_OF_SENTENCES = 512
_STRIDE = 128
_QUESTION_PIECES = 64


def window_sizes(
    pretrained: Pretrained,
    *,
    max_length: int | None = None,
    stride: int | None = None,
    max_question_pieces: int | None = None,
) -> WindowSizes:
    """Sizes of the windows of question and context that a model reads at once.

    Args:
        pretrained: the model.
        max_length: the most positions of a row; None takes 384, as BERT does, for a
            model of sentences 512, as SLM does, or what the model was pretrained with
            if that is less.
        stride: pieces from the start of a window to that of the next; None takes
            BERT's 128, for rows below 384 a third of their length.
        max_question_pieces: what is read of a question; None takes BERT's 64, for
            rows below 128 half of their length.

    Raises:
        ValueError: if the model is none that points at spans, embeds fewer positions,
            or a row is too short for question and context.
    """
    layout = pretrained.layout(max_length, for_spans=True)
    longest = layout.max_length
    of_sentences = layout.sent_id is not None
    if max_length is None:
        usual = _LENGTH_OF_SENTENCES if of_sentences else _LENGTH_OF_WINDOWS
        longest = min(longest, usual)
    specials = {}
    if of_sentences:
        specials = {
            "num_special_tokens": 2,
            "tokens_per_sentence": 1,
            "max_sentences": layout.text_capacity.num_sentences,
        }
    return WindowSizes(
        max_length=longest,
        stride=min(_STRIDE, max(1, longest // 3)) if stride is None else stride,
        max_question_pieces=min(_QUESTION_PIECES, longest // 2)
        if max_question_pieces is None
        else max_question_pieces,
        **specials,
    )
