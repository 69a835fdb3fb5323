"""Texts as rows, against rows that were written by hand."""

import dataclasses

import numpy as np
import pytest

from seg_tf.checkpoints.pretrained import load_pretrained
from seg_tf.config import build_from
from seg_tf.data.inputs import PackedWindowInputsConfig
from seg_tf.inference import text_windows
from seg_tf.inference.text_windows import window_capacity
from seg_tf.layouts.layout import TextCapacity
from seg_tf.text.tree import DocumentTree
from tests.inference import tiny_reat, tiny_slm, tiny_windows

pytestmark = pytest.mark.slow

TEXT = ["W1 w2. W3.", "W4 w5 w6 w7."]
TOKENS = ["[CLS]", "w1", "w2", ".", "w3", ".", "w4", "w5", "w6", "w7", ".", "[SEP]"]
INDICES = {
    "position_index": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
    "paragraph_index": [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1],
    "sentence_index": [0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0],
    # The fourth row of the table is the last.
    "token_index": [0, 0, 1, 2, 0, 1, 0, 1, 2, 3, 3, 3],
}
SENTENCES = [0, 0, 0, 0, 1, 1, 2, 2, 2, 2, 2, 2]


@pytest.fixture(name="models", scope="module")
def _models(tmp_path_factory):
    """Models by their kinds of rows."""
    packed = PackedWindowInputsConfig
    settings = {
        "bert": (tiny_windows.BERT,),
        "bert with p.s.": (tiny_windows.BERT_WITH_PS,),
        "segabert": (tiny_windows.SEGABERT,),
        "packed": (tiny_windows.SEGABERT, packed),
    }
    models = {
        name: load_pretrained(
            tiny_windows.write_checkpoint(tmp_path_factory.mktemp("run"), *arguments)
        )
        for name, arguments in settings.items()
    }
    typed = tiny_windows.write_checkpoint(
        tmp_path_factory.mktemp("run"), tiny_windows.BERT, num_token_types=2
    )
    return {**models, "bert with token types": load_pretrained(typed)}


def read(paragraphs, pretrained):
    tree = text_windows.read_tree(paragraphs, pretrained, tiny_slm.SPLITTER)
    return text_windows.lay_out(tree, pretrained)


@pytest.mark.parametrize(
    "kind", ["bert", "bert with p.s.", "segabert", "packed", "bert with token types"]
)
def test_a_window_is_laid_out_as_in_pretraining(models, kind):
    window = read(TEXT, models[kind])
    assert window.tokens == tuple(TOKENS)
    assert window.paragraphs.tolist() == INDICES["paragraph_index"]
    assert window.sentences.tolist() == SENTENCES
    assert window.is_piece.tolist() == [False, *[True] * 10, False]
    assert (window.num_pieces, window.num_sentences, window.num_paragraphs) == (
        10,
        3,
        2,
    )
    encoder, vocabulary = models[kind].encoder, models[kind].vocabulary
    expected = {
        "token_ids": [vocabulary.id_of(token) for token in TOKENS],
        "padding_mask": [True] * 12,
        "window_number": [1] * 12,
        "token_type": [0] * 12,
        **INDICES,
    }
    assert set(window.features) == set(encoder.feature_names)
    for name, values in window.features.items():
        np.testing.assert_array_equal(values, [expected[name]], err_msg=name)


def test_indices_have_caps_and_numbers_have_none(models):
    window = read(["W1. W2. W3.", "W4.", "W5.", "W6."], models["segabert"])
    features = {name: values[0].tolist() for name, values in window.features.items()}
    assert features["paragraph_index"] == [0] * 7 + [1] * 2 + [2] * 5
    assert features["sentence_index"] == [0, 0, 0, 1, 1, 1, 1] + [0] * 7
    assert window.paragraphs.tolist() == [0] * 7 + [1] * 2 + [2] * 2 + [3] * 3
    assert window.sentences.tolist() == [
        *[0, 0, 0, 1, 1, 2, 2],
        *[3, 3, 4, 4, 5, 5, 5],
    ]


