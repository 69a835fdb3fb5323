"""A model of which nothing in the suite knows goes all the way."""

import re

import numpy as np
import pytest
import tensorflow as tf

from seg_tf import SentenceEncoder, TextClassifier
from seg_tf.checkpoints.pretrained import load_pretrained
from seg_tf.config import AdamWConfig, RunConfig, TrainingConfig
from seg_tf.data.inputs import MaskingConfig
from seg_tf.training import build, dry_run, run_folder
from seg_tf.training.run_folder import RunFolder
from tests.fifth_model import FEATURES, MeanConfig, ParagraphInputsConfig, RowSizeConfig
from tests.training.stand_ins import pretrain
from tests.worlds import SENTENCE_LENGTH

pytestmark = pytest.mark.slow

CONFIG = RunConfig(
    name="fifth",
    paper="bert_base",
    model=MeanConfig(),
    inputs=ParagraphInputsConfig(
        window_length=SENTENCE_LENGTH,
        masking=MaskingConfig(max_predictions=4),
    ),
    objectives={"row_size": RowSizeConfig()},
    optimizer=AdamWConfig(learning_rate=0.05, warmup_updates=1),
    training=TrainingConfig(
        num_updates=20,
        batch_size=8,
        micro_batch_size=4,
        log_interval=5,
        validation_interval=0,
        checkpoint_interval=20,
    ),
)
TEXTS = ["Go on. And go.\nGo and go on.", "On!"]


@pytest.fixture(name="run", scope="module")
def _run(sentence_records, tmp_path_factory):
    folder = RunFolder(tmp_path_factory.mktemp("run") / "fifth")
    pretrain(folder.path, CONFIG, build.build_inputs(CONFIG, str(sentence_records)))
    return folder


def test_it_is_pretrained(run):
    losses = [row["loss"] for row in run_folder.read_log(run.log_file)]
    assert losses[-1] < losses[0] / 2


def test_a_dry_run_says_what_nobody_has_counted(sentence_records):
    inputs = build.build_inputs(CONFIG, str(sentence_records))
    learner = build.build_learner(CONFIG, inputs)
    words = dry_run.describe(CONFIG, inputs, learner)
    assert "  FLOPs            unknown\n" in words
    assert re.search(r"activations, roughly +unknown$", words, re.MULTILINE)
    measured = dry_run.describe_measurement([1.0, 2.0], CONFIG, inputs)
    assert "TFLOP" not in measured


def test_it_encodes_and_is_exported(run, tmp_path):
    pretrained = load_pretrained(run.path)
    encoder = SentenceEncoder.from_preset(run.path)
    found = encoder.predict(TEXTS)
    cls, sep = (pretrained.vocabulary.special_ids[name] for name in ("cls", "sep"))
    (first,) = found["token_ids"][:1].tolist()
    # A [SEP] after each of two paragraphs.
    assert first[0] == cls
    assert first.count(sep) == 2
    assert first[-1] == sep
    sequence = pretrained.encoder({name: found[name] for name in FEATURES})
    np.testing.assert_allclose(found["sequence_output"], sequence, atol=1e-6)
    np.testing.assert_allclose(found["pooled_output"], sequence[:, 0], atol=1e-6)
    assert found["sentence_mask"].sum(axis=1).tolist() == [3, 1]

    encoder.export(tmp_path / "served")
    served = tf.saved_model.load(str(tmp_path / "served")).signatures["serving_default"]
    again = served(text=tf.constant(TEXTS))
    for name, values in found.items():
        np.testing.assert_array_equal(again[name], values)


def test_it_is_finetuned_and_saved(run, tmp_path):
    pairs = [("go", "on"), ("and", "on"), ("go", "and"), ("on", "go")] * 8
    names = ["yes" if first == "go" else "no" for first, _ in pairs]
    classifier = TextClassifier.from_preset(
        run.path, labels=["no", "yes"], num_texts=2, seed=1
    )
    classifier.fit(pairs, names, batch_size=8, epochs=2, verbose=0)
    logits = classifier.predict(pairs, verbose=0)
    classifier.save_to_preset(tmp_path / "saved")
    again = TextClassifier.from_preset(tmp_path / "saved")
    np.testing.assert_array_equal(again.predict(pairs, verbose=0), logits)
