"""Windows of a context, each of which is read together with the question.

Contexts longer than a row are read in windows that overlap, as BERT does (Devlin et
al., 2019, and its published code): each starts `stride` pieces after the one before.
"""

import dataclasses
from collections.abc import Callable, Iterable

import numpy as np

from seg_tf.configuration.bounds import check_at_least
from seg_tf.tasks.squad.spans import EncodedContext, SpanEncoder
from seg_tf.tasks.squad.squad_files import Passage, Question


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
    stride: int = 128
    max_question_pieces: int = 64
    num_special_tokens: int = 3
    tokens_per_sentence: int = 0
    max_sentences: int | None = None

    def __post_init__(self):
        check_at_least(self, 1, "stride", "max_question_pieces")
        check_at_least(self, 0, "num_special_tokens", "tokens_per_sentence")
        if self.max_sentences is not None and self.max_sentences < 2:
            raise ValueError(
                "`max_sentences` must be at least 2, for the question and a sentence. "
                f"Received: max_sentences={self.max_sentences}"
            )
        if self.room(self.max_question_pieces) <= self.tokens_per_sentence:
            raise ValueError(
                "`max_length` must have room for the longest question, the special "
                "tokens and a piece of context. Received: "
                f"max_length={self.max_length}, "
                f"max_question_pieces={self.max_question_pieces}, "
                f"num_special_tokens={self.num_special_tokens}, "
                f"tokens_per_sentence={self.tokens_per_sentence}"
            )

    def room(self, num_question_pieces: int) -> int:
        """Positions for the context, tokens before its sentences included."""
        return (
            self.max_length
            - num_question_pieces
            - self.num_special_tokens
            - self.tokens_per_sentence
        )


@dataclasses.dataclass(frozen=True, eq=False)
class SpanWindow:
    """Consecutive pieces of a context and the question that is asked about it.

    Positions are counted from 0 at the first piece of the window, and its sentences
    from 0 as well, the question not among them: whoever lays out a row adds what
    stands before.

    Attributes:
        identifier: of the question.
        question_ids: int32 array `(q,)`, pieces of the question: paragraph 0,
            sentence 0, token index 0, 1, ….
        context: the whole context; many windows share it.
        start: the window's first piece in the context.
        stop: the piece after its last.
        is_max_context: bool array `(stop - start,)`, True where no other window shows
            more of what surrounds the piece: answers are to start there only.
        answer: positions of first and last piece of the answer; None if the window
            does not hold it whole.
        answer_sentence: which sentence of the window the answer starts in.
    """

    identifier: str
    question_ids: np.ndarray
    context: EncodedContext
    start: int
    stop: int
    is_max_context: np.ndarray
    answer: tuple[int, int] | None = None
    answer_sentence: int | None = None

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def token_ids(self) -> np.ndarray:
        """The pieces of the window, int32 `(n,)`."""
        return self.context.token_ids[self.start : self.stop]

    @property
    def sentence_lengths(self) -> np.ndarray:
        """Pieces of each sentence, `(s,)`, as far as the window has them."""
        bounds = self.context.sentence_bounds.clip(self.start, self.stop)
        return np.diff(bounds)[self._sentences]

    @property
    def paragraph_index(self) -> np.ndarray:
        """Paragraph of each sentence in the context, `(s,)`, from 1."""
        return self.context.paragraph_index[self._sentences]

    @property
    def sentence_index(self) -> np.ndarray:
        """Number of each sentence in its paragraph, `(s,)`."""
        return self.context.sentence_index[self._sentences]

    @property
    def first_token_index(self) -> np.ndarray:
        """Token index of the first piece of each sentence, `(s,)`.

        All are 0 but the first, where the window starts inside a sentence.
        """
        bounds = self.context.sentence_bounds[self._sentences]
        return np.maximum(self.start - bounds, 0)

    @property
    def _sentences(self) -> slice:
        """The sentences of the context that the window has a piece of."""
        first = self.context.sentence_of(self.start)
        return slice(first, self.context.sentence_of(self.stop - 1) + 1)

    def text_of(self, first: int, last: int) -> str:
        """The characters from one position to another, both included."""
        return self.context.text_of(self.start + first, self.start + last)


@dataclasses.dataclass(frozen=True)
class Windows:
    """The windows of questions, and what had to be left out.

    Attributes:
        windows: those of a question are adjacent, in the order of the context.
        num_questions: that were asked.
        num_cut_questions: of which not all pieces are read.
    """

    windows: tuple[SpanWindow, ...]
    num_questions: int
    num_cut_questions: int


