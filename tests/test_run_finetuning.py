"""`run_finetuning.py`: from files to a table, and what it refuses."""

import csv
import os
import re
from signal import SIGTERM, signal

import numpy as np
import pytest

from seg_tf import TextClassifier, files
from seg_tf.commands import finetune
from seg_tf.finetuning import runners
from seg_tf.finetuning.classification import ClassificationRunner
from seg_tf.interop import convert
from seg_tf.text.punkt_parameters import PunktParameters
from seg_tf.training import distribution, tensorflow_engine
from seg_tf.training.errors import TrainingStopped
from tests import command_calls
from tests.finetuning import task_folders, tiny_squad
from tests.tasks import race_files

pytestmark = pytest.mark.slow
EAGER = True

_OPTIONS_OF_MODELS = (
    "dtype_policy",
    "freeze_encoder",
    "max_length",
    "randomly_initialized",
)
FAST = ["--learning_rate=0.003", "--batch_size=16", "--epochs=1"]


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    folder = task_folders.write_rte(tmp_path_factory.mktemp("glue"), train=32, dev=12)
    return task_folders.write_mnli(folder)


@pytest.fixture(scope="module")
def _models():
    return {}


@pytest.fixture
def fine_tune(run_dir, data_dir, tmp_path, monkeypatch, _models):
    """Runs the command; returns nothing.

    Runners whose models are of the same layers, and read text alike, share one, which
    is compiled once and gets the state of a new one for every trial.
    """
    make_runner = runners.make_runner

    def with_shared_model(pretrained, task, data_dir, options, **settings):
        runner = make_runner(pretrained, task, data_dir, options, **settings)
        if isinstance(runner, ClassificationRunner):
            text = pretrained.sentence_parameters.checksum
            optimizer = settings["optimizer"]
            key = task, text, optimizer, *map(options.get, _OPTIONS_OF_MODELS)
            runner._model = _models[key] = _models.pop(key, runner._model)
            if len(_models) > 2:  # graphs take memory: the two used last are kept
                del _models[next(iter(_models))]
        return runner

    monkeypatch.setattr(runners, "make_runner", with_shared_model)

    def run(*arguments, task="glue/rte", output="out", plain=False):
        command_calls.run(
            finetune,
            f"--checkpoint={run_dir}",
            f"--data_dir={data_dir}",
            f"--task={task}",
            f"--output_dir={tmp_path / output}",
            *([] if plain else FAST),
            *arguments,
        )

    return run


