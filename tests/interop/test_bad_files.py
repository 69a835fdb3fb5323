"""Wrong, truncated and mismatched models: named errors, and nothing written."""

import json
import re

import hypothesis
import keras_hub
import numpy as np
import pytest
from hypothesis import strategies

from seg_tf.checkpoints.pretrained import load_pretrained
from seg_tf.interop import convert, hugging_face
from seg_tf.interop.weights import ForeignModel, ForeignWeightsError
from tests.interop import foreign_files
from tests.interop.foreign_files import HEADS, INNER, LAYERS, NUM_WORDS, WIDTH
from tests.interop.test_starting_tables import BERT_WITH_PS, run_config

QUERY = "bert.encoder.layer.1.attention.self.query.weight"
GOOGLE_QUERY = "bert/encoder/layer_1/attention/self/query/kernel"
SIZES = {
    "num_hidden_layers": LAYERS,
    "hidden_size": WIDTH,
    "num_attention_heads": HEADS,
    "intermediate_size": INNER,
}
GOOGLE_KEYS = (
    *SIZES,
    *("hidden_dropout_prob", "initializer_range", "vocab_size", "hidden_act"),
)
HUGGING_FACE_KEYS = (
    *GOOGLE_KEYS,
    *("layer_norm_eps", "model_type", "position_embedding_type"),
    *("is_decoder", "add_cross_attention"),
)
JSON_VALUES = strategies.recursive(
    strategies.none()
    | strategies.booleans()
    | strategies.integers()
    | strategies.sampled_from([0, 1, 2, 10**9, 10**40, "gelu", "bert", "absolute"])
    | strategies.floats()
    | strategies.text(max_size=5),
    lambda inner: (
        strategies.lists(inner, max_size=2)
        | strategies.dictionaries(strategies.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)
FUZZED = hypothesis.settings(
    deadline=None,
    max_examples=100,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)


def write_preset(folder, num_layers=LAYERS):
    keras_hub.models.BertBackbone(
        vocabulary_size=NUM_WORDS,
        num_layers=num_layers,
        num_heads=HEADS,
        hidden_dim=WIDTH,
        intermediate_dim=INNER,
        max_sequence_length=12,
    ).save_to_preset(str(folder))
    foreign_files.write_vocabulary(folder)
    return folder


@pytest.fixture(name="folders", scope="module")
def _folders(tmp_path_factory):
    """A model in each format, and the file of its config."""
    folder = tmp_path_factory.mktemp("models")
    tensors = foreign_files.hugging_face_tensors()
    theirs = foreign_files.write_hugging_face(folder / "hugging_face", tensors)
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


@pytest.mark.parametrize(
    ("kind", "keys"), [("hugging_face", HUGGING_FACE_KEYS), ("google", GOOGLE_KEYS)]
)
def test_any_value_in_a_config(folders, kind, keys):
    folder, path = folders[kind]

    @FUZZED
    @hypothesis.given(key=strategies.sampled_from(keys), value=JSON_VALUES)
    @hypothesis.example(key="num_attention_heads", value=3)  # 8 is no multiple of it
    def check(key, value):
        model = open_changed(folder, path, with_value(path, key, value))
        if not isinstance(model, ForeignModel):
            assert_says(model, f"{path}: `", f"`{key}`", " must be ", "Found: ")

    check()


@pytest.mark.parametrize("kind", ["hugging_face", "google"])
@pytest.mark.parametrize(("key", "size"), SIZES.items())
@pytest.mark.parametrize("value", [10**9, 10**40, 0, -1, 1.0, True, "2", [2]])
def test_sizes_are_positive_and_those_of_the_tensors(folders, kind, key, size, value):
    folder, path = folders[kind]
    error = open_changed(folder, path, with_value(path, key, value))
    assert_says(error, f"{path}: `", f"`{key}`", "Found: ")
    if value == 10**9 and key != "num_attention_heads":
        # Width and heads are compared before the tensors.
        assert re.search(rf"must be (that of .*)?{size}|multiple of", str(error))


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("model_type", "roberta", "'bert'"),
        ("hidden_act", "relu", "one of gelu, "),
        ("hidden_act", ["gelu"], "one of gelu, "),
        ("hidden_dropout_prob", 1, "a number of at least 0 and below 1"),
        ("initializer_range", float("nan"), "a number above 0 and at most 1"),
        ("initializer_range", 10**400, "a number above 0 and at most 1"),
        ("layer_norm_eps", 0, "a number above 0 and at most 1"),
        ("position_embedding_type", "relative_key", "'absolute'"),
        ("is_decoder", 0, "False"),
        ("is_decoder", True, "False"),
        ("vocab_size", True, "a positive integer"),
    ],
)
def test_models_that_ours_cannot_be(folders, key, value, expected):
    folder, path = folders["hugging_face"]
    error = open_changed(folder, path, with_value(path, key, value))
    assert_says(error, f"{path}: `{key}` must be {expected}", "Found: ")


