"""The splits of SQuAD: their files, their windows, and which answers are out of reach.

An answer can be out of reach of a model however well it points: no window holds all of
it, it has more pieces than answers may have, it starts where another window shows more
context and that one ends before it does, or it is a part of a word piece ("99" in
"1999").
"""

import dataclasses
import os
import pathlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import tensorflow as tf

from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.finetuning.spans.span_batches import SpanExamples
from seg_tf.layouts.contexts import Contexts, WindowSizes
from seg_tf.preprocessing.contexts import ContextEncoder
from seg_tf.tasks.squad import squad_files
from seg_tf.tasks.squad.evaluation import normalized_words
from seg_tf.tasks.squad.squad_files import Answer, Passage, SquadFile

_NO_ANSWER = Answer("", 0)

# (total, description, unit) -> a bar, as of `command_line.progress_bar`.
MakeProgress = Callable[[int, str, str], AbstractContextManager[Any]]


@dataclasses.dataclass(frozen=True)
class SquadSplit:
    """A file and the windows that its questions are read in.

    Attributes:
        data: what was asked.
        examples: the windows.
    """

    data: SquadFile
    examples: SpanExamples

    @property
    def num_questions(self) -> int:
        return len(self.examples.questions.contexts)

    def contexts(self) -> list[str]:
        """The texts that are asked about."""
        return [passage.context for passage in _asked(self.data)]

    def num_cut_questions(self) -> int:
        """Questions of which not all pieces are read."""
        return int(np.count_nonzero(self.examples.questions.is_cut))

    def num_without_window(self) -> int:
        """Questions with an answer that no window holds whole."""
        windows = self.examples.windows
        first, last = (values.numpy() for values in self.examples.answers)
        first, last = first[windows.questions], last[windows.questions]
        is_held = (windows.starts <= first) & (first <= last) & (last < windows.stops)
        held = np.unique(windows.questions[is_held])
        return sum(bool(one.answers) for one in self.data.questions()) - len(held)

    def num_out_of_reach(self, max_answer_pieces: int) -> int:
        """Questions none of whose answers can be given exactly, however good the model.

        Args:
            max_answer_pieces: the longest answer that is given.
        """
        texts = self.contexts()
        asked = self.examples.questions.contexts.numpy()
        questions = list(self.data.questions())
        of_each = [
            (number, answer)
            for number, question in enumerate(questions)
            for answer in question.answers
        ]
        numbers = np.array([number for number, _ in of_each], np.int64)
        contexts = self.examples.contexts
        first, last = _pieces_of(contexts, asked[numbers], [one for _, one in of_each])
        is_whole = (first <= last) & (last < first + max_answer_pieces)
        is_whole[is_whole] &= last[is_whole] < self._reaches(
            numbers[is_whole], first[is_whole]
        )
        in_reach = set()
        for number, start, stop in zip(
            numbers[is_whole],
            contexts.starts.numpy()[first[is_whole]],
            contexts.stops.numpy()[last[is_whole]],
            strict=True,
        ):
            base = int(contexts.texts.starts[asked[number]])
            text = texts[asked[number]][start - base : stop - base]
            right = (answer.text for answer in questions[number].answers)
            if normalized_words(text) in map(normalized_words, right):
                in_reach.add(number)
        return sum(bool(one.answers) for one in questions) - len(in_reach)

    def _reaches(self, numbers: np.ndarray, pieces: np.ndarray) -> np.ndarray:
        """Ends of the windows in which answers that start with a piece may be.

        Args:
            numbers: int array `(N,)` of questions.
            pieces: int array `(N,)`, a piece of the context of each.
        """
        windows = self.examples.windows
        shown, of_windows = (values.numpy() for values in windows.pieces())
        is_start = windows.is_max_context(self.num_questions).numpy()
        shown, of_windows = shown[is_start], of_windows[is_start]
        num_pieces = len(self.examples.contexts.ids)
        keys = windows.questions.numpy()[of_windows].astype(np.int64) * num_pieces
        keys += shown
        order = np.argsort(keys)
        at = order[np.searchsorted(keys[order], numbers * num_pieces + pieces)]
        return windows.stops.numpy()[of_windows[at]]


