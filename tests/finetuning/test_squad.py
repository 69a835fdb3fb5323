"""Trials of SQuAD from file to score: what a perfect model gets, and a tiny one."""

import dataclasses
import json

import keras
import numpy as np
import pytest

from seg_tf.config import EncoderConfig, build_from
from seg_tf.finetuning.optimizer import ReusableModel
from seg_tf.finetuning.span_extractor import SpanExtractor
from seg_tf.finetuning.spans import SpanExamples
from seg_tf.finetuning.squad import SquadRunner
from seg_tf.finetuning.trials import Trial
from seg_tf.tasks import squad
from seg_tf.tasks.finetuning_settings import Setting
from seg_tf.tasks.squad import Answer, Passage, Question, SquadFile
from seg_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests.finetuning.tiny_models import TABLES, tiny
from tests.finetuning.tiny_squad import (
    Omniscient,
    random_file,
    rule_file,
    write_files,
)

pytestmark = pytest.mark.slow


SETTING = Setting(learning_rate=1e-3, batch_size=8, epochs=1)


def runner_on(folder, kind, version, **arguments):
    pretrained = tiny(kind) if isinstance(kind, str) else kind
    return SquadRunner(pretrained, f"squad/{version}", folder, report=bool, **arguments)


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


# One of each layout.
@pytest.mark.parametrize(
    ("kind", "version"), [("segabert", "v1.1"), ("segabert_slm", "v2.0")]
)
def test_a_model_that_knows_the_answers_gets_all(kind, version, tmp_path, monkeypatch):
    # Each context fits into one window.
    content = random_file(5, 16, version, longest_answer=4, num_words=11)
    write_files(tmp_path, version, train=content, dev=content)
    knowing = Omniscient(content)
    monkeypatch.setattr(ReusableModel, "start", lambda *_, **__: knowing)
    runner = runner_on(tmp_path, kind, version)
    scores, _ = runner.run(Trial(SETTING, 1), tmp_path / "out")
    assert (scores["exact"], scores["f1"]) == (100, 100)
    # The command that scores files finds the same.
    data = squad.read(tmp_path / f"dev-{version}.json")
    written = json.loads((tmp_path / "out" / "predictions.json").read_text())
    assert squad.evaluate(data, written)["f1"] == 100
    if version == "v2.0":
        assert runner.baseline["f1"] == 20
    else:
        assert runner.baseline["f1"] == 0
    expected = ["nbest_predictions.json", "predictions.json"]
    expected += ["null_odds.json"] if version == "v2.0" else []
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == sorted(expected)


def learner(kind):
    """A model with some room in it."""
    pretrained = tiny(kind)
    model = EncoderConfig(
        index_tables=TABLES[kind],
        num_layers=1,
        hidden_size=32,
        num_heads=2,
        intermediate_size=64,
        dropout=0.0,
        initializer_range=0.2,
    )
    keras.utils.set_random_seed(1)
    return dataclasses.replace(
        pretrained,
        encoder=build_from(model, vocab_size=pretrained.vocabulary.size),
        config=dataclasses.replace(pretrained.config, model=model),
    )


def test_a_tiny_model_learns_thirty_questions(tmp_path):
    content = rule_file(1, 6)
    write_files(tmp_path, "v2.0", train=content, dev=content)
    runner = runner_on(tmp_path, learner("segabert_slm"), "v2.0")
    assert runner.num_examples == 30
    setting = Setting(learning_rate=1e-2, batch_size=6, epochs=25)
    scores, logs = runner.run(Trial(setting, 1), tmp_path / "out")
    assert scores["f1"] > 90
    assert logs[0]["dev_f1"] < 50
    assert logs[-1]["dev_f1"] == scores["f1"]
    # Without dropout, and on what was trained on.
    assert logs[-1]["dev_loss"] == pytest.approx(logs[-1]["loss"], rel=0.2, abs=0.02)
    # The best threshold for answers that are all right is no tuning.
    assert scores["untuned_f1"] > 90


