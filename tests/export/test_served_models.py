"""SavedModels: what Keras models compute, without any of our code."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from seg_tf.checkpoints.pretrained import load_pretrained
from seg_tf.commands import export
from seg_tf.export import saved_model
from seg_tf.export.served import ServedClassifier, ServedEncoder
from seg_tf.finetuning import TextClassifier
from seg_tf.preprocessing import (
    DocumentPreprocessor,
    TextPreprocessor,
)
from tests import command_calls
from tests.export.test_onnx_file import check_odd_batches
from tests.finetuning import tiny_models
from tests.finetuning.tiny_models import text_batches
from tests.inference.test_sentence_encoder import sentence_means, window_alone
from tests.preprocessing.test_text_preprocessor import DOCUMENTS, EMPTY

pytestmark = pytest.mark.slow

PAIRS = [("W1 w2.", "w3"), ("", "w5 w6 [SEP] w7"), ("w1 " * 60, "w2 " * 50)]

# What a process does that has TensorFlow and tensorflow-text, and nothing of ours.
LOADING = """
import json, sys
import tensorflow as tf
import tensorflow_text
model = tf.saved_model.load(sys.argv[1])
texts = json.load(sys.stdin)
found = {}
for name, given in texts.items():
    signature = model.signatures[name]
    given = {argument: tf.constant(value) for argument, value in given.items()}
    found[name] = {
        key: value.numpy().tolist()
        for key, value in signature(**given).items()
        if value.dtype != tf.string
    }
