"""Fine-tuning tasks, with their benchmark files, examples, metrics and settings.

>>> from seg_tf import tasks
>>> task = tasks.get("glue/mrpc")
>>> task.labels, task.num_texts, task.main_metric
(('0', '1'), 2, 'f1')
>>> [split.name for split in task.splits]
['train', 'dev', 'test']

`tasks.read(task, data_dir, "train")` reads the examples, without TensorFlow.
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
    """Returns the names of all tasks, except SQuAD, which is not a `Task`."""
    return tuple(_TASKS)


def get(name: str | Task) -> Task:
    """Returns a task by name. Returns a `Task` as is. Raises ValueError if unknown."""
    if isinstance(name, Task):
        return name
    check_choice("task", name, _TASKS)
    return _TASKS[name]


def register(task: Task, splits: dict[str, list[Example]]) -> None:
    """Registers a task. `splits` maps the names of its splits to lists of examples."""
    _TASKS[task.name] = task
    _READERS[task] = lambda task, data_dir, split: splits[split]


def read(task: Task | str, data_dir: str | os.PathLike, split: str) -> list[Example]:
    """Reads all examples of a split of a task, in file order.

    `data_dir` is the folder of the task, or the benchmark's folder that contains it.
    Raises a ValueError if there is no such task or split, or if the file is invalid,
    and an OSError if the file does not exist or cannot be read.
    """
    task = get(task)
    return _READERS[task](task, pathlib.Path(data_dir).expanduser(), split)
