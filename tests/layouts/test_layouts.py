"""Rows of texts: tables written by hand, and the rows of pretraining."""

import dataclasses

import numpy as np
import pytest

from seg_tf.config import TransformerXLConfig
from seg_tf.data.inputs import LaneInputsConfig
from seg_tf.inference import text_windows
from seg_tf.layouts.rows import Segment, num_pieces
from seg_tf.text.tree import DocumentTree
from tests.finetuning.tiny_models import KINDS, example_of, some_texts, tiny
from tests.layouts.test_sentences import slow_row

pytestmark = pytest.mark.slow


CLS, SEP, SENT, ATTENTION = 2, 3, 5, 5


# w0 is 7, w1 is 8, …
SINGLE = ["w0 w1 w2"]


PAIR = [("w0 w1", "w2")]


FIVE = [("w0", "w1 w2", "", "w3", "w4")]


def encode(pretrained, layout, texts):
    tuples = [(text,) if isinstance(text, str) else tuple(text) for text in texts]
    capacity = layout.capacity(len(tuples[0]))
    return [example_of(pretrained, one, capacity)[0] for one in tuples]


def rows(pretrained, texts, layout=None):
    """The features of texts in one batch."""
    layout = layout or pretrained.layout()
    examples = encode(pretrained, layout, texts)
    shape = np.max([layout.row_shape(one) for one in examples], axis=0)
    return layout.lay_out(examples, tuple(shape.tolist()))


def assert_row(features, expected, row=0):
    """Compares with a table that ends before the padding, which is 0."""
    for name, values in expected.items():
        found = features[name][row].tolist()
        assert found[: len(values)] == values, name
        assert not any(found[len(values) :]), name


WINDOWS = {
    "single": (
        SINGLE,
        {
            "token_ids": [CLS, 7, 8, 9, SEP],
            "padding_mask": [1, 1, 1, 1, 1],
            "position_index": [0, 1, 2, 3, 4],
            "paragraph_index": [0, 0, 0, 0, 0],
            "sentence_index": [0, 0, 0, 0, 0],
            "token_index": [0, 0, 1, 2, 3],
            "token_type": [0, 0, 0, 0, 0],
        },
    ),
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
    # The table of token indices has nine rows.
    "long": (
        ["w0 w1 w2 w3 w4 w5 w6 w7 w8 w9 w10"],
        {
            "token_index": [0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 8],
            "position_index": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
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


@pytest.mark.parametrize("kind", ["slm", "segabert_slm"])
def test_rows_of_sentences_are_those_of_pretraining_in_gold_order(kind):
    pretrained = tiny(kind)
    caps = pretrained.encoder.index_tables
    generator = np.random.default_rng(3)
    texts = some_texts(generator, 20, 3)
    features = rows(pretrained, texts)
    layout = pretrained.layout()
    for row, example in enumerate(encode(pretrained, layout, texts)):
        expected = slow_row(
            [one.pieces.tolist() for one in example],
            [0, 1, 2],
            [0, 1, 2],
            [0, 0, 0],
            row_length=features["token_ids"].shape[1],
            max_sentences=3,
            caps=caps,
            special_ids={"cls": CLS, "sep": SEP, "pad": 0},
            sent_id=SENT,
        )
        for name in ("token_ids", "candidate_positions", *caps):
            assert features[name][row].tolist() == expected[name], name


def test_token_types_of_sentences_are_0_unless_asked_for():
    pretrained = tiny("slm", num_token_types=2)
    assert not rows(pretrained, PAIR)["token_type"].any()
    types = rows(pretrained, PAIR, pretrained.layout(for_spans=True))["token_type"]
    assert types[0, :7].tolist() == [0, 0, 0, 0, 1, 1, 1]


# A question, and of its context the end of one sentence and the next.
QUESTION_AND_CONTEXT = [
    Segment(np.array([7, 8])),
    Segment(np.array([9]), text=1, paragraph=1, sentence=2, first_token=4),
    Segment(np.array([10, 11]), text=1, paragraph=1, sentence=3),
]


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
    expected = text_windows.lay_out(tree, pretrained).features
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
def test_rows_do_not_hang_on_their_batch(kind):
    pretrained = tiny(kind)
    texts = [("w0 w1", "w2"), ("w3 " * 12, "w4 " * 18), ("", "w5")]
    together = rows(pretrained, texts)
    for row, example in enumerate(texts):
        for name, (alone,) in rows(pretrained, [example]).items():
            found = together[name][row]
            assert found[: len(alone)].tolist() == alone.tolist(), name
            assert not found[len(alone) :].any(), name


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("num_texts", [1, 2, 5])
def test_cut_texts_fill_the_longest_row_and_no_more(kind, num_texts):
    pretrained = tiny(kind)
    layout = pretrained.layout(max_length=40)
    generator = np.random.default_rng(0)
    texts = some_texts(generator, 20, num_texts, longest=80)
    examples = encode(pretrained, layout, texts)
    specials = {"reat": 3 * num_texts}.get(kind, 1 + num_texts)
    specials += kind.endswith("slm")
    assert max(map(num_pieces, examples)) == 40 - specials
    for example in examples:
        shape = layout.row_shape(example)
        assert kind == "reat" or shape[0] <= 40
        layout.lay_out([example], shape)


@pytest.mark.parametrize("kind", ["bert", "slm"])
def test_more_positions_than_the_model_knows_are_refused(kind):
    with pytest.raises(ValueError, match=r"`max_length`.*48.*max_length=49"):
        tiny(kind).layout(max_length=49)


def test_a_row_that_does_not_fit_is_refused():
    layout = tiny("bert").layout()
    with pytest.raises(ValueError, match=r"at most 5 positions.*a row of 8"):
        layout.lay_out([QUESTION_AND_CONTEXT], (5,))


def test_parts_need_places_in_reat():
    layout = tiny("reat").layout()
    with pytest.raises(ValueError, match=r"places, 8. Received: 9"):
        layout.row_shape([Segment(np.zeros(13 * 8 + 1, int))])


@pytest.mark.parametrize(("kind", "specials"), [("bert", 3), ("slm", 4), ("reat", 6)])
def test_special_tokens_have_to_fit(kind, specials):
    assert tiny(kind).layout(max_length=specials).capacity(2) == 0
    with pytest.raises(ValueError, match=f"at least {specials}.*{specials - 1}"):
        tiny(kind).layout(max_length=specials - 1).capacity(2)


@pytest.mark.parametrize(("kind", "most"), [("slm", 5), ("reat", 8)])
def test_more_texts_than_places_are_refused(kind, most):
    with pytest.raises(ValueError, match=f"{most}. Received: {most + 1} texts"):
        tiny(kind).layout().capacity(most + 1)


def test_a_language_model_is_refused():
    bert = tiny("bert")
    config = dataclasses.replace(
        bert.config,
        model=TransformerXLConfig(),
        inputs=LaneInputsConfig(),
        name="xl",
    )
    with pytest.raises(ValueError, match=r"of an encoder.*'xl'.*TransformerXLConfig"):
        dataclasses.replace(bert, config=config).layout()
