"""Wrong, truncated and mismatched models: named errors, and nothing written."""

import json

import numpy as np
import pytest

from seg_tf.interop import convert
from seg_tf.interop.weights import ForeignWeightsError
from tests.interop import foreign_files
from tests.interop.foreign_files import INNER, LAYERS, WIDTH
from tests.interop.test_starting_tables import BERT_WITH_PS, run_config
from tests.interop.test_weights_in import bert_backbone, tokenizer_of

WORDS = "bert.embeddings.word_embeddings.weight"
QUERY = "bert.encoder.layer.1.attention.self.query.weight"
SIZES = {
    "num_hidden_layers": LAYERS,
    "hidden_size": WIDTH,
    "intermediate_size": INNER,
}


def write_preset(folder, num_layers=LAYERS):
    bert_backbone(num_layers).save_to_preset(str(folder))
    foreign_files.write_vocabulary(folder)
    return folder


@pytest.fixture(name="folders", scope="module")
def _folders(tmp_path_factory):
    """A model in each format, and the file of its config."""
    folder = tmp_path_factory.mktemp("models")
    theirs = foreign_files.write_hugging_face(folder / "hugging_face")
    google = foreign_files.write_google(folder / "google")
    preset = write_preset(folder / "keras_hub")
    return {
        "hugging_face": (theirs, theirs / "config.json"),
        "google": (google, google / "bert_config.json"),
        "keras_hub": (preset, preset / "config.json"),
    }


def open_changed(folder, path, text):
    """The model with `text` as its config, or the error; restores the config."""
    before = path.read_bytes()
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    try:
        return convert.open_model(folder)
    except ForeignWeightsError as error:
        return error
    finally:
        path.write_bytes(before)


def with_value(path, key, value):
    return json.dumps(json.loads(path.read_text()) | {key: value})


def assert_says(error, *parts):
    assert isinstance(error, ForeignWeightsError), error
    for part in parts:
        assert part in str(error), error


# === Configs ===


@pytest.mark.parametrize("kind", ["hugging_face", "google"])
@pytest.mark.parametrize("value", [10**9, 0, "2"])
def test_sizes_are_those_of_the_tensors(folders, kind, value):
    folder, path = folders[kind]
    for key, size in SIZES.items():
        error = open_changed(folder, path, with_value(path, key, value))
        assert_says(error, f"{path}: `{key}` must be {size}. Found: {value!r}")
    if value != 10**9:  # which the encoder refuses when it is built
        error = open_changed(
            folder, path, with_value(path, "num_attention_heads", value)
        )
        assert_says(error, f"{path}: `", "num_heads", f"{value}")


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("model_type", "roberta", "`model_type` must be 'bert'. Found: 'roberta'"),
        ("hidden_act", "relu", "`hidden_act` must be one of gelu, "),
        ("position_embedding_type", "relative_key", "must be 'absolute'"),
        ("is_decoder", True, "`is_decoder` must be False"),
        ("tie_word_embeddings", False, "`tie_word_embeddings` must be True"),
        ("tokenizer_class", "BertJapaneseTokenizer", "must be one of ('BertTokenizer'"),
        ("hidden_dropout_prob", 1, "`dropout` must be at least 0 and below 1"),
        ("layer_norm_eps", 0, "`layer_norm_epsilon` must be above 0"),
        ("vocab_size", True, "`vocab_size` must be at least 1"),
    ],
)
def test_models_that_ours_cannot_be(folders, key, value, expected):
    folder, path = folders["hugging_face"]
    error = open_changed(folder, path, with_value(path, key, value))
    assert_says(error, f"{path}: `", expected)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("vocabulary_size", 10**12, "must be the sizes of the weights"),
        ("num_layers", 10**9, "must be the sizes of the weights"),
        ("dropout", [0.1], "cannot load the model"),
    ],
)
def test_arguments_of_a_preset(folders, key, value, message):
    folder, path = folders["keras_hub"]
    config = json.loads(path.read_text())
    config["config"][key] = value
    error = open_changed(folder, path, json.dumps(config))
    assert_says(error, str(folder), message)


CONFIG, FAST = "tokenizer_config.json", "tokenizer.json"


@pytest.mark.parametrize(
    ("name", "content", "key"),
    [
        (CONFIG, {"do_lower_case": "yes"}, "`do_lower_case"),
        (CONFIG, {"do_basic_tokenize": False}, "`do_basic_tokenize"),
        (CONFIG, {"never_split": ["co-op"]}, "`never_split"),
        (CONFIG, {"unk_token": {"content": "<unk>"}}, "`unk_token"),
        # Defined by tokenizer.json, which is missing.
        (CONFIG, {"tokenizer_class": "PreTrainedTokenizerFast"}, "`tokenizer_class"),
        (CONFIG, {"added_tokens_decoder": {"9": "@USER"}}, "`added_tokens_decoder"),
        ("added_tokens.json", {"@USER": "last"}, "must have ids by their tokens"),
        (FAST, {"model": {}}, "no tokenizer"),
        (FAST, {"normalizer": {"type": "NFC"}}, "`normalizer"),
        (FAST, {"pre_tokenizer": {"type": "Whitespace"}}, "`pre_tokenizer"),
    ],
)
def test_a_different_tokenizer_is_refused(tmp_path, name, content, key):
    folder = foreign_files.write_hugging_face(tmp_path / "theirs")
    if name == FAST:
        tokenizer_of({"[UNK]": 0}).save(str(folder / name))
        content = json.loads((folder / name).read_text()) | content
    (folder / name).write_text(json.dumps(content))
    with pytest.raises(ForeignWeightsError) as raised:
        convert.open_model(folder)
    assert_says(raised.value, f"{folder / name}: {key}")


