"""Wrong, truncated and mismatched checkpoints: named errors, and nothing written."""

import json
import re

import keras_hub
import numpy as np
import pytest

from seg_tf.checkpoints.pretrained import load_pretrained
from seg_tf.interop import convert
from seg_tf.interop.weights import ForeignWeightsError
from tests.interop import foreign_files
from tests.interop.test_starting_tables import BERT_WITH_PS, run_config

QUERY = "bert.encoder.layer.1.attention.self.query.weight"
GOOGLE_QUERY = "bert/encoder/layer_1/attention/self/query/kernel"


def refused(path, tmp_path, *said, config=None, error=ForeignWeightsError, **arguments):
    """Checks that the conversion raises an error that says all of this."""
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(error) as raised:
        convert.convert(
            convert.open_model(path), tmp_path / "new" / "model", config, **arguments
        )
    message = str(raised.value)
    for part in said:
        assert part in message, message
    assert sorted(tmp_path.rglob("*")) == before


def changed(tmp_path, change):
    """The stored BERT with its tensors changed."""
    tensors = foreign_files.hugging_face_tensors()
    change(tensors)
    return foreign_files.write_hugging_face(tmp_path / "theirs", tensors)


def test_a_missing_tensor(tmp_path):
    folder = changed(tmp_path, lambda tensors: tensors.pop(QUERY))
    refused(folder, tmp_path, repr(QUERY), "(8, 8)", "none of that name")


def test_a_tensor_of_another_shape(tmp_path):
    def cut(tensors):
        tensors[QUERY] = tensors[QUERY][:, :6]

    refused(changed(tmp_path, cut), tmp_path, repr(QUERY), "(8, 8)", "Found: (8, 6)")


def test_half_a_head(tmp_path):
    name = "cls.predictions.transform.LayerNorm.bias"
    folder = changed(tmp_path, lambda tensors: tensors.pop(name))
    refused(folder, tmp_path, repr(name), "(8)", "none of that name")


def test_a_head_for_another_vocabulary(tmp_path):
    def cut(tensors):
        tensors["cls.predictions.bias"] = tensors["cls.predictions.bias"][:-1]

    refused(changed(tmp_path, cut), tmp_path, "'cls.predictions.bias'", "(30)", "(29)")


def test_numbers_that_are_none(tmp_path):
    def spoil(tensors):
        tensors[QUERY][3, 4] = np.nan

    refused(changed(tmp_path, spoil), tmp_path, repr(QUERY), "1 of 64")


def test_numbers_of_another_type(tmp_path):
    def round_off(tensors):
        tensors[QUERY] = tensors[QUERY].astype("int32")

    refused(changed(tmp_path, round_off), tmp_path, repr(QUERY), "I32")


@pytest.mark.parametrize("length", [0, 4, 100, 3_000, -1])
def test_a_safetensors_file_cut_short(tmp_path, length):
    folder = changed(tmp_path, lambda tensors: None)
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:length])
    refused(folder, tmp_path, "model.safetensors", "cut short")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model_type", "roberta"),
        ("hidden_act", "relu"),
        ("position_embedding_type", "relative_key"),
        ("is_decoder", True),
        ("hidden_size", None),
        ("num_hidden_layers", "2"),
    ],
)
def test_models_that_ours_cannot_be(tmp_path, name, value):
    tensors = foreign_files.hugging_face_tensors()
    folder = foreign_files.write_hugging_face(
        tmp_path / "theirs", tensors, **{name: value}
    )
    refused(folder, tmp_path, "config.json", f"`{name}`", repr(value))


def test_a_config_of_more_layers_than_there_are(tmp_path):
    tensors = foreign_files.hugging_face_tensors()
    folder = foreign_files.write_hugging_face(
        tmp_path / "theirs", tensors, num_hidden_layers=3
    )
    refused(folder, tmp_path, "bert.encoder.layer.2.attention.self.query.weight")


@pytest.mark.parametrize("prefix", ["", "bert."])
def test_a_config_of_fewer_layers_than_there_are(tmp_path, prefix):
    tensors = {
        name.replace("bert.", prefix): one
        for name, one in foreign_files.hugging_face_tensors().items()
    }
    folder = foreign_files.write_hugging_face(
        tmp_path / "theirs", tensors, num_hidden_layers=1
    )
    first = f"{prefix}encoder.layer.1.attention.output.LayerNorm.bias"
    refused(folder, tmp_path, "config says, 1", "Found: 2 layers", repr(first))


def test_a_config_of_google_s_of_fewer_layers(tmp_path):
    folder = foreign_files.write_google(tmp_path / "theirs", num_hidden_layers=1)
    first = "bert/encoder/layer_1/attention/output/LayerNorm/beta"
    refused(folder, tmp_path, "config says, 1", "Found: 2 layers", repr(first))


def test_a_layer_that_others_do_not_lead_to(tmp_path):
    def renumber(tensors):
        for name in [name for name in tensors if ".layer.1." in name]:
            tensors[name.replace(".layer.1.", ".layer.10.")] = tensors[name]

    folder = changed(tmp_path, renumber)
    refused(folder, tmp_path, "config says, 2", "Found: 11 layers", ".layer.10.")


def test_a_vocabulary_with_too_many_pieces_is_refused(tmp_path):
    said = ("`--vocab_file`", "`vocab_size`", "says, 30", "of 31 pieces")
    for folder in (
        changed(tmp_path, lambda tensors: None),
        foreign_files.write_google(tmp_path / "google"),
    ):
        foreign_files.write_vocabulary(folder, 31)
        refused(folder, tmp_path, "vocab.txt", *said)
    preset = write_preset(tmp_path / "preset")
    foreign_files.write_vocabulary(preset, 31)
    refused(preset, tmp_path, *said, vocab_file=preset / "vocab.txt")


