"""Tasks to fine-tune on: their files as examples, their metrics, their settings.

>>> from seg_tf import tasks
>>> task = tasks.get("glue/mrpc")
>>> task.labels, task.num_texts, task.main_metric
(('0', '1'), 2, 'f1')
>>> [split.name for split in task.splits]
['train', 'dev', 'test']

`tasks.read(task, data_dir, "train")` reads its examples. Nothing here needs TensorFlow.
"""

import os
import pathlib

from seg_tf.config.base import check_choice
from seg_tf.tasks import discoeval, glue, race
from seg_tf.tasks.task import Example, Split, Task, checksum, write_predictions

_READERS = {
    task: benchmark.read
    for benchmark in (glue, discoeval, race)
    for task in benchmark.TASKS
}
_TASKS = {task.name: task for task in _READERS}


def names() -> tuple[str, ...]:
    """Names of all tasks."""
    return tuple(_TASKS)


def get(name: str | Task) -> Task:
    """The task of that name; a ValueError if there is none."""
    if isinstance(name, Task):
        return name
    check_choice("task", name, _TASKS)
    return _TASKS[name]


def read(task: Task | str, data_dir: str | os.PathLike, split: str) -> list[Example]:
    """All examples of a split of a task, in the order of its file.

    `data_dir` is the folder of the benchmark (it holds `MRPC`, say), or of the task.

    Raises:
        ValueError: if there is no such task or split, or if the file is not valid:
            file, line and column are named.
        OSError: if the file does not exist, or cannot be read.
    """
    task = get(task)
    return _READERS[task](task, pathlib.Path(data_dir).expanduser(), split)
