"""The tables: of the papers as they are, and of trials that were made up."""

import csv
import io
import json
import pathlib
import statistics

import pytest

from seg_tf.commands.paper_tables import Results
from seg_tf.finetuning.trials import Setting, Trial, TrialsFolder
from seg_tf.papers import rendering, tables
from seg_tf.papers.rendering import Caveat, RunFigure
from seg_tf.papers.tables import Average, ConfigValue, FineTuned, Row, Table, Validated
from seg_tf.tasks import glue, squad
from tests import command_calls
from tests.finetuning import tiny_squad
from tests.inference import tiny_slm

DOCS = pathlib.Path(__file__).parents[2] / "docs"
TABLES = {
    paper: {table.number: table for table in of_paper}
    for paper, of_paper in tables.TABLES.items()
}


def write_trials(folder, run, task, scores, **settings):
    """Trials of made-up scores: (setting, seed) -> scores."""
    trials = TrialsFolder(folder)
    trials.prepare({"run": run, "task": task, "max_length": None, **settings})
    for (setting, seed), values in scores.items():
        trial = Trial(Setting(*setting), seed)
        path = trials.trial_folder(trial)
        path.mkdir()
        content = {"setting": vars_of(setting), "seed": seed, "scores": values}
        (path / "trial.json").write_text(json.dumps({**content, "epochs": []}))


def vars_of(setting):
    return dict(zip(("learning_rate", "batch_size", "epochs"), setting, strict=True))


SLOW, FAST = (2e-5, 16, 3), (5e-5, 16, 3)


@pytest.fixture
def runs(tmp_path):
    write_trials(
        tmp_path / "mrpc",
        "segabert_base",
        "glue/mrpc",
        {
            (SLOW, 1): {"f1": 0.80, "accuracy": 0.7},
            (SLOW, 2): {"f1": 0.90, "accuracy": 0.8},
            (FAST, 1): {"f1": 0.91, "accuracy": 0.9},
            (FAST, 2): {"f1": 0.75, "accuracy": 0.6},
        },
        limit=100,
    )
    write_trials(
        tmp_path / "slm" / "squad",
        "slm_base",
        "squad/v1.1",
        {
            ((5e-5, 32, 2), seed): {"exact": 80.0 + seed, "f1": 90.0 - seed}
            for seed in (1, 2)
        },
    )
    return tmp_path


@pytest.mark.parametrize(
    "table",
    [table for of_paper in tables.TABLES.values() for table in of_paper],
    ids=lambda one: one.title,
)
def test_averages_of_the_papers_come_out(table: Table):
    """So no figure was copied wrongly, and columns and metrics are the paper's."""
    for name, figure in table.columns.items():
        for row in table.rows:
            if isinstance(figure, Average) and name in row.paper:
                mean = statistics.fmean(row.paper[one] for one in figure.columns)
                assert mean == pytest.approx(row.paper[name], abs=0.051), row.name


def test_columns_are_scores_that_trials_have(tmp_path):
    scores_of_squad = {}
    for version in ("v1.1", "v2.0"):
        content = tiny_squad.random_file(0, 1, version)
        tiny_squad.write_files(tmp_path, version, dev=content)
        data = squad.read(tmp_path / f"dev-{version}.json")
        scores_of_squad[f"squad/{version}"] = squad.score_texts(
            data, {question.identifier: "" for question in data.questions()}
        )
    for by_number in TABLES.values():
        for table in by_number.values():
            for figure in table.columns.values():
                if not isinstance(figure, FineTuned):
                    continue
                task = figure.tasks[0]
                if task.startswith("squad"):
                    assert figure.metric in scores_of_squad[task]
                elif figure.tasks[0].startswith("glue"):
                    (column,) = {
                        one.task
                        for one in glue.COLUMNS.values()
                        if one.task.name == figure.tasks[0]
                    }
                    metric = figure.metric.removeprefix("mis").removeprefix("matched_")
                    assert metric in column.metrics