def test_padded_rows_of_the_table_are_dropped(tmp_path):
    folder = changed(tmp_path, lambda tensors: None)
    foreign_files.write_vocabulary(folder, 24)
    report = convert.convert(convert.open_model(folder), tmp_path / "new")
    assert "6 rows of padding are dropped" in report.to_text()
    assert load_pretrained(tmp_path / "new").encoder.vocab_size == 24


def test_more_pieces_than_rows(tmp_path):
    folder = foreign_files.write_hugging_face(
        tmp_path / "theirs", foreign_files.hugging_face_tensors(), vocab_size=33
    )
    foreign_files.write_vocabulary(folder, 33)
    refused(
        folder,
        tmp_path,
        "'bert.embeddings.word_embeddings.weight'",
        "(33 or more, 8)",
        "Found: (30, 8)",
    )


def test_no_vocabulary(tmp_path):
    folder = changed(tmp_path, lambda tensors: None)
    (folder / "vocab.txt").unlink()
    refused(folder, tmp_path, "`--vocab_file`", error=ValueError)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ({"num_layers": 3}, ("`model.num_layers` must be 2", "model.num_layers=3")),
        (
            {"num_layers": 1},
            ("`model.num_layers` must be 2", QUERY, "model.num_layers=1"),
        ),
        ({"num_heads": 4}, ("`model.num_heads` must be 2", "model.num_heads=4")),
        (
            {"intermediate_size": 12},
            ("intermediate.dense.weight'", "(12, 8)", "Found: (16, 8)"),
        ),
        (
            {"hidden_size": 6},
            ("word_embeddings.weight'", "(any, 6)", "Found: (30, 8)"),
        ),
    ],
)
def test_a_config_of_another_model(tmp_path, model, said):
    refused(
        foreign_files.HUGGING_FACE_DIR,
        tmp_path,
        *said,
        config=run_config(BERT_WITH_PS, **model),
    )


def test_google_s_tensors_are_named_too(tmp_path):
    generator = np.random.default_rng(1)
    wrong = generator.normal(size=(8, 6)).astype("float32")
    folder = foreign_files.write_google(tmp_path / "wrong", {GOOGLE_QUERY: wrong})
    refused(folder, tmp_path, repr(GOOGLE_QUERY), "(8, 8)", "Found: (8, 6)")
    folder = foreign_files.write_google(tmp_path / "less", {GOOGLE_QUERY: None})
    refused(folder, tmp_path, repr(GOOGLE_QUERY), "none of that name")


def test_a_checkpoint_of_google_s_cut_short(tmp_path):
    folder = foreign_files.write_google(tmp_path / "theirs")
    (path,) = folder.glob("*.data-*")
    path.write_bytes(path.read_bytes()[:-200])
    refused(folder, tmp_path, "the tensor 'bert/", "cut short")


def test_an_index_of_google_s_cut_short(tmp_path):
    folder = foreign_files.write_google(tmp_path / "theirs")
    path = folder / "bert_model.ckpt.index"
    path.write_bytes(path.read_bytes()[:50])
    refused(folder, tmp_path, "bert_model.ckpt", "cut short")


def test_google_s_checkpoint_without_its_config(tmp_path):
    folder = foreign_files.write_google(tmp_path / "theirs")
    (folder / "bert_config.json").unlink()
    refused(folder, tmp_path, "bert_config.json", error=OSError)


def write_preset(folder):
    keras_hub.models.BertBackbone(
        vocabulary_size=30,
        num_layers=1,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=16,
        max_sequence_length=12,
    ).save_to_preset(str(folder))
    foreign_files.write_vocabulary(folder)
    return folder


def test_presets_of_keras_hub(tmp_path):
    folder = write_preset(tmp_path / "cut")
    path = folder / "model.weights.h5"
    path.write_bytes(path.read_bytes()[:5_000])
    vocabulary = {"vocab_file": folder / "vocab.txt"}
    refused(folder, tmp_path, str(folder), "cannot load", **vocabulary)

    folder = write_preset(tmp_path / "mismatched")
    config = json.loads((folder / "config.json").read_text())
    config["config"]["intermediate_dim"] = 12
    (folder / "config.json").write_text(json.dumps(config))
    refused(folder, tmp_path, "(8, 12)", "(8, 16)", **vocabulary)

    folder = write_preset(tmp_path / "another")
    config["registered_name"] = "keras_hub>RobertaBackbone"
    (folder / "config.json").write_text(json.dumps(config))
    refused(folder, tmp_path, "RobertaBackbone", **vocabulary)


def test_nothing_that_can_be_read(tmp_path):
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", tmp_path, "`--from`", "a folder with none of them")
    refused(tmp_path / "absent", tmp_path, "`--from`", "which is not there")


def test_several_checkpoints_in_a_folder(tmp_path):
    folder = foreign_files.write_google(tmp_path / "theirs")
    for path in list(folder.glob("bert_model.ckpt*")):
        other = path.with_name(path.name.replace("bert_model", "other"))
        other.write_bytes(path.read_bytes())
    refused(folder, tmp_path, "`--from` must name one", "bert_model.ckpt, other.ckpt")
    convert.convert(convert.open_model(folder / "bert_model.ckpt"), tmp_path / "ours")


def test_a_folder_in_use_stays_as_it_is(tmp_path):
    (tmp_path / "mine").write_text("kept")
    with pytest.raises(ValueError, match=re.escape("`--output_dir` must be a folder")):
        convert.convert(convert.open_model(foreign_files.HUGGING_FACE_DIR), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