def read_split(
    data_dir: str | os.PathLike,
    version: str,
    split: str,
    limit: int | None = None,
    report: Callable[[str], Any] = print,
) -> SquadFile:
    """The file of a split; what is to be trained on is checked and put in order.

    Args:
        data_dir: folder with the files, or with their folder `squad`.
        version: "v1.1" or "v2.0".
        split: "train" or "dev".
        limit: how many of the first questions are wanted; None takes all.
        report: called with a line of text if answers had to be moved.

    Raises:
        OSError: if there is no file, or it cannot be read.
        ValueError: if there are several files, if it is not of the version, or holds
            nothing that can be trained on.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"`limit` must be at least 1. Received: limit={limit}")
    data = squad_files.read(_find(pathlib.Path(data_dir).expanduser(), version, split))
    if data.has_impossible != (version == "v2.0"):
        found = "v2.0" if data.has_impossible else "v1.1"
        raise ValueError(
            f"{data.source}: expected a file of version {version}. Received: one of "
            f"{found}"
        )
    if limit is not None:
        data = first_questions(data, limit)
    if next(data.questions(), None) is None:
        raise ValueError(
            f"{data.source}: expected a file with questions. Received: one with none"
        )
    if split == "train":
        squad_files.check_answered(data)
        data, num_moved = squad_files.align(data)
        if num_moved:
            report(f"{data.source}: answers moved to where they stand: {num_moved:,}")
    return data


def first_questions(data: SquadFile, number: int) -> SquadFile:
    """The first questions of a file, with their passages."""
    passages = []
    for passage in data.passages:
        if number <= 0:
            break
        questions = passage.questions[:number]
        passages.append(dataclasses.replace(passage, questions=questions))
        number -= len(questions)
    return dataclasses.replace(data, passages=tuple(passages))


def make_split(
    data: SquadFile,
    pretrained: Pretrained,
    sizes: WindowSizes,
    progress: MakeProgress,
) -> SquadSplit:
    """The windows of all questions of a file.

    Of several answers the first is the one that is trained on.

    Args:
        data: what `read_split` gave.
        pretrained: the model that reads them.
        sizes: of the windows.
        progress: makes a bar, which is told of questions that are done.

    Raises:
        ValueError: if a context has no word piece.
    """
    passages = _asked(data)
    asked = [
        (number, question)
        for number, passage in enumerate(passages)
        for question in passage.questions
    ]
    encoder = ContextEncoder(pretrained)
    with progress(len(asked), pathlib.Path(data.source).name, "question") as bar:

        def texts() -> Iterator[str]:
            for passage in passages:
                yield passage.context
                bar.update(len(passage.questions))

        with tf.device("CPU"):
            contexts = encoder.contexts(texts())
            questions = encoder.questions(
                [question.text for _, question in asked],
                [number for number, _ in asked],
                sizes.max_question_pieces,
            )
    for number in np.flatnonzero(contexts.num_pieces() == 0):
        passage = passages[number]
        raise ValueError(
            "A context must have a word piece. Received: that of question "
            f"{passage.questions[0].identifier!r}, {passage.context[:60]!r}"
        )
    first = [one.answers[0] if one.answers else _NO_ANSWER for _, one in asked]
    answers = _pieces_of(contexts, questions.contexts, first)
    return SquadSplit(
        data, SpanExamples(pretrained, contexts, questions, sizes, answers)
    )


def _asked(data: SquadFile) -> list[Passage]:
    """Passages about which there is a question."""
    return [passage for passage in data.passages if passage.questions]


def _pieces_of(
    contexts: Contexts, numbers: np.ndarray, answers: Sequence[Answer]
) -> tuple[np.ndarray, np.ndarray]:
    """First and last pieces of answers: `Contexts.spans`."""
    with tf.device("CPU"):
        first, last = contexts.spans(
            tf.constant(numbers, tf.int32),
            tf.constant([one.start for one in answers], tf.int32),
            tf.constant([one.stop for one in answers], tf.int32),
        )
    return first.numpy(), last.numpy()


def _find(folder: pathlib.Path, version: str, split: str) -> pathlib.Path:
    """`train-v1.1.json`, or the one file that is called so with more in its name."""
    name = f"{split}-{version}.json"
    folders = (folder, folder / "squad")
    for one in folders:
        if (one / name).is_file():
            return one / name
    for one in folders:
        others = sorted(one.glob(f"{split}-{version}[-._]*.json"))
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
