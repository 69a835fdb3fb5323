"""All tasks by name."""

import difflib
import os
import pathlib
from collections.abc import Collection

from seg_tf.tasks.discoeval import discoeval_tasks
from seg_tf.tasks.example import Example, Task
from seg_tf.tasks.glue import glue_tasks
from seg_tf.tasks.race import race_tasks

_READERS = {
    task: benchmark.read
    for benchmark in (glue_tasks, discoeval_tasks, race_tasks)
    for task in benchmark.TASKS
}
_TASKS = {task.name: task for task in _READERS}


def names() -> tuple[str, ...]:
    """Names of all tasks."""
    return tuple(_TASKS)


def get(name: str) -> Task:
    """The task of that name.

    Raises:
        ValueError: if there is none.
    """
    check_name(name, _TASKS)
    return _TASKS[name]


def check_name(name: str, known: Collection[str]) -> None:
    """Makes sure that a name is known.

    Raises:
        ValueError: if it is not; it says which one may have been meant.
    """
    if name in known:
        return
    close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    hint = f", perhaps for {close[0]!r}" if close else ""
    raise ValueError(
        f"`task` must be one of {', '.join(known)}. Received: {name!r}{hint}"
    )


def read(task: Task | str, data_dir: str | os.PathLike, split: str) -> list[Example]:
    """All examples of a split, in the order of its file.

    Args:
        task: a task that `get` gave, or its name.
        data_dir: folder of the benchmark (it holds `MRPC`, say), or of the task.
        split: name of the split, one of `task.split_names`.

    Raises:
        ValueError: if there is no such task or split, or if the file is not as it must
            be: file, line and column are named.
        OSError: if the file is not there, or cannot be read.
    """
    task = get(task) if isinstance(task, str) else task
    if task not in _READERS:
        raise ValueError(
            f"`task` must be one that `get` gives. Received: another, {task}"
        )
    return _READERS[task](task, pathlib.Path(data_dir).expanduser(), split)
