"""Defines the papers' tables and renders them as Markdown.

A column is a figure, such as a score. A run has two rows, the paper's and ours.
"""

import dataclasses
import pathlib
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from seg_tf.papers.settings import COLUMNS
from seg_tf.tasks import finetuning_settings, glue

NOT_RUN = "not run"


class FineTuned(NamedTuple):
    """Score of fine-tuned models, averaged over tasks such as "glue/mrpc".

    Metrics on splits other than dev have the split as a prefix: "test_accuracy".
    """

    tasks: tuple[str, ...]
    metric: str


class Submitted(NamedTuple):
    """Test score `metric` in the column `column` of GLUE's leaderboard."""

    column: str
    metric: str


class Perplexity(NamedTuple):
    """Test perplexity from the command `evaluate-perplexity`."""


class Validated(NamedTuple):
    """Metric of the last validation in pretraining, in percent."""

    metric: str


class BestSetting(NamedTuple):
    """Value of "epochs" or "learning_rate" in a task's best fine-tuning setting."""

    name: str


class ConfigValue(NamedTuple):
    """Value in a run's config, for example "optimizer.learning_rate"."""

    path: str


class Average(NamedTuple):
    """Mean of other columns in the same row, if all of them have values."""

    columns: tuple[str, ...]


Figure = (
    FineTuned | Submitted | Perplexity | Validated | BestSetting | ConfigValue | Average
)
Columns = Mapping[str, Figure]


@dataclasses.dataclass(frozen=True)
class Row:
    """A table row for a model or, with `BestSetting` columns, for a task."""

    name: str  # in the table
    run: str  # name of the config, for example "segabert_base"
    paper: Mapping[str, Any]  # the paper's figures by column
    task: str = ""  # only with `BestSetting` columns


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of a paper, restricted to models that this package can train.

    `recipe` is a key of `finetuning_settings.RECIPES`. It determines whether a score is
    the mean or the maximum over a setting's seeds.
    """

    number: int  # in the paper
    title: str
    columns: Columns = dataclasses.field(default_factory=dict)
    rows: Sequence[Row] = ()
    recipe: str = ""
    decimals: int = 1  # of a score
    notes: tuple[str, ...] = ()  # one per line


_MNLI = {"MNLI-m": "matched_accuracy", "MNLI-mm": "mismatched_accuracy"}


def _glue(split: str, qqp_metric: str, prefix: str = "") -> Columns:
    """Returns GLUE's nine columns and their average, for "dev" or "test" scores."""
    columns: dict[str, Figure] = {}
    for name in glue.PAPER_COLUMNS:
        task, _ = glue.COLUMNS[name]
        metric = qqp_metric if name == "QQP" else task.main_metric
        columns[f"{prefix}{name}"] = (
            Submitted(name, metric)
            if split == "test"
            else FineTuned((task.name,), _MNLI.get(name, metric))
        )
    columns[f"{prefix}average"] = Average(tuple(columns))
    return columns


def _squad(version: str, prefix: str = "") -> Columns:
    task = (f"squad/{version}",)
    return {
        f"{prefix}EM": FineTuned(task, "exact"),
        f"{prefix}F1": FineTuned(task, "f1"),
    }


def _probed(*tasks: str) -> FineTuned:
    return FineTuned(tuple(f"discoeval/{task}" for task in tasks), "test_accuracy")


_BOTH_SQUADS = {**_squad("v1.1", "v1.1 "), **_squad("v2.0", "v2.0 ")}
_SLM_DEV = _glue("dev", "accuracy")
_SLM_ABLATION = {
    **_BOTH_SQUADS,
    **{name: _SLM_DEV[name] for name in ("MNLI-m", "MNLI-mm", "QNLI", "SST-2", "QQP")},
}
_COLUMNS: Mapping[str, Columns] = {
    "perplexity": {"perplexity": Perplexity()},
    "glue (F1 of QQP)": {**_glue("dev", "f1", "dev "), **_glue("test", "f1", "test ")},
    "glue (accuracy of QQP)": {
        **_glue("dev", "accuracy", "dev "),
        **_glue("test", "accuracy", "test "),
    },
    "squad v1.1": _squad("v1.1"),
    "squad v2.0": _squad("v2.0"),
    "squad": _BOTH_SQUADS,
    "ablation of positions": {**_glue("dev", "f1"), **_squad("v1.1", "SQuAD ")},
    # The paper averages all nine numbers.
    "ablation of slm": {**_SLM_ABLATION, "average": Average(tuple(_SLM_ABLATION))},
    "discoeval": {
        "SP": _probed("sp/arxiv", "sp/rocstory", "sp/wiki"),
        "BSO": _probed("bso/arxiv", "bso/rocstory", "bso/wiki"),
        "DC": _probed("dc/chat", "dc/wiki"),
        "SSP": _probed("ssp"),
        "PDTB-E": _probed("pdtb/explicit"),
        "PDTB-I": _probed("pdtb/implicit"),
    },
    "best settings": {
        "epochs": BestSetting("epochs"),
        "learning rate": BestSetting("learning_rate"),
    },
    "reat": {
        "MLM": Validated("masked_lm_accuracy"),
        "ESP": Validated("exchange_sentence_accuracy"),
        "QQP": FineTuned(("glue/qqp",), "accuracy"),
        "MRPC": FineTuned(("glue/mrpc",), "accuracy"),
    },
}


