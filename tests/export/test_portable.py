"""ONNX and LiteRT files: what Keras computes, in the runtimes that read them."""

import dataclasses
import importlib.util
import json

import numpy as np
import pytest
import tensorflow as tf

from seg_tf.commands import export
from seg_tf.export import portable, saved_model
from seg_tf.export.sentence_encoder import SentenceEncoder
from seg_tf.finetuning import SpanExtractor, TextClassifier
from seg_tf.preprocessing.text_preprocessor import DocumentPreprocessor
from tests import command_calls
from tests.finetuning import tiny_models
from tests.inference import tiny_windows
from tests.preprocessing.test_text_preprocessor import DOCUMENTS

pytestmark = pytest.mark.slow

FORMATS = ("onnx", "litert")


def onnx_session(path):
    # Has threads from its import on, of which the process of this file alone may know.
    import onnxruntime

    return onnxruntime.InferenceSession(path)


def run_onnx(path, rows):
    session = onnx_session(path)
    names = [one.name for one in session.get_outputs()]
    inputs = {one.name: rows[one.name] for one in session.get_inputs()}
    return dict(zip(names, session.run(names, inputs), strict=True))


def run_litert(path, rows):
    from ai_edge_litert.interpreter import Interpreter

    runner = Interpreter(model_path=str(path)).get_signature_runner()
    return runner(**{name: rows[name] for name in runner.get_input_details()})


def run_both(folder, rows):
    yield run_onnx(folder / "encode_ids.onnx", rows)
    yield run_litert(folder / "encode_ids.tflite", rows)


def slow_vectors(sequence, rows):
    """Sentence vectors of rows: at each [SENT], or the mean of a sentence's pieces."""
    if "candidate_positions" in rows:
        return [
            sequence[row, positions[mask][1:-1]]
            for row, (positions, mask) in enumerate(
                zip(rows["candidate_positions"], rows["candidate_mask"], strict=True)
            )
        ]
    return [
        np.array([of_row[number == n].mean(0) for n in range(1, 1 + number.max())])
        for of_row, number in zip(sequence, rows["sentence_number"], strict=True)
    ]


@pytest.mark.parametrize("kind", ["bert", "segabert_slm"])
def test_rows_of_any_sizes_give_what_keras_gives(kind, tmp_path):
    pretrained = tiny_models.tiny(kind)
    SentenceEncoder(pretrained).export(tmp_path / "out", formats=FORMATS)
    for texts in (DOCUMENTS, DOCUMENTS[1:2]):
        rows = {
            name: values.numpy()
            for name, values in DocumentPreprocessor(pretrained)
            .read(tf.constant(texts))[1]
            .items()
        }
        sequence = pretrained.encoder(rows, training=False).numpy()
        is_token = rows["padding_mask"]
        for found in run_both(tmp_path / "out", rows):
            close = {"atol": 3e-6, "rtol": 3e-6}
            np.testing.assert_allclose(
                found["sequence_output"][is_token], sequence[is_token], **close
            )
            np.testing.assert_allclose(found["pooled_output"], sequence[:, 0], **close)
            for row, vectors in enumerate(slow_vectors(sequence, rows)):
                mask = found["sentence_mask"][row]
                assert mask.tolist() == [True] * len(vectors) + [False] * (
                    len(mask) - len(vectors)
                )
                of_row = found["sentence_vectors"][row]
                np.testing.assert_allclose(of_row[mask], vectors, **close)


def test_long_texts_are_rows_of_blocks(tmp_path):
    pretrained = tiny_models.tiny("reat")
    SentenceEncoder(pretrained).export(tmp_path / "out", formats=FORMATS)
    rows = {
        name: values.numpy()
        for name, values in DocumentPreprocessor(pretrained)
        .read(tf.constant(DOCUMENTS))[1]
        .items()
    }
    sequence = pretrained.encoder(rows, training=False)
    pooled = pretrained.encoder.pool(sequence, rows["sentence_starts"]).numpy()
    parts = rows["given_text"]
    for found in run_both(tmp_path / "out", rows):
        # The feature of the same name tells where there are parts of sentences.
        np.testing.assert_array_equal(
            found["output_sentence_mask"].sum(1), parts.max(1)
        )
        for row, of_row in enumerate(found["sentence_vectors"]):
            for number in range(parts[row].max()):
                expected = pooled[row, parts[row] == number + 1].mean(0)
                np.testing.assert_allclose(of_row[number], expected, atol=5e-6)


