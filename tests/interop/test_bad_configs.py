"""Configs of foreign models with any JSON value in any key: the project's own error."""

import json
import re

import hypothesis
import keras_hub
import pytest
from hypothesis import strategies

from seg_tf.interop import convert, hugging_face
from seg_tf.interop.weights import ForeignModel, ForeignWeightsError
from tests.interop import foreign_files
from tests.interop.foreign_files import HEADS, INNER, LAYERS, NUM_WORDS, WIDTH

SIZES = {
    "num_hidden_layers": LAYERS,
    "hidden_size": WIDTH,
    "num_attention_heads": HEADS,
    "intermediate_size": INNER,
}
NUMBERS = ("hidden_dropout_prob", "initializer_range", "vocab_size")
HUGGING_FACE_KEYS = (
    *SIZES,
    *NUMBERS,
    *("hidden_act", "layer_norm_eps", "model_type", "position_embedding_type"),
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


@pytest.fixture(name="folders", scope="module")
def _folders(tmp_path_factory):
    """A model in each format, and the file of its config."""
    folder = tmp_path_factory.mktemp("models")
    tensors = foreign_files.hugging_face_tensors()
    theirs = foreign_files.write_hugging_face(folder / "hugging_face", tensors)
    google = foreign_files.write_google(folder / "google")
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=NUM_WORDS,
        num_layers=LAYERS,
        num_heads=HEADS,
        hidden_dim=WIDTH,
        intermediate_dim=INNER,
        max_sequence_length=12,
    )
    backbone.save_to_preset(str(folder / "keras_hub"))
    return {
        "hugging_face": (theirs, theirs / "config.json"),
        "google": (google, google / "bert_config.json"),
        "keras_hub": (folder / "keras_hub", folder / "keras_hub" / "config.json"),
    }


def opened(folder, path, text):
    """The model whose config is `text`, or the error; the config is as before then."""
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


def assert_says(error, *said):
    assert isinstance(error, ForeignWeightsError), error
    for one in said:
        assert one in str(error), error


@FUZZED
@hypothesis.given(key=strategies.sampled_from(HUGGING_FACE_KEYS), value=JSON_VALUES)
@hypothesis.example(key="num_attention_heads", value=3)  # 8 is no multiple of it
def test_any_value_in_hugging_face_s_config(folders, key, value):
    folder, path = folders["hugging_face"]
    found = opened(folder, path, with_value(path, key, value))
    if not isinstance(found, ForeignModel):
        assert_says(found, f"{path}: `", f"`{key}`", " must be ", "Found: ")


@FUZZED
@hypothesis.given(
    key=strategies.sampled_from((*SIZES, *NUMBERS, "hidden_act")), value=JSON_VALUES
)
@hypothesis.example(key="num_attention_heads", value=3)  # 8 is no multiple of it
def test_any_value_in_google_s_config(folders, key, value):
    folder, path = folders["google"]
    found = opened(folder, path, with_value(path, key, value))
    if not isinstance(found, ForeignModel):
        assert_says(found, f"{path}: `", f"`{key}`", " must be ", "Found: ")


@pytest.mark.parametrize("kind", ["hugging_face", "google"])
@pytest.mark.parametrize(("key", "size"), SIZES.items())
@pytest.mark.parametrize("value", [10**9, 10**40, 0, -1, 1.0, 1e9, True, "2", [2]])
def test_sizes_are_positive_and_those_of_the_tensors(folders, kind, key, size, value):
    folder, path = folders[kind]
    found = opened(folder, path, with_value(path, key, value))
    assert_says(found, f"{path}: `", f"`{key}`", "Found: ")
    is_count = type(value) is int and value > 0
    if is_count and key != "num_attention_heads":
        # Heads and width are compared before the tensors are.
        assert re.search(rf"must be (that of .*)?{size}|multiple of", str(found)), found


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("hidden_act", ["gelu"], "one of gelu, "),
        ("hidden_act", {"gelu": 1}, "one of gelu, "),
        ("hidden_dropout_prob", 1, "a number of at least 0 and below 1"),
        ("hidden_dropout_prob", "0.1", "a number of at least 0 and below 1"),
        ("initializer_range", float("nan"), "a number above 0 and at most 1"),
        ("initializer_range", 10**400, "a number above 0 and at most 1"),
        ("layer_norm_eps", 0, "a number above 0 and at most 1"),
        ("layer_norm_eps", float("inf"), "a number above 0 and at most 1"),
        ("is_decoder", 0, "False"),
        ("vocab_size", True, "a positive integer"),
    ],
)
def test_settings_out_of_range(folders, key, value, expected):
    folder, path = folders["hugging_face"]
    found = opened(folder, path, with_value(path, key, value))
    assert_says(found, f"{path}: `{key}` must be {expected}", "Found: ")


@pytest.mark.parametrize("kind", ["hugging_face", "google"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            b'{"model_type": "\xff"}',
            "expected UTF-8, found byte 0xFF at byte 16",
            id="not UTF-8",
        ),
        pytest.param("[" * 100_000, "not valid JSON", id="too deep"),
        pytest.param(
            '{"hidden_size": ' + "9" * 5_000 + "}",
            "not valid JSON",
            id="too many digits",
        ),
        pytest.param('{"hidden_size": 8', "not valid JSON", id="cut short"),
    ],
)
def test_files_that_hold_no_json(folders, kind, text, said):
    folder, path = folders[kind]
    assert_says(opened(folder, path, text), str(path), said)


