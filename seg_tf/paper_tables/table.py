"""A table of a paper: its rows are runs, its columns figures of them."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any


@dataclasses.dataclass(frozen=True)
class FineTuned:
    """A score of fine-tuned models.

    Attributes:
        tasks: names of tasks, as in "glue/mrpc", over which the score is a mean.
        metric: name of the score in a trial, with the split before it where that is
            not dev, as in "matched_accuracy" and "test_accuracy".
    """

    tasks: tuple[str, ...]
    metric: str


@dataclasses.dataclass(frozen=True)
class Submitted:
    """A score of a test set whose labels only a leaderboard has.

    Attributes:
        column: as in `seg_tf.tasks.glue.averages.COLUMNS`.
        metric: one of the task's.
    """

    column: str
    metric: str


@dataclasses.dataclass(frozen=True)
class Perplexity:
    """Test perplexity of a language model, by `seg_tf.commands.evaluate_perplexity`."""


@dataclasses.dataclass(frozen=True)
class Validated:
    """A share among the validation results of pretraining, in percent.

    Attributes:
        metric: its name in `log.jsonl`.
    """

    metric: str


@dataclasses.dataclass(frozen=True)
class BestSetting:
    """A value of the setting of the best trials of a task.

    Attributes:
        name: "epochs" or "learning_rate".
    """

    name: str


@dataclasses.dataclass(frozen=True)
class ConfigValue:
    """A value of a run's config.

    Attributes:
        path: as in "optimizer.learning_rate".
    """

    path: str


@dataclasses.dataclass(frozen=True)
class Average:
    """Mean of other columns of the row.

    Attributes:
        columns: their names; None where one is missing.
        mean: of the columns' figures, by name.
    """

    columns: tuple[str, ...]
    mean: Callable[[Mapping[str, float]], float]


Figure = (
    FineTuned | Submitted | Perplexity | Validated | BestSetting | ConfigValue | Average
)


@dataclasses.dataclass(frozen=True)
class Row:
    """A model of a table.

    Attributes:
        name: what to call it.
        run: name of the config of its run, as in "segabert_base".
        paper: the paper's figures, of the columns that it has.
        tasks: the task of a row of `BestSetting`s.
    """

    name: str
    run: str
    paper: Mapping[str, Any]
    tasks: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        number: its number in the paper.
        title: what it shows.
        columns: figures by the names of their columns.
        rows: models that can be trained here; those of other works are left out.
        recipe: of `seg_tf.tasks.finetuning_settings`, which says whether a score is the
            mean or the best of a setting's seeds.
        decimals: of a figure.
        notes: what to know, as lines.
    """

    number: int
    title: str
    columns: Mapping[str, Figure]
    rows: Sequence[Row]
    recipe: str = ""
    decimals: int = 1
    notes: tuple[str, ...] = ()


def row(name: str, run: str, columns: Sequence[str], *values: Any) -> Row:
    """A row by the values of its columns, in order; None where the paper has none."""
    paper = zip(columns, values, strict=True)
    return Row(name, run, {key: value for key, value in paper if value is not None})
