"""The tables: the papers' own figures, and made-up trials in their place."""

import json
import pathlib
import statistics

import pytest

from seg_tf.commands.paper_tables import Results
from seg_tf.finetuning.trials import Setting, Trial, TrialsFolder
from seg_tf.papers import tables
from seg_tf.papers.tables import Average, ConfigValue, Row, Table, Validated
from seg_tf.tasks import glue
from tests import command_calls
from tests.inference import tiny_slm

DOCS = pathlib.Path(__file__).parents[2] / "docs"
TABLES = {
    paper: {table.number: table for table in tables.TABLES[paper]}
    for paper in tables.TABLES
}
SLOW, FAST = (2e-5, 16, 3), (5e-5, 16, 3)


def write_trials(folder, run, task, scores, **settings):
    """Trials of made-up scores: (setting, seed) -> scores."""
    trials = TrialsFolder(folder)
    trials.prepare({"run": run, "task": task, "max_length": None, **settings})
    for (setting, seed), values in scores.items():
        path = trials.trial_folder(Trial(Setting(*setting), seed))
        path.mkdir()
        names = ("learning_rate", "batch_size", "epochs")
        content = {"setting": dict(zip(names, setting, strict=True)), "seed": seed}
        content |= {"scores": values, "epochs": []}
        (path / "trial.json").write_text(json.dumps(content))


@pytest.fixture
def runs(tmp_path):
    f1 = {(SLOW, 1): 0.80, (SLOW, 2): 0.90, (FAST, 1): 0.91, (FAST, 2): 0.75}
    scores = {key: {"f1": value, "accuracy": value} for key, value in f1.items()}
    write_trials(tmp_path / "mrpc", "segabert_base", "glue/mrpc", scores, limit=100)
    scores = {
        ((5e-5, 32, 2), seed): {"exact": 80.0 + seed, "f1": 90.0 - seed}
        for seed in (1, 2)
    }
    write_trials(tmp_path / "slm" / "squad", "slm_base", "squad/v1.1", scores)
    # Baselines are in no table.
    baseline = {(SLOW, 1): {"f1": 0.5}}
    write_trials(
        tmp_path / "new", "bert_base", "glue/mrpc", baseline, randomly_initialized=True
    )
    return tmp_path


@pytest.mark.parametrize(
    "table",
    [table for by_number in TABLES.values() for table in by_number.values()],
    ids=lambda table: table.title,
)
def test_averages_of_the_papers_come_out(table):
    """So figures are copied correctly, and columns and metrics are the paper's."""
    for name, figure in table.columns.items():
        for row in table.rows:
            if isinstance(figure, Average) and name in row.paper:
                mean = statistics.fmean(row.paper[column] for column in figure.columns)
                assert mean == pytest.approx(row.paper[name], abs=0.051), row.name


def measured(results, paper, number, **attributes):
    table = TABLES[paper][number]
    row = next(row for row in table.rows if vars(row).items() >= attributes.items())
    return results.measure(row, table)


def test_means_and_best_trials_are_reported_as_in_the_papers(runs):
    results = Results([runs])
    assert results.runs == {"segabert_base", "slm_base"}
    figures = measured(results, "segatron", 2, run="segabert_base")
    # The setting is chosen by its mean, not by its best seed.
    assert figures["dev MRPC"].value == pytest.approx(85.0)
    assert figures["dev MRPC"].caveats == (
        "glue/mrpc: limit: 100; paper all",
        "glue/mrpc: seeds: 2; paper 4",
        "glue/mrpc: settings tried: 2 of the paper's 72, and 0 others",
    )
    assert figures["dev CoLA"].value is figures["dev average"].value is None
    # The best of all trials, chosen by F1; exact match is that of the same trial.
    figures = measured(results, "slm", 2)
    assert (figures["v1.1 F1"].value, figures["v1.1 EM"].value) == (89.0, 81.0)
    figures = measured(results, "slm", 8, task="squad/v1.1")
    assert (figures["epochs"].value, figures["learning rate"].value) == (2, 5e-5)


