"""Columns of GLUE and SQuAD, which three papers report."""

from collections.abc import Mapping

from seg_tf.paper_tables.table import Average, Figure, FineTuned, Submitted
from seg_tf.tasks.glue import averages

EM, F1 = "EM", "F1"
_MATCHED = {"dev_matched": "matched_accuracy", "dev_mismatched": "mismatched_accuracy"}


def dev(qqp_metric: str) -> dict[str, Figure]:
    """GLUE's nine columns on dev and their average.

    Args:
        qqp_metric: "f1" in Segatron, "accuracy" in SLM.
    """
    return _with_average(
        {
            name: FineTuned(
                (column.task.name,),
                _MATCHED.get(column.dev_split) or _metric(name, qqp_metric),
            )
            for name, column in _columns().items()
        }
    )


def test(qqp_metric: str) -> dict[str, Figure]:
    """The same of the test sets, which the leaderboard scores."""
    return _with_average(
        {name: Submitted(name, _metric(name, qqp_metric)) for name in _columns()}
    )


def squad(version: str) -> dict[str, Figure]:
    """Exact match and F1 on dev of "v1.1" or "v2.0"."""
    task = (f"squad/{version}",)
    return {EM: FineTuned(task, "exact"), F1: FineTuned(task, "f1")}


def prefixed(prefix: str, columns: Mapping[str, Figure]) -> dict[str, Figure]:
    """Columns under names with a prefix, an average among them of those columns."""
    return {
        f"{prefix} {name}": _prefixed_average(prefix, figure)
        if isinstance(figure, Average)
        else figure
        for name, figure in columns.items()
    }


def _prefixed_average(prefix: str, average: Average) -> Average:
    names = {f"{prefix} {name}": name for name in average.columns}
    return Average(
        tuple(names),
        lambda scores: average.mean({names[key]: scores[key] for key in names}),
    )


def _columns() -> Mapping[str, averages.Column]:
    return {name: averages.COLUMNS[name] for name in averages.PAPER_COLUMNS}


def _metric(column: str, qqp_metric: str) -> str:
    return qqp_metric if column == "QQP" else averages.COLUMNS[column].task.main_metric


def _with_average(columns: Mapping[str, Figure]) -> dict[str, Figure]:
    average = Average(averages.PAPER_COLUMNS, averages.paper_average)
    return {**columns, "average": average}
