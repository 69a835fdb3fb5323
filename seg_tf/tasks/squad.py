"""SQuAD 1.1 and 2.0: files, ranked answers, and the scores of the official scripts.

Rajpurkar et al., 2016, and Rajpurkar, Jia and Liang, 2018. A file is

    {"version": …, "data": [{"title": …, "paragraphs": [{"context": …, "qas": [
      {"id": …, "question": …, "answers": [{"text": …, "answer_start": …}, …],
       "is_impossible": …}]}]}]}

with `is_impossible` in version 2.0 only. A training file has one answer a question, a
development file several, by different people.
"""

import collections
import dataclasses
import json
import os
import pathlib
import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from seg_tf import files

_METRICS = ("exact", "f1")
_ARTICLE = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_JSON_NAMES = {list: "array", str: "string", int: "integer", bool: "boolean"}


# === Files ===


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """Characters of the context, and the position where they start."""

    text: str
    start: int

    @property
    def stop(self) -> int:
        """Position after the last character."""
        return self.start + len(self.text)


@dataclasses.dataclass(frozen=True, slots=True)
class Question:
    """A question about a passage.

    Attributes:
        identifier: unique in a file.
        text: the question.
        answers: by different people; none if the passage does not answer it, or if
            the file holds no answers.
        is_impossible: whether the passage does not answer it.
    """

    identifier: str
    text: str
    answers: tuple[Answer, ...] = ()
    is_impossible: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Passage:
    """A context, in which a line break ends a paragraph, and the questions about it."""

    title: str
    context: str
    questions: tuple[Question, ...]


@dataclasses.dataclass(frozen=True)
class SquadFile:
    """Contents of a SQuAD file.

    Attributes:
        source: its name, for messages.
        has_impossible: whether it is of version 2.0, in which a passage need not
            answer a question.
        passages: in the order of the file.
    """

    source: str
    has_impossible: bool
    passages: tuple[Passage, ...]

    def questions(self) -> Iterator[Question]:
        """All questions, in the order of the file."""
        for passage in self.passages:
            yield from passage.questions


def read(path: str | os.PathLike) -> SquadFile:
    """Reads a SQuAD file.

    It is of version 2.0 if it says so (`"version": "v2.0"`), or if a question has
    `is_impossible`. Positions of answers are checked by `read_split` only: scores need
    just their text.

    Args:
        path: a JSON file in the official format.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is no such file, or an identifier occurs twice. The message
            names the file, and the question or the place in the file.
    """
    content = files.read_json(pathlib.Path(path))
    place = source = str(path)
    identifiers: set[str] = set()
    found_impossible = False

    def get(value: Any, name: str, kind: type, default: Any = None) -> Any:
        """A member of a JSON object; without a default it has to be there."""
        if not isinstance(value, dict):
            raise ValueError(
                f"{place}: expected an object with `{name}`. Received: {_shown(value)}"
            )
        if name not in value:
            if default is not None:
                return default
            raise ValueError(
                f"{place}: expected a member `{name}`. Received: "
                f"{', '.join(value) or 'none'}"
            )
        # In Python True and False are ints.
        if type(value[name]) is not kind:
            raise ValueError(
                f"{place}: `{name}` must be a JSON {_JSON_NAMES[kind]}. Received: "
                f"{_shown(value[name])}"
            )
        return value[name]

    def question(asked: Any) -> Question:
        nonlocal place, found_impossible
        identifier = get(asked, "id", str)
        place = f"{source}: question {identifier!r}"
        if identifier in identifiers:
            raise ValueError(f"{place} occurs twice; identifiers must be unique")
        identifiers.add(identifier)
        text = get(asked, "question", str)
        answers = []
        for answer in get(asked, "answers", list, default=[]):
            start = get(answer, "answer_start", int)
            if start < 0:
                raise ValueError(
                    f"{place}: `answer_start` must be at least 0. Received: {start}"
                )
            answers.append(Answer(get(answer, "text", str), start))
        found_impossible |= "is_impossible" in asked
        is_impossible = get(asked, "is_impossible", bool, default=False)
        if is_impossible and answers:
            raise ValueError(
                f"{place}: an impossible question must have no `answers`. Received: "
                f"{answers[0].text!r}"
            )
        return Question(identifier, text, tuple(answers), is_impossible)

    passages = []
    for number, article in enumerate(get(content, "data", list), start=1):
        place = f"{source}: article {number}"
        title = get(article, "title", str, default="")
        for part, paragraph in enumerate(get(article, "paragraphs", list), start=1):
            place = paragraph_place = (
                f"{source}: article {number} ({title}), paragraph {part}"
            )
            context = get(paragraph, "context", str)
            questions = []
            for count, asked in enumerate(get(paragraph, "qas", list), start=1):
                place = f"{paragraph_place}, question {count}"
                questions.append(question(asked))
            passages.append(Passage(title, context, tuple(questions)))
    version = str(content.get("version", "")).removeprefix("v")
    has_impossible = version.startswith("2") or found_impossible
    return SquadFile(source, has_impossible, tuple(passages))


