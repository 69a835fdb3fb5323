"""The splits of SQuAD: their files, their windows, and which answers are out of reach.

An answer can be out of reach of a model however well it points: no window holds all of
it, it has more pieces than answers may have, it starts where another window shows more
context and that one ends before it does, or it is a part of a word piece ("99" in
"1999").
"""

import collections
import dataclasses
import os
import pathlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from seg_tf.tasks.squad import squad_files
from seg_tf.tasks.squad.evaluation import normalized_words
from seg_tf.tasks.squad.spans import SpanEncoder
from seg_tf.tasks.squad.squad_files import Question, SquadFile
from seg_tf.tasks.squad.windows import SpanWindow, WindowSizes, make_windows

# (total, description, unit) -> a bar, as of `command_line.progress_bar`.
MakeProgress = Callable[[int, str, str], AbstractContextManager[Any]]


@dataclasses.dataclass(frozen=True)
class SquadSplit:
    """A file and the windows that its questions are read in.

    Attributes:
        data: what was asked.
        windows: those of a question stand together.
        num_cut_questions: questions of which not all pieces are read.
    """

    data: SquadFile
    windows: Sequence[SpanWindow]
    num_cut_questions: int

    @property
    def num_questions(self) -> int:
        return sum(1 for _ in self.data.questions())

    def num_without_window(self) -> int:
        """Questions with an answer that no window holds whole."""
        held = {one.identifier for one in self.windows if one.answer}
        return sum(
            bool(question.answers) and question.identifier not in held
            for question in self.data.questions()
        )

    def num_out_of_reach(self, max_answer_pieces: int) -> int:
        """Questions none of whose answers can be given exactly, however good the model.

        Args:
            max_answer_pieces: the longest answer that is given.
        """
        windows: dict[str, list[SpanWindow]] = collections.defaultdict(list)
        for window in self.windows:
            windows[window.identifier].append(window)
        return sum(
            bool(question.answers)
            and not _in_reach(question, windows[question.identifier], max_answer_pieces)
            for question in self.data.questions()
        )


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
    encoder: SpanEncoder,
    sizes: WindowSizes,
    progress: MakeProgress,
) -> SquadSplit:
    """The windows of all questions of a file.

    Args:
        data: what `read_split` gave.
        encoder: what makes word pieces.
        sizes: of the windows.
        progress: makes a bar, which is told of questions that are done.

    Raises:
        ValueError: if a context has no word piece.
    """
    total = sum(1 for _ in data.questions())
    with progress(total, pathlib.Path(data.source).name, "question") as bar:
        made = make_windows(data.passages, encoder, sizes, bar.update)
    return SquadSplit(data, made.windows, made.num_cut_questions)


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


def _in_reach(
    question: Question, windows: Sequence[SpanWindow], max_answer_pieces: int
) -> bool:
    """Returns True if a window holds the span of an answer, equal to it as text."""
    right = [normalized_words(answer.text) for answer in question.answers]
    for answer in question.answers:
        span = windows[0].context.span_of(answer)
        if span is None or span[1] - span[0] >= max_answer_pieces:
            continue
        for window in windows:
            first, last = span[0] - window.start, span[1] - window.start
            if (
                first >= 0
                and last < len(window)
                and window.is_max_context[first]
                and normalized_words(window.text_of(first, last)) in right
            ):
                return True
    return False
