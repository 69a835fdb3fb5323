"""RACE (Lai et al., 2017): a passage, a question and four answers, one of them right.

Read from its published files, `RACE/train/middle/*.txt` and so on: each is a JSON
object with `article`, and lists `questions`, `options` and `answers` of one length.

The texts of an example are the passage and, for each answer, the question with it: in
place of the `_` of a cloze, otherwise after the question, as in usual BERT baselines.
"""

import pathlib

from seg_tf import files
from seg_tf.tasks.task import Example, Split, Task

_LABELS = ("A", "B", "C", "D")
TASKS = (
    Task(
        name="race",
        labels=_LABELS,
        num_texts=1 + len(_LABELS),
        splits=(Split("train", 87_866), Split("dev", 4_887), Split("test", 4_934)),
        num_choices=len(_LABELS),
    ),
)


def read(task: Task, data_dir: pathlib.Path, split_name: str) -> list[Example]:
    """The examples of a split, by the numbers of the files: see `seg_tf.tasks.read`."""
    split = task.split(split_name)
    examples = []
    for level in ("middle", "high"):
        places = [place / split.name / level for place in (data_dir / "RACE", data_dir)]
        paths = [path for place in places for path in place.glob("*.txt")]
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
    passage = files.read_json(path)
    examples = []
    try:
        columns = (passage[name] for name in ("questions", "options", "answers"))
        rows = zip(*columns, strict=True)
        for number, (question, options, answer) in enumerate(rows):
            first, second, third, fourth = options
            cloze = question if "_" in question else f"{question} _"
            texts = [
                cloze.replace("_", text) for text in (first, second, third, fourth)
            ]
            label = _LABELS.index(answer)
            identifier = f"{level}/{path.stem}-{number}"
            examples.append(Example((passage["article"], *texts), label, identifier))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path}: question {len(examples) + 1} must have a text, four `options` "
            "and an answer from A to D, in a passage with an `article`. Received: "
            f"{error!r}"
        ) from error
    return examples
