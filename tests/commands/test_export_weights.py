"""The command that writes encoders in the form of other programs."""

import pathlib
import shutil

import keras
import numpy as np
import pytest

from seg_tf.checkpoints import contents, folders
from seg_tf.checkpoints.pretrained import load_pretrained
from seg_tf.checkpoints.weight_files import CheckpointError
from seg_tf.commands import export_weights, import_weights
from tests import command_calls
from tests.interop import foreign_files

pytestmark = pytest.mark.slow


@pytest.fixture(name="bert_dir", scope="module")
def _bert_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert") / "imported"
    command_calls.run(
        import_weights,
        f"--from={foreign_files.HUGGING_FACE_DIR}",
        f"--output_dir={folder}",
        "--nolower_case",
    )
    return folder


def run(checkpoint, *arguments):
    command_calls.run(export_weights, f"--checkpoint={checkpoint}", *arguments)


def test_bert_goes_out_with_a_card(bert_dir, tmp_path, capsys):
    folder = tmp_path / "out"
    run(bert_dir, "--to=hugging_face", f"--output_dir={folder}")
    printed = capsys.readouterr().out
    assert f"{folder}: bert_from_hugging_face as hugging_face" in printed
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md",
        "config.json",
        "model.safetensors",
        "tokenizer_config.json",
        "vocab.txt",
    ]
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "| model.safetensors |" in card


def test_keras_file_is_the_encoder(run_dir, tmp_path):
    run(run_dir, "--to=keras", f"--output_dir={tmp_path / 'out'}")
    loaded = keras.saving.load_model(tmp_path / "out" / "model.keras")
    expected = load_pretrained(run_dir).encoder.get_weights()
    np.testing.assert_equal(loaded.get_weights(), expected)


def test_checkpoint_in_half_precision_is_the_model_by_its_name(
    run_dir, tmp_path, monkeypatch
):
    shutil.copytree(run_dir, tmp_path / "run")
    (tmp_path / "run" / "log.jsonl").write_text("{}\n")
    folder = tmp_path / "presets" / "slm_of_a_test"
    about = tmp_path / "about.md"
    about.write_text("For a test.\n")
    run(
        tmp_path / "run",
        "--to=checkpoint",
        f"--output_dir={folder}",
        f"--introduction_file={about}",
        "--finetuning_learning_rate=5e-4",
    )
    assert (folder / "log.jsonl").read_text() == "{}\n"
    card = (folder / "README.md").read_text()
    assert "| encoder.weights.h5 |" in card
    assert card.partition("## Model")[0].endswith("\n\nFor a test.\n\n")

    monkeypatch.setattr(folders, "_INCLUDED", folder.parent)
    monkeypatch.chdir(tmp_path)
    assert folders.included() == ["slm_of_a_test"]
    assert folders.is_checkpoint(pathlib.Path("slm_of_a_test"))
    before, found = load_pretrained(run_dir), load_pretrained("slm_of_a_test")
    assert found.folder == folder
    assert before.finetuning_learning_rate is None
    assert found.finetuning_learning_rate == 5e-4
    assert found.vocabulary.tokens == before.vocabulary.tokens
    for weights, expected in zip(_weights(found), _weights(before), strict=True):
        assert weights.dtype == np.float32
        np.testing.assert_array_equal(weights, expected.astype(np.float16))

    # A folder of one's own comes first.
    (tmp_path / "slm_of_a_test").mkdir()
    with pytest.raises(CheckpointError, match=r"a run or slm_of_a_test\. Received"):
        load_pretrained("slm_of_a_test")


def _weights(pretrained):
    objectives = pretrained.objectives
    others = contents.objective_variables(pretrained.encoder, objectives)
    return [np.asarray(one.value) for one in (*pretrained.encoder.weights, *others)]


def test_what_an_import_kept_stays_beside_it(bert_dir, tmp_path):
    run(bert_dir, "--to=checkpoint", f"--output_dir={tmp_path / 'out'}")
    for name in ("pooler.npz", "import_report.txt"):
        assert (tmp_path / "out" / name).read_bytes() == (bert_dir / name).read_bytes()


def test_of_a_fine_tuned_model_goes_out_the_encoder(run_dir, tmp_path, capsys):
    folder = tmp_path / "model"
    shutil.copytree(load_pretrained(run_dir).folder, folder)
    task = {"class": "TextClassifier", "settings": {}}
    pretrained, state = load_pretrained(run_dir), contents.read_state(folder)
    (folder / contents.STATE_FILE).unlink()
    contents.write(
        folder, pretrained.encoder, pretrained.objectives, {**state, "task": task}
    )
    run(folder, "--to=keras", f"--output_dir={tmp_path / 'out'}")
    assert "its encoder is written without its head" in capsys.readouterr().out
    card = (tmp_path / "out" / "README.md").read_text()
    assert "This fine-tuned model does" in card
    assert "encoder of a fine-tuned TextClassifier" in card
    assert "0 updates" not in card
    with pytest.raises(ValueError, match="a fine-tuned model, whose folder can"):
        run(folder, "--to=checkpoint", f"--output_dir={tmp_path / 'none'}")
    assert not (tmp_path / "none").exists()


def test_what_cannot_be_written_leaves_nothing(bert_dir, tmp_path):
    keras_file = ("--to=keras", f"--output_dir={tmp_path / 'out'}")
    with pytest.raises(ValueError, match="`--finetuning_learning_rate` needs"):
        run(bert_dir, *keras_file, "--finetuning_learning_rate=1e-3")
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(ValueError, match="must belong to the run's records"):
        run(bert_dir, *keras_file, f"--manifest_file={tmp_path / 'manifest.json'}")
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]
