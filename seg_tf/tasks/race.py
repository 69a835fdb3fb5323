"""Reads RACE (Lai et al., 2017), passages with questions that have four options.

The published files, `RACE/train/middle/*.txt` and so on, are JSON objects with
`article` and the lists `questions`, `options` and `answers` of equal length.

The texts of an example are the passage and, for each option, the question with the
option. The option replaces the `_` of a cloze question and follows any other question,
as in common BERT baselines.
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
    """Reads a split's examples by level and file number. See `seg_tf.tasks.read`."""
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
        # File numbers are sorted numerically.
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
            choices = (first, second, third, fourth)
            texts = [cloze.replace("_", text) for text in choices]
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