def test_mean_of_the_seeds_of_the_best_setting(runs):
    results = Results([runs])
    table = TABLES["segatron"][2]
    row = next(row for row in table.rows if row.run == "segabert_base")
    found = results.measure(row, table)
    # The setting is chosen by its mean, not by its best seed.
    assert found["dev MRPC"].value == pytest.approx(85.0)
    assert list(map(str, found["dev MRPC"].caveats)) == [
        "glue/mrpc: limit: 100; paper all",
        "glue/mrpc: seeds: 2; paper 4",
        "glue/mrpc: settings tried: 2 of the paper's 72, and 0 others",
    ]
    assert found["dev CoLA"].value is None
    assert found["dev average"].value is None


def test_best_of_all_trials_where_the_paper_reports_that(runs):
    table = TABLES["slm"][2]
    found = Results([runs]).measure(table.rows[0], table)
    # Chosen by F1, so exact match is that of the same trial.
    assert found["v1.1 F1"].value == 89.0
    assert found["v1.1 EM"].value == 81.0
    best = TABLES["slm"][8]
    row = next(row for row in best.rows if row.task == "squad/v1.1")
    found = Results([runs]).measure(row, best)
    assert (found["epochs"].value, found["learning rate"].value) == (2, 5e-5)


def test_perplexities_and_submissions(tmp_path):
    (tmp_path / "lm").mkdir()
    (tmp_path / "lm" / "perplexity.json").write_text(
        json.dumps(
            {
                "run": "transformer_xl_base",
                "predicted": {"perplexity": 30.0},
                "standard": {"perplexity": 24.0},
            }
        )
    )
    scores = {column: {"f1": 70.0} for column in glue.PAPER_COLUMNS}
    scores["CoLA"] = {"matthews": 40.0}
    (tmp_path / "leaderboard.json").write_text(json.dumps({"bert_base": scores}))
    results = Results([tmp_path])
    table = TABLES["segatron"][1]
    found = results.measure(table.rows[0], table)
    assert found["perplexity"].value == 24.0
    table = TABLES["segatron"][2]
    found = results.measure(table.rows[0], table)
    assert (found["test CoLA"].value, found["test QQP"].value) == (40.0, 70.0)
    assert found["test SST-2"].value is None  # its metric is accuracy
    (tmp_path / "lm" / "leaderboard.json").write_text('{"bert_base": {}}')
    with pytest.raises(
        ValueError, match=r"once\. Received: submission of bert_base in .*lm"
    ):
        Results([tmp_path])


def test_settings_and_validation_are_of_the_run(tmp_path):
    config = tiny_slm.config()
    tiny_slm.write_checkpoint(tmp_path / "run", config)
    rows = [
        {"kind": "validation", "updates": 5, "masked_lm_accuracy": 0.25},
        {"kind": "train", "updates": 6, "masked_lm_accuracy": 0.5},
    ]
    (tmp_path / "run" / "log.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    columns = {
        "MLM": Validated("masked_lm_accuracy"),
        "width": ConfigValue("model.hidden_size"),
        "other": Validated("exchange_sentence_accuracy"),
    }
    results = Results([tmp_path])
    assert results.runs == {config.name}
    found = results.measure(Row("tiny", config.name, {}), Table(1, "", columns))
    # Of validation, not of training.
    assert found["MLM"] == RunFigure(25.0, (Caveat("after 5 updates"),))
    assert found["width"].value == config.model.hidden_size
    assert found["other"].value is None


@pytest.mark.parametrize("paper", tables.TABLES)
def test_pages_have_the_figures_of_the_papers(paper, tmp_path):
    """docs/tables/*.md were printed with runs of tiny models."""
    page = DOCS / "tables" / f"{paper}.md"
    text = rendering.render(
        tables.TABLES[paper],
        Results([tmp_path]).measure,
        tables.TITLES[paper],
        "markdown",
    )
    wanted = [line for line in text.splitlines() if line and "not run" not in line]
    lines = iter(page.read_text(encoding="utf-8").splitlines())
    missing = next((line for line in wanted if line not in lines), None)
    assert missing is None, f"{page.name} lacks, here or at all: {missing}"


