"""Models of ours as others read them."""

import dataclasses
import json

import keras
import keras_hub
import numpy as np
import pytest
import safetensors.numpy

from seg_tf import files
from seg_tf.checkpoints.pretrained import load_pretrained
from seg_tf.config import to_dict
from seg_tf.interop import model_card
from seg_tf.interop.hugging_face import write as write_hugging_face
from seg_tf.interop.keras_hub import write_keras_file, write_preset
from seg_tf.interop.weights import ForeignWeightsError
from seg_tf.models.encoder import Encoder
from tests.inference import tiny_slm
from tests.interop import foreign_files
from tests.interop.test_starting_tables import SEGABERT, run_config
from tests.interop.test_weights_in import (
    backbone_outputs,
    bert_backbone,
    encode,
    imported,
)

pytestmark = pytest.mark.slow


@pytest.fixture(name="bert", scope="module")
def _bert(tmp_path_factory):
    """A BERT that keras-hub's can be, imported from Google's files."""
    folder = tmp_path_factory.mktemp("bert")
    return imported(foreign_files.write_google(folder / "google"), folder / "ours")[0]


@pytest.fixture(name="exact_bert", scope="module")
def _exact_bert(tmp_path_factory):
    """A BERT that keras-hub's cannot be, imported with types from Hugging Face's."""
    folder = tmp_path_factory.mktemp("exact_bert") / "model"
    return imported(foreign_files.HUGGING_FACE_DIR, folder)[0]


@pytest.fixture(name="segabert", scope="module")
def _segabert(tmp_path_factory):
    folder = tmp_path_factory.mktemp("segabert") / "model"
    config = run_config(SEGABERT)
    return imported(foreign_files.HUGGING_FACE_DIR, folder, config=config)[0]


def test_hugging_face_gets_back_what_it_gave(exact_bert, tmp_path):
    folder = tmp_path / "theirs"
    write_hugging_face(exact_bert, folder)
    expected = foreign_files.hugging_face_tensors()
    tensors = safetensors.numpy.load_file(folder / "model.safetensors")
    # Our models have no next sentence prediction.
    head = {"cls.seq_relationship.weight", "cls.seq_relationship.bias"}
    np.testing.assert_equal(
        tensors, {name: expected[name] for name in expected.keys() - head}
    )
    for name in ("config.json", "tokenizer_config.json"):
        ours, theirs = (
            json.loads((one / name).read_text())
            for one in (folder, foreign_files.HUGGING_FACE_DIR)
        )
        common = (ours.keys() & theirs.keys()) - {"model_max_length"}
        assert {key: ours[key] for key in common} == {
            key: theirs[key] for key in common
        }
        assert len(common) > 5


def test_keras_hub_reads_the_hugging_face_folder(bert, tmp_path):
    write_hugging_face(bert, tmp_path / "theirs")
    backbone = keras_hub.models.BertBackbone.from_preset(str(tmp_path / "theirs"))
    rows = foreign_files.random_rows()
    found, expected = backbone_outputs(backbone, *rows), encode(bert, *rows)
    np.testing.assert_allclose(found["sequence_output"], expected, atol=1e-5)
    tensors = foreign_files.google_tensors()
    pooled = np.tanh(
        expected[:, 0] @ tensors["bert/pooler/dense/kernel"]
        + tensors["bert/pooler/dense/bias"]
    )
    np.testing.assert_allclose(found["pooled_output"], pooled, atol=1e-5)
    tokenizer = keras_hub.tokenizers.BertTokenizer.from_preset(str(tmp_path / "theirs"))
    assert tokenizer.get_vocabulary() == list(bert.vocabulary.tokens)


def test_a_bert_without_types_or_head_is_whole_for_hugging_face(tmp_path):
    tensors = {
        name: one
        for name, one in foreign_files.hugging_face_tensors().items()
        if not name.startswith(("cls.", "bert.pooler."))
    }
    folder = foreign_files.write_hugging_face(tmp_path / "bare", tensors)
    config = run_config({"position_index": 12})
    bare, _ = imported(folder, tmp_path / "ours", config=config)
    write_hugging_face(bare, tmp_path / "theirs")
    config = json.loads((tmp_path / "theirs" / "config.json").read_text())
    # The head was never trained.
    assert config["architectures"] == ["BertModel"]
    assert config["type_vocab_size"] == 2
    found = safetensors.numpy.load_file(tmp_path / "theirs" / "model.safetensors")
    assert found.keys() == tensors.keys()
    np.testing.assert_array_equal(
        found["bert.embeddings.token_type_embeddings.weight"], np.zeros((2, 8))
    )


