"""Ranked answers to questions, the odds of there being none, and their files.

An answer is scored by the sum of two logits, for its start and its end, and cut out of
the original text: no character of it went through the vocabulary.
"""

import dataclasses
import json
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from seg_tf import files
from seg_tf.tasks.squad.evaluation import question_scores
from seg_tf.tasks.squad.squad_files import Question

PREDICTIONS = "predictions.json"
NBEST_PREDICTIONS = "nbest_predictions.json"
NULL_ODDS = "null_odds.json"


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
