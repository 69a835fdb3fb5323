"""Pretraining from weights of other programs."""

import json
import shutil

import pytest
import safetensors.numpy

from tests import command_calls, scripted_runs
from tests.interop import foreign_files
from tests.scripted_runs import VOCAB_SIZE, arguments_of, run_here

pytestmark = pytest.mark.slow

WIDTH, INNER = 16, 32


@pytest.fixture(name="records", scope="module")
def _records(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    scripted_runs.write_records(folder)
    return folder


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
        "seg_tf.commands.import_weights",
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
    assert "model.num_token_types: 2 (as the authors' code); paper 0" in output
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert run["config"]["model"]["approximate_gelu"] is True

    # What a flag asks for is not given up.
    code, _, errors = run_here(
        *arguments, "--overwrite", "--config.model.approximate_gelu=false"
    )
    assert code == 1
    assert "model.approximate_gelu: True there, False now" in errors