@pytest.mark.parametrize("kind", ["hugging_face", "google"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{"model_type": "\xff"}', "can't decode byte 0xff in position 16"),
        pytest.param("[" * 100_000, "not valid JSON", id="too deep"),
        pytest.param('{"a": ' + "9" * 5_000 + "}", "not valid JSON", id="many digits"),
        ('{"hidden_size": 8', "not valid JSON"),
    ],
)
def test_files_without_json(folders, kind, text, message):
    folder, path = folders[kind]
    assert_says(open_changed(folder, path, text), str(path), message)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("vocabulary_size", 10**12, "`config.vocabulary_size`"),
        ("num_layers", 10**9, "`num_layers`"),
        ("hidden_dim", 10**6, "`hidden_dim`"),
        ("num_layers", "2", "`config.num_layers` must be a positive integer"),
        ("dropout", [0.1], "`config.dropout` must be a number"),
        (None, None, "`config` must be a JSON object"),
    ],
)
def test_arguments_of_a_preset(folders, key, value, message):
    folder, path = folders["keras_hub"]
    config = json.loads(path.read_text())
    if key is None:
        config["config"] = value
    else:
        config["config"][key] = value
    error = open_changed(folder, path, json.dumps(config))
    assert_says(error, str(path), message, "Found: ")


# === Tokenizers ===

TOKENIZER_CONFIG, TOKENIZER = "tokenizer_config.json", "tokenizer.json"
FAST = {
    "normalizer": {"type": "BertNormalizer", "lowercase": True},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "model": {"type": "WordPiece"},
}


@pytest.mark.parametrize(
    ("name", "content", "key"),
    [
        (TOKENIZER_CONFIG, {"do_lower_case": "yes"}, "do_lower_case"),
        (TOKENIZER_CONFIG, {"strip_accents": "no"}, "strip_accents"),
        (TOKENIZER_CONFIG, {"tokenize_chinese_chars": 0}, "tokenize_chinese_chars"),
        (TOKENIZER_CONFIG, {"do_basic_tokenize": False}, "do_basic_tokenize"),
        (TOKENIZER_CONFIG, {"never_split": ["[MASK]", "co-op"]}, "never_split"),
        (TOKENIZER_CONFIG, {"word_tokenizer_type": "mecab"}, "word_tokenizer_type"),
        (TOKENIZER_CONFIG, {"unk_token": {"content": "<unk>"}}, "unk_token"),
        (TOKENIZER_CONFIG, {"tokenizer_class": "BertJapaneseTokenizer"}, "tokenizer_c"),
        # Defined by tokenizer.json, which is missing.
        (
            TOKENIZER_CONFIG,
            {"tokenizer_class": "PreTrainedTokenizerFast"},
            "tokenizer_class",
        ),
        (TOKENIZER_CONFIG, {"auto_map": {"AutoTokenizer": ["a.b"]}}, "auto_map"),
        (
            TOKENIZER_CONFIG,
            {"added_tokens_decoder": {"9": {"content": "@USER", "special": False}}},
            "added_tokens_decoder",
        ),
        (TOKENIZER, FAST | {"normalizer": {"type": "NFC"}}, "normalizer.type"),
        (TOKENIZER, FAST | {"model": {"type": "BPE"}}, "model.type"),
        (TOKENIZER, FAST | {"added_tokens": ["@USER"]}, "added_tokens"),
        (TOKENIZER, FAST | {"normalizer": None}, "normalizer"),
    ],
)
def test_a_different_tokenizer_is_refused(tmp_path, name, content, key):
    tensors = foreign_files.hugging_face_tensors()
    folder = foreign_files.write_hugging_face(tmp_path / "theirs", tensors)
    (folder / name).write_text(json.dumps(content))
    with pytest.raises(ForeignWeightsError) as raised:
        convert.open_model(folder)
    assert_says(raised.value, str(folder / name), f"`{key}", "Found: ")


