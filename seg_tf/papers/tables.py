"""Tables of the papers: their rows are runs, their columns figures of these runs."""

import dataclasses
import pathlib
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from seg_tf.papers.settings import COLUMNS
from seg_tf.tasks import finetuning_settings, glue


class FineTuned(NamedTuple):
    """Mean score of fine-tuned models over tasks, as in "glue/mrpc".

    The metric has the split before it where that is not dev ("test_accuracy").
    """

    tasks: tuple[str, ...]
    metric: str


class Submitted(NamedTuple):
    """A test score from GLUE's leaderboard, by the leaderboard's name of the column."""

    column: str
    metric: str


class Perplexity(NamedTuple):
    """Test perplexity, by `seg_tf.commands.evaluate_perplexity`."""


class Validated(NamedTuple):
    """A share, in percent, of the last validation of pretraining."""

    metric: str


class BestSetting(NamedTuple):
    """A value ("epochs", "learning_rate") of the setting of a task's best trials."""

    name: str


class ConfigValue(NamedTuple):
    """A value of a run's config, as in "optimizer.learning_rate"."""

    path: str


class Average(NamedTuple):
    """Mean of other columns of the row, if it has all of them."""

    columns: tuple[str, ...]


Figure = (
    FineTuned | Submitted | Perplexity | Validated | BestSetting | ConfigValue | Average
)
Columns = Mapping[str, Figure]


@dataclasses.dataclass(frozen=True)
class Row:
    """A model of a table.

    Attributes:
        name: its name in the table.
        run: name of its run's config, as in "segabert_base".
        paper: the paper's figures, for the columns that it fills.
        task: the task of a row of `BestSetting`s.
    """

    name: str
    run: str
    paper: Mapping[str, Any]
    task: str = ""


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of a paper.

    Attributes:
        number: its number in the paper.
        title: what it shows.
        columns: figures by the names of their columns.
        rows: models that can be trained here; those of other works are left out.
        recipe: key of `finetuning_settings.RECIPES`, which says whether a score is the
            mean or the best of a setting's seeds.
        decimals: of a score.
        notes: remarks, a line each.
    """

    number: int
    title: str
    columns: Columns = dataclasses.field(default_factory=dict)
    rows: Sequence[Row] = ()
    recipe: str = ""
    decimals: int = 1
    notes: tuple[str, ...] = ()


_MNLI = {"MNLI-m": "matched_accuracy", "MNLI-mm": "mismatched_accuracy"}


def _glue(split: str, qqp_metric: str, prefix: str = "") -> Columns:
    """GLUE's nine columns and their average, on "dev" or "test"."""
    columns: dict[str, Figure] = {}
    for name in glue.PAPER_COLUMNS:
        task = glue.COLUMNS[name].task
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


def _both_splits(qqp_metric: str) -> Columns:
    return {**_glue("dev", qqp_metric, "dev "), **_glue("test", qqp_metric, "test ")}


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
    "glue (F1 of QQP)": _both_splits("f1"),
    "glue (accuracy of QQP)": _both_splits("accuracy"),
    "squad v1.1": _squad("v1.1"),
    "squad v2.0": _squad("v2.0"),
    "squad": _BOTH_SQUADS,
    "ablation of positions": {**_glue("dev", "f1"), **_squad("v1.1", "SQuAD ")},
    # The paper's averages are those of all nine numbers.
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


def _rows(text: str, columns: Columns) -> Iterator[Row]:
    for line in text.strip().splitlines():
        name, run, figures = (cell.strip() for cell in line.split("|"))
        paper = zip(columns, figures.split(), strict=True)
        yield Row(name, run, {key: float(one) for key, one in paper if one != "-"})


def _best_settings(run: str, recipe: str) -> Iterator[Row]:
    for task, one in finetuning_settings.RECIPES[recipe].items():
        if one.best:
            paper = {
                "epochs": one.best.num_epochs,
                "learning rate": one.best.learning_rate,
            }
            yield Row(task, run, paper, task)


def _table(
    *,
    columns: str = "",
    rows: str = "",
    settings: Mapping[str, str] | None = None,
    best_settings: str = "",
    notes: Sequence[str] = (),
    **others: Any,
) -> Table:
    figures = _COLUMNS[columns] if columns else {}
    models = list(_rows(rows, figures))
    if settings:
        paper = {
            setting: value.value
            for setting, value in COLUMNS[settings["run"]].items()
            if value.source.endswith(settings["source"]) and not callable(value.value)
        }
        figures = {setting: ConfigValue(setting) for setting in paper}
        models = [Row(settings["name"], settings["run"], paper)]
    elif best_settings:
        models = list(_best_settings(best_settings, others["recipe"]))
    return Table(columns=figures, rows=models, notes=tuple(notes), **others)


# By the name of the paper; "segabert" is the first version of "segatron".
TABLES: Mapping[str, Sequence[Table]] = {
    paper: [_table(**table) for table in tables]
    for paper, tables in tomllib.loads(
        pathlib.Path(__file__).with_name("tables.toml").read_text(encoding="utf-8")
    ).items()
}
TITLES = {
    "segatron": "Segatron",
    "segabert": "SegaBERT",
    "slm": "SLM",
    "reat": "ReAT",
}