def test_results_of_one_thing_twice_are_refused(runs):
    write_trials(runs / "again", "segabert_base", "glue/mrpc", {(SLOW, 1): {"f1": 0.5}})
    with pytest.raises(
        ValueError, match=r"once\. Received: glue/mrpc of segabert_base"
    ):
        Results([runs])
    with pytest.raises(ValueError, match="`runs` must be folders"):
        Results([runs / "missing"])


def test_baselines_fill_no_row(tmp_path):
    write_trials(
        tmp_path / "new",
        "bert_base",
        "glue/mrpc",
        {(SLOW, 1): {"f1": 0.5}},
        randomly_initialized=True,
    )
    assert Results([tmp_path]).runs == set()


def test_what_is_printed(runs):
    code, printed, errors = command_calls.call(
        "seg_tf.commands.paper_tables", "--paper=segatron", f"--runs={runs}"
    )
    assert code == 0, errors
    assert "Segatron, table 2: GLUE\n" in printed
    (line,) = [
        line
        for line in printed.split("table 2:")[1].split("table 3:")[0].splitlines()
        if " 85.0" in line
    ]
    assert line.split()[0] == "ours"
    assert line.count("not run") == 19
    assert "SegaBERT base: seeds: 2; paper 4 (glue/mrpc)" in printed
    assert "Filled by: segabert_base" in printed
    assert "In none of these tables: slm_base" in printed


def test_runs_of_another_size_stand_in_and_files_are_written(tmp_path):
    write_trials(
        tmp_path / "tiny",
        "slm_tiny",
        "glue/rte",
        {((1e-5, 32, 5), seed): {"accuracy": seed / 10} for seed in (5, 6)},
    )
    output = tmp_path / "tables.csv"
    code, _, errors = command_calls.call(
        "seg_tf.commands.paper_tables",
        *("--paper=slm", f"--runs={tmp_path}", "--size=tiny"),
        *("--format=csv", f"--output={output}"),
    )
    assert code == 0, errors
    rows = list(csv.DictReader(io.StringIO(output.read_text())))
    (row,) = [
        one for one in rows if one["column"] == "dev RTE" and one["run"] == "slm_tiny"
    ]
    assert (row["of_paper"], row["ours"]) == ("81.2", "60.0")
    assert {one["ours"] for one in rows if one["run"] == "slm_tiny_3m"} == {"not run"}


def test_what_rows_and_tasks_have_in_common_is_said_once(tmp_path):
    for run in ("bert", "segabert"):
        for name, correlation in (("cola", -0.25), ("mrpc", 0.5)):
            scores = {"matthews": correlation, "f1": correlation}
            write_trials(
                tmp_path / run / name,
                f"{run}_base",
                f"glue/{name}",
                {(SLOW, 1): scores},
                limit=7,
            )
    write_trials(
        tmp_path / "sst", "bert_base", "glue/sst-2", {(SLOW, 1): {"accuracy": 0.5}}
    )
    measure = Results([tmp_path]).measure
    lines = rendering.render([TABLES["segabert"][3]], measure, "", "text").splitlines()
    assert "  BERT base, SegaBERT base: limit: 7; paper all (glue/cola, glue/mrpc)" in (
        lines
    )
    (_, ours) = (line for line in lines if "ours" in line and "-25.0" in line)
    assert ours.split()[:2] == ["ours", "-25.0"]


def test_settings_are_not_rounded(tmp_path):
    text = rendering.render(
        tables.TABLES["reat"], Results([tmp_path]).measure, "ReAT", "markdown"
    )
    (paper,) = (line for line in text.splitlines() if "ReAT base | paper | 3" in line)
    assert "| 4e-05 |" in paper
    assert "| 0.9 | 0.999 |" in paper


def test_markdown_has_a_cell_for_every_column(runs):
    text = rendering.render(
        tables.TABLES["slm"], Results([runs]).measure, "SLM", "markdown"
    )
    heading, *blocks = text.split("\n## ")
    assert heading.startswith("# Tables of SLM")
    assert len(blocks) == len(tables.TABLES["slm"])
    for block in blocks:
        lines = [line for line in block.splitlines() if line.startswith("|")]
        assert len({line.count("|") for line in lines}) <= 1
    assert "find-sentences" in text