@FUZZED
@hypothesis.given(
    name=strategies.sampled_from([TOKENIZER_CONFIG, TOKENIZER, "added_tokens.json"]),
    key=strategies.sampled_from(
        [
            *("do_lower_case", "strip_accents", "never_split", "added_tokens_decoder"),
            *("additional_special_tokens", "tokenizer_class", "unk_token", "auto_map"),
            *("normalizer", "pre_tokenizer", "model", "added_tokens"),
        ]
    ),
    value=JSON_VALUES,
)
def test_any_value_in_files_of_a_tokenizer(tmp_path, name, key, value):
    path = tmp_path / name
    path.write_text(json.dumps(FAST | {key: value}))
    try:
        settings, _, _ = hugging_face.read_tokenizer(tmp_path)
    except ForeignWeightsError as error:
        assert_says(error, f"{path}: `", " must be ", "Found: ")
    else:
        assert {type(setting) for setting in settings.values()} <= {bool}
    path.unlink()


def test_contradicting_files_of_a_tokenizer_are_refused(tmp_path):
    tensors = foreign_files.hugging_face_tensors()
    folder = foreign_files.write_hugging_face(tmp_path / "theirs", tensors)
    (folder / TOKENIZER).write_text(json.dumps(FAST))
    config = folder / TOKENIZER_CONFIG
    config.write_text(json.dumps({"do_lower_case": True, "strip_accents": True}))
    assert convert.open_model(folder).normalization["lower_case"]
    for wrong in (
        {"do_lower_case": False},
        {"do_lower_case": True, "strip_accents": False},
    ):
        config.write_text(json.dumps(wrong))
        with pytest.raises(ForeignWeightsError) as raised:
            convert.open_model(folder)
        assert_says(raised.value, f"{folder / TOKENIZER}: `normalizer.", "False, as")


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
        (lambda t: t.pop(QUERY), [QUERY, "(8, 8)", "no tensor of that name"]),
        (lambda t: t.update({QUERY: t[QUERY][:, :6]}), [QUERY, "(8, 8)", "(8, 6)"]),
        (lambda t: t.pop(HEAD_BIAS), [HEAD_BIAS, "(8)", "no tensor of that name"]),
        (
            lambda t: t.update(
                {"cls.predictions.bias": t["cls.predictions.bias"][:-1]}
            ),
            ["'cls.predictions.bias'", "(30)", "(29)"],
        ),
        (_spoil, [QUERY, "1 of 64"]),
        (lambda t: t.update({QUERY: t[QUERY].astype("int32")}), [QUERY, "I32"]),
    ],
    ids=["missing", "shape", "half a head", "head", "not finite", "integers"],
)
def test_wrong_tensors(tmp_path, change, parts):
    refused(changed(tmp_path, change), tmp_path, *parts)


@pytest.mark.parametrize("length", [0, 4, 100, 3_000, -1])
def test_a_truncated_safetensors_file(tmp_path, length):
    path = changed(tmp_path) / "model.safetensors"
    path.write_bytes(path.read_bytes()[:length])
    refused(path.parent, tmp_path, "model.safetensors", "cut short")


@pytest.mark.parametrize("prefix", ["", "bert."])
def test_a_config_of_another_number_of_layers(tmp_path, prefix):
    tensors = {
        name.replace("bert.", prefix): tensor
        for name, tensor in foreign_files.hugging_face_tensors().items()
    }
    for num_layers, parts in (
        (1, ("config says, 1", "2 layers", "encoder.layer.1.attention.output.LayerN")),
        (3, ("encoder.layer.2.attention.self.query.weight",)),
    ):
        folder = foreign_files.write_hugging_face(
            tmp_path / str(num_layers), tensors, num_hidden_layers=num_layers
        )
        refused(folder, tmp_path, *parts)
    folder = foreign_files.write_google(tmp_path / "google", num_hidden_layers=1)
    first = "bert/encoder/layer_1/attention/output/LayerNorm/beta"
    refused(folder, tmp_path, "config says, 1", "Found: 2 layers", repr(first))


