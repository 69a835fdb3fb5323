"""From the logits of windows to answers in the words of the context.

What a model gives for each piece of a window is how well an answer starts and ends
there, and for version 2.0 how well there is none. An answer is scored by the sum of the
two logits, and cut out of the original text: no character of it went through the
vocabulary.
"""

import dataclasses
import itertools
import json
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from seg_tf import files
from seg_tf.tasks.squad.evaluation import question_scores
from seg_tf.tasks.squad.squad_files import Question
from seg_tf.tasks.squad.windows import SpanWindow

PREDICTIONS = "predictions.json"
NBEST_PREDICTIONS = "nbest_predictions.json"
NULL_ODDS = "null_odds.json"


@dataclasses.dataclass(frozen=True, eq=False)
class WindowLogits:
    """Logits of a window for the start and the end of an answer.

    Attributes:
        start: float array `(n,)`, logit of each piece of the window to be the first
            of the answer. Pieces of the question and special tokens are not in it.
        end: likewise to be the last one.
        null: start and end logit of there being no answer, those of `[CLS]`; None in
            version 1.1, where there always is one.
    """

    start: np.ndarray
    end: np.ndarray
    null: tuple[float, float] | None = None


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A possible answer; the text "" is none."""

    text: str
    start_logit: float
    end_logit: float

    @property
    def score(self) -> float:
        return self.start_logit + self.end_logit


@dataclasses.dataclass(frozen=True)
class RankedAnswers:
    """The best answers to a question.

    Attributes:
        identifier: of the question.
        candidates: best first, with distinct texts.
        null: what speaks for no answer; None in version 1.1.
    """

    identifier: str
    candidates: tuple[Candidate, ...]
    null: Candidate | None = None

    @property
    def null_odds(self) -> float:
        """Score of no answer, less that of the best answer."""
        if self.null is None:
            raise ValueError(
                "`null_odds` are for version 2.0. Received: question "
                f"{self.identifier!r}, whose windows have no `null` logits"
            )
        return self.null.score - self.candidates[0].score

    def answer(self, null_threshold: float = 0.0) -> str:
        """The best answer, or "" if the odds of no answer are above the threshold."""
        if self.null is not None and self.null_odds > null_threshold:
            return ""
        return self.candidates[0].text

    def n_best(self) -> list[dict[str, Any]]:
        """All candidates, no answer among them, with probabilities, best first."""
        ranked = [*self.candidates, *([self.null] if self.null else [])]
        ranked.sort(key=lambda candidate: -candidate.score)
        scores = np.array([candidate.score for candidate in ranked])
        weights = np.exp(scores - scores.max())
        return [
            {
                "text": candidate.text,
                "probability": float(probability),
                "start_logit": candidate.start_logit,
                "end_logit": candidate.end_logit,
            }
            for candidate, probability in zip(
                ranked, weights / weights.sum(), strict=True
            )
        ]


def rank_answers(
    windows: Iterable[SpanWindow],
    logits: Iterable[WindowLogits],
    *,
    num_best: int = 20,
    max_answer_pieces: int = 30,
) -> Iterator[RankedAnswers]:
    """The best answers to each question.

    All spans are compared, not those alone between the best starts and the best ends.
    An answer starts where its window shows it in the most context; of windows with
    different logits for no answer, the one that is surest of an answer counts, as
    in BERT's published code.

    Args:
        windows: those of a question are adjacent.
        logits: of each window, in the same order.
        num_best: how many answers are wanted; there are fewer if the windows do not
            have as many.
        max_answer_pieces: the longest answer.

    Raises:
        ValueError: if the two do not go together, or a logit is not finite.
    """
    if num_best < 1 or max_answer_pieces < 1:
        raise ValueError(
            "`num_best` and `max_answer_pieces` must be at least 1. Received: "
            f"num_best={num_best}, max_answer_pieces={max_answer_pieces}"
        )
    pairs = zip(windows, logits, strict=True)
    seen = set()
    for identifier, of_question in itertools.groupby(
        pairs, key=lambda pair: pair[0].identifier
    ):
        if identifier in seen:
            raise ValueError(
                "`windows` of a question must stand together. Received: others "
                f"between those of {identifier!r}"
            )
        seen.add(identifier)
        of_question = [
            (window, _checked(window, of_window)) for window, of_window in of_question
        ]
        nulls = [
            Candidate("", *map(float, of_window.null))
            for _, of_window in of_question
            if of_window.null is not None
        ]
        candidates = tuple(_candidates(of_question, num_best, max_answer_pieces))
        if not candidates:
            raise ValueError(
                "`windows` must be all those of a question. Received: some of "
                f"{identifier!r}, in none of which an answer may start"
            )
        yield RankedAnswers(
            identifier,
            candidates,
            min(nulls, key=lambda null: null.score, default=None),
        )


def best_null_threshold(
    questions: Iterable[Question],
    answers: Sequence[RankedAnswers],
    metric: str = "f1",
) -> tuple[float, float]:
    """The threshold of `RankedAnswers.answer` with the best score on these questions.

    Unlike the official search it never parts questions of equal odds, and has a
    threshold for never answering: what it reports is what answers will score.

    Args:
        questions: with their answers, such as those of the development file.
        answers: to them.
        metric: `exact` or `f1`.

    Returns:
        The threshold and the mean score over `answers`, in percent.

    Raises:
        ValueError: if there is no such metric, or no answer.
    """
    if metric not in ("exact", "f1"):
        raise ValueError(f"`metric` must be exact or f1. Received: {metric!r}")
    at = ("exact", "f1").index(metric)
    questions = list(questions)
    scores = question_scores(
        questions, {one.identifier: one.candidates[0].text for one in answers}
    )
    if not scores:
        raise ValueError(
            "`answers` must be to some of the questions. Received: "
            f"{len(answers):,} answers, to none of the {len(questions):,} questions"
        )
    has_answer = {one.identifier: bool(one.answers) for one in questions}
    known = [one for one in answers if one.identifier in scores]
    unanswered = np.array([float(not has_answer[one.identifier]) for one in known])
    answered = np.array([scores[one.identifier][at] for one in known])
    odds = np.array([one.null_odds for one in known])
    order = np.argsort(odds, kind="stable")
    odds = odds[order]
    # How much better than never answering, with the first so many answered.
    gains = np.append(0.0, np.cumsum((answered - unanswered)[order]))
    is_bound = np.append(True, np.append(odds[1:] != odds[:-1], True))
    best = int(np.argmax(np.where(is_bound, gains, -np.inf)))
    threshold = odds[best - 1] if best else np.nextafter(odds[0], -np.inf)
    return float(threshold), float(
        100.0 * (unanswered.sum() + gains[best]) / len(known)
    )


def write_predictions(
    folder: pathlib.Path,
    answers: Iterable[RankedAnswers],
    null_threshold: float = 0.0,
) -> None:
    """Writes answers under the names, and in the form, of BERT's published code.

    `predictions.json` is what the official scripts read, `nbest_predictions.json` has
    all candidates, and for version 2.0 `null_odds.json` is what the official script
    looks for the best threshold in. Each appears whole under its name or not at all.

    Args:
        folder: made if it does not exist.
        answers: to all questions.
        null_threshold: of `RankedAnswers.answer`.
    """
    answers = list(answers)
    contents = {
        PREDICTIONS: {one.identifier: one.answer(null_threshold) for one in answers},
        NBEST_PREDICTIONS: {one.identifier: one.n_best() for one in answers},
    }
    odds = {one.identifier: one.null_odds for one in answers if one.null is not None}
    if odds:
        contents[NULL_ODDS] = odds
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        # Escaped, for a context may hold half a surrogate pair, which has no UTF-8.
        files.write_text(folder / name, json.dumps(content, indent=1) + "\n")


def _candidates(
    of_question: Sequence[tuple[SpanWindow, WindowLogits]],
    num_best: int,
    max_answer_pieces: int,
) -> Iterator[Candidate]:
    """The best spans of all windows of a question that differ in their texts."""
    scores = [
        _span_scores(window, of_window, max_answer_pieces)
        for window, of_window in of_question
    ]
    first_rows = np.append(0, np.cumsum([len(of_window) for of_window in scores]))
    texts = set()
    for number in _best_first(np.concatenate(scores).ravel(), num_best):
        row, more_pieces = divmod(int(number), max_answer_pieces)
        at = int(np.searchsorted(first_rows, row, side="right")) - 1
        window, of_window = of_question[at]
        first = row - int(first_rows[at])
        last = first + more_pieces
        text = window.text_of(first, last)
        if text not in texts:
            texts.add(text)
            yield Candidate(
                text, float(of_window.start[first]), float(of_window.end[last])
            )
            if len(texts) == num_best:
                return


def _span_scores(
    window: SpanWindow, of_window: WindowLogits, max_answer_pieces: int
) -> np.ndarray:
    """Array `(n, max_answer_pieces)`: scores of spans, by first and further pieces."""
    ends = np.full(len(window) + max_answer_pieces - 1, -np.inf)
    ends[: len(window)] = of_window.end
    ends = np.lib.stride_tricks.sliding_window_view(ends, max_answer_pieces)
    starts = np.where(window.is_max_context, of_window.start, -np.inf)
    return starts[:, np.newaxis] + ends


def _best_first(scores: np.ndarray, num_wanted: int) -> Iterator[int]:
    """Numbers of the scores above -inf, the greatest first; of equal ones the first.

    Few are wanted in most cases, so that no more are sorted until they are asked for.
    """
    num_spans = int(np.count_nonzero(scores > -np.inf))
    num_given = 0
    while num_given < num_spans:
        num_wanted = min(num_wanted, num_spans)
        bound = np.partition(scores, -num_wanted)[-num_wanted]
        chosen = np.flatnonzero(scores >= bound)
        chosen = chosen[np.argsort(-scores[chosen], kind="stable")]
        yield from chosen[num_given:]
        num_given = len(chosen)
        num_wanted = 4 * num_given


def _checked(window: SpanWindow, of_window: WindowLogits) -> WindowLogits:
    """The logits as float64, in which sums of theirs cannot overflow."""
    arrays = {}
    for name in ("start", "end"):
        values = np.asarray(getattr(of_window, name), np.float64)
        if values.shape != (len(window),):
            raise ValueError(
                f"`logits` must have one {name} for every piece of its window. "
                f"Received: shape {values.shape} for {len(window)} pieces, question "
                f"{window.identifier!r}"
            )
        arrays[name] = values
    null = () if of_window.null is None else of_window.null
    if not all(np.isfinite(values).all() for values in (*arrays.values(), null)):
        raise ValueError(
            "`logits` must be finite. Received: others for question "
            f"{window.identifier!r}"
        )
    return WindowLogits(**arrays, null=of_window.null)