def read_split(
    data_dir: str | os.PathLike,
    version: str,
    split: str,
    limit: int | None = None,
    report: Callable[[str], Any] = print,
) -> SquadFile:
    """The file of a split; training data is checked, and its answers are aligned.

    Args:
        data_dir: folder with the files, or with their folder `squad`.
        version: "v1.1" or "v2.0".
        split: "train" or "dev".
        limit: keep the first N questions only; None keeps all.
        report: called with a line of text if answers had to be moved.

    Raises:
        OSError: if there is no file, or it cannot be read.
        ValueError: if there are several files, if it is of the other version, or holds
            nothing that can be trained on.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"`limit` must be at least 1. Received: limit={limit}")
    data = read(_find(pathlib.Path(data_dir).expanduser(), version, split))
    if data.has_impossible != (version == "v2.0"):
        received = "v2.0" if data.has_impossible else "v1.1"
        raise ValueError(
            f"{data.source}: expected a file of version {version}. Received: one of "
            f"{received}"
        )
    if limit is not None:
        passages = []
        for passage in data.passages:
            if limit > 0:
                kept = dataclasses.replace(passage, questions=passage.questions[:limit])
                passages.append(kept)
                limit -= len(kept.questions)
        data = dataclasses.replace(data, passages=tuple(passages))
    if next(data.questions(), None) is None:
        raise ValueError(
            f"{data.source}: expected a file with questions. Received: one with none"
        )
    if split == "train":
        for question in data.questions():
            if not (question.answers or question.is_impossible):
                raise ValueError(
                    f"{data.source}: question {question.identifier!r}: a question to "
                    "train on must have an answer or be impossible. Received: neither"
                )
        data, num_moved = align(data)
        if num_moved:
            report(f"{data.source}: answers moved to where they stand: {num_moved:,}")
    return data


def align(data: SquadFile) -> tuple[SquadFile, int]:
    """Corrects the start of answers whose text is not found there.

    Official files have none; files whose contexts other software has stripped of
    leading space, or translated, do. An answer is moved to the nearest place in the
    context that holds its text.

    Returns:
        The same data, every answer in its place, and how many were moved.

    Raises:
        ValueError: if the text of an answer is not in its context, naming file and
            question.
    """
    num_moved = 0

    def aligned(answer: Answer, question: Question, context: str) -> Answer:
        nonlocal num_moved
        if context.startswith(answer.text, answer.start):
            return answer
        starts = (
            context.rfind(answer.text, 0, answer.stop),
            context.find(answer.text, answer.start),
        )
        starts = [start for start in starts if start >= 0]
        if not starts:
            raise ValueError(
                f"{data.source}: question {question.identifier!r}: the text of an "
                f"answer must stand in the context. Received: {answer.text!r}"
            )
        num_moved += 1
        return Answer(answer.text, min(starts, key=lambda at: abs(at - answer.start)))

    passages = []
    for passage in data.passages:
        questions = (
            dataclasses.replace(
                one,
                answers=tuple(
                    aligned(two, one, passage.context) for two in one.answers
                ),
            )
            for one in passage.questions
        )
        passages.append(dataclasses.replace(passage, questions=tuple(questions)))
    return dataclasses.replace(data, passages=tuple(passages)), num_moved


def _find(folder: pathlib.Path, version: str, split: str) -> pathlib.Path:
    """`train-v1.1.json`, or the one file whose name continues before `.json`."""
    name = f"{split}-{version}.json"
    folders = (folder, folder / "squad")
    for place in folders:
        if (place / name).is_file():
            return place / name
    for place in folders:
        others = sorted(place.glob(f"{split}-{version}[-._]*.json"))
        if len(others) > 1:
            raise ValueError(
                f"`data_dir` must hold {name}, or one file alone that begins so. "
                f"Received: {', '.join(map(str, others))}"
            )
        if others:
            return others[0]
    raise FileNotFoundError(
        f"`data_dir` must be the folder of SQuAD's files and hold {name}. Received: "
        f"{folder}; there is neither {folders[0] / name} nor {folders[1] / name}"
    )


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "…"


# === Ranked answers ===


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A possible answer, cut out of the context; the text "" is none."""

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
        null: logits of there being no answer; None in version 1.1.
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
    questions: Iterable[Question], answers: Sequence[RankedAnswers]
) -> float:
    """The threshold of `RankedAnswers.answer` with the best F1 on these questions.

    Unlike the official search it never separates questions of equal odds, and has a
    threshold for never answering: answers really score what it promises.

    Args:
        questions: with their answers, such as those of the development file.
        answers: to them.

    Raises:
        ValueError: if there is no answer.
    """
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
    answered = np.array([scores[one.identifier][1] for one in known])
    odds = np.array([one.null_odds for one in known])
    order = np.argsort(odds, kind="stable")
    odds = odds[order]
    # How much better than never answering, with the first N answered.
    gains = np.append(0.0, np.cumsum((answered - unanswered)[order]))
    is_bound = np.append(True, np.append(odds[1:] != odds[:-1], True))
    best = int(np.argmax(np.where(is_bound, gains, -np.inf)))
    return float(odds[best - 1] if best else np.nextafter(odds[0], -np.inf))