TOKENIZER_CONFIG, TOKENIZER = "tokenizer_config.json", "tokenizer.json"
FAST = {
    "normalizer": {"type": "BertNormalizer", "lowercase": True},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "model": {"type": "WordPiece"},
}


@pytest.mark.parametrize(
    ("name", "content", "key"),
    [
        (TOKENIZER_CONFIG, {"strip_accents": "no"}, "strip_accents"),
        (TOKENIZER_CONFIG, {"tokenize_chinese_chars": 0}, "tokenize_chinese_chars"),
        (TOKENIZER_CONFIG, {"do_basic_tokenize": False}, "do_basic_tokenize"),
        (TOKENIZER_CONFIG, {"never_split": ["[MASK]", "co-op"]}, "never_split"),
        (TOKENIZER_CONFIG, {"never_split": 3}, "never_split"),
        (TOKENIZER_CONFIG, {"word_tokenizer_type": "mecab"}, "word_tokenizer_type"),
        (
            TOKENIZER_CONFIG,
            {"subword_tokenizer_type": "character"},
            "subword_tokenizer_type",
        ),
        (TOKENIZER_CONFIG, {"unk_token": {"content": "<unk>"}}, "unk_token"),
        (TOKENIZER_CONFIG, {"wordpieces_prefix": "@@"}, "wordpieces_prefix"),
        (
            TOKENIZER_CONFIG,
            {"tokenizer_class": "BertJapaneseTokenizer"},
            "tokenizer_class",
        ),
        # What it is, tokenizer.json says, which is not there.
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
        (TOKENIZER, FAST | {"pre_tokenizer": {"type": "Whitespace"}}, "pre_tokenizer"),
        (TOKENIZER, FAST | {"normalizer": {"type": "Sequence"}}, "normalizer.type"),
        (
            TOKENIZER,
            FAST | {"normalizer": FAST["normalizer"] | {"clean_text": False}},
            "normalizer.clean_text",
        ),
        (
            TOKENIZER,
            FAST | {"normalizer": FAST["normalizer"] | {"lowercase": "x"}},
            "normalizer.lowercase",
        ),
        (TOKENIZER, FAST | {"model": {"type": "BPE"}}, "model.type"),
        (TOKENIZER, FAST | {"added_tokens": ["@USER"]}, "added_tokens"),
        (TOKENIZER, FAST | {"normalizer": None}, "normalizer"),
    ],
)
def test_a_tokenizer_that_ours_is_not_is_refused(tmp_path, name, content, key):
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
        found, _, _ = hugging_face.read_tokenizer(tmp_path)
    except ForeignWeightsError as error:
        assert_says(error, f"{path}: `", " must be ", "Found: ")
    else:
        assert {type(setting) for setting in found.values()} <= {bool}
    path.unlink()


def test_the_class_of_the_tokenizer_may_be_in_the_config_of_the_model(tmp_path):
    tensors = foreign_files.hugging_face_tensors()
    folder = foreign_files.write_hugging_face(
        tmp_path / "theirs", tensors, tokenizer_class="BertJapaneseTokenizer"
    )
    with pytest.raises(ForeignWeightsError, match=r"config.json: `tokenizer_class`"):
        convert.open_model(folder)


def test_files_of_a_tokenizer_that_contradict_each_other_are_refused(tmp_path):
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


@pytest.mark.parametrize("value", ["yes", 1, [True], {}])
def test_the_case_of_a_tokenizer_is_true_or_false(tmp_path, value):
    tensors = foreign_files.hugging_face_tensors()
    folder = foreign_files.write_hugging_face(tmp_path / "theirs", tensors)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({"do_lower_case": value}))
    with pytest.raises(ForeignWeightsError) as raised:
        convert.open_model(folder)
    assert_says(raised.value, f"{path}: `do_lower_case` must be true or false")


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("num_layers", 10**9, "`num_layers`"),
        ("vocabulary_size", 10**12, "`vocabulary_size`"),
        ("hidden_dim", 10**9, "`hidden_dim`"),
        ("num_layers", "2", "`config.num_layers` must be a positive integer"),
        ("num_segments", None, "`config.num_segments` must be a positive integer"),
        ("dropout", [0.1], "`config.dropout` must be a number"),
    ],
)
def test_arguments_of_a_preset(folders, key, value, said):
    folder, path = folders["keras_hub"]
    config = json.loads(path.read_text())
    config["config"][key] = value
    assert_says(opened(folder, path, json.dumps(config)), str(path), said, "Found: ")


@pytest.mark.parametrize("value", [None, [], "config", 3])
def test_a_preset_without_arguments(folders, value):
    folder, path = folders["keras_hub"]
    found = opened(folder, path, with_value(path, "config", value))
    assert_says(found, f"{path}: `config` must be a JSON object", "Found: ")
