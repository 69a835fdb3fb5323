"""Reads SQuAD 1.1 and 2.0 files, and selects, writes and scores answers.

Implements Rajpurkar et al., 2016, and Rajpurkar, Jia and Liang, 2018. A file is

    {"version": …, "data": [{"title": …, "paragraphs": [{"context": …, "qas": [
      {"id": …, "question": …, "answers": [{"text": …, "answer_start": …}, …],
       "is_impossible": …}]}]}]}

with `is_impossible` in version 2.0 only. `answers` may also have Hugging Face's form,
`{"text": […], "answer_start": […]}`. Training files have one answer per question.
Development files have several, by different people.
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
import scipy.special

from seg_tf import files

_MAX_REJECTED_SHARE = 0.05
_ARTICLE = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


# === Files ===


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """Text of an answer, and the position of its first character in the context."""

    text: str
    start: int

    @property
    def stop(self) -> int:
        """Position after the last character."""
        return self.start + len(self.text)


@dataclasses.dataclass(frozen=True, slots=True)
class Question:
    """A question about a passage, with answers by different people, or none."""

    identifier: str
    text: str
    answers: tuple[Answer, ...] = ()
    is_impossible: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Passage:
    """A context, in which line breaks end paragraphs, and the questions about it."""

    context: str
    questions: tuple[Question, ...]


@dataclasses.dataclass(frozen=True)
class SquadFile:
    """Contents of a SQuAD file.

    Attributes:
        source: str. Name of the file, for messages.
        has_impossible: bool. Whether the file has version 2.0, in which passages do not
            answer some questions.
        passages: tuple of `Passage`. In file order.
        rejected: tuple of str. A message for each question that was left out.
    """

    source: str
    has_impossible: bool
    passages: tuple[Passage, ...]
    rejected: tuple[str, ...] = ()

    def questions(self) -> Iterator[Question]:
        """Yields all questions in file order."""
        for passage in self.passages:
            yield from passage.questions


def read(path: str | os.PathLike, *, for_training: bool = False) -> SquadFile:
    """Reads a SQuAD file.

    A file has version 2.0 if it says so (`"version": "v2.0"`), or if a question has
    `is_impossible`. Invalid questions, up to 5% of all, are left out.

    With `for_training`, every question must be impossible or have answers, all in its
    context. Answers are moved to their occurrence nearest to `answer_start`. A no-break
    space matches a space. For scoring, answer positions are not checked.

    Raises an OSError if the file cannot be read, and a ValueError if the file, or more
    than 5% of its questions, are invalid.
    """
    content = files.read_json(pathlib.Path(path))
    identifiers: set[str] = set()
    passages, rejected, has_flags = [], [], False
    try:
        for article in content["data"]:
            for paragraph in article["paragraphs"]:
                questions = []
                for value in paragraph["qas"]:
                    try:
                        question = _question(value, paragraph["context"], for_training)
                        if question.identifier in identifiers:
                            raise ValueError("`id` must be unique")
                    except ValueError as error:
                        name = value.get("id") if isinstance(value, dict) else value
                        rejected.append(
                            f"{path}: article {article.get('title')!r}, question "
                            f"{name!r:.60}: {error}"
                        )
                        continue
                    identifiers.add(question.identifier)
                    has_flags |= "is_impossible" in value
                    questions.append(question)
                passages.append(Passage(paragraph["context"], tuple(questions)))
        version = str(content.get("version", ""))
    except (LookupError, TypeError) as error:
        raise ValueError(
            f"{path}: expected a JSON object `data` with `paragraphs`, each with a "
            f"`context` and `qas`. {type(error).__name__}: {error}"
        ) from error
    num_questions = len(identifiers) + len(rejected)
    if len(rejected) > _MAX_REJECTED_SHARE * num_questions:
        raise ValueError(
            f"{rejected[0]}. Invalid: {len(rejected):,} of {_count(num_questions)}, "
            f"more than {_MAX_REJECTED_SHARE:.0%}"
        )
    has_impossible = version.removeprefix("v").startswith("2") or has_flags
    return SquadFile(str(path), has_impossible, tuple(passages), tuple(rejected))


def _question(value: Any, context: str, for_training: bool) -> Question:
    """Converts the JSON of a question. Raises a ValueError if it is invalid."""
    _check("context", context, str)
    _check("question", value, dict)
    identifier, text = value.get("id"), value.get("question")
    _check("id", identifier, str, int)
    _check("question", text, str)
    is_impossible, pairs = value.get("is_impossible", False), value.get("answers", [])
    _check("answers", pairs, list, dict)
    if isinstance(pairs, dict):
        texts, starts = pairs.get("text"), pairs.get("answer_start")
        _check("answers.text", texts, list)
        _check("answers.answer_start", starts, list)
        if len(texts) != len(starts):
            raise ValueError(
                "`answers.text` and `answers.answer_start` must have the same length. "
                f"Received: {len(texts)} and {len(starts)}"
            )
        pairs = list(zip(texts, starts, strict=True))
    else:
        for answer in pairs:
            _check("answers", answer, dict)
        pairs = [(answer.get("text"), answer.get("answer_start")) for answer in pairs]
    if is_impossible:
        pairs = [(answer, start) for answer, start in pairs if answer != ""]
    for answer, start in pairs:
        _check("text", answer, str)
        _check("answer_start", start, int)
        if not answer or start < 0:
            raise ValueError(
                "`text` must not be empty, and `answer_start` must be at least 0. "
                f"Received: {answer!r}, {start}"
            )
    if pairs if is_impossible else for_training and not pairs:
        raise ValueError("a question must either have `answers` or be impossible")
    answers = [
        Answer(*(_nearest(*pair, context) if for_training else pair)) for pair in pairs
    ]
    return Question(str(identifier), text, tuple(answers), is_impossible)


_KINDS = {str: "a string", int: "an integer", list: "a list", dict: "an object"}


def _check(name: str, value: Any, *kinds: type) -> None:
    """Raises a ValueError unless a field has one of the types. Bools are not ints."""
    if type(value) not in kinds:
        rule = " or ".join(_KINDS[kind] for kind in kinds)
        raise ValueError(f"`{name}` must be {rule}. Received: {value!r:.60}")


def _count(number: int) -> str:
    return f"{number:,} question" + "s" * (number != 1)


def _nearest(text: str, start: int, context: str) -> tuple[str, int]:
    """Finds the occurrence of `text` nearest to `start`, or raises a ValueError."""
    if context.startswith(text, start):
        return text, start
    spaced, text = (value.replace("\xa0", " ") for value in (context, text))
    starts = (spaced.rfind(text, 0, start + len(text)), spaced.find(text, start))
    if max(starts) < 0:
        raise ValueError(f"an answer must occur in the context. Received: {text!r}")
    nearest = min((at for at in starts if at >= 0), key=lambda at: abs(at - start))
    return context[nearest : nearest + len(text)], nearest


def read_split(
    data_dir: str | os.PathLike,
    version: str,
    split: str,
    limit: int | None = None,
    report: Callable[[str], Any] = print,
) -> SquadFile:
    """Reads a file such as `train-v1.1.json` in a folder or its subfolder `squad`.

    `version` is "v1.1" or "v2.0", and `split` is "train" or "dev". If `limit` is not
    None, only the first `limit` questions are returned. `report` is called with a
    message if invalid questions were left out. Raises an OSError if the file is missing
    or ambiguous, and a ValueError if it is invalid, empty or of another version.
    """
    folder, name = pathlib.Path(data_dir).expanduser(), f"{split}-{version}"
    places = (folder, folder / "squad")
    paths = [path for place in places for path in sorted(place.glob(f"{name}*.json"))]
    paths = [path for path in paths if path.stem == name] or paths
    if len(paths) != 1:
        raise FileNotFoundError(
            f"`data_dir` must be the folder of SQuAD's files and contain {name}.json, "
            f"or only one file that starts with this name. Received: {folder}, with "
            f"{', '.join(map(str, paths)) or 'none'}"
        )
    data = read(paths[0], for_training=split == "train")
    if data.has_impossible != (version == "v2.0") or not any(data.questions()):
        received = "v2.0" if data.has_impossible else "v1.1"
        raise ValueError(
            f"{data.source}: expected questions of version {version}. Received: a file "
            f"of {received} with {_count(len(list(data.questions())))}"
        )
    if data.rejected:
        report(f"Left out {_count(len(data.rejected))}. {data.rejected[0]}")
    if limit is None:
        return data
    passages = []
    for passage in data.passages:
        questions = passage.questions[:limit]
        passages.append(Passage(passage.context, questions))
        limit -= len(questions)
    return dataclasses.replace(data, passages=tuple(passages))


# === Ranked answers ===


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A possible answer from the context. The text "" means no answer."""

    text: str
    start_logit: float
    end_logit: float

    @property
    def score(self) -> float:
        return self.start_logit + self.end_logit