def test_keras_hub_gets_back_what_it_gave(tmp_path):
    backbone = bert_backbone()
    tokenizer = keras_hub.tokenizers.BertTokenizer(
        vocabulary=list(foreign_files.WORDS), lowercase=True
    )
    backbone.save_to_preset(str(tmp_path / "given"))
    tokenizer.save_to_preset(str(tmp_path / "given"))
    ours, _ = imported(tmp_path / "given", tmp_path / "ours")
    write_preset(ours, tmp_path / "returned")
    returned = keras_hub.models.Backbone.from_preset(str(tmp_path / "returned"))
    assert type(returned) is keras_hub.models.BertBackbone
    rows = foreign_files.random_rows()
    expected = backbone_outputs(backbone, *rows)
    found = backbone_outputs(returned, *rows)
    for name in ("sequence_output", "pooled_output"):
        np.testing.assert_allclose(found[name], expected[name], atol=1e-5)
    preprocessor = keras_hub.models.TextClassifierPreprocessor.from_preset(
        str(tmp_path / "returned")
    )
    features = preprocessor(x=(["the w1s"], ["W2"]))
    cls, sep = foreign_files.CLS_ID, foreign_files.SEP_ID
    token_ids = np.asarray(features["token_ids"])[0, :7].tolist()
    assert token_ids == [cls, 6, 9, 7, sep, 10, sep]
    returned(features)


def test_models_that_others_do_not_have_are_refused(exact_bert, segabert, tmp_path):
    for write, pretrained, reason in (
        (write_hugging_face, segabert, "token_index"),
        (write_preset, segabert, "token_index"),
        (write_preset, exact_bert, "its GELU is exact"),
    ):
        with pytest.raises(ForeignWeightsError, match=f"--to=keras.*{reason}"):
            write(pretrained, tmp_path / "theirs")
    assert not list(tmp_path.iterdir())


def test_a_keras_file_is_the_encoder_of_windows(exact_bert, segabert, tmp_path):
    config = {**exact_bert.encoder.get_config(), "packed_windows": True}
    packed = Encoder.from_config(config)
    packed.set_weights(exact_bert.encoder.get_weights())
    packed = dataclasses.replace(exact_bert, encoder=packed)
    features = {
        "token_ids": np.array([[3, 9, 10, 4]], "int32"),
        "padding_mask": np.ones((1, 4), bool),
        "paragraph_index": np.array([[1, 1, 1, 1]], "int32"),
        "sentence_index": np.array([[2, 2, 3, 3]], "int32"),
        "token_index": np.array([[0, 0, 0, 1]], "int32"),
        "position_index": np.array([[0, 1, 2, 3]], "int32"),
        "token_type": np.array([[0, 0, 1, 1]], "int32"),
    }
    for written, pretrained in ((segabert, segabert), (packed, exact_bert)):
        write_keras_file(written, tmp_path / "model.keras")
        loaded = keras.saving.load_model(tmp_path / "model.keras")
        names = pretrained.encoder.feature_names
        given = {name: features[name] for name in names}
        np.testing.assert_allclose(loaded(given), pretrained.encoder(given), atol=1e-6)
    assert [path.name for path in tmp_path.iterdir()] == ["model.keras"]
    with pytest.raises(ValueError, match="token_type"):
        loaded({name: features[name] for name in names if name != "token_type"})


def test_a_card_describes_the_model(run_dir, tmp_path):
    slm = load_pretrained(run_dir)
    (tmp_path / "weights.bin").write_bytes(b"weights")
    path = model_card.write_model_card(slm, tmp_path)
    page = path.read_text(encoding="utf-8")
    assert page.startswith("# tiny\n")
    assert f"| weights.bin | {files.checksum(tmp_path / 'weights.bin')} |" in page
    assert f"| checkpoint: encoder.weights.h5 | {slm.weights_checksum} |" in page
    assert "| optimizer.learning_rate | 0.0001 |" in page
    assert "| inputs.max_sentences | 4 |" in page
    assert "- model.num_layers: 2; paper 12" in page
    assert "1 updates, 1 samples" in page
    assert tiny_slm.VOCABULARY.checksum in page
    for name in to_dict(slm.config.model):
        assert f"| {name} |" in page
