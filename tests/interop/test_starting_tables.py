"""A BERT in a model with other tables: equal to BERT where the report says so."""

import dataclasses

import numpy as np
import pytest

from seg_tf.checkpoints import contents
from seg_tf.checkpoints.pretrained import load_pretrained
from seg_tf.config import EncoderConfig, RunConfig, SentenceUnshufflingConfig
from seg_tf.data.inputs import WindowInputsConfig
from seg_tf.interop import convert, weights
from seg_tf.interop.weights import ForeignWeightsError
from seg_tf.text.normalization import UNCASED
from seg_tf.text.splitters import SentenceFunction
from tests.inference import tiny_slm
from tests.interop import foreign_files
from tests.interop.foreign_files import HEADS, HUGGING_FACE_DIR, INNER, LAYERS, WIDTH
from tests.interop.test_weights_in import imported

pytestmark = pytest.mark.slow

BERT_WITH_PS = {"position_index": 12, "paragraph_index": 4, "sentence_index": 5}
SEGABERT = {"paragraph_index": 4, "sentence_index": 5, "token_index": 9}
SLM = {"position_index": 12, "sentence_id": 6}


def run_config(index_tables, num_token_types=0, **model):
    # Of the stored Hugging Face model.
    settings = {
        "num_layers": LAYERS,
        "hidden_size": WIDTH,
        "num_heads": HEADS,
        "intermediate_size": INNER,
        "layer_norm_epsilon": 1e-3,
        "approximate_gelu": False,
        **model,
    }
    return RunConfig(
        name="given",
        paper="segabert_base",
        model=EncoderConfig(
            index_tables=index_tables, num_token_types=num_token_types, **settings
        ),
        inputs=WindowInputsConfig(window_length=9),
    )


@pytest.fixture(name="bert", scope="module")
def _bert(tmp_path_factory):
    """The stored BERT as it is."""
    output = tmp_path_factory.mktemp("bert") / "model"
    return imported(HUGGING_FACE_DIR, output)[0].encoder


def features_of(sentences, index_tables):
    """`[CLS] pieces [SEP]` of one paragraph, by the fidelity sheet's rules."""
    pieces = [piece for sentence in sentences for piece in sentence]
    ids = [foreign_files.CLS_ID, *pieces, foreign_files.SEP_ID]
    sentence = [n for n, one in enumerate(sentences) for _ in one]
    token = [n for one in sentences for n in range(len(one))]
    rows = {
        "token_ids": ids,
        "position_index": range(len(ids)),
        "paragraph_index": [2] * len(ids),
        "sentence_index": [sentence[0], *sentence, sentence[-1]],
        "token_index": [token[0], *token, token[-1] + 1],
        "sentence_id": [0, *(n + 1 for n in sentence), len(sentences) + 1],
    }
    return {
        name: np.array([list(values)], "int32")
        for name, values in rows.items()
        if name in ("token_ids", "position_index", *index_tables)
    } | {
        "padding_mask": np.ones((1, len(ids)), bool),
        "token_type": np.zeros((1, len(ids)), "int32"),
    }


def difference(bert, encoder, features):
    return np.abs(np.asarray(encoder(features)) - np.asarray(bert(features))).max()


@pytest.mark.parametrize(
    ("index_tables", "num_token_types"),
    [
        pytest.param(SLM, 2, id="SLM"),
        pytest.param({**SEGABERT, "position_index": 12}, 0, id="with positions"),
    ],
)
def test_models_with_positions_equal_bert(
    tmp_path, bert, index_tables, num_token_types
):
    config = run_config(index_tables, num_token_types)
    model, report = imported(HUGGING_FACE_DIR, tmp_path / "model", config=config)
    features = features_of([[7, 8, 9], [10, 11], [12]], index_tables)
    assert difference(bert, model.encoder, features) < 1e-5
    types = "" if num_token_types else " with token types below 1"
    assert report.equal_for == f"every window{types}"
    zeros = [name for name, how in report.tables.items() if how.startswith("zeros")]
    assert len(zeros) == len(index_tables) - 1
    assert not report.new


def test_segabert_equals_bert_on_windows_of_one_sentence(tmp_path, bert):
    config = run_config(SEGABERT)
    model, report = imported(HUGGING_FACE_DIR, tmp_path / "model", config=config)
    limits = "token_index below 9 and token types below 1"
    assert report.equal_for == f"windows of one sentence with {limits}"
    for length in (1, 5, 8):
        features = features_of([list(range(6, 6 + length))], SEGABERT)
        assert difference(bert, model.encoder, features) < 1e-5
    # The ninth piece's [SEP] would need a row that the table of nine has not.
    two_sentences = features_of([[7, 8, 9], [10, 11]], SEGABERT)
    assert difference(bert, model.encoder, two_sentences) > 0.01


