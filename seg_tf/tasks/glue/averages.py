"""GLUE's columns, as leaderboard and papers name them, and their averages.

A column is a task, or one of MNLI's two halves. Scores are shares or percentages, as
long as all are the same.
"""

import dataclasses
import statistics
from collections.abc import Mapping

from seg_tf.tasks.example import Task
from seg_tf.tasks.glue import glue_tasks


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """A column of GLUE's tables.

    Attributes:
        name: its name, as in "MNLI-m"; `<name>.tsv` holds the predictions of its test
            set.
        task: the task.
        dev_split: what papers report before they submit; "" if there is none.
        test_split: what the leaderboard scores.
    """

    name: str
    task: Task
    dev_split: str
    test_split: str


_TASKS = {task.name: task for task in glue_tasks.TASKS}
COLUMNS: Mapping[str, Column] = {
    name: Column(name, _TASKS[f"glue/{task}"], dev, test)
    for name, task, dev, test in (
        ("CoLA", "cola", "dev", "test"),
        ("SST-2", "sst-2", "dev", "test"),
        ("MRPC", "mrpc", "dev", "test"),
        ("STS-B", "sts-b", "dev", "test"),
        ("QQP", "qqp", "dev", "test"),
        ("MNLI-m", "mnli", "dev_matched", "test_matched"),
        ("MNLI-mm", "mnli", "dev_mismatched", "test_mismatched"),
        ("QNLI", "qnli", "dev", "test"),
        ("RTE", "rte", "dev", "test"),
        ("WNLI", "wnli", "dev", "test"),
        ("AX", "ax", "", "test"),
    )
}
# WNLI, in which guessing the more frequent label wins, is left out since BERT.
PAPER_COLUMNS = tuple(name for name in COLUMNS if name not in ("WNLI", "AX"))


def paper_average(scores: Mapping[str, float]) -> float:
    """Mean of nine columns, as in the tables of BERT, Segatron and SLM.

    MNLI counts twice, WNLI not.

    Args:
        scores: name of a column -> its main metric. SLM has accuracy for QQP, and
            Segatron F1.

    Raises:
        ValueError: if a column is missing.
    """
    missing = [name for name in PAPER_COLUMNS if name not in scores]
    if missing:
        raise ValueError(
            f"`scores` must have the columns {', '.join(PAPER_COLUMNS)}; it lacks "
            f"{', '.join(missing)}. Received: {', '.join(scores) or 'none'}"
        )
    return statistics.fmean(scores[name] for name in PAPER_COLUMNS)