@dataclasses.dataclass(frozen=True)
class RankedAnswers:
    """The best answers to a question, best first, with distinct texts.

    `null` is the no-answer candidate, or None in version 1.1.
    """

    identifier: str
    candidates: tuple[Candidate, ...]
    null: Candidate | None = None

    @property
    def null_odds(self) -> float | None:
        """Score of no answer minus score of the best answer, or None in version 1.1."""
        return self.null and self.null.score - self.candidates[0].score

    def answer(self, null_threshold: float = 0.0) -> str:
        """Returns the best answer, or "" if `null_odds` is above the threshold."""
        if self.null is not None and self.null_odds > null_threshold:
            return ""
        return self.candidates[0].text

    def n_best(self) -> list[dict[str, Any]]:
        """Returns all candidates and `null` as dicts with `probability`, best first."""
        ranked = [*self.candidates, *([self.null] if self.null else [])]
        ranked.sort(key=lambda candidate: -candidate.score)
        shares = scipy.special.softmax([candidate.score for candidate in ranked])
        return [
            {**dataclasses.asdict(candidate), "probability": probability}
            for candidate, probability in zip(ranked, shares.tolist(), strict=True)
        ]


def best_null_threshold(
    questions: Iterable[Question], answers: Sequence[RankedAnswers]
) -> float:
    """Returns the threshold of `RankedAnswers.answer` with the best F1 on `questions`.

    Unlike the official script, this never separates questions with equal odds, and it
    may return a threshold below all odds, at which no question is answered.
    """
    known = {question.identifier: question for question in questions}
    odds = np.array([ranked.null_odds for ranked in answers])
    # Gain in F1 over no answer.
    gains = np.array(
        [
            _question_scores(question, ranked.candidates[0].text)[1]
            - (not question.answers)
            for ranked in answers
            for question in [known[ranked.identifier]]
        ]
    )
    order = np.argsort(odds, kind="stable")
    odds, totals = odds[order], np.cumsum(gains[order])
    is_bound = np.append(odds[1:] != odds[:-1], True)
    best = int(np.argmax(np.where(is_bound, totals, -np.inf)))
    return float(odds[best] if totals[best] > 0 else np.nextafter(odds[0], -np.inf))


