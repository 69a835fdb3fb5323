"""The command that makes checkpoints of weights of other programs."""

import pytest

from seg_tf.checkpoints.pretrained import load_pretrained
from seg_tf.commands import import_weights
from seg_tf.config import EncoderConfig
from seg_tf.interop import convert
from seg_tf.interop.weights import ForeignWeightsError
from seg_tf.text.normalization import CASED
from tests import command_calls
from tests.interop import foreign_files

SIZES = {
    "num_layers": foreign_files.LAYERS,
    "hidden_size": foreign_files.WIDTH,
    "num_heads": foreign_files.HEADS,
    "intermediate_size": foreign_files.INNER,
}


def run(*arguments):
    command_calls.run(
        import_weights, f"--from={foreign_files.HUGGING_FACE_DIR}", *arguments
    )


def test_a_model_stays_what_it_is(tmp_path, capsys):
    run(f"--output_dir={tmp_path / 'bert'}", "--nolower_case")
    printed = capsys.readouterr().out
    assert "Equal to the source: for every window" in printed
    assert f"Written: {tmp_path / 'bert'}" in printed
    report = (tmp_path / "bert" / convert.REPORT_FILE).read_text(encoding="utf-8")
    assert printed.startswith(report)
    pretrained = load_pretrained(tmp_path / "bert")
    assert pretrained.config.name == "bert_from_hugging_face"
    assert pretrained.config.paper == "bert_base"
    assert pretrained.normalization == CASED


def test_another_model_takes_up_the_weights(tmp_path, capsys):
    config = tmp_path / "config.py"
    config.write_text(
        "from seg_tf.configs import segabert\n"
        "def get_config():\n"
        "    config = segabert.get_config()\n"
        f"    config.model.update({SIZES!r})\n"
        "    config.model.index_tables.token_index = 20\n"
        "    return config\n"
    )
    run(
        f"--output_dir={tmp_path / 'segabert'}",
        f"--config={config}",
        f"--vocab_file={foreign_files.HUGGING_FACE_DIR / 'vocab.txt'}",
    )
    printed = capsys.readouterr().out
    assert (
        "Taken from the source: model.layer_norm_epsilon=0.001 (the config says 1e-12);"
        " model.num_token_types=2 (the config says 0)\n"
    ) in printed
    assert "Equal to the source: for windows of one sentence\n" in printed
    pretrained = load_pretrained(tmp_path / "segabert")
    assert isinstance(pretrained.config.model, EncoderConfig)
    assert pretrained.config.model.index_tables["token_index"] == 20
    assert pretrained.encoder.layer_norm_epsilon == 1e-3
    assert pretrained.encoder.num_token_types == 2


def test_flags_win_over_the_source(tmp_path):
    finished = command_calls.call(
        "import-weights",
        f"--from={foreign_files.HUGGING_FACE_DIR}",
        f"--output_dir={tmp_path / 'bert'}",
        "--config=bert_tiny",
        *(f"--config.model.{name}={value}" for name, value in SIZES.items()),
        "--config.model.layer_norm_epsilon=1e-5",
        "--config.model.num_token_types=0",
    )
    assert finished.returncode == 0, finished.stderr
    assert "Taken from the source" not in finished.stdout
    assert (
        "for every window with token types below 1, except that "
        "model.layer_norm_epsilon=1e-05, there 0.001: about equal"
    ) in finished.stdout
    encoder = load_pretrained(tmp_path / "bert").encoder
    assert (encoder.layer_norm_epsilon, encoder.num_token_types) == (1e-5, 0)


def test_what_is_wrong_is_said_before_anything_is_written(tmp_path):
    (tmp_path / "mine").write_text("kept")
    with pytest.raises(ValueError, match="The output must be new"):
        run(f"--output_dir={tmp_path}")
    with pytest.raises(ForeignWeightsError, match="of a ReATConfig"):
        run(f"--output_dir={tmp_path / 'new'}", "--config=configs/reat.py:tiny")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
