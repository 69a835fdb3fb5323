"""Exact match and F1 of answers to SQuAD, as the official scripts compute them.

`evaluate-v1.1.py` and `evaluate-v2.0.py` do not agree on answers without a word:
version 1.1 gives them an F1 of 0, version 2.0 one of 1 if there is none to be given.
"""

import collections
import re
import string
from collections.abc import Iterable, Mapping
from typing import Any

from seg_tf.tasks.squad.squad_files import Question, SquadFile

_ARTICLE = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def evaluate(
    data: SquadFile,
    predictions: Mapping[str, str],
    null_odds: Mapping[str, float] | None = None,
    no_answer_threshold: float = 1.0,
) -> dict[str, Any]:
    """Scores by the rules of the version that the file is of.

    Args:
        data: what was asked.
        predictions: identifier of a question -> answer.
        null_odds: as of `evaluate_v2`.
        no_answer_threshold: as of `evaluate_v2`.

    Raises:
        ValueError: if version 1.1 is given `null_odds`, or as of the two functions.
    """
    if data.has_impossible:
        return evaluate_v2(
            data.questions(), predictions, null_odds, no_answer_threshold
        )
    if null_odds is not None:
        raise ValueError(
            "`null_odds` are for version 2.0: in version 1.1 every question has an "
            f"answer. Received: {data.source}"
        )
    return evaluate_v1(data.questions(), predictions)


def evaluate_v1(
    questions: Iterable[Question], predictions: Mapping[str, str]
) -> dict[str, Any]:
    """Scores of version 1.1.

    Args:
        questions: with their answers.
        predictions: identifier of a question -> answer. A question without one scores
            0; further ones do not matter.

    Returns:
        `exact_match` and `f1` in percent, `total` questions and
        `missing_predictions`.

    Raises:
        ValueError: if a question has no answers, if there is no question, or none
            with a prediction.
    """
    exact_sum = f1_sum = 0.0
    questions = _with_some_prediction(questions, predictions)
    for question in questions:
        if not question.answers:
            raise ValueError(
                "In version 1.1 every question must have an answer. Received: "
                f"question {question.identifier!r}, which has none"
            )
        if question.identifier in predictions:
            predicted = normalized_words(predictions[question.identifier])
            gold = [normalized_words(answer.text) for answer in question.answers]
            exact_sum += max(words == predicted for words in gold)
            f1_sum += max(_f1(words, predicted) for words in gold)
    return {
        "exact_match": 100.0 * exact_sum / len(questions),
        "f1": 100.0 * f1_sum / len(questions),
        "total": len(questions),
        "missing_predictions": _count_missing(questions, predictions),
    }


def evaluate_v2(
    questions: Iterable[Question],
    predictions: Mapping[str, str],
    null_odds: Mapping[str, float] | None = None,
    no_answer_threshold: float = 1.0,
) -> dict[str, Any]:
    """Scores of version 2.0.

    The right answer to a question that the passage does not answer is "".

    Args:
        questions: with their answers.
        predictions: identifier of a question -> answer. A question without one scores
            0, where the official script fails; further ones do not matter.
        null_odds: identifier -> how likely it is that there is no answer: a
            probability, or the score of no answer less that of the best one.
        no_answer_threshold: what has greater odds counts as answered by "". The
            official default, 1, is one for probabilities.

    Returns:
        `exact` and `f1` in percent and the `total` they are of; `HasAns_…` and
        `NoAns_…` with the same three of the questions with and without an answer, if
        there are any; and `missing_predictions`. With `null_odds`, `best_exact` and
        `best_f1` and the thresholds, `best_exact_thresh` and `best_f1_thresh`, that
        give them. The official rule finds these, whose best may be out of reach: it
        parts questions of equal odds, and never answering, the best of bad models, is
        reported with threshold 0 (`squad_answers.best_null_threshold` does neither).

    Raises:
        ValueError: if there is no question, none with a prediction, or if there are
            odds, but not of one with a prediction.
    """
    questions = _with_some_prediction(questions, predictions)
    scores = question_scores(questions, predictions)
    has_answer = {one.identifier: bool(one.answers) for one in questions}
    if null_odds is not None:
        _check_odds(scores, null_odds)
    final = {
        identifier: (float(not has_answer[identifier]),) * 2
        if null_odds is not None and null_odds[identifier] > no_answer_threshold
        else pair
        for identifier, pair in scores.items()
    }
    result = _means(has_answer, final)
    for prefix, kind in (("HasAns", True), ("NoAns", False)):
        of_kind = [one for one, known in has_answer.items() if known is kind]
        if of_kind:
            means = _means(of_kind, final)
            result |= {f"{prefix}_{name}": value for name, value in means.items()}
    if null_odds is not None:
        for at, name in enumerate(("exact", "f1")):
            best, threshold = _official_best_threshold(
                {one: pair[at] for one, pair in scores.items()},
                predictions,
                null_odds,
                has_answer,
            )
            result[f"best_{name}"] = 100.0 * best / len(questions)
            result[f"best_{name}_thresh"] = threshold
    result["missing_predictions"] = _count_missing(questions, predictions)
    return result


