import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest

from seg_tf import command_table
from seg_tf.checkpoints import contents
from seg_tf.checkpoints.pretrained import load_encoder
from seg_tf.config import from_config_dict
from seg_tf.configs import transformer_xl
from seg_tf.data.inputs import PackedWindowInputsConfig
from seg_tf.training import command, logs
from seg_tf.training.checkpoint import Checkpoints
from seg_tf.training.run_folder import RunFolder
from seg_tf.training.trainer import Result
from tests import command_calls
from tests.scripted_runs import (
    CONFIG,
    REPOSITORY,
    arguments_of,
    log_of,
    read_until,
    run_here,
    start,
    variables_of,
)
from tests.worlds import VOCAB_SIZE

pytestmark = pytest.mark.slow

# So high that a short run gets better than chance.
FASTER = "--config.optimizer.learning_rate=1e-2"


def files_below(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (
            ["--config.optimizer.lerning_rate=1e-3"],
            'Did you mean "learning_rate" instead of "lerning_rate"?',
        ),
        (["--config..model=1"], "Could not parse '.model'"),
        (["--config.training.seed.x=5"], "to lookup: training.seed.x"),
        (["--engine=jax"], "`--engine` must be chosen before Keras is imported"),
        (
            ["--config.training.callbacks=nowhere:f"],
            "Received: 'nowhere:f' (ModuleNotFoundError: No module named",
        ),
        (["--measure=2"], "`--measure` needs --dry_run"),
        (["extra"], "unexpected argument 'extra'"),
        (["--config=configs/absent.py"], "Received: configs/absent.py"),
        (
            ["--config=configs/slm.py:huge"],
            "one of tiny, tiny_no_reconstructor, base,",
        ),
        (
            ["--config.model.vocab_size=30522"],
            f"vocabulary of {VOCAB_SIZE} pieces",
        ),
    ],
)
def test_users_error_is_one_line_that_says_what_to_do(
    records, tmp_path, arguments, expected
):
    code, _, errors = run_here(
        *arguments_of(records, tmp_path / "run"),
        "--config.training.deterministic_ops=false",
        *arguments,
    )
    assert code == 1
    assert errors.startswith("error: ")
    assert expected in errors
    assert not (tmp_path / "run").exists()


def test_own_config_file_gets_what_follows_the_colon(records, tmp_path):
    path = tmp_path / "own.py"
    path.write_text(
        "from seg_tf.configs import segabert\n"
        "def get_config(updates):\n"
        "    config = segabert.get_config('tiny')\n"
        "    config.training.num_updates = int(updates)\n"
        "    return config\n"
    )
    code, output, errors = run_here(
        f"--config={path}:80",
        *CONFIG[1:8],
        f"--config.records_dir={records}",
        "--config.training.deterministic_ops=false",
        "--dry_run",
    )
    assert code == 0, errors
    assert "80 of 32 rows" in output
    code, _, errors = run_here(f"--config={path}:many")
    assert code == 1
    message = "invalid literal for int() with base 10: 'many'"
    assert errors == f"error: --config={path}:many: {message}\n"