def test_an_unmatched_tensor_of_the_encoder_takes_equality_away(tmp_path):
    tensors = foreign_files.hugging_face_tensors()
    harmless = np.ones((1, 12), "float32")
    tensors["bert.embeddings.position_ids"] = harmless
    tensors["classifier.weight"] = harmless
    folder = foreign_files.write_hugging_face(tmp_path / "equal", tensors)
    report = convert.convert(convert.open_model(folder), tmp_path / "model")
    assert report.equal_for == "every window"
    assert report.missing == ()
    extra = "bert.encoder.layer.0.adapter.down.weight"
    folder = foreign_files.write_hugging_face(
        tmp_path / "unequal", {**tensors, extra: harmless}
    )
    report = convert.convert(convert.open_model(folder), tmp_path / "another")
    assert report.missing == (extra,)
    assert extra in report.unmatched
    assert report.equality().startswith("Equal to the source: for no window")
    assert extra in report.equality()
    assert report.equal_for == ""


def test_a_checkpoint_of_this_package_gives_another_model_its_start(tmp_path):
    theirs = foreign_files.write_hugging_face(
        tmp_path / "theirs", foreign_files.segabert_tensors()
    )
    # Of what is read again, one is SegaBERT and the other has a table of neither.
    before, both = tmp_path / "segabert", tmp_path / "both"
    convert.convert(convert.open_model(theirs), before)
    rows = load_pretrained(before).config.model.index_tables
    unshuffling = SentenceUnshufflingConfig(num_layers=1)
    given = run_config({**rows, "sentence_id": 6}, layer_norm_epsilon=1e-5)
    given = dataclasses.replace(
        given, objectives={**given.objectives, "unshuffling": unshuffling}
    )
    report = convert.convert(convert.open_checkpoint(before), both, given)
    assert report.format == convert.SEG_TF
    assert report.equal_for == "every window with token types below 1"
    assert not report.unmatched
    assert report.new
    assert all("reconstructor" in path for path in report.new)
    features = features_of([[7, 8, 9], [10, 11], [12]], given.model.index_tables)
    segabert, slm = load_pretrained(before), load_pretrained(both)
    assert difference(segabert.encoder, slm.encoder, features) < 1e-5
    theirs, ours = (
        weights.named_variables(one.encoder, one.objectives) for one in (segabert, slm)
    )
    head = [name for name in ours if name.startswith(weights.HEAD)]
    assert head
    for name in head:
        np.testing.assert_array_equal(theirs[name], ours[name])
    # Tables without a place are reported.
    back = convert.convert(
        convert.open_checkpoint(both), tmp_path / "back", run_config(rows)
    )
    assert back.missing == ("index_embedding/sentence_id",)
    assert "weights of its objective unshuffling are not used" in back.notes
    assert back.equal_for == ""


def test_the_modern_trunk_starts_slm(tmp_path):
    modern = {"trunk": "modern", "rotary_shares": {"token_index": 1.0}}
    config = dataclasses.replace(
        tiny_slm.config(), model=tiny_slm.tiny_encoder({}, **modern)
    )
    source = tiny_slm.write_checkpoint(tmp_path / "source", config)
    slm = tiny_slm.config(SentenceUnshufflingConfig(num_layers=1))
    slm = dataclasses.replace(
        slm, model=tiny_slm.tiny_encoder({"sentence_id": 6}, **modern)
    )
    report = convert.convert(convert.open_checkpoint(source), tmp_path / "slm", slm)
    assert report.equal_for == "every window"
    assert not report.unmatched
    features = features_of([[7, 8, 9], [10, 11]], ("token_index", "sentence_id"))
    before, after = load_pretrained(source), load_pretrained(tmp_path / "slm")
    assert difference(before.encoder, after.encoder, features) < 1e-5
    # Another weight of a loss and other dropout need no conversion.
    unshuffling = SentenceUnshufflingConfig(num_layers=1, loss_weight=2.0)
    other = dataclasses.replace(
        slm,
        objectives={**slm.objectives, "objective_0": unshuffling},
        model=dataclasses.replace(slm.model, dropout=0.3, layer_norm_epsilon=0.5),
    )
    assert convert.find_initial(tmp_path / "slm", "checkpoint", other) == after.folder
    # A larger table does. The reconstructor stays.
    tables = {"sentence_id": 8}
    larger = dataclasses.replace(
        slm, model=dataclasses.replace(slm.model, index_tables=tables)
    )
    slm_again = convert.open_checkpoint(after.folder)
    report = convert.convert(slm_again, tmp_path / "larger", larger, fixed=())
    assert not report.new
    larger = load_pretrained(tmp_path / "larger")
    copied, given = (
        contents.objective_variables(one.encoder, one.objectives)
        for one in (larger, after)
    )
    np.testing.assert_equal(*([*map(np.asarray, some)] for some in (copied, given)))
    with pytest.raises(ForeignWeightsError, match="trunk` must be 'modern', as in"):
        convert.convert(
            convert.open_checkpoint(source), tmp_path / "no", run_config({})
        )