def test_a_layer_after_a_gap(tmp_path):
    def renumber(tensors):
        for name in [name for name in tensors if ".layer.1." in name]:
            tensors[name.replace(".layer.1.", ".layer.10.")] = tensors[name]

    folder = changed(tmp_path, renumber)
    refused(folder, tmp_path, "config says, 2", "Found: 11 layers", ".layer.10.")


def test_vocabularies_that_do_not_fit(tmp_path):
    parts = ("`--vocab_file`", "`vocab_size`", "30", "of 31 pieces")
    folder = changed(tmp_path)
    for theirs in (folder, foreign_files.write_google(tmp_path / "google")):
        foreign_files.write_vocabulary(theirs, 31)
        refused(theirs, tmp_path, "vocab.txt", *parts)
    preset = write_preset(tmp_path / "preset")
    foreign_files.write_vocabulary(preset, 31)
    refused(preset, tmp_path, *parts, vocab_file=preset / "vocab.txt")
    (folder / "vocab.txt").unlink()
    refused(folder, tmp_path, "`--vocab_file`", error=ValueError)
    tensors = foreign_files.hugging_face_tensors()
    folder = foreign_files.write_hugging_face(tmp_path / "more", tensors, vocab_size=33)
    foreign_files.write_vocabulary(folder, 33)
    words = "'bert.embeddings.word_embeddings.weight'"
    refused(folder, tmp_path, words, "(33 or more, 8)", "Found: (30, 8)")


def test_padded_rows_of_the_table_are_dropped(tmp_path):
    folder = changed(tmp_path)
    foreign_files.write_vocabulary(folder, 24)
    report = convert.convert(convert.open_model(folder), tmp_path / "new")
    assert "6 rows of padding are dropped" in report.to_text()
    assert load_pretrained(tmp_path / "new").encoder.vocab_size == 24


@pytest.mark.parametrize(
    ("model", "parts"),
    [
        ({"num_layers": 3}, ("`model.num_layers` must be 2", "model.num_layers=3")),
        ({"num_layers": 1}, ("`model.num_layers` must be 2", "model.num_layers=1")),
        ({"num_heads": 4}, ("`model.num_heads` must be 2", "model.num_heads=4")),
        (
            {"intermediate_size": 12},
            ("intermediate.dense.weight'", "(12, 8)", "Found: (16, 8)"),
        ),
        ({"hidden_size": 6}, ("word_embeddings.weight'", "(any, 6)", "(30, 8)")),
    ],
)
def test_a_config_of_another_model(tmp_path, model, parts):
    config = run_config(BERT_WITH_PS, **model)
    refused(foreign_files.HUGGING_FACE_DIR, tmp_path, *parts, config=config)


def test_google_s_files(tmp_path):
    wrong = np.ones((8, 6), "float32")
    folder = foreign_files.write_google(tmp_path / "wrong", {GOOGLE_QUERY: wrong})
    refused(folder, tmp_path, repr(GOOGLE_QUERY), "(8, 8)", "Found: (8, 6)")
    folder = foreign_files.write_google(tmp_path / "less", {GOOGLE_QUERY: None})
    refused(folder, tmp_path, repr(GOOGLE_QUERY), "no tensor of that name")
    folder = foreign_files.write_google(tmp_path / "whole")
    for pattern, length, part in (
        ("*.data-*", -200, "the tensor 'bert/"),
        ("*.index", 50, "bert_model.ckpt: the index"),
    ):
        (path,) = folder.glob(pattern)
        content = path.read_bytes()
        path.write_bytes(content[:length])
        refused(folder, tmp_path, part, "cut short")
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
    config["config"]["intermediate_dim"] = 12
    (folder / "config.json").write_text(json.dumps(config))
    refused(folder, tmp_path, "(8, 12)", "(8, 16)", **vocabulary)
    config["registered_name"] = "keras_hub>RobertaBackbone"
    (folder / "config.json").write_text(json.dumps(config))
    refused(folder, tmp_path, "RobertaBackbone", **vocabulary)


def test_nothing_that_can_be_read(tmp_path):
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", tmp_path, "`--from`", "a folder with none of them")
    refused(tmp_path / "absent", tmp_path, "`--from`", "which does not exist")


def test_a_folder_in_use_is_not_changed(tmp_path):
    (tmp_path / "mine").write_text("kept")
    with pytest.raises(ValueError, match=re.escape("`--output_dir` must be a folder")):
        convert.convert(convert.open_model(foreign_files.HUGGING_FACE_DIR), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
