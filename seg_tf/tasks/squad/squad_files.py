"""SQuAD files, versions 1.1 and 2.0: passages, and what is asked about them.

Rajpurkar et al., 2016, and Rajpurkar, Jia and Liang, 2018. A file is

    {"version": …, "data": [{"title": …, "paragraphs": [{"context": …, "qas": [
      {"id": …, "question": …, "answers": [{"text": …, "answer_start": …}, …],
       "is_impossible": …, "plausible_answers": […]}]}]}]}

with the last two in version 2.0 only. A training file has one answer a question, a
development file several, by different people.
"""

import dataclasses
import os
import pathlib
from collections.abc import Iterator
from typing import Any

from seg_tf import files


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """A piece of the context.

    Attributes:
        text: the characters.
        start: where in the context they begin.
    """

    text: str
    start: int

    @property
    def stop(self) -> int:
        """After the last character in the context."""
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
        plausible_answers: what looks like the answer of an impossible question.
    """

    identifier: str
    text: str
    answers: tuple[Answer, ...] = ()
    is_impossible: bool = False
    plausible_answers: tuple[Answer, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Passage:
    """A context and the questions about it.

    Attributes:
        title: of the article that it is taken from.
        context: the text; a line break ends a paragraph.
        questions: in the order of the file.
    """

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
    `is_impossible`. The positions of answers are left to `align`: scores
    need their text alone.

    Args:
        path: a JSON file in the official format.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is no such file, or an identifier occurs twice. The message
            names the file, and the question or the place in the file.
    """
    path = pathlib.Path(path)
    content = files.read_json(path)
    reader = _Reader(str(path))
    passages = tuple(reader.passages(content))
    version = str(content.get("version", "")).removeprefix("v")
    return SquadFile(
        source=str(path),
        has_impossible=version.startswith("2") or reader.found_impossible,
        passages=passages,
    )


def align(data: SquadFile) -> tuple[SquadFile, int]:
    """Corrects the start of answers whose text is not found there.

    Official files hold none; files whose contexts other software has stripped of
    leading space, or translated, do. An answer is moved to the nearest place in the
    context that holds its text.

    Args:
        data: what `read` gave.

    Returns:
        The same data, every answer in its place, and how many were moved.

    Raises:
        ValueError: if the text of an answer is nowhere in its context, naming
            file and question.
    """
    num_moved = 0

    def aligned(answer: Answer, question: Question, context: str) -> Answer:
        nonlocal num_moved
        if context.startswith(answer.text, answer.start):
            return answer
        start = _nearest(context, answer)
        if start < 0:
            raise ValueError(
                f"{data.source}: question {question.identifier!r}: the text of an "
                f"answer must stand in the context. Received: {answer.text!r}"
            )
        num_moved += 1
        return Answer(answer.text, start)

    passages = tuple(
        dataclasses.replace(
            passage,
            questions=tuple(
                dataclasses.replace(
                    question,
                    answers=tuple(
                        aligned(answer, question, passage.context)
                        for answer in question.answers
                    ),
                )
                for question in passage.questions
            ),
        )
        for passage in data.passages
    )
    return dataclasses.replace(data, passages=passages), num_moved


def check_answered(data: SquadFile) -> None:
    """Makes sure that every question can be trained on.

    Raises:
        ValueError: if one neither has an answer nor is impossible.
    """
    for question in data.questions():
        if not (question.answers or question.is_impossible):
            raise ValueError(
                f"{data.source}: question {question.identifier!r}: a question to train "
                "on must have an answer or be impossible. Received: neither"
            )


def _nearest(context: str, answer: Answer) -> int:
    """Occurrence of the answer's text that is nearest to its start; -1 for none."""
    before = context.rfind(answer.text, 0, answer.stop)
    after = context.find(answer.text, answer.start)
    if before < 0 or after < 0:
        return max(before, after)
    return min(before, after, key=lambda start: abs(start - answer.start))


class _Reader:
    """Makes passages of JSON values, and knows where in the file it is."""

    def __init__(self, source: str):
        self.found_impossible = False
        self._place = source
        self._source = source
        self._identifiers: set[str] = set()

    def passages(self, content: Any) -> Iterator[Passage]:
        for number, article in enumerate(self._get(content, "data", list), start=1):
            self._place = f"{self._source}: article {number}"
            title = self._get(article, "title", str, default="")
            for part, paragraph in enumerate(
                self._get(article, "paragraphs", list), start=1
            ):
                self._place = (
                    f"{self._source}: article {number} ({title}), paragraph {part}"
                )
                yield self._passage(title, paragraph)

    def _passage(self, title: str, paragraph: Any) -> Passage:
        context = self._get(paragraph, "context", str)
        place = self._place
        questions = []
        for number, asked in enumerate(self._get(paragraph, "qas", list), start=1):
            self._place = f"{place}, question {number}"
            questions.append(self._question(asked))
        self._place = place
        return Passage(title, context, tuple(questions))

    def _question(self, asked: Any) -> Question:
        identifier = self._get(asked, "id", str)
        self._place = f"{self._source}: question {identifier!r}"
        if identifier in self._identifiers:
            raise ValueError(f"{self._place} occurs twice; identifiers must be unique")
        self._identifiers.add(identifier)
        self.found_impossible |= "is_impossible" in asked
        question = Question(
            identifier=identifier,
            text=self._get(asked, "question", str),
            answers=self._answers(asked, "answers"),
            is_impossible=self._get(asked, "is_impossible", bool, default=False),
            plausible_answers=self._answers(asked, "plausible_answers"),
        )
        if question.is_impossible and question.answers:
            raise ValueError(
                f"{self._place}: an impossible question must have no `answers`. "
                f"Received: {question.answers[0].text!r}"
            )
        return question

    def _answers(self, asked: Any, name: str) -> tuple[Answer, ...]:
        answers = []
        for answer in self._get(asked, name, list, default=[]):
            start = self._get(answer, "answer_start", int)
            if start < 0:
                raise ValueError(
                    f"{self._place}: `answer_start` must be at least 0. "
                    f"Received: {start}"
                )
            answers.append(Answer(self._get(answer, "text", str), start))
        return tuple(answers)

    def _get(self, value: Any, name: str, kind: type, default: Any = None) -> Any:
        """Member `name` of a JSON object, which has to be of a kind.

        It must be there if there is no default.
        """
        if not isinstance(value, dict):
            raise ValueError(
                f"{self._place}: expected an object with `{name}`. "
                f"Received: {_shown(value)}"
            )
        if name not in value and default is not None:
            return default
        if name not in value:
            raise ValueError(
                f"{self._place}: expected a member `{name}`. "
                f"Received: {', '.join(value) or 'none'}"
            )
        # True and False are ints in Python, in JSON they are none.
        if type(value[name]) is not kind:
            raise ValueError(
                f"{self._place}: `{name}` must be a JSON {_JSON_NAMES[kind]}. "
                f"Received: {_shown(value[name])}"
            )
        return value[name]


_JSON_NAMES = {list: "array", str: "string", int: "integer", bool: "boolean"}


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "…"