def test_what_a_checkpoint_of_this_package_carries_comes_along(tmp_path):
    parameters = SentenceFunction("textwrap:wrap").to_bytes()
    source = tiny_slm.write_checkpoint(
        tmp_path / "source",
        sentence_parameters=parameters,
        sentence_splitter={"name": "function:textwrap:wrap"},
    )
    pooler = {
        "pooler/kernel": np.full((16, 16), 2.0, "float32"),
        "pooler/bias": np.ones(16, "float32"),
    }
    weights.write_pooler(load_pretrained(source).folder, pooler)
    config = dataclasses.replace(tiny_slm.config(), objectives={})
    report = convert.convert(
        convert.open_checkpoint(source), tmp_path / "made", config, fixed=()
    )
    # Positions and token index side by side, both read.
    assert report.equal_for.startswith("every window")
    assert len(report.unmatched) == 5
    assert all(name.startswith("head/") for name in report.unmatched)
    before, made_of_it = load_pretrained(source), load_pretrained(tmp_path / "made")
    np.testing.assert_equal(
        made_of_it.encoder.get_weights(), before.encoder.get_weights()
    )
    assert made_of_it.sentence_parameters.name == "function:textwrap:wrap"
    assert made_of_it.sentence_splitter == before.sentence_splitter != {}
    assert made_of_it.normalization == UNCASED
    np.testing.assert_equal(weights.read_pooler(made_of_it.folder), pooler)


def test_a_head_that_nobody_trained_is_new_again(tmp_path):
    tensors = {
        name: one
        for name, one in foreign_files.hugging_face_tensors().items()
        if not name.startswith("cls.")
    }
    theirs = foreign_files.write_hugging_face(tmp_path / "theirs", tensors)
    convert.convert(convert.open_model(theirs), tmp_path / "first")
    config = run_config({"position_index": 12, "paragraph_index": 3}, 2)
    first = convert.open_checkpoint(tmp_path / "first")
    report = convert.convert(first, tmp_path / "second", config)
    assert len([name for name in report.new if "/head/" in name]) == 5
    assert not weights.has_trained_head(load_pretrained(tmp_path / "second"))


def tables(**rows):
    """Tables with distinct rows: row r of table t is 100 t + r."""
    return {
        weights.WORDS if name == "token_ids" else weights.TABLES + name: (
            np.tile(np.arange(count, dtype="float32")[:, None] + 100 * number, 2)
        )
        for number, (name, count) in enumerate(rows.items(), start=1)
    }


def start(source, index_tables, num_token_types=0):
    result = convert.starting_tables(source, index_tables, num_token_types, 5, 2)
    return {
        name.removeprefix(weights.TABLES): value[:, 0].tolist()
        for name, value in result.values.items()
    }, result


BERT = {"token_ids": 6, "position_index": 4, "token_type": 2}


def test_rows_are_cut_or_repeated():
    source = tables(**BERT)
    values, result = start(source, {"position_index": 3}, num_token_types=2)
    assert values["position_index"] == [200.0, 201.0, 202.0]
    assert values["token_type"] == [300.0, 301.0]
    assert result.origins["index_embedding/position_index"] == "3 of 4 rows"
    assert result.equal_for == "every window with position_index below 3"
    values, result = start(source, {"position_index": 6}, num_token_types=3)
    assert values["position_index"] == [200.0, 201.0, 202.0, 203.0, 203.0, 203.0]
    assert values["token_type"] == [300.0, 301.0, 301.0]
    assert (
        "the last repeated 2 times" in result.origins["index_embedding/position_index"]
    )
    # Without types, the positions include the first.
    values, result = start(source, {"position_index": 4})
    assert values["position_index"] == [500.0, 501.0, 502.0, 503.0]
    assert result.equal_for == "every window with token types below 1"
    # Neither positions nor token index: no equality.
    values, result = start(source, {"paragraph_index": 2}, num_token_types=1)
    assert result.equal_for == ""
    assert result.unused == ["index_embedding/position_index"]
    assert values["token_type"] == [300.0]
