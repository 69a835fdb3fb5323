"""Pretraining and fine-tuning from weights of other programs."""

import json
import shutil

import huggingface_hub
import pytest
import safetensors.numpy

from seg_tf.commands import finetune
from tests import command_calls, scripted_runs
from tests.finetuning import task_folders
from tests.interop import foreign_files
from tests.scripted_runs import arguments_of, run_here
from tests.worlds import VOCAB_SIZE

pytestmark = pytest.mark.slow
EAGER = True

WIDTH, INNER = 16, 32


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(name="theirs", scope="module")
def _theirs(records, tmp_path_factory):
    """A BERT of Hugging Face's form, as large as the run and of its vocabulary."""
    folder = tmp_path_factory.mktemp("theirs")
    shapes = {
        name: tuple(
            {
                foreign_files.NUM_WORDS: VOCAB_SIZE,
                foreign_files.WIDTH: WIDTH,
                foreign_files.INNER: INNER,
                foreign_files.POSITIONS: 64,
            }.get(size, size)
            for size in tensor.shape
        )
        for name, tensor in foreign_files.hugging_face_tensors().items()
        if ".layer.1." not in name
    }
    tensors = foreign_files.random_like(shapes, scale=0.02)
    safetensors.numpy.save_file(tensors, folder / "model.safetensors")
    config = foreign_files.hugging_face_config(
        num_hidden_layers=1,
        hidden_size=WIDTH,
        intermediate_size=INNER,
        vocab_size=VOCAB_SIZE,
        max_position_embeddings=64,
        hidden_act="gelu_new",
    )
    (folder / "config.json").write_text(json.dumps(config))
    shutil.copy(records / "vocab.txt", folder)
    return folder


def test_a_run_takes_the_settings_of_imported_weights(records, theirs, tmp_path):
    finished = command_calls.call(
        "import-weights",
        f"--from={theirs}",
        f"--output_dir={tmp_path / 'ours'}",
        *scripted_runs.CONFIG,
    )
    assert finished.returncode == 0, finished.stderr
    arguments = (
        *arguments_of(records, tmp_path / "run"),
        f"--initial_checkpoint={tmp_path / 'ours'}",
        "--config.training.num_updates=1",
        "--config.training.validation_interval=0",
    )
    code, output, errors = run_here(*arguments)
    assert code == 0, errors
    assert (
        f"As in {tmp_path / 'ours'}: model.layer_norm_epsilon=0.001 (the config says "
        "1e-12); model.approximate_gelu=True (the config says False); "
        "model.num_token_types=2 (the config says 0)"
    ) in output
    deviations = (tmp_path / "run" / "deviations.txt").read_text()
    assert "model.num_token_types: 2 (as in the authors' code); paper 0" in deviations
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert run["config"]["model"]["approximate_gelu"] is True

    # Flags win over the settings of the weights, which are converted for them.
    code, output, errors = run_here(
        *arguments, "--overwrite", "--dry_run", "--config.model.approximate_gelu=false"
    )
    assert code == 0, errors
    assert "model.layer_norm_epsilon=0.001 (the config says" in output
    assert "model.approximate_gelu=False, there True" in output


@pytest.mark.usefixtures("traced")
def test_a_run_converts_another_program_s_weights_once(
    records, theirs, tmp_path, monkeypatch
):
    calls = []

    def download(repo_id, revision=None, allow_patterns=None):
        calls.append(repo_id)
        return str(theirs)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    folder = tmp_path / "run"
    arguments = (
        *arguments_of(records, folder),
        "--initial_checkpoint=hf://org/name",
        "--config.training.num_updates=1",
        "--config.training.validation_interval=0",
    )
    code, output, errors = run_here(*arguments, "--dry_run")
    assert code == 0, errors
    assert "Taken from the source: model.layer_norm_epsilon=0.001" in output
    assert not folder.exists()

    code, output, errors = run_here(*arguments)
    assert code == 0, errors
    assert "Weights of " not in output
    (converted,) = (tmp_path / "cache" / "seg_tf" / "converted").glob("[!.]*")
    assert f"Starting from the weights of {converted}" in output
    assert (converted / "import_report.txt").is_file()

    # It is the same run, if it is converted again, too.
    shutil.rmtree(converted)
    code, output, errors = run_here(*arguments)
    assert code == 0, errors
    assert "Weights of " in output
    assert "Resuming from" in output
    assert {*calls} == {"org/name"}


def test_fine_tuning_converts_them_too(tmp_path, capsys):
    data_dir = task_folders.write_rte(tmp_path / "glue", train=16, dev=4)

    def fine_tune(*arguments):
        command_calls.run(
            finetune,
            f"--checkpoint={foreign_files.HUGGING_FACE_DIR}",
            f"--data_dir={data_dir}",
            "--task=glue/rte",
            f"--output_dir={tmp_path / 'out'}",
            "--epochs=1",
            *arguments,
        )
        return capsys.readouterr().out

    printed = fine_tune("--seeds=1,2", "--dry_run")
    assert "trials: 2, done: 0" in printed
    assert "Loaded unchanged: " in printed
    assert not (tmp_path / "out").exists()
    printed = fine_tune()
    assert "trials: 1, done: 0" in printed
    assert "Loaded unchanged: " not in printed
    assert "trials: 1, done: 1" in fine_tune()
