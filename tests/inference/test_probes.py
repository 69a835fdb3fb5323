"""Measures during pretraining equal those of the commands on the checkpoint."""

import itertools
import json

import pytest

from seg_tf import files
from seg_tf.checkpoints import folders
from tests import command_calls
from tests.scripted_runs import log_of, run_here

pytestmark = pytest.mark.slow

ANIMALS = ["cat", "dog", "bird", "horse", "cow", "sheep", "wolf", "mouse"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Records, minimal pairs and pairs of similar sentences."""
    folder = tmp_path_factory.mktemp("probes")
    documents = [
        f"The {one} sees a {two}.\nThen the {one} runs. It is a {one}, no {two}."
        for one in ANIMALS
        for two in ANIMALS
    ]
    (folder / "texts.txt").write_text("\n\n".join(documents))
    (folder / "held_out.txt").write_text("\n\n".join(documents[::5]))
    built = command_calls.call(
        "build-records",
        f"--input={folder / 'texts.txt'}",
        "--format=plain_text",
        "--vocab_file=seg_tf/presets/bert_mini_en/vocab.txt",
        f"--output_dir={folder / 'records'}",
        "--window_length=24",
        f"--validation_input={folder / 'held_out.txt'}",
    )
    assert built.returncode == 0, built.stderr
    for name in ("agreement", "order"):
        rows = [
            {
                "sentence_good": f"The {one} runs to the {name}.",
                "sentence_bad": f"The {one} run to the {name}.",
                "field": "syntax",
                "UID": name,
            }
            for one in ANIMALS
        ]
        lines = "\n".join(map(json.dumps, [*rows, *rows]))
        (folder / f"{name}.jsonl").write_text(lines)
    (folder / "STS-B").mkdir()
    lines = [
        f"{number * 7 % 5}\tThe {one} runs.\tA {two} sees the {one}."
        for number, (one, two) in enumerate(itertools.permutations(ANIMALS, 2))
    ]
    table = "\n".join(["score\tsentence1\tsentence2", *lines])
    (folder / "STS-B" / "dev.tsv").write_text(table)
    return folder


def train(folder, output_dir, *arguments):
    return run_here(
        "--config=configs/segabert.py:modern_tiny",
        f"--records_dir={folder / 'records'}",
        f"--output_dir={output_dir}",
        "--config.inputs.window_length=24",
        "--config.model.num_layers=1",
        "--config.optimizer.warmup_updates=1",
        "--config.training.num_updates=4",
        "--config.training.batch_size=4",
        "--config.training.validation_interval=2",
        "--config.training.checkpoint_interval=2",
        "--config.training.dtype_policy=mixed_bfloat16",
        *arguments,
    )


def test_measures_are_those_of_the_commands(folder, tmp_path):
    probes = ("--config.training.probes", f"('blimp={folder}','sts-b={folder}')")
    code, _, errors = train(folder, tmp_path / "run", "=".join(probes))
    assert code == 0, errors
    rows = [row for row in log_of(tmp_path / "run") if row["kind"] == "validation"]
    assert [row["updates"] for row in rows] == [2, 4]
    for command, *arguments in (
        ("evaluate-grammar", "--pairs=10"),
        ("evaluate-similarity",),
    ):
        command_calls.call(
            command,
            f"--checkpoint={tmp_path / 'run' / 'checkpoints' / folders.name(4)}",
            f"--data_dir={folder}",
            f"--output={tmp_path / command}",
            *arguments,
        )
    (grammar,) = files.read_json(tmp_path / "evaluate-grammar")
    (vectors,) = files.read_json(tmp_path / "evaluate-similarity")
    assert rows[1]["blimp_accuracy"] == grammar["accuracy"]
    expected = vectors["sets"]["sts-b"]["spearman"]
    assert rows[1]["sts_b_spearman"] == pytest.approx(expected, abs=1e-6)
    assert rows[0]["sts_b_spearman"] != rows[1]["sts_b_spearman"]


def test_an_unknown_probe_is_refused_before_training(folder, tmp_path):
    code, _, errors = train(
        folder, tmp_path / "run", "--config.training.probes=('grammar=.',)"
    )
    assert code == 1
    assert "Received: 'grammar=.'" in errors
    assert not (tmp_path / "run").exists()
