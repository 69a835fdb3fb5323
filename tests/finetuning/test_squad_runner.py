"""Trials of SQuAD from file to score: what a perfect model gets, and a tiny one."""

import dataclasses
import json

import keras
import pytest

from seg_tf import configuration
from seg_tf.finetuning import squad_runner
from seg_tf.finetuning.squad_runner import SquadRunner
from seg_tf.finetuning.trial import Setting
from seg_tf.tasks import squad_evaluation, squad_files
from tests.finetuning.test_squad_splits import no_bar
from tests.finetuning.tiny_models import TABLES, tiny
from tests.finetuning.tiny_squad import Omniscient, random_file, write_files

SETTING = Setting(learning_rate=1e-3, batch_size=8, epochs=1)


def runner_on(folder, kind, version, lines=None, **arguments):
    return SquadRunner(
        tiny(kind) if isinstance(kind, str) else kind,
        f"squad/{version}",
        folder,
        report=(lines if lines is not None else []).append,
        progress=no_bar,
        **arguments,
    )


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Folder with small files of both versions."""
    folder = tmp_path_factory.mktemp("squad")
    for version in ("v1.1", "v2.0"):
        write_files(
            folder,
            version,
            train=random_file(1, 3, version, num_words=20),
            dev=random_file(2, 2, version, num_words=20),
        )
    return folder


@pytest.mark.parametrize("version", ["v1.1", "v2.0"])
@pytest.mark.parametrize("kind", ["bert", "segabert", "slm", "segabert_slm"])
def test_a_model_that_knows_the_answers_gets_all_in_reach(
    kind, version, tmp_path, monkeypatch
):
    content = random_file(5, 16, version)
    write_files(tmp_path, version, train=content, dev=content)
    monkeypatch.setattr(squad_runner, "SpanExtractor", Omniscient(content))
    lines = []
    runner = runner_on(tmp_path, kind, version, lines, max_answer_pieces=11)
    scores = runner.run(SETTING, 1, tmp_path / "out")
    # Questions without an answer are all right, and so is what is in reach.
    assert len(lines) == 2
    out_of_reach = int(lines[1].rpartition(" of which ")[2].split()[0])
    assert 1 <= out_of_reach < 20
    assert scores["exact"] == pytest.approx(100 * (1 - out_of_reach / 80))
    assert scores["f1"] < 100
    # The command that scores files finds the same.
    data = squad_files.read(tmp_path / f"dev-{version}.json")
    written = json.loads((tmp_path / "out" / "predictions.json").read_text())
    again = squad_evaluation.evaluate(data, written)
    assert again["exact" if version == "v2.0" else "exact_match"] == scores["exact"]
    assert again["f1"] == scores["f1"]
    if version == "v2.0":
        assert scores["NoAns_exact"] == 100
        assert scores["HasAns_exact"] == pytest.approx(100 * (1 - out_of_reach / 64))
        assert runner.baseline["f1"] == 20
    else:
        assert runner.baseline == {"exact": 0, "f1": 0}
    expected = ["nbest_predictions.json", "predictions.json"]
    expected += ["null_odds.json"] if version == "v2.0" else []
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == sorted(expected)


def learner(kind):
    """A model with some room in it."""
    model = configuration.EncoderConfig(
        index_tables=TABLES[kind],
        num_layers=2,
        hidden_size=32,
        num_heads=4,
        intermediate_size=64,
        dropout=0.0,
    )
    keras.utils.set_random_seed(1)
    pretrained = tiny(kind)
    return dataclasses.replace(
        pretrained,
        encoder=configuration.build(model, vocab_size=pretrained.vocabulary.size),
        config=dataclasses.replace(pretrained.config, model=model),
    )


@pytest.mark.parametrize(
    ("kind", "version"), [("segabert", "v1.1"), ("segabert_slm", "v2.0")]
)
def test_a_tiny_model_learns_thirty_questions_by_heart(kind, version, tmp_path):
    content = random_file(3, 6, version, longest_answer=3, num_words=20)
    write_files(tmp_path, version, train=content, dev=content)
    runner = runner_on(tmp_path, learner(kind), version)
    assert runner.num_examples == 30
    history = keras.callbacks.History()
    setting = Setting(learning_rate=5e-3, batch_size=10, epochs=60)
    scores = runner.run(setting, 1, tmp_path / "out", [history])
    print(history.history["dev_f1"], history.history["loss"])
    assert scores["f1"] > 90
