"""Rows of texts: tables written by hand, and the rows of pretraining."""

import dataclasses

import keras
import numpy as np
import pytest

from seg_tf.config import TransformerXLConfig
from seg_tf.data.inputs import LaneInputsConfig
from seg_tf.inference import attention
from seg_tf.inference.sentence_encoder import SentenceEncoder
from seg_tf.inference.texts import Sentence
from seg_tf.layouts.layout import FirstToken, PooledSentences, SentenceTokens
from seg_tf.layouts.rows import Segment, num_pieces
from seg_tf.text.tree import DocumentTree
from tests.finetuning.tiny_models import KINDS, example_of, some_texts, tiny

pytestmark = pytest.mark.slow
CLS, SEP, SENT, ATTENTION = 2, 3, 5, 5

# w0 is 7, w1 is 8, …
PAIR = [("w0 w1", "w2")]
FIVE = [("w0", "w1 w2", "", "w3", "w4")]


def encode(pretrained, layout, texts):
    """Examples of texts, and which were cut."""
    tuples = [(text,) if isinstance(text, str) else text for text in texts]
    room = layout.capacity(len(tuples[0]))
    return zip(*(example_of(pretrained, one, room) for one in tuples), strict=True)


def rows(pretrained, texts, layout=None):
    """The features of texts in one batch."""
    layout = layout or pretrained.layout()
    examples, _ = encode(pretrained, layout, texts)
    shape = np.max([layout.row_shape(one) for one in examples], axis=0)
    return layout.lay_out(examples, tuple(shape.tolist()))


def assert_row(features, expected, row=0):
    """Compares with a table that ends before the padding, which is 0."""
    for name, values in expected.items():
        found = features[name][row].tolist()
        assert found[: len(values)] == values, name
        assert not any(found[len(values) :]), name


WINDOWS = {
    "pair": (
        PAIR,
        {
            "token_ids": [CLS, 7, 8, SEP, 9, SEP],
            "padding_mask": [1, 1, 1, 1, 1, 1],
            "position_index": [0, 1, 2, 3, 4, 5],
            "paragraph_index": [0, 0, 0, 0, 1, 1],
            "sentence_index": [0, 0, 0, 0, 0, 0],
            "token_index": [0, 0, 1, 2, 0, 1],
            "token_type": [0, 0, 0, 0, 1, 1],
        },
    ),
    # One text is empty; there are three paragraphs in the table and two types.
    "five texts": (
        FIVE,
        {
            "token_ids": [CLS, 7, SEP, 8, 9, SEP, SEP, 10, SEP, 11, SEP],
            "padding_mask": [1] * 11,
            "position_index": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
            "paragraph_index": [0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 2],
            "sentence_index": [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            "token_index": [0, 0, 1, 0, 1, 2, 0, 0, 1, 0, 1],
            "token_type": [0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1],
        },
    ),
}


@pytest.mark.parametrize("kind", ["bert", "bert_ps", "segabert"])
@pytest.mark.parametrize("case", WINDOWS)
def test_windows_are_those_of_the_table(kind, case):
    texts, expected = WINDOWS[case]
    pretrained = tiny(kind, num_token_types=2)
    features = rows(pretrained, texts)
    names = {
        "token_ids",
        "padding_mask",
        "token_type",
        *pretrained.encoder.index_tables,
    }
    assert features.keys() == names
    assert_row(features, {name: expected[name] for name in names & expected.keys()})


def test_token_types_of_sentences_are_0_unless_asked_for():
    pretrained = tiny("slm", num_token_types=2)
    assert not rows(pretrained, PAIR)["token_type"].any()
    types = rows(pretrained, PAIR, pretrained.layout(for_spans=True))["token_type"]
    assert types[0, :7].tolist() == [0, 0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "reat"])
def test_sentences_of_one_text_are_laid_out_as_those_of_a_document(kind):
    # By the other layout: the graph of pretraining, on the tree of a document.
    pretrained = tiny(kind)
    lengths = [2, 3, 1]
    tree = DocumentTree(np.arange(7, 13), np.array(lengths), np.array([2, 1]))
    pieces = np.split(tree.token_ids, np.cumsum(lengths)[:-1])
    places = [(0, 0), (0, 1), (1, 0)]
    segments = [
        Segment(one, 0, *place) for one, place in zip(pieces, places, strict=True)
    ]
    layout = pretrained.layout()
    found = layout.lay_out([segments], layout.row_shape(segments))
    expected = attention.lay_out(tree, pretrained).features
    assert {"token_ids", "padding_mask"} < set(expected)
    for name, values in expected.items():
        num = values.shape[1]
        np.testing.assert_array_equal(found[name][:, :num], values, name)
        assert not found[name][:, num:].any(), name


def test_blocks_are_those_of_the_table():
    features = rows(tiny("reat"), PAIR)
    assert_row(
        features,
        {
            "token_ids": [CLS, ATTENTION, 7, 8, SEP, CLS, ATTENTION, 9, SEP],
            "position_index": [0, 1, 2, 3, 4, 0, 1, 2, 3],
            "sentence_number": [1, 1, 1, 1, 1, 2, 2, 2, 2],
            "text_number": [1] * 9,
            "sentence_position": [0, 0, 0, 0, 0, 1, 1, 1, 1],
            "sentence_starts": [0, 5],
            "sentence_mask": [1, 1],
            "given_text": [1, 2],
        },
    )
    assert features["token_ids"].shape == (1, 16)