def test_wrong_flags_are_reported_before_tensorflow_is_imported():
    arguments = ("--config=configs/slm.py:base", "--config.training.num_updates=20")
    code = (
        "import sys, runpy; sys.modules['tensorflow'] = None; "
        "runpy.run_path('run_pretraining.py', run_name='__main__')"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("error: ")
    assert "--config.optimizer.warmup_updates=10000" in ended.stderr


def test_measured_dry_run_prints_the_plan_and_leaves_no_trace(records, tmp_path):
    before = files_below(records)
    code, output, errors = run_here(
        *arguments_of(records, tmp_path / "run"),
        "--dry_run",
        "--measure=2",
    )
    assert code == 0, errors
    assert "60 of 4 rows" in output
    assert "model.num_layers: 1; paper 12" in output
    assert "  updates          2, after one that is not counted: " in output
    assert "  the whole run    " in output
    assert "\n  memory, about" in output
    assert not (tmp_path / "run").exists()
    assert files_below(records) == before


def test_records_without_validation_train_once_that_is_asked_for(
    records_without_validation, tmp_path, monkeypatch
):
    command = (
        *arguments_of(records_without_validation, tmp_path),
        "--config.training.deterministic_ops=false",
        "--config.training.num_updates=6",
    )
    code, _, errors = run_here(*command)
    assert code == 1
    (flag,) = re.findall(r"train without validation: (--\S+)", errors)
    assert not list(tmp_path.iterdir())

    code, output, errors = run_here(*command, flag)
    assert code == 0, errors
    assert "  validation loss  none" in output
    last = tmp_path / "checkpoints" / "update-00000006"
    assert f"  checkpoint       {last}" in output
    assert last.is_dir()
    command_calls.check_image(tmp_path / "loss_curve.png")
    assert {row["kind"] for row in log_of(tmp_path)} == {"train"}
    load_encoder(tmp_path)
    # The commands that it ends with work as they are.
    (compare,) = re.findall(r"plot.runs (.*)", output)
    for name in ("demo", "finetune", "export"):
        shown = command_table.in_called_form(f"seg-tf {name} --checkpoint={tmp_path}")
        assert f" {shown} " in output.replace("\n", " ")
    monkeypatch.chdir(tmp_path)
    compare = compare.replace(",OTHER", "")
    command_calls.call("plot-runs", *shlex.split(compare))
    command_calls.check_image(tmp_path / "curves.png")
    with warnings.catch_warnings(action="ignore"):  # of an interface that it uses
        from tensorboard import default
    assert default.get_plugins()
    (longer,) = re.findall(r"train it for longer [^-]*(--config\S+\d)", output)
    code, output, errors = run_here(*command, flag, longer)
    assert code == 0, errors
    assert "Done after 12 updates." in output


def test_a_language_model_ends_with_its_commands(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "in_called_form", str)
    result = Result(updates=6, validation={}, best_updates=None, best_loss=None)
    config = from_config_dict(transformer_xl.get_config("tiny"))
    output = command._describe_end(result, RunFolder(tmp_path), config)
    assert f" seg-tf generate-text --checkpoint={tmp_path} --prompt=" in output
    assert f" seg-tf evaluate-perplexity --checkpoint={tmp_path} --text=" in output
    assert "finetune" not in output


@pytest.fixture(scope="module")
def unbroken(records, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unbroken")
    code, output, errors = run_here(*arguments_of(records, folder, FASTER))
    assert code == 0, errors
    return folder, output


def test_run_ends_with_its_loss_and_what_to_do_next(unbroken, records):
    folder, output = unbroken
    assert "Done after 60 updates." in output
    loss = log_of(folder)[-1]["loss"]
    assert f"validation loss  {loss:.4f} (best: " in output
    assert loss < np.log(VOCAB_SIZE)
    assert f"{folder}/loss_curve.png" in output
    assert f'load_encoder("{folder}")' in output
    command_calls.check_image(folder / "loss_curve.png")
    # Checkpoints contain the vocabulary of the records.
    checkpoint = folder / "checkpoints" / "update-00000060"
    vocabulary = (records / "vocab.txt").read_bytes()
    assert (checkpoint / "vocab.txt").read_bytes() == vocabulary
    text = contents.read_state(checkpoint)["text"]
    assert text["lower_case"] is True
    assert text["sentence_splitter"]["name"] == "none"


def test_run_killed_and_terminated_equals_an_unbroken_one(
    records, unbroken, tmp_path, monkeypatch
):
    whole, _ = unbroken
    process = start(records, tmp_path, FASTER)
    read_until(process, "update 10/60")
    # Anywhere: in an update, in a validation, while a checkpoint is written.
    time.sleep(np.random.default_rng().uniform(0, 0.3))
    process.kill()
    process.communicate()
    assert 10 <= log_of(tmp_path)[-1]["updates"] < 60

    write = logs.RunLog.write

    def write_and_terminate(*arguments):
        row = write(*arguments)
        patch.undo()
        signal.raise_signal(signal.SIGTERM)
        return row

    arguments = arguments_of(records, tmp_path, FASTER)
    with monkeypatch.context() as patch:
        patch.setattr(logs.RunLog, "write", write_and_terminate)
        code, output, errors = run_here(*arguments)
    assert "Resuming from" in output
    assert code == 128 + signal.SIGTERM
    assert "Stopped by SIGTERM after update" in errors
    assert "the same command resumes from there" in errors

    code, output, errors = run_here(*arguments)
    assert code == 0, errors
    assert "Resuming from" in output
    last = pathlib.Path("checkpoints", "update-00000060")
    ours, theirs = variables_of(tmp_path / last), variables_of(whole / last)
    assert len(ours) > 60
    np.testing.assert_equal(ours, theirs)
    assert log_of(tmp_path) == log_of(whole)


def test_second_phase_starts_from_the_weights_of_the_first(records, unbroken, tmp_path):
    first, _ = unbroken
    arguments = (
        *arguments_of(records, tmp_path),
        "--config.training.num_updates=2",
        "--config.optimizer.learning_rate=0.0",
        "--config.inputs.type=PackedWindowInputsConfig",
    )
    code, output, errors = run_here(*arguments, f"--initial_checkpoint={first}")
    assert code == 0, errors
    (file,) = re.findall(r"Deviations from the paper .*, see (.*)", output)
    deviations = pathlib.Path(file).read_text(encoding="utf-8")
    assert "inputs.max_windows_per_row: 8; paper 1" in deviations
    encoder, config = load_encoder(tmp_path)
    assert isinstance(config.inputs, PackedWindowInputsConfig)
    # For plain rows, whose weights are the same.
    assert not encoder.packed_windows
    best = Checkpoints(first / "checkpoints", keep=1).best()
    before = first / "checkpoints" / f"update-{best:08d}"
    assert f"Starting from the weights of {before}" in output
    # At rate 0 they are still those that the run started from.
    theirs = variables_of(before)
    ours = variables_of(tmp_path / "checkpoints" / "update-00000002")
    weights = [n for n in ours if not n.startswith(("counters.", "optimizer."))]
    assert len(weights) > 20
    for name in weights:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)
    # Its own updates, samples and schedule begin at 0.
    assert log_of(tmp_path)[-1]["updates"] == 2
    state = contents.read_state(tmp_path / "checkpoints" / "update-00000002")
    assert state["samples"] == 8

    # It is another run than one that starts from chance.
    code, _, errors = run_here(*arguments)
    assert code == 1
    assert "initial_weights: " in errors
    assert " there, None now" in errors

    # It is removed neither for itself nor for weights that cannot be read.
    damaged = shutil.copytree(before, tmp_path / "damaged")
    (damaged / contents.ENCODER_FILE).write_bytes(b"")
    for source, message in ((tmp_path, "not remove the run"), (damaged, "damaged")):
        flag = f"--initial_checkpoint={source}"
        code, _, errors = run_here(*arguments, "--overwrite", flag)
        assert code == 1
        assert message in errors
        assert len(log_of(tmp_path)) > 0