def score_answers(
    data: SquadFile, answers: Sequence[RankedAnswers]
) -> dict[str, float]:
    """Returns the exact match and F1 scores that `evaluate` computes for the answers.

    In version 2.0, `null_threshold` is chosen to maximize F1 on `data`, as is usual for
    the development set, and is returned with the scores. `untuned_exact` and
    `untuned_f1` are the scores with a threshold of 0.
    """

    def scores(threshold: float = 0.0) -> dict[str, float]:
        texts = {ranked.identifier: ranked.answer(threshold) for ranked in answers}
        values = evaluate(data, texts).items()
        return {name: value for name, value in values if name.endswith(("exact", "f1"))}

    untuned = scores()
    if not data.has_impossible:
        return untuned
    threshold = best_null_threshold(data.questions(), answers)
    return {
        **scores(threshold),
        "untuned_exact": untuned["exact"],
        "untuned_f1": untuned["f1"],
        "null_threshold": threshold,
    }


def write_predictions(
    folder: pathlib.Path, answers: Sequence[RankedAnswers], null_threshold: float = 0.0
) -> None:
    """Writes answers to files in the format of BERT's published code.

    `predictions.json` contains the answers at `null_threshold`, for the official
    scripts, and `nbest_predictions.json` all candidates. For version 2.0, the official
    script also searches `null_odds.json` for the best threshold.
    """
    contents = {
        "predictions": {
            ranked.identifier: ranked.answer(null_threshold) for ranked in answers
        },
        "nbest_predictions": {ranked.identifier: ranked.n_best() for ranked in answers},
        "null_odds": {
            ranked.identifier: ranked.null_odds for ranked in answers if ranked.null
        },
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        if content:
            # Escaped, because a context may contain an unpaired surrogate.
            text = json.dumps(content, indent=1) + "\n"
            files.write_text(folder / f"{name}.json", text)


# === Official scores ===


def evaluate(data: SquadFile, predictions: Mapping[str, str]) -> dict[str, Any]:
    """Computes the exact match and F1 scores of predictions, in percent.

    `predictions` maps question identifiers to answers. Follows the official script for
    the file's version. Questions without a prediction score 0. A prediction that is
    empty after normalization has an F1 of 0 or, if the question has no answer in
    version 2.0, of 100.

    Returns a dict of `exact`, `f1`, `total` and `missing_predictions`. In version 2.0,
    the first three are also computed for questions with an answer (`HasAns_…`) and
    without (`NoAns_…`). Raises a ValueError if no question has a prediction.
    """
    questions = list(data.questions())
    if predictions.keys().isdisjoint(question.identifier for question in questions):
        raise ValueError(
            "`predictions` must hold answers to some of the questions. Received: "
            f"{len(predictions):,} answers, none of which to the "
            f"{_count(len(questions))}"
        )
    scores = {
        question: _question_scores(
            question, predictions[question.identifier], data.has_impossible
        )
        for question in questions
        if question.identifier in predictions
    }
    kinds = {"": questions}
    if data.has_impossible:
        kinds["HasAns_"] = [question for question in questions if question.answers]
        kinds["NoAns_"] = [question for question in questions if not question.answers]
    result: dict[str, Any] = {}
    for prefix, kind in kinds.items():
        if kind:
            pairs = [scores.get(question, (0.0, 0.0)) for question in kind]
            for name, values in zip(
                ("exact", "f1"), zip(*pairs, strict=True), strict=True
            ):
                result[prefix + name] = 100.0 * sum(values) / len(kind)
            result[f"{prefix}total"] = len(kind)
    return {**result, "missing_predictions": len(questions) - len(scores)}


def _question_scores(
    question: Question, prediction: str, has_impossible: bool = True
) -> tuple[float, float]:
    """Returns the exact match and F1 scores of a prediction, from 0 to 1."""
    predicted = normalized_words(prediction)
    gold = [normalized_words(answer.text) for answer in question.answers]
    if has_impossible:
        # Version 2.0 ignores answers of only articles and punctuation.
        gold = list(filter(None, gold)) or [[]]
    exact = max((words == predicted for words in gold), default=False)
    f1s = []
    for words in gold:
        common = collections.Counter(words) & collections.Counter(predicted)
        if num_common := common.total():
            precision, recall = num_common / len(predicted), num_common / len(words)
            f1s.append(2 * precision * recall / (precision + recall))
        else:
            f1s.append(float(has_impossible and words == predicted))
    return float(exact), max(f1s, default=0.0)


def normalized_words(text: str) -> list[str]:
    """Splits text into lowercase words, without ASCII punctuation and articles.

    Example:
        >>> normalized_words("The  cat's 1,000 (Thousand) lives.")
        ['cats', '1000', 'thousand', 'lives']
    """
    return _ARTICLE.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split()
