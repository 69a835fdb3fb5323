"""RACE (Lai et al., 2017): a passage, a question and four answers, one of them right.

Read from its published files, `RACE/train/middle/*.txt` and so on: each is a JSON
object with `article`, and lists `questions`, `options` and `answers` of one length.

The texts of an example are the passage and, for each answer, the question with it: in
place of the `_` of a cloze, otherwise after the question, as in usual BERT baselines.
"""

import pathlib
from typing import Any

from seg_tf import files
from seg_tf.tasks.task import Example, Split, Task

_LABELS = ("A", "B", "C", "D")
# Name -> folders, and published numbers of examples of train, dev and test.
_LEVELS = {
    "race": (("middle", "high"), (87_866, 4_887, 4_934)),
    "race/middle": (("middle",), (25_421, 1_436, 1_436)),
    "race/high": (("high",), (62_445, 3_451, 3_498)),
}
TASKS = tuple(
    Task(
        name=name,
        labels=_LABELS,
        num_texts=1 + len(_LABELS),
        metrics=("accuracy",),
        splits=tuple(map(Split, ("train", "dev", "test"), sizes)),
        num_choices=len(_LABELS),
    )
    for name, (_, sizes) in _LEVELS.items()
)


def read(task: Task, data_dir: pathlib.Path, split_name: str) -> list[Example]:
    """The examples of a split, by the numbers of the files: see `seg_tf.tasks.read`."""
    split = task.split(split_name)
    examples = []
    for level in _LEVELS[task.name][0]:
        places = [place / split.name / level for place in (data_dir / "RACE", data_dir)]
        folder = next((place for place in places if place.is_dir()), None)
        paths = list(folder.glob("*.txt")) if folder else []
        if not paths:
            raise FileNotFoundError(
                "`data_dir` must be the folder of RACE, or hold it. Received: "
                f"{data_dir}; there is no .txt in {' or '.join(map(str, places))}"
            )
        # Numbers sort by value.
        for path in sorted(paths, key=lambda path: (len(path.stem), path.stem)):
            examples += _passage(path, level)
    return examples


def _passage(path: pathlib.Path, level: str) -> list[Example]:
    def check(is_right: bool, rule: str, value: Any) -> None:
        if not is_right:
            raise ValueError(f"{path} must hold {rule}. Received: {str(value)[:60]!r}")

    passage = files.read_json(path)
    check(isinstance(passage, dict), "a JSON object", passage)
    article = passage.get("article")
    check(isinstance(article, str), "a text `article`", article)
    lists = [passage.get(name) for name in ("questions", "options", "answers")]
    is_even = all(
        isinstance(values, list) and len(values) == len(lists[0]) for values in lists
    )
    check(is_even, "lists questions, options, answers of one length", lists)
    examples = []
    for number, (question, options, answer) in enumerate(zip(*lists, strict=True)):
        place = f"question {number + 1} with "
        check(isinstance(question, str), place + "a text", question)
        is_four = isinstance(options, list) and len(options) == len(_LABELS)
        is_four = is_four and all(isinstance(option, str) for option in options)
        check(is_four, place + "four texts as `options`", options)
        check(answer in _LABELS, place + "an answer from A to D", answer)
        cloze = question if "_" in question else f"{question} _"
        texts = (article, *(cloze.replace("_", option) for option in options))
        identifier = f"{level}/{path.stem}-{number}"
        examples.append(Example(texts, _LABELS.index(answer), identifier))
    return examples