ours = {one.split(".")[0] for one in sys.modules} & {"seg_tf", "keras_hub"}
assert not ours, ours
json.dump(found, sys.stdout)
"""


@pytest.fixture(name="checkpoints", scope="module")
def _checkpoints(run_dir, segabert_dir):
    return {"segabert": segabert_dir, "slm": run_dir}


@pytest.fixture(scope="module")
def exported(run_dir, tmp_path_factory):
    """The SavedModel of the SLM."""
    output = tmp_path_factory.mktemp("exported") / "served"
    command_calls.run(export, f"--checkpoint={run_dir}", f"--output_dir={output}")
    return output


def serve_elsewhere(checkpoint, given, output):
    """What a process without our code gets from a SavedModel."""
    process = subprocess.run(
        [sys.executable, "-I", "-c", LOADING, str(output)],
        input=json.dumps(given),
        cwd=output,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    description = json.loads((output / saved_model.DESCRIPTION_FILE).read_text())
    weights = load_pretrained(checkpoint).weights_checksum
    assert description["checkpoint_weights_sha256"] == weights
    return json.loads(process.stdout)


def serve_here(checkpoint, given, _):
    """The same from the functions that are saved."""
    pretrained = load_pretrained(checkpoint)
    rows = DocumentPreprocessor(pretrained)
    functions = ServedEncoder(pretrained, rows).functions
    return {
        name: functions[name](*map(tf.constant, arguments.values()))
        for name, arguments in given.items()
    }


# Saving and loading take many times as long as the rest.
@pytest.mark.parametrize(
    ("kind", "serve"), [("segabert", serve_here), ("slm", serve_elsewhere)]
)
def test_what_is_served_is_what_keras_computes(checkpoints, kind, serve, exported):
    given = {"serving_default": {"text": [*DOCUMENTS, *EMPTY]}}
    if kind == "slm":
        first, second = zip(*PAIRS, strict=True)
        given["encode_pairs"] = {"text": first, "second_text": second}
    served = serve(checkpoints[kind], given, exported)
    pretrained = load_pretrained(checkpoints[kind])
    found = {name: np.array(value) for name, value in served["serving_default"].items()}
    for number, document in enumerate(DOCUMENTS):
        window, sequence = window_alone(pretrained, document)
        vectors = sentence_means(window, sequence, of_sent=kind == "slm")
        length = found["padding_mask"][number].sum()
        assert length == len(sequence)
        close = {"atol": 2e-6, "rtol": 2e-6}
        np.testing.assert_allclose(
            found["sequence_output"][number, :length], sequence, **close
        )
        np.testing.assert_allclose(found["pooled_output"][number], sequence[0], **close)
        is_there = found["sentence_mask"][number]
        assert is_there.sum() == len(vectors)
        np.testing.assert_allclose(
            found["sentence_vectors"][number, : len(vectors)], vectors, **close
        )
        assert not found["sentence_vectors"][number, len(vectors) :].any()
    assert not found["sentence_mask"][len(DOCUMENTS) :].any()
    assert not found["is_cut"][len(DOCUMENTS) :].any()
    assert found["is_cut"].any()
    if kind != "slm":
        return

    batches = text_batches(pretrained, PAIRS, batch_size=3, report=bool)
    sequence = pretrained.encoder(next(iter(batches)), training=False).numpy()
    found = served["encode_pairs"]
    mask = np.array(found["padding_mask"])
    np.testing.assert_allclose(
        np.array(found["sequence_output"])[mask],
        sequence[:, : mask.shape[1]][mask],
        atol=2e-6,
        rtol=2e-6,
    )
    assert np.array(found["is_cut"]).tolist() == [False, False, True]


def test_an_empty_batch_and_rows_of_impossible_numbers(run_dir, exported):
    check_odd_batches(load_pretrained(run_dir), exported)


def test_a_regression_answers_as_in_keras():
    pretrained = tiny_models.tiny("segabert")
    classifier = TextClassifier.from_preset(pretrained, 1, num_texts=2, seed=1)
    rows = TextPreprocessor(pretrained, 2)
    served = ServedClassifier(classifier, rows, []).functions
    first, second = map(tf.constant, zip(*PAIRS, strict=True))
    found = served["serving_default"](first, second)
    batches = text_batches(pretrained, PAIRS, batch_size=3, report=bool)
    expected = classifier.predict(batches, verbose=0)
    np.testing.assert_allclose(found["logits"], expected, atol=2e-6)
    np.testing.assert_array_equal(found["value"], found["logits"][:, 0])
    assert found["is_cut"].numpy().tolist() == [False, False, True]
    for tensor in served["serving_default"](first[:0], second[:0]).values():
        assert len(tensor) == 0


def test_a_classifier_of_three_texts_serves_three():
    pretrained = tiny_models.tiny("slm")
    classifier = TextClassifier.from_preset(
        pretrained, labels=["no", "yes"], num_texts=3, seed=1
    )
    served = ServedClassifier(classifier, classifier.preprocessor, ["no", "yes"])
    rows = [("w1 w2.", "w3.", text) for text in ("w4 w5 w6.", "w7.")]
    texts = map(tf.constant, zip(*rows, strict=True))
    found = served.functions["serving_default"](*texts)["logits"]
    expected = classifier.predict(rows, verbose=0)
    np.testing.assert_allclose(found, expected, atol=2e-6)


def test_a_classifier_is_exported(checkpoints, tmp_path):
    model, output = tmp_path / "model", tmp_path / "served"
    pretrained = load_pretrained(checkpoints["segabert"])
    classifier = TextClassifier.from_preset(pretrained, labels=["no", "yes"])
    classifier.save_to_preset(model)
    arguments = (f"--checkpoint={model}", f"--output_dir={output}")
    command_calls.run(export, *arguments)
    loaded = tf.saved_model.load(str(output))
    found = loaded.signatures["serving_default"](text=tf.constant(DOCUMENTS))
    batches = text_batches(pretrained, DOCUMENTS, batch_size=9, report=bool)
    expected = classifier.predict(batches, verbose=0)
    np.testing.assert_allclose(found["logits"], expected, atol=2e-6)
    likeliest = [(b"no", b"yes")[number] for number in expected.argmax(axis=1)]
    assert found["label"].numpy().tolist() == likeliest
    np.testing.assert_allclose(tf.reduce_sum(found["probabilities"], 1), 1, 1e-5)

    # What stands there stays, unless it is to be replaced.
    before = (output / "saved_model.pb").stat().st_mtime_ns
    with pytest.raises(ValueError, match="--overwrite replaces it"):
        command_calls.run(export, *arguments)
    assert (output / "saved_model.pb").stat().st_mtime_ns == before
    assert {path.name for path in tmp_path.iterdir()} == {"model", "served"}


def test_nothing_else_is_replaced(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "file"):
        with pytest.raises(
            ValueError, match=r"`--output_dir` must .*which is not an exported"
        ):
            saved_model.check_output_dir(path, overwrite=True)