# === Weights ===


def refused(path, tmp_path, *parts, config=None, error=ForeignWeightsError, **options):
    """Checks that the conversion raises an error with all parts, and writes nothing."""
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(error) as raised:
        convert.convert(
            convert.open_model(path), tmp_path / "new" / "model", config, **options
        )
    for part in parts:
        assert part in str(raised.value), raised.value
    assert sorted(tmp_path.rglob("*")) == before


def changed(tmp_path, change=bool, **config):
    """The stored BERT with changed tensors."""
    tensors = foreign_files.hugging_face_tensors()
    change(tensors)
    return foreign_files.write_hugging_face(tmp_path / "theirs", tensors, **config)


HEAD_BIAS = "cls.predictions.transform.LayerNorm.bias"


def _spoil(tensors):
    tensors[QUERY][3, 4] = np.nan


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (lambda t: t.pop(QUERY), [f"the tensor {QUERY!r} is missing"]),
        (lambda t: t.update({"bert.x": t.pop(WORDS)}), [WORDS, "none of that name"]),
        (lambda t: t.update({QUERY: t[QUERY][:, :6]}), [QUERY, "(8, 8)", "(8, 6)"]),
        (lambda t: t.pop(HEAD_BIAS), [f"the tensor {HEAD_BIAS!r} is missing"]),
        (_spoil, [QUERY, "finite numbers"]),
        (lambda t: t.update({QUERY: t[QUERY].astype("int32")}), [QUERY, "int32"]),
    ],
    ids=["missing", "words", "shape", "half a head", "not finite", "integers"],
)
def test_wrong_tensors(tmp_path, change, parts):
    refused(changed(tmp_path, change), tmp_path, *parts)


@pytest.mark.parametrize("length", [0, 3_000, -1])
def test_a_truncated_safetensors_file(tmp_path, length):
    path = changed(tmp_path) / "model.safetensors"
    path.write_bytes(path.read_bytes()[:length])
    refused(path.parent, tmp_path, "model.safetensors", "cut short")


def test_vocabularies_that_do_not_fit(tmp_path):
    parts = ("`vocab_size`", "30", "of 31 pieces")
    folder = changed(tmp_path)
    for theirs in (folder, foreign_files.write_google(tmp_path / "google")):
        foreign_files.write_vocabulary(theirs, 31)
        refused(theirs, tmp_path, "vocab.txt", *parts)
    preset = write_preset(tmp_path / "preset")
    foreign_files.write_vocabulary(preset, 31)
    refused(preset, tmp_path, *parts, vocab_file=preset / "vocab.txt")
    (folder / "vocab.txt").unlink()
    refused(folder, tmp_path, "`--vocab_file`", error=ValueError)
    folder = foreign_files.write_hugging_face(tmp_path / "more", vocab_size=33)
    foreign_files.write_vocabulary(folder, 33)
    refused(folder, tmp_path, WORDS, "each of the 33 pieces", "Found: 30 rows")


@pytest.mark.parametrize(
    ("model", "parts"),
    [
        ({"num_layers": 3}, ("`model.num_layers` must be 2", "model.num_layers=3")),
        ({"num_heads": 4}, ("`model.num_heads` must be 2", "model.num_heads=4")),
        ({"hidden_size": 6}, ("word_embeddings.weight'", "(None, 6)", "(30, 8)")),
    ],
)
def test_a_config_of_another_model(tmp_path, model, parts):
    config = run_config(BERT_WITH_PS, **model)
    refused(foreign_files.HUGGING_FACE_DIR, tmp_path, *parts, config=config)


def test_google_s_files(tmp_path):
    folder = foreign_files.write_google(tmp_path / "whole")
    for pattern, length in (("*.data-*", -200), ("*.index", 50)):
        (path,) = folder.glob(pattern)
        content = path.read_bytes()
        path.write_bytes(content[:length])
        refused(folder, tmp_path, "bert_model.ckpt: damaged, cut short")
        path.write_bytes(content)
    (folder / "bert_config.json").unlink()
    refused(folder, tmp_path, "bert_config.json", error=OSError)


def test_several_checkpoints_in_a_folder(tmp_path):
    folder = foreign_files.write_google(tmp_path / "theirs")
    for path in list(folder.glob("bert_model.ckpt*")):
        copy = path.with_name(path.name.replace("bert_model", "other"))
        copy.write_bytes(path.read_bytes())
    refused(folder, tmp_path, "`--from` must name one", "bert_model.ckpt, other.ckpt")
    convert.convert(convert.open_model(folder / "bert_model.ckpt"), tmp_path / "ours")


def test_presets_of_keras_hub(tmp_path):
    folder = write_preset(tmp_path / "truncated", num_layers=1)
    path = folder / "model.weights.h5"
    content = path.read_bytes()
    path.write_bytes(content[:5_000])
    vocabulary = {"vocab_file": folder / "vocab.txt"}
    refused(folder, tmp_path, str(folder), "cannot load", **vocabulary)
    path.write_bytes(content)
    config = json.loads((folder / "config.json").read_text())
    config["registered_name"] = "keras_hub>RobertaBackbone"
    (folder / "config.json").write_text(json.dumps(config))
    refused(folder, tmp_path, "RobertaBackbone", **vocabulary)


def test_nothing_that_can_be_read(tmp_path):
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", tmp_path, "`--from`", "a folder with none of them")
    refused(tmp_path / "absent", tmp_path, "`--from`", "which does not exist")
