"""ONNX files: what the models compute, in onnxruntime."""

import importlib.util
import json

import numpy as np
import pytest
import tensorflow as tf

from seg_tf.commands import export
from seg_tf.export import onnx_file, saved_model
from seg_tf.export.served import ServedEncoder
from seg_tf.finetuning import TextClassifier
from seg_tf.inference.sentence_encoder import SentenceEncoder
from seg_tf.preprocessing import DocumentPreprocessor
from tests import command_calls
from tests.finetuning import tiny_models
from tests.preprocessing.test_text_preprocessor import DOCUMENTS

pytestmark = pytest.mark.slow
REWRITE_GRAPHS = True  # as where models are served
FORMATS = ("saved_model", "onnx")


def run_onnx(folder, rows):
    # onnxruntime starts threads when it is imported, which must not happen in tests
    # that fork.
    import onnxruntime

    session = onnxruntime.InferenceSession(folder / "encode_ids.onnx")
    names = [output.name for output in session.get_outputs()]
    inputs = {one.name: rows[one.name].numpy() for one in session.get_inputs()}
    return dict(zip(names, session.run(names, inputs), strict=True))


@pytest.fixture(scope="module")
def exported(request, tmp_path_factory):
    """A tiny model, and the folder to which it is exported."""
    pretrained = tiny_models.tiny(request.param)
    folder = tmp_path_factory.mktemp("exported") / "out"
    formats = FORMATS[request.param == "modern" :]
    SentenceEncoder(pretrained).export(folder, formats=formats)
    return pretrained, folder


@pytest.mark.parametrize("exported", ["modern", "reat"], indirect=True)
def test_rows_of_any_size_give_what_the_model_gives(exported):
    pretrained, folder = exported
    preprocessor = DocumentPreprocessor(pretrained)
    served = ServedEncoder(pretrained, preprocessor).functions["encode_ids"]
    for texts in (DOCUMENTS, DOCUMENTS[1:2]):
        rows = preprocessor.read(tf.constant(texts))[1]
        names = served.structured_input_signature[1]
        expected = served(**{name: rows[name] for name in names})
        outputs = run_onnx(folder, rows)
        renamed = {f"output_{name}" if name in names else name for name in expected}
        assert renamed == set(outputs)
        for name, values in outputs.items():
            np.testing.assert_allclose(
                values, expected[name.removeprefix("output_")], atol=5e-6, rtol=5e-6
            )


def check_odd_batches(pretrained, folder):
    """Checks what is served of no row, of rows, and of rows of impossible numbers."""
    served = tf.saved_model.load(str(folder)).signatures
    assert set(served) == {"serving_default", "encode_pairs", "encode_ids"}
    for signature in served.values():
        specs = signature.structured_input_signature[1]
        empty = {
            one: tf.zeros([0, *(16 for _ in spec.shape[1:])], spec.dtype)
            for one, spec in specs.items()
        }
        found = signature(**empty)
        assert found.keys() == signature.structured_outputs.keys()
        assert {len(tensor) for tensor in found.values()} == {0}
    signature = served["encode_ids"]
    # Rows give what their texts give.
    rows = DocumentPreprocessor(pretrained).read(tf.constant(DOCUMENTS[:2]))[1]
    names = signature.structured_input_signature[1]
    of_rows = signature(**{name: rows[name] for name in names})
    of_texts = served["serving_default"](text=tf.constant(DOCUMENTS[:2]))
    for name, tensor in of_rows.items():
        np.testing.assert_allclose(tensor, of_texts[name], atol=1e-6, err_msg=name)
    row = {
        one: tf.zeros([1, *(16 for _ in spec.shape[1:])], spec.dtype)
        for one, spec in signature.structured_input_signature[1].items()
    }
    signature(**row)
    for one, values in row.items():
        if values.dtype == tf.int32:
            message = f"`{one}` must be at least 0"
            with pytest.raises(tf.errors.InvalidArgumentError, match=message):
                signature(**{**row, one: values - 1})
    message = f"`token_ids` must be below {pretrained.vocabulary.size}"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        signature(**{**row, "token_ids": row["token_ids"] + pretrained.vocabulary.size})


@pytest.mark.parametrize("exported", ["reat"], indirect=True)
def test_an_empty_batch_and_rows_of_impossible_numbers(exported):
    check_odd_batches(*exported)


def test_the_command_writes_and_describes_files_of_classifiers(tmp_path, capsys):
    classifier = TextClassifier.from_preset(
        tiny_models.tiny("segabert_slm"), 3, num_texts=2, seed=1
    )
    classifier.save_to_preset(tmp_path / "model")
    output = tmp_path / "out"
    arguments = [f"--checkpoint={tmp_path / 'model'}", f"--output_dir={output}"]
    command_calls.run(export, *arguments, "--formats=onnx")
    assert {path.name for path in output.iterdir()} == {
        "encode_ids.onnx",
        "export.json",
    }
    assert "encode_ids.onnx: differs from the model by at most " in (
        capsys.readouterr().out
    )
    description = json.loads((output / "export.json").read_text())
    assert 0 < description["largest_differences"]["onnx"] < 1e-5
    texts = tf.constant(["w1 w2", "w3"])
    rows = classifier.preprocessor((texts, texts))
    outputs = run_onnx(output, rows)
    assert set(outputs) == {"logits", "probabilities"}
    np.testing.assert_allclose(
        outputs["logits"], classifier(rows, training=False), atol=3e-6
    )
    command_calls.run(export, *arguments, "--overwrite")
    assert not (output / "encode_ids.onnx").exists()


def test_a_file_that_computes_something_else_is_not_kept(tmp_path, monkeypatch):
    compare = onnx_file._compare

    def compare_wrong(name, expected, output):
        # In the larger batch only.
        wrong = np.nan if name == "pooled_output" and len(output) > 1 else 0
        return compare(name, expected, output + wrong)

    monkeypatch.setattr(onnx_file, "_compare", compare_wrong)
    encoder = SentenceEncoder(tiny_models.tiny("bert"))
    with pytest.raises(ValueError, match=r"Received: `pooled_output`, .* differs by"):
        encoder.export(tmp_path / "out", formats=("onnx",))
    assert not any(tmp_path.iterdir())


def test_formats_are_checked(monkeypatch):
    for formats in ([], ["saved_model", "litert"]):
        with pytest.raises(ValueError, match="must be saved_model, onnx or both"):
            saved_model.check_formats(formats)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"needs the package tf2onnx: pip .*\[onnx\]"):
        saved_model.check_formats(["onnx"])
