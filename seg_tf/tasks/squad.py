"""SQuAD 1.1 and 2.0: files, ranked answers, and the scores of the official scripts.

Rajpurkar et al., 2016, and Rajpurkar, Jia and Liang, 2018. A file is

    {"version": …, "data": [{"title": …, "paragraphs": [{"context": …, "qas": [
      {"id": …, "question": …, "answers": [{"text": …, "answer_start": …}, …],
       "is_impossible": …}]}]}]}

with `is_impossible` in version 2.0 only. `answers` may also have the form of Hugging
Face, `{"text": […], "answer_start": […]}`. A training file has one answer for each
question, a development file several, by different people.
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

MAX_REJECTED_SHARE = 0.05
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
            the file has no answers.
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
        num_moved: answers whose `answer_start` was corrected.
        rejected: why questions were left out, a message for each.
    """

    source: str
    has_impossible: bool
    passages: tuple[Passage, ...]
    num_moved: int = 0
    rejected: tuple[str, ...] = ()

    def questions(self) -> Iterator[Question]:
        """All questions, in the order of the file."""
        for passage in self.passages:
            yield from passage.questions


def read(
    path: str | os.PathLike,
    *,
    for_training: bool = False,
    max_rejected_share: float = 0.0,
) -> SquadFile:
    """Reads a SQuAD file.

    It is of version 2.0 if it says so (`"version": "v2.0"`), or if a question has
    `is_impossible`.

    Args:
        path: a JSON file in the official format.
        for_training: whether every question needs an answer that occurs in its context,
            or must be impossible. Answers are moved to the occurrence nearest to
            `answer_start`, where no-break spaces equal spaces. Scores need only texts.
        max_rejected_share: largest share of invalid questions, which are left out.

    Raises:
        OSError: if it cannot be read.
        ValueError: if the file, or too many of its questions, are invalid. The message
            names the file, and the question or the place in the file.
    """
    content = files.read_json(pathlib.Path(path))
    place = source = str(path)
    identifiers: set[str] = set()
    has_flags = False
    num_moved = 0
    rejected = []

    def get(value: Any, name: str, kind: type, default: Any = None) -> Any:
        """A member of a JSON object; required if there is no default."""
        member = value.get(name, default) if isinstance(value, dict) else None
        # In Python True and False are ints.
        if type(member) is not kind:
            raise ValueError(
                f"{place}: expected a JSON {_JSON_NAMES[kind]} `{name}`. Received: "
                f"{_shown(value if member is None else member)}"
            )
        return member

    def read_answer(value: Any, context: str) -> Answer:
        nonlocal num_moved
        text, start = get(value, "text", str), get(value, "answer_start", int)
        if start < 0 or not text:
            raise ValueError(
                f"{place}: an answer needs a `text`, and an `answer_start` of at least "
                f"0. Received: {text!r} at {start}"
            )
        if not for_training or context.startswith(text, start):
            return Answer(text, start)
        context_spaces, text_spaces = (
            string.replace("\xa0", " ") for string in (context, text)
        )
        starts = (
            context_spaces.rfind(text_spaces, 0, start + len(text)),
            context_spaces.find(text_spaces, start),
        )
        starts = [place for place in starts if place >= 0]
        if not starts:
            raise ValueError(
                f"{place}: the text of an answer must occur in the context. Received: "
                f"{text!r}"
            )
        nearest = min(starts, key=lambda at: abs(at - start))
        num_moved += nearest != start
        return Answer(context[nearest : nearest + len(text)], nearest)

    def read_question(value: Any, context: str) -> Question:
        nonlocal place, has_flags
        is_numeric = isinstance(value, dict) and type(value.get("id")) is int
        identifier = str(value["id"]) if is_numeric else get(value, "id", str)
        place = f"{source}: question {identifier!r}"
        if identifier in identifiers:
            raise ValueError(f"{place} occurs twice; identifiers must be unique")
        identifiers.add(identifier)
        has_flags |= "is_impossible" in value
        is_impossible = get(value, "is_impossible", bool, default=False)
        values = value.get("answers")
        if isinstance(values, dict):
            texts, starts = (
                get(values, name, list) for name in ("text", "answer_start")
            )
            if len(texts) != len(starts):
                raise ValueError(
                    f"{place}: `answers` needs one `answer_start` for each `text`. "
                    f"Received: {len(starts)} for {len(texts)}"
                )
            values = [
                {"text": text, "answer_start": start}
                for text, start in zip(texts, starts, strict=True)
            ]
        else:
            values = get(value, "answers", list, default=[])
        if is_impossible and values:
            raise ValueError(
                f"{place}: an impossible question must have no `answers`. Received: "
                f"{_shown(values[0])}"
            )
        if for_training and not (values or is_impossible):
            raise ValueError(
                f"{place}: a question to train on must have an answer or be "
                "impossible. Received: neither"
            )
        answers = tuple(read_answer(value, context) for value in values)
        return Question(identifier, get(value, "question", str), answers, is_impossible)

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
            for count, value in enumerate(get(paragraph, "qas", list), start=1):
                place = f"{paragraph_place}, question {count}"
                try:
                    questions.append(read_question(value, context))
                except ValueError as error:
                    rejected.append(str(error))
            passages.append(Passage(title, context, tuple(questions)))
    num_valid = sum(len(passage.questions) for passage in passages)
    if len(rejected) > max_rejected_share * (num_valid + len(rejected)):
        raise ValueError(
            f"{rejected[0]}. {len(rejected):,} of {num_valid + len(rejected):,} "
            "questions are invalid, more than `max_rejected_share`="
            f"{max_rejected_share:g}"
        )
    version = str(content.get("version", "")).removeprefix("v")
    has_impossible = version.startswith("2") or has_flags
    return SquadFile(
        source, has_impossible, tuple(passages), num_moved, tuple(rejected)
    )


