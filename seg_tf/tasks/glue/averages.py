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
_LEADERBOARD_COLUMNS = (*PAPER_COLUMNS, "WNLI")


def paper_average(scores: Mapping[str, float]) -> float:
    """Mean of nine columns, as in the tables of BERT, Segatron and SLM.

    MNLI counts twice, WNLI not.

    Args:
        scores: name of a column -> its main metric. SLM has accuracy for QQP, and
            Segatron F1.

    Raises:
        ValueError: if a column is missing.
    """
    _check(scores, PAPER_COLUMNS)
    return statistics.fmean(scores[name] for name in PAPER_COLUMNS)


def leaderboard_score(scores: Mapping[str, Mapping[str, float]]) -> float:
    """GLUE's own score: the mean of nine tasks, each the mean of its metrics.

    MNLI counts once, as the mean of its halves, and WNLI counts.

    Args:
        scores: name of a column -> all its metrics, as `metrics.compute` gives them.

    Raises:
        ValueError: if a column or a metric is missing.
    """
    _check(scores, _LEADERBOARD_COLUMNS)
    of_tasks: dict[str, list[float]] = {}
    for name in _LEADERBOARD_COLUMNS:
        task = COLUMNS[name].task
        missing = [metric for metric in task.metrics if metric not in scores[name]]
        if missing:
            raise ValueError(
                f"`scores` of {name} must have {', '.join(task.metrics)}. Received: "
                f"{', '.join(scores[name]) or 'none'}"
            )
        mean = statistics.fmean(scores[name][metric] for metric in task.metrics)
        of_tasks.setdefault(task.name, []).append(mean)
    return statistics.fmean(map(statistics.fmean, of_tasks.values()))


def _check(scores: Mapping[str, object], columns: tuple[str, ...]) -> None:
    missing = [name for name in columns if name not in scores]
    if missing:
        raise ValueError(
            f"`scores` must have the columns {', '.join(columns)}; it lacks "
            f"{', '.join(missing)}. Received: {', '.join(scores) or 'none'}"
        )