def score_answers(
    data: SquadFile, answers: Sequence[RankedAnswers]
) -> dict[str, float]:
    """Scores by the official rules, in percent.

    Args:
        data: what was asked.
        answers: to all questions.

    Returns:
        `exact` and `f1`. In version 2.0 also:

        * `null_threshold`, that with the best F1 on these very questions, as papers
          report the development set; `exact` and `f1` are those that it gives;
        * `HasAns_exact`, `HasAns_f1`, `NoAns_exact` and `NoAns_f1`, those of the
          questions with and without an answer, if there are any;
        * `untuned_exact` and `untuned_f1`, with the threshold 0.
    """
    untuned = _scores(data, {one.identifier: one.answer() for one in answers})
    if not data.has_impossible:
        return untuned
    threshold = best_null_threshold(data.questions(), answers)
    tuned = {one.identifier: one.answer(threshold) for one in answers}
    return {
        **_scores(data, tuned),
        **{f"untuned_{name}": untuned[name] for name in _METRICS},
        "null_threshold": threshold,
    }


def score_no_answers(data: SquadFile) -> dict[str, float]:
    """Scores of never giving an answer, which is right where there is none."""
    return _scores(data, {one.identifier: "" for one in data.questions()})


def _scores(data: SquadFile, predictions: dict[str, str]) -> dict[str, float]:
    scores: dict[str, Any] = evaluate(data, predictions)
    if "exact_match" in scores:
        scores["exact"] = scores["exact_match"]
    names = [
        f"{prefix}{name}" for prefix in ("", "HasAns_", "NoAns_") for name in _METRICS
    ]
    return {name: float(scores[name]) for name in names if name in scores}