def question_scores(
    questions: Iterable[Question], predictions: Mapping[str, str]
) -> dict[str, tuple[float, float]]:
    """Exact match and F1 of each question that has a prediction, by version 2.0.

    Args:
        questions: with their answers; one without any is right if answered by "".
        predictions: identifier of a question -> answer.
    """
    scores = {}
    for question in questions:
        if question.identifier not in predictions:
            continue
        predicted = normalized_words(predictions[question.identifier])
        gold = [normalized_words(answer.text) for answer in question.answers]
        # An answer of articles and punctuation alone is none.
        gold = list(filter(None, gold)) or [[]]
        scores[question.identifier] = (
            float(predicted in gold),
            max(
                _f1(words, predicted) if words and predicted else words == predicted
                for words in gold
            ),
        )
    return scores


def normalized_words(text: str) -> list[str]:
    """Words that are compared: lower-cased, no ASCII punctuation, no articles.

    Example:
        >>> normalized_words("The  cat's 1,000 (Thousand) lives.")
        ['cats', '1000', 'thousand', 'lives']
    """
    return _ARTICLE.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split()


def _f1(gold: list[str], predicted: list[str]) -> float:
    """F1 of the bags of words; 0 if one is empty."""
    common = collections.Counter(gold) & collections.Counter(predicted)
    num_common = sum(common.values())
    if not num_common:
        return 0.0
    precision, recall = num_common / len(predicted), num_common / len(gold)
    return 2 * precision * recall / (precision + recall)


def _means(
    identifiers: Iterable[str], scores: Mapping[str, tuple[float, float]]
) -> dict[str, Any]:
    """Means over questions in percent; without a score counts as 0."""
    pairs = [scores.get(identifier, (0.0, 0.0)) for identifier in identifiers]
    return {
        "exact": 100.0 * sum(exact for exact, _ in pairs) / len(pairs),
        "f1": 100.0 * sum(f1 for _, f1 in pairs) / len(pairs),
        "total": len(pairs),
    }


def _official_best_threshold(
    scores: Mapping[str, float],
    predictions: Mapping[str, str],
    null_odds: Mapping[str, float],
    has_answer: Mapping[str, bool],
) -> tuple[float, float]:
    """The best sum of scores, and the greatest odds that are answered for it."""
    current = float(sum(not has_answer[identifier] for identifier in scores))
    best, threshold = current, 0.0
    for identifier in sorted(null_odds, key=null_odds.__getitem__):
        if identifier not in scores:
            continue
        if has_answer[identifier]:
            current += scores[identifier]
        elif predictions[identifier]:
            current -= 1
        if current > best:
            best, threshold = current, null_odds[identifier]
    return best, threshold


def _check_odds(scores: Mapping[str, Any], null_odds: Mapping[str, float]) -> None:
    missing = [identifier for identifier in scores if identifier not in null_odds]
    if missing:
        raise ValueError(
            "`null_odds` must hold every question with a prediction. Received: none of "
            f"{missing[0]!r}, nor of {len(missing) - 1:,} others"
        )


def _with_some_prediction(
    questions: Iterable[Question], predictions: Mapping[str, str]
) -> list[Question]:
    questions = list(questions)
    if not any(one.identifier in predictions for one in questions):
        raise ValueError(
            "`predictions` must hold answers to some of the questions. Received: "
            f"{len(predictions):,} answers, none of which to the "
            f"{len(questions):,} questions"
        )
    return questions


def _count_missing(
    questions: Iterable[Question], predictions: Mapping[str, str]
) -> int:
    return sum(question.identifier not in predictions for question in questions)