def rows_of(folder):
    with open(folder / "results.csv", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.usefixtures("traced")
def test_trials_and_a_table(fine_tune, tmp_path, capsys):
    # Callbacks follow every trial.
    fine_tune("--seeds=1,2", "--callbacks=tests.training.test_trackers:Folder")
    said = capsys.readouterr().out
    assert "glue/rte: examples: 32, settings: 1, seeds: 2, trials: 2, done: 0" in said
    out = tmp_path / "out"
    rows = rows_of(out)
    assert [(row["learning_rate"], row["seed"]) for row in rows] == [
        ("0.003", "1"),
        ("0.003", "2"),
    ]
    scores = [float(row["accuracy"]) for row in rows]
    line = " ".join(re.search(r"\* +lr 0.003.*", said)[0].split())
    numbers = [np.mean(scores), np.std(scores, ddof=1), min(scores), max(scores)]
    shown = " ".join(f"{number:.4f}" for number in numbers)
    assert line == f"* lr 0.003, batch 16, 1 epoch 2 {shown}"
    assert re.search(r"without a model +0\.6667", said)
    assert (out / "summary.txt").read_text() in said

    # Given again, it trains nothing; with another seed, that one.
    scores_files = sorted(out.glob("trials/*/trial.json"))
    times = [path.stat().st_mtime_ns for path in scores_files]
    fine_tune("--seeds=1,2")
    assert [path.stat().st_mtime_ns for path in scores_files] == times
    fine_tune("--seeds=3")
    assert [path.stat().st_mtime_ns for path in scores_files] == times
    assert [row["seed"] for row in rows_of(out)] == ["1", "2", "3"]

    # Other options are refused by name, and nothing is touched.
    capsys.readouterr()
    with pytest.raises(ValueError, match="limit: None there, 8 now"):
        fine_tune("--limit=8")
    assert len(rows_of(out)) == 3


@pytest.mark.usefixtures("traced")
def test_squad_and_probes_by_the_same_command(fine_tune, tmp_path, capsys, monkeypatch):
    content = tiny_squad.random_file(1, 2, "v1.1", num_words=20)
    tiny_squad.write_files(tmp_path, "v1.1", train=content, dev=content)
    folder = f"--data_dir={tmp_path}"
    fine_tune(folder, "--dev_limit=4", task="squad/v1.1", output="squad")
    said = capsys.readouterr().out
    assert "squad/v1.1: examples: 10, settings: 1, seeds: 1, trials: 1, done: 0" in said
    assert re.search(r"without a model +0\.0000 +0\.0000", said)
    (row,) = rows_of(tmp_path / "squad")
    assert {"f1", "exact"} < set(row)
    (trial,) = (tmp_path / "squad/trials").iterdir()
    assert len(files.read_json(trial / "predictions.json")) == 4

    task_folders.write_bso(tmp_path)
    task_folders.train_little(monkeypatch)
    arguments = [folder, "--probe=joint", "--seeds=2"]
    arguments += ["--task=discoeval/bso/wiki", f"--output_dir={tmp_path / 'probe'}"]
    for dry in (["--dry_run"], []):
        fine_tune(*arguments, *dry, plain=True)
        said = capsys.readouterr().out
        assert "examples: 40, settings: 1, seeds: 1, trials: 1, done: 0" in said
        assert (tmp_path / "probe").exists() == (not dry)
    assert "accuracy on the dev split" in said
    assert re.search(r"without a model +0\.5000", said)
    assert [row["seed"] for row in rows_of(tmp_path / "probe")] == ["2"]
    arguments[1] = "--probe=per_sentence"
    with pytest.raises(ValueError, match="probe: joint there, per_sentence now"):
        fine_tune(*arguments, plain=True)


def test_race_is_scored_on_dev_and_test(fine_tune, tmp_path):
    race_files.write_all(tmp_path, num_passages=3)
    fine_tune(f"--data_dir={tmp_path}", "--predict_test", task="race")
    (row,) = rows_of(tmp_path / "out")
    (predictions,) = (tmp_path / "out").rglob("dev_predictions.tsv")
    lines = [line.split("\t") for line in predictions.read_text().splitlines()[1:]]
    # Two levels, three passages, two questions.
    assert len(lines) == 12
    assert [line[1] for line in lines] == ["C", "A"] * 6
    right = np.mean([gold == predicted for _, gold, predicted in lines])
    assert float(row["accuracy"]) == pytest.approx(right, abs=1e-4)
    assert "test_accuracy" in row


def test_several_tasks_and_the_leaderboards_files(fine_tune, tmp_path):
    fine_tune("--predict_test", "--seeds=2,1", task="glue/rte,glue/mnli")
    out = tmp_path / "out"
    found = {path.name for path in (out / "submission").iterdir()}
    assert found == {"RTE.tsv", "MNLI-m.tsv", "MNLI-mm.tsv", "AX.tsv"}
    rows = rows_of(out / "glue/mnli")
    assert {"matched_accuracy", "mismatched_accuracy"} < set(rows[0])
    # The best trial's; of equals the first in the table.
    best = max(rows, key=lambda row: float(row["matched_accuracy"]))
    (folder,) = (out / "glue/mnli/trials").glob(f"*seed={best['seed']}")
    assert (folder / "test_matched_predictions.tsv").read_text() == (
        out / "submission/MNLI-m.tsv"
    ).read_text()


def test_processes_share_out_the_trials(fine_tune, tmp_path, capsys, monkeypatch):
    class OneOfTwo(distribution.Distribution):
        size = 2

        def __init__(self, rank):
            self._rank = rank

        rank = property(lambda self: self._rank)

    monkeypatch.setattr(tensorflow_engine, "join", lambda: OneOfTwo(1))
    fine_tune("--seeds=1,2,3")
    out = tmp_path / "out"
    # The second process has the second trial, and leaves reports to the first.
    (trained,) = out.glob("trials/*")
    assert trained.name.endswith("seed=2")
    assert not (out / "results.csv").exists()
    said = capsys.readouterr()
    assert said.out == ""
    assert "glue/rte, process 2 of 2: trial 1/1" in said.err
    monkeypatch.setattr(tensorflow_engine, "join", lambda: OneOfTwo(0))
    fine_tune("--seeds=1,2")
    assert [row["seed"] for row in rows_of(out)] == ["1", "2"]


@pytest.mark.parametrize(
    ("exchange", "name"), [(1, "--task"), (2, "glue/rte.weights_sha256")]
)
def test_processes_with_other_models_or_flags_all_end(
    fine_tune, tmp_path, monkeypatch, exchange, name
):
    class Differing(distribution.Distribution):
        size = 2
        exchanges = 0

        def gather(self, value):
            if not isinstance(value, dict):
                return [value, value]
            assert name in value or self.exchanges + 1 != exchange
            self.exchanges += 1
            other = {**value, name: "x"} if self.exchanges == exchange else value
            return [value, other]

    monkeypatch.setattr(tensorflow_engine, "join", Differing)
    with pytest.raises(TrainingStopped, match=f"They differ in {name}$"):
        fine_tune()
    assert not (tmp_path / "out").exists()


def test_sigterm_says_how_to_continue(data_dir, tmp_path, monkeypatch):
    def fail(number, frame):
        raise AssertionError("SIGTERM would end the process without a word")

    monkeypatch.setattr(
        convert, "find_initial", lambda *_, **__: os.kill(os.getpid(), SIGTERM)
    )
    before = signal(SIGTERM, fail)
    try:
        code, _, said = command_calls.call(
            "run_finetuning.py",
            *("--checkpoint=x", f"--data_dir={data_dir}", "--task=glue/rte"),
            f"--output_dir={tmp_path}/out",
        )
    finally:
        signal(SIGTERM, before)
    assert said == "terminated. Run the same command again to continue\n"
    assert code == 128 + SIGTERM


def test_a_trial_that_diverges_is_named_and_the_others_reported(
    fine_tune, tmp_path, capsys
):
    arguments = ["--learning_rate=1e25,0.003"]
    for num_done in (0, 1):
        with pytest.raises(TrainingStopped) as stopped:
            fine_tune(*arguments)
        assert str(stopped.value) == (
            "1 of 2 trials diverged and have no scores: glue/rte, lr 1e+25, batch 16, "
            "1 epoch, seed 1. A lower learning rate, or another dtype policy, may help"
        )
        said = capsys.readouterr()
        assert f"trials: 2, done: {num_done}" in said.out
        assert "lr 1e+25, batch 16, 1 epoch, seed 1: accuracy none: diverged" in (
            said.err
        )
        (row,) = rows_of(tmp_path / "out")
        assert row["learning_rate"] == "0.003"
    # Where none has scores there is nothing to report.
    with pytest.raises(TrainingStopped, match="1 of 1 trials diverged"):
        fine_tune("--learning_rate=1e25", output="none")
    assert {path.name for path in (tmp_path / "none").iterdir()} == {
        "settings.json",
        "trials",
    }


def test_the_papers_frozen_encoder_can_be_let_go(fine_tune, tmp_path, capsys):
    task_folders.write_bso(tmp_path)
    arguments = [f"--data_dir={tmp_path}", "--task=discoeval/bso/wiki", "--grid=slm"]
    arguments += ["--dry_run", "--seeds=1"]
    ending = "trials: 56, done: 0"
    for more, frozen in (
        ([], True),
        (["--nofreeze_encoder"], False),
        (["--freeze_encoder"], True),
    ):
        fine_tune(*arguments, *more, plain=True)
        said = capsys.readouterr().out
        assert (f"{ending}, the encoder is frozen\n" in said) == frozen
        assert (f"{ending}\n" in said) != frozen
    arguments[2:] = ["--epochs=1"]
    fine_tune(*arguments, "--grid=slm", "--learning_rate=1e-4", "--seeds=1", plain=True)
    assert files.read_json(tmp_path / "out/settings.json")["freeze_encoder"]
    (row,) = rows_of(tmp_path / "out")
    assert row["epochs_trained"] == "1"


def test_a_saved_classifier_has_the_parameters_of_the_flag(fine_tune, tmp_path):
    parameters = PunktParameters(abbreviation_types=frozenset(["w1"]))
    (tmp_path / "abbreviations.json").write_bytes(parameters.to_bytes())
    flag = f"--sentence_parameters={tmp_path / 'abbreviations.json'}"
    fine_tune(flag, "--save_model", "--limit=8")
    (folder,) = (tmp_path / "out").glob("trials/*/model")
    saved = TextClassifier.from_preset(folder).pretrained
    assert saved.sentence_parameters == parameters
    assert saved.sentence_splitter["parameters_sha256"] == parameters.checksum
    with pytest.raises(ValueError, match="sentence_splitter"):
        fine_tune("--save_model", "--limit=8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--task=glue/rta"], "`task` must be one of.*'glue/rta'"),
        (["--task=glue/rte,glue/cola"], "contain the file of the split.*CoLA"),
        (["--learning_rate=inf"], "`learning_rate` must be above 0"),
        (["--callbacks=nowhere:f"], r"`--callbacks` .*: 'nowhere:f'"),
        (["--probe=joint"], "`--learning_rate` is for classification and SQuAD"),
        (["--max_length=1000"], "`max_length` must be at most.*max_length=1000"),
        (["--dev_file=a.csv"], "`--dev_file` must be left out with --task"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_trained(
    fine_tune, tmp_path, arguments, message
):
    with pytest.raises((ValueError, OSError), match=message):
        fine_tune(*arguments)
    assert not (tmp_path / "out").exists()