def test_a_model_of_sentences_reads_a_sent_before_each(pretrained):
    window = read(TEXT, pretrained)
    tokens = [
        "[CLS]",
        "[SENT]",
        "w1",
        "w2",
        ".",
        "[SENT]",
        "w3",
        ".",
        "[SENT]",
        "w4",
        "w5",
        "w6",
        "w7",
        ".",
        "[SEP]",
    ]
    assert window.tokens == tuple(tokens)
    assert window.is_piece.tolist() == [token[0] != "[" for token in tokens]
    assert window.sentences.tolist() == [0] * 5 + [1] * 3 + [2] * 7
    assert window.paragraphs.tolist() == [0] * 8 + [1] * 7
    features = {name: values[0].tolist() for name, values in window.features.items()}
    sent_id = pretrained.vocabulary.sent_id
    assert [at for at, one in enumerate(features["token_ids"]) if one == sent_id] == [
        *(1, 5, 8)
    ]
    del features["token_ids"]
    assert features == {
        "padding_mask": [True] * 15,
        "position_index": list(range(15)),
        "sentence_id": [0, 1, 1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3, 3, 4],
        "paragraph_index": [0] * 8 + [1] * 7,
        "sentence_index": [0] * 5 + [1] * 3 + [0] * 7,
        "token_index": [0, 0, 1, 2, 3, 0, 1, 2, 0, 1, 2, 3, 4, 5, 6],
    }


# Sentences of 3, 2, 4 and 1 pieces in paragraphs of 2, 1 and 1.
TREE = DocumentTree(np.arange(10), np.array([3, 2, 4, 1]), np.array([2, 1, 1]))


@pytest.mark.parametrize(
    ("room", "sentence_lengths", "paragraph_lengths"),
    [
        pytest.param(TextCapacity(10), [3, 2, 4, 1], [2, 1, 1], id="all"),
        pytest.param(TextCapacity(9), [3, 2, 4], [2, 1], id="no part of a sentence"),
        pytest.param(TextCapacity(8), [3, 2], [2], id="whole paragraph"),
        pytest.param(TextCapacity(4), [3], [1], id="part of a paragraph"),
        pytest.param(TextCapacity(2), [2], [1], id="part of the first sentence"),
        pytest.param(TextCapacity(10, 4), [3, 2, 4, 1], [2, 1, 1], id="all sentences"),
        pytest.param(TextCapacity(10, 3), [3, 2, 4], [2, 1], id="three sentences"),
        pytest.param(TextCapacity(10, 1), [3], [1], id="one sentence"),
        pytest.param(TextCapacity(4, 3), [3], [1], id="too long for three"),
    ],
)
def test_the_first_window_holds_whole_sentences(
    room, sentence_lengths, paragraph_lengths
):
    window = text_windows.first_window(TREE, room)
    assert window.sentence_lengths.tolist() == sentence_lengths
    assert window.paragraph_lengths.tolist() == paragraph_lengths
    assert window.token_ids.tolist() == list(range(sum(sentence_lengths)))
    assert TREE.sentence_lengths.tolist() == [3, 2, 4, 1]


def test_rooms_are_those_of_pretraining_and_of_several_models_the_smallest(
    models, pretrained
):
    bert, slm = window_capacity(models["bert"]), window_capacity(pretrained)
    assert bert == TextCapacity(tiny_windows.WINDOW_LENGTH - 2)
    assert slm == TextCapacity(tiny_slm.WINDOW_LENGTH - 2, tiny_slm.MAX_SENTENCES)
    expected = TextCapacity(tiny_windows.WINDOW_LENGTH - 2, tiny_slm.MAX_SENTENCES)
    assert bert.shared(slm) == slm.shared(bert) == expected
    assert bert.shared(bert) == bert
    assert slm.shared(TextCapacity(9, 3)) == TextCapacity(9, 3)


def test_full_rows_of_a_model_of_sentences_fit_its_tables(pretrained):
    room = window_capacity(pretrained)
    tree = DocumentTree(
        np.full(60, 9), np.array([20, 10, 10, 2, 9, 9]), np.array([3, 3])
    )
    window = text_windows.lay_out(text_windows.first_window(tree, room), pretrained)
    assert window.num_sentences == tiny_slm.MAX_SENTENCES
    assert len(window.tokens) == tiny_slm.ROW_LENGTH
    assert window.features["position_index"].tolist() == [
        list(range(tiny_slm.ROW_LENGTH))
    ]


def test_a_text_without_a_word_is_refused(models):
    with pytest.raises(ValueError, match=r"`text` must hold a word.*2 paragraphs"):
        text_windows.read_tree(["\u200b", "\u0007"], models["bert"], tiny_slm.SPLITTER)


def test_a_model_that_reads_no_windows_is_refused(models):
    reat = dataclasses.replace(
        models["bert"],
        encoder=build_from(tiny_reat.MODEL, vocab_size=70),
        config=tiny_reat.CONFIG,
    )
    with pytest.raises(ValueError, match=r"that reads windows.*'tiny'.* is a ReAT"):
        window_capacity(reat)