def test_texts_longer_than_a_block_are_laid_out_in_even_parts():
    words = " ".join(f"w{number}" for number in range(28))
    features = rows(tiny("reat"), [("w50", words)])
    # 28 pieces, at most 13 a part: 10, 9 and 9. No two share a block.
    assert features["given_text"][0, :4].tolist() == [1, 2, 2, 2]
    starts = features["sentence_starts"][0, :4]
    ids = features["token_ids"][0]
    parts = []
    for start, length in zip(starts[1:], (10, 9, 9), strict=True):
        assert ids[start : start + 2].tolist() == [CLS, ATTENTION]
        assert ids[start + 2 + length] == SEP
        parts += ids[start + 2 : start + 2 + length].tolist()
    assert parts == list(range(7, 35))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("num_texts", [1, 2, 5])
def test_cut_texts_fill_the_longest_row_and_no_more(kind, num_texts):
    pretrained = tiny(kind)
    layout = pretrained.layout(max_length=40)
    generator = np.random.default_rng(0)
    texts = some_texts(generator, 20, num_texts, longest=80)
    examples, is_cut = encode(pretrained, layout, texts)
    specials = {"reat": 3 * num_texts}.get(kind, 1 + num_texts)
    specials += kind.endswith("slm")
    assert max(map(num_pieces, examples)) == 40 - specials
    assert 0 < sum(is_cut) < 20 or num_texts > 1
    for example in examples:
        shape = layout.row_shape(example)
        assert kind == "reat" or shape[0] <= 40
        layout.lay_out([example], shape)


@pytest.mark.parametrize("kind", ["bert", "slm"])
def test_more_positions_than_the_model_knows_are_refused(kind):
    with pytest.raises(ValueError, match=r"`max_length`.*48.*max_length=49"):
        tiny(kind).layout(max_length=49)


def test_parts_need_places_in_reat():
    layout = tiny("reat").layout()
    with pytest.raises(ValueError, match=r"positions, 8. Received: 9"):
        layout.row_shape([Segment(np.zeros(13 * 8 + 1, int))])


@pytest.mark.parametrize(("kind", "specials"), [("bert", 3), ("slm", 4), ("reat", 6)])
def test_special_tokens_have_to_fit(kind, specials):
    assert tiny(kind).layout(max_length=specials).capacity(2) == 0
    with pytest.raises(ValueError, match=f"at least {specials}.*{specials - 1}"):
        tiny(kind).layout(max_length=specials - 1).capacity(2)


@pytest.mark.parametrize(("kind", "most"), [("slm", 5), ("reat", 8)])
def test_more_texts_than_places_are_refused(kind, most):
    with pytest.raises(ValueError, match=f"at most {most} texts"):
        tiny(kind).layout().capacity(most + 1)


def test_a_language_model_is_refused():
    bert = tiny("bert")
    config = dataclasses.replace(
        bert.config, model=TransformerXLConfig(), inputs=LaneInputsConfig(), name="xl"
    )
    with pytest.raises(ValueError, match=r"of an encoder of texts.*'xl'"):
        dataclasses.replace(bert, config=config).layout()


FIVE_TEXTS = some_texts(np.random.default_rng(4), 3, 5, longest=6)


def head_vectors(kind, texts):
    """`(examples, vectors, width)`, and the sequence and features behind them."""
    pretrained = tiny(kind)
    features = rows(pretrained, texts)
    sequence = pretrained.encoder(features)
    readout = pretrained.layout().readout(len(texts[0]))
    vectors = readout.head_vectors(pretrained.encoder, sequence, features)
    return np.asarray(vectors), np.asarray(sequence), features


def test_joint_vectors_of_slm_are_those_at_its_sentence_tokens():
    vectors, sequence, features = head_vectors("slm", FIVE_TEXTS)
    for row, ids in enumerate(features["token_ids"].tolist()):
        at = [0, *(place for place, one in enumerate(ids) if one == SENT)]
        assert len(at) == 6
        np.testing.assert_array_equal(vectors[row], sequence[row, at])


def test_joint_vectors_of_reat_are_those_of_a_long_text():
    texts = [*FIVE_TEXTS, ("w1 " * 30, "w2", "w3 " * 7, "w4", "w5")]
    vectors, *_ = head_vectors("reat", texts)
    documents = [[Sentence(one, "") for one in text] for text in texts]
    encoded = SentenceEncoder(tiny("reat")).encode_documents(documents)
    for row, one in enumerate(encoded):
        np.testing.assert_allclose(vectors[row], one.vectors, atol=1e-5)


@pytest.mark.parametrize(
    "readout", [FirstToken(), SentenceTokens(num_texts=3), PooledSentences(num_texts=4)]
)
def test_keras_can_save_a_readout(readout):
    saved = keras.saving.serialize_keras_object(readout)
    restored = keras.saving.deserialize_keras_object(saved)
    assert type(restored) is type(readout)
    assert restored.num_vectors == readout.num_vectors
    assert vars(restored) == vars(readout)
