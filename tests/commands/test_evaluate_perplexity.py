"""The command that measures perplexity."""

import json
import math

import numpy as np
import pytest

from seg_tf.checkpoints.weight_files import CheckpointError
from seg_tf.commands import evaluate_perplexity
from tests import command_calls
from tests.data_pipelines.builders import random_tree, write_word_documents
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


@pytest.fixture
def records_dir(tmp_path):
    """The text as the only document of the training split."""
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "text.txt").write_text(tiny.TEXT)
    return tiny.build_records(folder, tmp_path)


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
    chosen = ("--memory_length=4", "--target_length=6", "--lanes=1")
    run(language_model_dir, f"--text={text}", *chosen, result.flag)
    assert result() == default


def test_records_give_the_loss_of_their_text(
    language_model_dir, text, records_dir, result
):
    records = (f"--records_dir={records_dir}", "--split=train", result.flag)
    settings = ("--lanes=2", "--target_length=3", "--memory_length=9")
    run(language_model_dir, f"--text={text}", *settings, result.flag)
    of_text = result()
    run(language_model_dir, *records, *settings)
    of_records = result()
    assert of_records["lanes"] == 2
    for name in ("predicted", "unknown_share", "lanes", "memory_length"):
        assert of_records[name] == of_text[name]
    assert "standard" not in of_records


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


def test_users_errors_name_what_is_wrong(
    language_model_dir, run_dir, text, records_dir, tmp_path
):
    for arguments, message in (
        ([], "`--text` and `--records_dir`.*Received: neither"),
        (
            [f"--text={text}", f"--records_dir={records_dir}"],
            "`--text` and `--records_dir`.*Received: both",
        ),
        (["--text=/nowhere"], "Received: '/nowhere'"),
        ([f"--text={text}", "--output=/no/x.json"], "in a folder that exists"),
        ([f"--text={text}", "--lanes=31"], "Received: 31 words.*for 31 lanes"),
        ([f"--records_dir={records_dir}"], "Received: 0 words"),
        ([f"--records_dir={tmp_path}"], "there is no manifest"),
    ):
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            run(language_model_dir, *arguments)
    (tmp_path / "blank").write_text("\n \n")
    with pytest.raises(ValueError, match="Received: 0 words"):
        run(language_model_dir, f"--text={tmp_path / 'blank'}")
    with pytest.raises(ValueError, match=r"language model.*masked_lm, objective_0"):
        run(run_dir, f"--text={text}")
    with pytest.raises(CheckpointError, match="`memory_length` must be a setting"):
        run(run_dir, f"--text={text}", "--memory_length=5")


def test_records_of_another_vocabulary_are_refused(language_model_dir, tmp_path):
    size = tiny.VOCABULARY.size
    tree = random_tree(np.random.default_rng(0), 50, size)
    write_word_documents(tmp_path, {"validation": [[tree]]}, vocab_size=size)
    with pytest.raises(ValueError, match="must have the vocabulary of the checkpoint"):
        run(language_model_dir, f"--records_dir={tmp_path}")