def read_split(
    data_dir: str | os.PathLike,
    version: str,
    split: str,
    limit: int | None = None,
    report: Callable[[str], Any] = print,
    max_rejected_share: float = MAX_REJECTED_SHARE,
) -> SquadFile:
    """Reads the file of a split.

    Args:
        data_dir: folder with the files, or with their folder `squad`.
        version: "v1.1" or "v2.0".
        split: "train" or "dev".
        limit: read the first N questions only; None reads all.
        report: called with a line if answers were moved or questions left out.
        max_rejected_share: as for `read`.

    Raises:
        OSError: if there is no file, or it cannot be read.
        ValueError: if there are several files, or the file is of the other version, is
            invalid or has no questions.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"`limit` must be at least 1. Received: limit={limit}")
    data = read(
        _find(pathlib.Path(data_dir).expanduser(), version, split),
        for_training=split == "train",
        max_rejected_share=max_rejected_share,
    )
    if data.has_impossible != (version == "v2.0"):
        received = "v2.0" if data.has_impossible else "v1.1"
        raise ValueError(
            f"{data.source}: expected a file of version {version}. Received: one of "
            f"{received}"
        )
    if data.rejected:
        report(
            f"{data.source}: left out {len(data.rejected):,} invalid questions. The "
            f"first: {data.rejected[0]}"
        )
    if data.num_moved:
        report(f"{data.source}: corrected the start of {data.num_moved:,} answers")
    if limit is not None:
        passages = []
        for passage in data.passages:
            if limit > 0:
                questions = passage.questions[:limit]
                passages.append(dataclasses.replace(passage, questions=questions))
                limit -= len(questions)
        data = dataclasses.replace(data, passages=tuple(passages))
    if next(data.questions(), None) is None:
        raise ValueError(
            f"{data.source}: expected a file with questions. Received: one with none"
        )
    return data


def _find(folder: pathlib.Path, version: str, split: str) -> pathlib.Path:
    """`train-v1.1.json`, or the one file whose name continues before `.json`."""
    name = f"{split}-{version}.json"
    folders = (folder, folder / "squad")
    for pattern in (name, f"{split}-{version}[-._]*.json"):
        for place in folders:
            paths = sorted(place.glob(pattern))
            if len(paths) > 1:
                raise ValueError(
                    f"`data_dir` must hold {name}, or only one file that begins so. "
                    f"Received: {', '.join(map(str, paths))}"
                )
            if paths:
                return paths[0]
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
    def null_odds(self) -> float | None:
        """Score of no answer minus score of the best answer; None in version 1.1."""
        return self.null and self.null.score - self.candidates[0].score

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
    threshold for never answering, so the answers really reach the score it reports.

    Raises:
        ValueError: if no answer belongs to one of the questions.
    """
    known = {question.identifier: question for question in questions}
    answers = [ranked for ranked in answers if ranked.identifier in known]
    if not answers:
        raise ValueError(
            "`answers` must be to some of the questions. Received: answers to none of "
            f"the {len(known):,} questions"
        )
    ranked_questions = [known[ranked.identifier] for ranked in answers]
    unanswered = np.array(
        [float(not question.answers) for question in ranked_questions]
    )
    answered = np.array(
        [
            _question_scores(question, ranked.candidates[0].text)[1]
            for question, ranked in zip(ranked_questions, answers, strict=True)
        ]
    )
    odds = np.array([ranked.null_odds for ranked in answers])
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
    """The scores of `evaluate` for the best answers to all questions.

    In version 2.0, `null_threshold` has the best F1 on these questions, as papers
    report the development set, and all scores use it but `untuned_exact` and
    `untuned_f1`, whose threshold is 0.
    """

    def scores(threshold: float = 0.0) -> dict[str, float]:
        texts = {ranked.identifier: ranked.answer(threshold) for ranked in answers}
        return score_texts(data, texts)

    untuned = scores()
    if not data.has_impossible:
        return untuned
    threshold = best_null_threshold(data.questions(), answers)
    return {
        **scores(threshold),
        **{f"untuned_{name}": untuned[name] for name in _METRICS},
        "null_threshold": threshold,
    }