def test_the_command_writes_checks_and_describes_files(tmp_path, capsys):
    checkpoint = tiny_windows.write_checkpoint(tmp_path / "run", tiny_windows.SEGABERT)
    output = tmp_path / "out"
    arguments = [f"--checkpoint={checkpoint}", f"--output_dir={output}"]
    command_calls.run(export, *arguments, "--formats=onnx")
    assert sorted(path.name for path in output.iterdir()) == [
        "encode_ids.onnx",
        "export.json",
    ]
    assert "encode_ids.onnx: differs from the model by at most " in (
        capsys.readouterr().out
    )
    description = json.loads((output / "export.json").read_text())
    assert 0 < description["largest_differences"]["onnx"] < 1e-5
    inputs = onnx_session(output / "encode_ids.onnx").get_inputs()
    assert {tuple(one.shape) for one in inputs} == {("B", "L")}
    with pytest.raises(ValueError, match="--overwrite replaces it"):
        command_calls.run(export, *arguments)
    command_calls.run(export, *arguments, "--overwrite", "--formats=saved_model,litert")
    assert (output / "saved_model.pb").exists()
    assert (output / "encode_ids.tflite").exists()
    assert not (output / "encode_ids.onnx").exists()


@pytest.mark.parametrize(
    ("output", "amount"), [("sentence_mask", 1.0), ("pooled_output", np.nan)]
)
def test_a_file_that_computes_something_else_is_not_kept(
    tmp_path, monkeypatch, output, amount
):
    def load(content):
        run = portable._load_litert(content)

        def spoiled(rows):
            found = dict(run(rows))
            # Of the larger batch alone.
            found[output] = found[output] + amount * (len(rows["token_ids"]) > 1)
            return found

        return spoiled

    made = dataclasses.replace(portable.FORMATS["litert"], load=load)
    monkeypatch.setitem(portable.FORMATS, "litert", made)
    encoder = SentenceEncoder(tiny_models.tiny("bert"))
    with pytest.raises(ValueError, match=rf"Received: `{output}` that differs by"):
        encoder.export(tmp_path / "out", formats=("litert",))
    assert not any(tmp_path.iterdir())


def test_fine_tuned_models_give_their_numbers(tmp_path):
    pretrained = tiny_models.tiny("slm")
    classifier = TextClassifier.from_pretrained(pretrained, 3, num_texts=2, seed=1)
    classifier.export(tmp_path / "classifier", formats=FORMATS)
    texts = tf.constant(["w1 w2", "w3"])
    rows = {
        name: values.numpy()
        for name, values in classifier.preprocessor((texts, texts)).items()
    }
    expected = classifier(rows, training=False)
    for found in run_both(tmp_path / "classifier", rows):
        assert set(found) == {"logits", "probabilities"}
        np.testing.assert_allclose(found["logits"], expected, atol=3e-6)

    extractor = SpanExtractor.from_pretrained(tiny_models.tiny("segabert"), seed=1)
    extractor.export(tmp_path / "extractor", formats=FORMATS)
    session = onnx_session(tmp_path / "extractor" / "encode_ids.onnx")
    assert {one.name for one in session.get_outputs()} == {"start", "end"}


@pytest.mark.parametrize(
    ("formats", "message"),
    [
        ([], "at least one format. Received: none"),
        (["saved_model", "pickle"], "saved_model, onnx, litert. Received: 'pickle'"),
    ],
)
def test_formats_are_checked(formats, message):
    with pytest.raises(ValueError, match=message):
        saved_model.check_formats(formats)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"needs the package tf2onnx: pip .*\[onnx\]"):
        saved_model.check_formats(["onnx"])
