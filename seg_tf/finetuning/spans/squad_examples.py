"""Windows of SQuAD contexts as examples of a model: how long, and of which segments."""

from collections.abc import Sequence

import numpy as np

from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.finetuning.spans.span_batches import SpanExample
from seg_tf.layouts.segments import Segment
from seg_tf.tasks.squad.windows import SpanWindow, WindowSizes

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
        pretrained: as for `SpanExtractor.from_pretrained`.
        max_length: the most positions of a row; None takes 384, as BERT does, for a
            model of sentences 512, as SLM does, or what the model was pretrained with
            if that is less.
        stride: pieces from the start of a window to that of the next; None takes
            BERT's 128, for rows below 384 a third of their length.
        max_question_pieces: what is read of a question; None takes BERT's 64, for
            rows below 128 half of their length.

    Raises:
        ValueError: if the model is none that points at spans, embeds fewer positions,
            or a row has no room for question and context.
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


def span_example(window: SpanWindow) -> SpanExample:
    """A window as the segments of a row and its answer.

    The question is text 0, paragraph 0, sentence 0; the sentences of the context are
    text 1, paragraphs 1 and on. What a window cuts off at its start is counted: its
    first piece keeps the token index that it has in its sentence.
    """
    lengths = window.sentence_lengths
    sentences = zip(
        np.split(window.token_ids, np.cumsum(lengths)[:-1]),
        window.paragraph_index.tolist(),
        window.sentence_index.tolist(),
        window.first_token_index.tolist(),
        strict=True,
    )
    segments = [Segment(window.question_ids)]
    segments += [
        Segment(pieces, 1, paragraph, sentence, first_token)
        for pieces, paragraph, sentence, first_token in sentences
    ]
    return SpanExample(segments, window.answer)


class SpanExamples(Sequence):
    """Windows as examples that are made when they are asked for.

    The segments of all windows of SQuAD at once would be a million objects.

    Args:
        windows: at least one.
    """

    def __init__(self, windows: Sequence[SpanWindow]):
        self._windows = windows

    def __len__(self) -> int:
        return len(self._windows)

    def __getitem__(self, number: int) -> SpanExample:
        return span_example(self._windows[number])