def score_texts(data: SquadFile, texts: Mapping[str, str]) -> dict[str, float]:
    """Exact match and F1 of `evaluate`, without the counts."""
    scores = evaluate(data, texts)
    return {name: value for name, value in scores.items() if name.endswith(_METRICS)}


def write_predictions(
    folder: pathlib.Path,
    answers: Sequence[RankedAnswers],
    null_threshold: float = 0.0,
) -> None:
    """Writes answers under the names, and in the form, of BERT's published code.

    The official scripts read `predictions.json`, `nbest_predictions.json` has all
    candidates, and in `null_odds.json`, for version 2.0, the official script searches
    the best threshold. Each file is written atomically.
    """
    contents = {
        "predictions.json": {
            ranked.identifier: ranked.answer(null_threshold) for ranked in answers
        },
        "nbest_predictions.json": {
            ranked.identifier: ranked.n_best() for ranked in answers
        },
    }
    odds = {
        ranked.identifier: ranked.null_odds
        for ranked in answers
        if ranked.null is not None
    }
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
    """Scores by the rules of the file's version, in percent.

    `evaluate-v1.1.py` and `evaluate-v2.0.py` disagree on answers without a word:
    version 1.1 gives them an F1 of 0, version 2.0 an F1 of 1 if there is no answer.

    Args:
        data: what was asked.
        predictions: identifier of a question -> answer. A question without one scores
            0, where the official script of version 2.0 fails.
        null_odds: for version 2.0: identifier -> how likely it is that there is no
            answer, as a probability or a difference of scores.
        no_answer_threshold: greater odds count as answered by "". The official
            default, 1, suits probabilities.

    Returns:
        `exact`, `f1`, `total` and `missing_predictions`. In version 2.0 also the first
        three for questions with and without an answer, `HasAns_…` and `NoAns_…`; with
        `null_odds`, `best_exact`, `best_f1` and their thresholds `best_…_thresh` by the
        official search, whose best may be out of reach (see `best_null_threshold`).

    Raises:
        ValueError: if no question has a prediction, one with a prediction has no odds,
            or in version 1.1 there are odds or a question has no answer.
    """
    questions = list(data.questions())
    predicted = [
        question for question in questions if question.identifier in predictions
    ]
    if not predicted:
        raise ValueError(
            "`predictions` must hold answers to some of the questions. Received: "
            f"{len(predictions):,} answers, none of which to the "
            f"{len(questions):,} questions"
        )
    scores = {
        question.identifier: _question_scores(
            question, predictions[question.identifier], data.has_impossible
        )
        for question in predicted
    }
    has_answer = {question.identifier: bool(question.answers) for question in questions}
    num_missing = len(questions) - len(predicted)
    if not data.has_impossible:
        if null_odds is not None or not all(has_answer.values()):
            raise ValueError(
                "In version 1.1 every question must have an answer, and `null_odds` "
                f"must be left out. Received: {data.source}"
            )
        return {**_means(scores, has_answer), "missing_predictions": num_missing}
    final = dict(scores)
    for identifier in scores if null_odds is not None else ():
        if identifier not in null_odds:
            raise ValueError(
                "`null_odds` must hold every question with a prediction. Received: "
                f"none of {identifier!r}"
            )
        if null_odds[identifier] > no_answer_threshold:
            final[identifier] = (float(not has_answer[identifier]),) * 2
    result = _means(final, has_answer)
    for prefix, kind in (("HasAns", True), ("NoAns", False)):
        identifiers = [name for name, known in has_answer.items() if known is kind]
        if identifiers:
            means = _means(final, identifiers)
            result |= {f"{prefix}_{name}": value for name, value in means.items()}
    for at, name in enumerate(_METRICS if null_odds is not None else ()):
        best, threshold = _official_best_threshold(
            {identifier: pair[at] for identifier, pair in scores.items()},
            predictions,
            null_odds,
            has_answer,
        )
        result[f"best_{name}"] = 100.0 * best / len(questions)
        result[f"best_{name}_thresh"] = threshold
    return {**result, "missing_predictions": num_missing}