@pytest.fixture(scope="module")
def runner(small):
    """One that keeps its models; each trial is as new."""
    return runner_on(small, "segabert", "v2.0", dev_limit=5, save_model=True)


def predictions_in(folder):
    return (folder / "nbest_predictions.json").read_bytes()


class Zeroing(keras.callbacks.Callback):
    """Sets weights at the end, as a callback that goes back to others does."""

    def on_train_end(self, logs=None):
        for weight in self.model.span_pointer.weights:
            weight.assign(np.zeros(weight.shape))


def test_answers_are_those_of_the_weights_that_callbacks_leave(runner, tmp_path):
    runner.run(Trial(SETTING, 1), tmp_path, [Zeroing()])
    kept = SpanExtractor.from_preset(tmp_path / "model")
    assert not any(weight.numpy().any() for weight in kept.span_pointer.weights)
    for candidates in json.loads(predictions_in(tmp_path)).values():
        assert {one["start_logit"] for one in candidates} == {0.0}


def test_what_the_scores_depend_on_is_described(small):
    runner = runner_on(small, "segabert", "v1.1")
    same = runner_on(small, "segabert", "v1.1")
    assert runner.describe() == same.describe()
    for arguments in ({"limit": 5}, {"dev_limit": 5}, {"max_length": 40}):
        other = runner_on(small, "segabert", "v1.1", **arguments)
        assert other.describe() != runner.describe()
    json.dumps(runner.describe())


def test_what_cannot_be_run_is_refused(tmp_path):
    # Before files are looked for.
    with pytest.raises(ValueError, match="reads question and context"):
        runner_on(tmp_path, "reat", "v1.1")
    write_files(tmp_path, "v1.1", train=random_file(1, 1, "v1.1"))
    with pytest.raises(FileNotFoundError, match=r"contain dev-v1.1.json"):
        runner_on(tmp_path, "segabert", "v1.1")


# === Windows of files ===


PIECES = ["##" + letter for letter in "abcdefgh"]


def examples_of(*passages, **sizes):
    vocabulary = Vocabulary([*SPECIAL_TOKENS, *"abcdefgh", *PIECES, "."])
    pretrained = dataclasses.replace(tiny("segabert"), vocabulary=vocabulary)
    return SpanExamples(pretrained, SquadFile("made", False, passages), **sizes)


def test_questions_are_cut_and_passages_without_any_left_out():
    questions = (Question("q1", "a b c d e f"), Question("q2", "a b c"))
    passages = (Passage("A b.", questions), Passage("", ()))
    sizes = {"max_length": 8, "stride": 2, "max_question_pieces": 3}
    last = Passage("c", (Question("q3", "a"),))
    examples = examples_of(*passages, last, **sizes)
    assert examples.windows.questions.numpy().tolist() == [0, 0, 1, 1, 2]
    assert examples.questions.pieces.to_list() == [[5, 6, 7], [5, 6, 7], [5]]
    assert examples.questions.contexts.numpy().tolist() == [0, 0, 1]
    assert examples.questions.is_cut.numpy().tolist() == [True, False, False]


def test_of_several_answers_the_first_is_trained_on():
    answers = (Answer("d", 6), Answer("a", 0))
    passage = Passage("A b c d", (Question("q", "a", answers),))
    ((_, labels),) = examples_of(passage, max_length=40).batches(1)
    # [CLS] a [SEP] a b c d [SEP]
    assert [int(labels[name][0]) for name in ("start", "end")] == [6, 6]


def test_a_context_without_a_piece_is_refused():
    passage = Passage(" \n\x07", (Question("q7", "a"),))
    with pytest.raises(ValueError, match=r"a word piece. Received: .*'q7'"):
        examples_of(Passage("a", (Question("q6", "a"),)), passage)