def make_windows(
    passages: Iterable[Passage],
    encoder: SpanEncoder,
    sizes: WindowSizes,
    advance: Callable[[int], object] = lambda num_questions: None,
) -> Windows:
    """The windows of all questions; every question has at least one.

    Args:
        passages: contexts and questions. Of several answers the first is the one that
            windows hold.
        encoder: what makes word pieces.
        sizes: of the windows.
        advance: called with the number of questions that have been done since.

    Raises:
        ValueError: if a context has no word piece.
    """
    windows: list[SpanWindow] = []
    num_questions = num_cut = 0
    for passage in passages:
        if not passage.questions:
            continue
        context = encoder.context(passage.context)
        if not len(context.token_ids):
            raise ValueError(
                "A context must have a word piece. Received: that of question "
                f"{passage.questions[0].identifier!r}, {passage.context[:60]!r}"
            )
        cuts: dict[int, list[tuple[int, int, np.ndarray]]] = {}
        for question in passage.questions:
            ids = encoder.question(question.text)
            num_cut += len(ids) > sizes.max_question_pieces
            ids = ids[: sizes.max_question_pieces]
            if len(ids) not in cuts:
                bounds = window_bounds(context, sizes, len(ids))
                cuts[len(ids)] = [
                    (*bound, of_window)
                    for bound, of_window in zip(
                        bounds, max_context(bounds), strict=True
                    )
                ]
            windows += _windows_of(question, ids, context, cuts[len(ids)])
        num_questions += len(passage.questions)
        advance(len(passage.questions))
    return Windows(tuple(windows), num_questions, num_cut)


def window_bounds(
    context: EncodedContext, sizes: WindowSizes, num_question_pieces: int
) -> list[tuple[int, int]]:
    """First piece of each window and the one after its last; together they have all.

    Args:
        context: with at least one piece.
        sizes: of the windows.
        num_question_pieces: of the question that is read with them.
    """
    num_pieces = len(context.token_ids)
    sentence_of = np.repeat(
        np.arange(len(context.paragraph_index)), np.diff(context.sentence_bounds)
    )
    # Positions that a row needs up to each piece, counted from anywhere.
    needed = np.arange(num_pieces) + sizes.tokens_per_sentence * sentence_of
    room = sizes.room(num_question_pieces) - sizes.tokens_per_sentence
    bounds = []
    start = stop = 0
    while stop < num_pieces:
        stop = int(np.searchsorted(needed, needed[start] + room))
        if sizes.max_sentences is not None:
            after = sentence_of[start] + sizes.max_sentences - 1
            if after < len(context.paragraph_index):
                stop = min(stop, int(context.sentence_bounds[after]))
        bounds.append((start, stop))
        start += min(sizes.stride, stop - start)
    return bounds


def max_context(bounds: list[tuple[int, int]]) -> list[np.ndarray]:
    """For each window, where it shows a piece in more context than any other does.

    Context is what is less, left or right of the piece; between windows that are
    equal in that, the longer one is better by BERT's hundredth of its length, and then
    the first.

    Args:
        bounds: what `window_bounds` gave.

    Returns:
        A bool array for each window. Each piece is True in exactly one.
    """
    scores = np.full((len(bounds), bounds[-1][1]), -np.inf)
    for row, (start, stop) in zip(scores, bounds, strict=True):
        place = np.arange(stop - start)
        row[start:stop] = np.minimum(place, place[::-1]) + 0.01 * (stop - start)
    best = scores.argmax(axis=0)
    return [best[start:stop] == at for at, (start, stop) in enumerate(bounds)]


def _windows_of(
    question: Question,
    question_ids: np.ndarray,
    context: EncodedContext,
    cuts: list[tuple[int, int, np.ndarray]],
) -> Iterable[SpanWindow]:
    span = context.span_of(question.answers[0]) if question.answers else None
    for start, stop, is_max_context in cuts:
        answer = sentence = None
        if span and start <= span[0] and span[1] < stop:
            answer = (span[0] - start, span[1] - start)
            sentence = context.sentence_of(span[0]) - context.sentence_of(start)
        yield SpanWindow(
            identifier=question.identifier,
            question_ids=question_ids,
            context=context,
            start=start,
            stop=stop,
            is_max_context=is_max_context,
            answer=answer,
            answer_sentence=sentence,
        )