def _means(
    scores: Mapping[str, tuple[float, float]], identifiers: Iterable[str]
) -> dict[str, Any]:
    """Means in percent; a question without a score counts as 0."""
    pairs = [scores.get(identifier, (0.0, 0.0)) for identifier in identifiers]
    exact, f1 = (
        100.0 * sum(values) / len(pairs) for values in zip(*pairs, strict=True)
    )
    return {"exact": exact, "f1": f1, "total": len(pairs)}


def _question_scores(
    question: Question, prediction: str, has_impossible: bool = True
) -> tuple[float, float]:
    """Exact match and F1 of an answer."""
    predicted = normalized_words(prediction)
    gold = [normalized_words(answer.text) for answer in question.answers]
    if has_impossible:
        # In version 2.0 an answer of only articles and punctuation is none.
        gold = list(filter(None, gold)) or [[]]
    exact = max((words == predicted for words in gold), default=False)
    f1s = []
    for words in gold:
        num_common = sum(
            (collections.Counter(words) & collections.Counter(predicted)).values()
        )
        f1 = 0.0
        if num_common:
            precision, recall = num_common / len(predicted), num_common / len(words)
            f1 = 2 * precision * recall / (precision + recall)
        elif has_impossible:
            f1 = float(words == predicted)
        f1s.append(f1)
    return float(exact), max(f1s, default=0.0)


def normalized_words(text: str) -> list[str]:
    """Words that are compared: lower-cased, no ASCII punctuation, no articles.

    Example:
        >>> normalized_words("The  cat's 1,000 (Thousand) lives.")
        ['cats', '1000', 'thousand', 'lives']
    """
    return _ARTICLE.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split()


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
