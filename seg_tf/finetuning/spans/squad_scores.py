"""From ranked answers to the scores of a trial, under one name in both versions."""

from collections.abc import Sequence
from typing import Any

from seg_tf.tasks.squad import evaluation
from seg_tf.tasks.squad.answers import RankedAnswers, best_null_threshold
from seg_tf.tasks.squad.squad_files import SquadFile

_METRICS = ("exact", "f1")


def score_answers(
    data: SquadFile, answers: Sequence[RankedAnswers]
) -> dict[str, float]:
    """Scores by the official rules, in percent.

    Args:
        data: what was asked.
        answers: to all questions.

    Returns:
        `exact` and `f1`. In version 2.0 besides:

        * `null_threshold`, the threshold of the odds of no answer whose F1 is best on
          these very questions, as papers report the development set; `exact` and `f1`
          are those that it gives;
        * `HasAns_exact`, `HasAns_f1`, `NoAns_exact` and `NoAns_f1`, the same of the
          questions with and without an answer, if there are any;
        * `untuned_exact` and `untuned_f1`, with the threshold 0.
    """
    if not data.has_impossible:
        return _scores(data, {one.identifier: one.answer() for one in answers})
    threshold, _ = best_null_threshold(data.questions(), answers)
    tuned = {one.identifier: one.answer(threshold) for one in answers}
    untuned = _scores(data, {one.identifier: one.answer() for one in answers})
    return {
        **_scores(data, tuned),
        **{f"untuned_{name}": untuned[name] for name in _METRICS},
        "null_threshold": threshold,
    }


def never_answering(data: SquadFile) -> dict[str, float]:
    """Scores of never giving an answer, which is right where there is none."""
    return _scores(data, {one.identifier: "" for one in data.questions()})


def _scores(data: SquadFile, predictions: dict[str, str]) -> dict[str, float]:
    found: dict[str, Any] = evaluation.evaluate(data, predictions)
    if "exact_match" in found:
        found["exact"] = found["exact_match"]
    names = [
        f"{prefix}{name}" for prefix in ("", "HasAns_", "NoAns_") for name in _METRICS
    ]
    return {name: float(found[name]) for name in names if name in found}