def write_predictions(
    folder: pathlib.Path,
    answers: Iterable[RankedAnswers],
    null_threshold: float = 0.0,
) -> None:
    """Writes answers under the names, and in the form, of BERT's published code.

    `predictions.json` is what the official scripts read, `nbest_predictions.json` has
    all candidates, and `null_odds.json`, for version 2.0, is where the official script
    looks for the best threshold. Each file is written atomically.

    Args:
        folder: created if needed.
        answers: to all questions.
        null_threshold: of `RankedAnswers.answer`.
    """
    answers = list(answers)
    contents = {
        "predictions.json": {
            one.identifier: one.answer(null_threshold) for one in answers
        },
        "nbest_predictions.json": {one.identifier: one.n_best() for one in answers},
    }
    odds = {one.identifier: one.null_odds for one in answers if one.null is not None}
    if odds:
        contents["null_odds.json"] = odds
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        # Escaped, for a context may hold half a surrogate pair, which has no UTF-8.
        files.write_text(folder / name, json.dumps(content, indent=1) + "\n")


# === Official scores ===


def evaluate(
    data: SquadFile,
    predictions: Mapping[str, str],
    null_odds: Mapping[str, float] | None = None,
    no_answer_threshold: float = 1.0,
) -> dict[str, Any]:
    """Scores by the rules of the file's version.

    `evaluate-v1.1.py` and `evaluate-v2.0.py` disagree on answers without a word:
    version 1.1 gives them an F1 of 0, version 2.0 an F1 of 1 if there is no answer.

    Args:
        data: what was asked.
        predictions: identifier of a question -> answer.
        null_odds: as for `evaluate_v2`.
        no_answer_threshold: as for `evaluate_v2`.

    Raises:
        ValueError: if version 1.1 is given `null_odds`, or as the two functions.
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
    """Scores of version 2.0, in which "" is right where there is no answer.

    Args:
        questions: with their answers.
        predictions: identifier of a question -> answer. A question without one scores
            0, where the official script fails; further ones do not matter.
        null_odds: identifier -> how likely it is that there is no answer: a
            probability, or the score of no answer less that of the best one.
        no_answer_threshold: greater odds count as answered by "". The official
            default, 1, is one for probabilities.

    Returns:
        `exact` and `f1` in percent and the `total` they are of; `HasAns_…` and
        `NoAns_…`, the same three of the questions with and without an answer, if there
        are any; and `missing_predictions`. With `null_odds`, `best_exact` and
        `best_f1`, and the thresholds that give them, `best_exact_thresh` and
        `best_f1_thresh`, by the official search, whose best may be out of reach (see
        `best_null_threshold`).

    Raises:
        ValueError: if there is no question, none with a prediction, or one with a
            prediction has no odds.
    """
    questions = _with_some_prediction(questions, predictions)
    scores = question_scores(questions, predictions)
    has_answer = {one.identifier: bool(one.answers) for one in questions}
    final = dict(scores)
    if null_odds is not None:
        missing = [identifier for identifier in scores if identifier not in null_odds]
        if missing:
            raise ValueError(
                "`null_odds` must hold every question with a prediction. Received: "
                f"none of {missing[0]!r}, nor of {len(missing) - 1:,} others"
            )
        for identifier in scores:
            if null_odds[identifier] > no_answer_threshold:
                final[identifier] = (float(not has_answer[identifier]),) * 2

    def means(identifiers: Iterable[str]) -> dict[str, Any]:
        """In percent; a question without a score counts as 0."""
        pairs = [final.get(identifier, (0.0, 0.0)) for identifier in identifiers]
        exact, f1 = (100.0 * sum(one) / len(pairs) for one in zip(*pairs, strict=True))
        return {"exact": exact, "f1": f1, "total": len(pairs)}

    result = means(has_answer)
    for prefix, kind in (("HasAns", True), ("NoAns", False)):
        of_kind = [one for one, known in has_answer.items() if known is kind]
        if of_kind:
            for name, value in means(of_kind).items():
                result[f"{prefix}_{name}"] = value
    if null_odds is not None:
        for at, name in enumerate(_METRICS):
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
    """Exact match and F1 of each question that has a prediction, by version 2.0."""
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