def test_perplexities_submissions_and_runs(tmp_path):
    both = {"predicted": {"perplexity": 30.0}, "standard": {"perplexity": 24.0}}
    content = json.dumps({"run": "transformer_xl_base", **both})
    (tmp_path / "perplexity.json").write_text(content)
    scores = {column: {"f1": 70.0} for column in glue.PAPER_COLUMNS}
    scores["CoLA"] = {"matthews": 40.0}
    (tmp_path / "leaderboard.json").write_text(json.dumps({"bert_base": scores}))
    config = tiny_slm.config()
    tiny_slm.write_checkpoint(tmp_path / "run", config)
    log = [
        {"kind": "validation", "updates": 5, "masked_lm_accuracy": 0.25},
        {"kind": "train", "updates": 6, "masked_lm_accuracy": 0.5},
    ]
    (tmp_path / "run" / "log.jsonl").write_text("\n".join(map(json.dumps, log)) + "\n")
    results = Results([tmp_path])
    figures = measured(results, "segatron", 1, run="transformer_xl_base")
    assert figures["perplexity"].value == 24.0
    figures = measured(results, "segatron", 2, run="bert_base")
    assert (figures["test CoLA"].value, figures["test QQP"].value) == (40.0, 70.0)
    assert figures["test SST-2"].value is None  # its metric is accuracy
    columns = {
        "MLM": Validated("masked_lm_accuracy"),
        "width": ConfigValue("model.hidden_size"),
        "other": Validated("exchange_sentence_accuracy"),
    }
    figures = results.measure(Row("tiny", config.name, {}), Table(1, "", columns))
    # From validation, not from training.
    assert figures["MLM"] == (25.0, ("after 5 updates",))
    assert figures["width"].value == config.model.hidden_size
    assert figures["other"].value is None


@pytest.mark.parametrize("paper", TABLES)
def test_pages_have_the_figures_of_the_papers(paper, tmp_path):
    """docs/tables/*.md were printed with runs of tiny models."""
    text = tables.render(
        tables.TABLES[paper],
        Results([tmp_path]).measure,
        tables.TITLES[paper],
    )
    expected = [line for line in text.splitlines() if line and "not run" not in line]
    lines = iter((DOCS / f"tables/{paper}.md").read_text("utf-8").splitlines())
    missing = next((line for line in expected if line not in lines), None)
    assert missing is None, f"{paper}.md lacks, here or at all: {missing}"


def test_duplicate_and_missing_results_are_refused(runs):
    write_trials(runs / "again", "segabert_base", "glue/mrpc", {(SLOW, 1): {"f1": 0.5}})
    with pytest.raises(
        ValueError, match=r"once\. Received: glue/mrpc of segabert_base"
    ):
        Results([runs])
    with pytest.raises(ValueError, match="`runs` must be folders"):
        Results([runs / "missing"])


def test_what_is_printed(runs):
    code, printed, errors = command_calls.call(
        "paper-tables", "--paper=segatron", f"--runs={runs}"
    )
    assert code == 0, errors
    _, _, table = printed.partition("## Segatron, table 2: GLUE\n")
    table, _, _ = table.partition("table 3:")
    (line,) = [line for line in table.splitlines() if "| 85.0 |" in line]
    assert line.startswith("|  | ours |")
    assert line.count("not run") == 19
    assert "* SegaBERT base: glue/mrpc: seeds: 2; paper 4\n" in printed
    assert "Filled by: segabert_base\n" in errors
    assert "In none of these tables: slm_base\n" in errors


def test_runs_of_another_size(tmp_path):
    scores = {((1e-5, 32, 5), seed): {"accuracy": seed / 10} for seed in (5, 6)}
    write_trials(tmp_path / "tiny", "slm_tiny", "glue/rte", scores)
    code, printed, errors = command_calls.call(
        "paper-tables",
        *("--paper=slm", f"--runs={tmp_path}", "--size=tiny"),
    )
    assert code == 0, errors
    # The best of its seeds.
    assert sum("| 60.0 |" in line for line in printed.splitlines()) == 1
    assert "* rows of base models are filled by runs of size tiny\n" in printed