def _table(
    *,
    columns: str = "",
    rows: str = "",
    settings: Mapping[str, str] | None = None,
    best_settings: str = "",
    notes: Sequence[str] = (),
    **arguments: Any,
) -> Table:
    figures = _COLUMNS[columns] if columns else {}
    models = []
    for line in rows.strip().splitlines():
        name, run, cells = (cell.strip() for cell in line.split("|"))
        paper: dict[str, Any] = {
            column: float(cell)
            for column, cell in zip(figures, cells.split(), strict=True)
            if cell != "-"
        }
        models.append(Row(name, run, paper))
    if settings:
        paper = {
            setting: value.value
            for setting, value in COLUMNS[settings["run"]].items()
            if value.source.endswith(settings["source"]) and not callable(value.value)
        }
        figures = {setting: ConfigValue(setting) for setting in paper}
        models = [Row(settings["name"], settings["run"], paper)]
    elif best_settings:
        for task, recipe in finetuning_settings.RECIPES[arguments["recipe"]].items():
            if best := recipe.best:
                paper = {"epochs": best.epochs, "learning rate": best.learning_rate}
                models.append(Row(task, best_settings, paper, task))
    return Table(columns=figures, rows=models, notes=tuple(notes), **arguments)


# Tables by paper. "segabert" is the first version of "segatron".
TABLES: Mapping[str, Sequence[Table]] = {
    paper: [_table(**table) for table in tables]
    for paper, tables in tomllib.loads(
        pathlib.Path(__file__).with_name("tables.toml").read_text(encoding="utf-8")
    ).items()
}
TITLES = {"segatron": "Segatron", "segabert": "SegaBERT", "slm": "SLM", "reat": "ReAT"}


class RunFigure(NamedTuple):
    """Our value of a figure, or None, and caveats for comparing it with the paper's."""

    value: Any = None
    caveats: tuple[str, ...] = ()


def render(
    tables: Sequence[Table],
    measure: Callable[[Row, Table], Mapping[str, RunFigure]],
    paper: str,
) -> str:
    """Renders `tables` as a Markdown page, with the title `paper` in its headings.

    `measure` returns our figures for a row of a table, by column name.
    """
    blocks = [f"# Tables of {paper}: the paper's figures and ours"]
    for table in tables:
        blocks.append(f"## {paper}, table {table.number}: {table.title}")
        lines = [
            ["model", "", *table.columns],
            ["---", "---", *["--:"] * len(table.columns)],
        ]
        rows_of_caveats: dict[str, dict[str, None]] = {}
        for row in table.rows:
            figures = measure(row, table)
            theirs, ours = [row.name, "paper"], ["", "ours"]
            for name, figure in table.columns.items():
                value, caveats = figures[name]
                theirs.append(_cell(row.paper.get(name), figure, table.decimals, "–"))
                ours.append(_cell(value, figure, table.decimals, NOT_RUN))
                for caveat in caveats:
                    rows_of_caveats.setdefault(caveat, {})[row.name] = None
            lines += [theirs, ours]
        if table.rows:
            blocks.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
        notes = [f"* {note}" for note in table.notes]
        notes += [
            f"* {', '.join(rows)}: {text}" for text, rows in rows_of_caveats.items()
        ]
        if notes:
            blocks.append("\n".join(notes))
    return "\n\n".join(blocks)


def _cell(value: Any, figure: Figure, decimals: int, absent: str) -> str:
    if value is None:
        return absent
    if isinstance(value, float):
        # Settings are not rounded: a beta_2 of 0.999 is not 1.0.
        is_setting = isinstance(figure, ConfigValue | BestSetting)
        return f"{value:g}" if is_setting else f"{value:.{decimals}f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
