"""The command that measures perplexity."""

import json
import math

import pytest

from seg_tf.checkpoints.weight_files import CheckpointError
from seg_tf.commands import evaluate_perplexity
from tests import command_calls
from tests.inference import tiny_language_model as tiny

pytestmark = pytest.mark.slow


def run(run_dir, *arguments):
    command_calls.run(evaluate_perplexity, f"--checkpoint={run_dir}", *arguments)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(tiny.TEXT)
    return path


@pytest.fixture
def result(tmp_path):
    """Reads what was written, once."""
    path = tmp_path / "result.json"

    def read():
        return json.loads(path.read_text())

    read.flag = f"--output={path}"
    return read


def test_prints_both_perplexities_and_what_they_are_over(
    language_model_dir, text, result, capsys
):
    run(language_model_dir, f"--text={text}", "--memory_length=40", result.flag)
    losses = tiny.losses_of_text(tiny.load(language_model_dir, memory_length=40))
    output = capsys.readouterr().out
    rows = {
        line[:9]: line.replace(",", "").split()[-3:] for line in output.splitlines()
    }
    tokens, loss, shown = rows["predicted"]
    assert tokens == "30"
    assert float(loss) == pytest.approx(losses.mean(), abs=2e-4)
    assert float(shown) == pytest.approx(math.exp(losses.mean()), rel=1e-3)
    tokens, loss, shown = rows["standard "]
    assert tokens == "33"
    assert float(loss) == pytest.approx(losses.sum() / 33, abs=2e-4)
    assert float(shown) == pytest.approx(math.exp(losses.sum() / 33), rel=1e-3)
    written = result()
    assert written["predicted"]["loss"] == pytest.approx(losses.mean(), abs=1e-5)
    assert written["standard"]["tokens"] == 33
    assert written["unknown_share"] == pytest.approx(0.1)
    assert written["text"] == ["text.txt"]
    assert written["paragraphs"] == 3
    assert written["checkpoint"].endswith("checkpoints/update-00000001")


def test_defaults_are_those_of_training(language_model_dir, text, result):
    run(language_model_dir, f"--text={text}", result.flag)
    default = result()
    assert (default["memory_length"], default["target_length"]) == (4, 6)
    chosen = ("--memory_length=4", "--target_length=6")
    run(language_model_dir, f"--text={text}", *chosen, result.flag)
    assert result() == default


def test_texts_are_read_one_after_the_other(language_model_dir, text, result):
    other = text.with_name("other.txt")
    other.write_text("= w20 =\n\nThe w20 w21 .\n\n")
    run(language_model_dir, f"--text={other}", f"--text={text}", result.flag)
    assert result()["text"] == ["other.txt", "text.txt"]
    assert result()["predicted"]["tokens"] == 39
    assert result()["standard"]["tokens"] == 44
    # A text without WikiText's titles has no standard count, nor has the whole.
    other.write_text("w20\n= w21 =\nw22\n")
    run(language_model_dir, f"--text={other}", f"--text={text}", result.flag)
    assert "standard" not in result()


def test_users_errors_name_what_is_wrong(language_model_dir, run_dir, text, tmp_path):
    (tmp_path / "blank").write_text("\n \n")
    with pytest.raises(ValueError, match="must be a word to predict"):
        run(language_model_dir, f"--text={tmp_path / 'blank'}")
    with pytest.raises(ValueError, match=r"language model.*masked_lm, objective_0"):
        run(run_dir, f"--text={text}")
    with pytest.raises(CheckpointError, match="`memory_length` must be a setting"):
        run(run_dir, f"--text={text}", "--memory_length=5")
