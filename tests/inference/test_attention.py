"""Attention weights re-derived in NumPy, shares counted in loops, windows by hand."""

import dataclasses

import numpy as np
import pytest

from seg_tf.checkpoints.pretrained import load_pretrained
from seg_tf.config import build_from
from seg_tf.data.inputs import PackedWindowInputsConfig, WindowInputsConfig
from seg_tf.inference import attention
from seg_tf.inference.attention import (
    AttentionMaps,
    TextWindow,
    window_capacity,
)
from seg_tf.layouts.layout import TextCapacity
from seg_tf.text.tree import DocumentTree
from tests import numpy_reference
from tests.inference import tiny_reat, tiny_slm, tiny_windows

pytestmark = pytest.mark.slow

TEXT = ["W1 w2. W3.", "W4 w5 w6 w7.", "W8 w1. W2 w9."]


def numpy_weights(encoder, features):
    """Attention weights `(K, H, L, L)` of an encoder on one row."""
    weights = numpy_reference.named_weights(encoder)
    settings = {"epsilon": encoder.layer_norm_epsilon, "approximate_gelu": False}
    visible = numpy_reference.visible_positions(features)
    is_modern = encoder.trunk == "modern"
    rotary_sizes = {"position_index": 8} if encoder.rotary_shares else None
    found = []
    for layer in range(encoder.num_layers):
        of_layer = numpy_reference.part(weights, f"transformer_layer_{layer}")
        hidden = numpy_reference.encoder(
            weights,
            features,
            num_layers=layer,
            **settings,
            rotary_sizes=rotary_sizes,
            trunk=encoder.trunk,
            local_window=encoder.local_window,
            global_every=encoder.global_every,
            has_final_norm=False,
        )
        sees = visible
        if is_modern:
            norm = numpy_reference.part(of_layer, "attention_norm")
            hidden = numpy_reference.rms_norm(norm, hidden, settings["epsilon"])
            if layer % encoder.global_every:
                length = visible.shape[1]
                sees = visible & numpy_reference.near(length, encoder.local_window)
        name = "attention" if is_modern else "self_attention_layer"
        attention = numpy_reference.part(of_layer, name)
        found += [
            *numpy_reference.attention_weights(
                attention, hidden, hidden, sees, features, rotary_sizes
            )
        ]
    return np.stack(found)


def assert_equal_to_numpy(pretrained):
    tree = attention.read_tree(TEXT, pretrained, tiny_slm.SPLITTER)
    tree = attention.first_window(tree, window_capacity(pretrained))
    window = attention.lay_out(tree, pretrained)
    maps = attention.attention_maps(pretrained.encoder, window)
    length = len(window.tokens)
    assert maps.weights.dtype == np.float32
    assert maps.weights.shape == (pretrained.encoder.num_layers, 2, length, length)
    np.testing.assert_allclose(
        maps.weights, numpy_weights(pretrained.encoder, window.features), atol=1e-5
    )
    np.testing.assert_allclose(maps.weights.sum(axis=-1), 1, atol=1e-5)
    # So far from uniform that the wrong layer or head would show.
    assert np.abs(maps.weights[0] - maps.weights[1]).max() > 0.1
    assert np.abs(maps.weights[:, 0] - maps.weights[:, 1]).max() > 0.1
    return maps


MODERN = {
    "trunk": "modern",
    "rotary_shares": {"position_index": 1},
    "local_window": 4,
    "global_every": 2,
}


@pytest.mark.parametrize(
    ("index_tables", "inputs", "model"),
    [
        (tiny_windows.SEGABERT, PackedWindowInputsConfig, {}),
        (tiny_windows.SEGABERT, WindowInputsConfig, MODERN),
    ],
    ids=["packed segabert", "modern"],
)
def test_weights_of_window_models_equal_numpy(tmp_path, index_tables, inputs, model):
    folder = tiny_windows.write_checkpoint(
        tmp_path, index_tables, inputs, num_layers=3, **model
    )
    assert_equal_to_numpy(load_pretrained(folder))


def test_weights_of_a_model_of_sentences_equal_numpy(pretrained):
    maps = assert_equal_to_numpy(pretrained)
    assert maps.window.num_sentences == tiny_slm.MAX_SENTENCES  # of five


def random_maps(seed=1):
    """A text of two paragraphs of two sentences and one, with special tokens inside."""
    sentences = np.array([0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2])
    tokens = ["[CLS]", "[SENT]", *"ab", "[SENT]", *"cd", "[SENT]", *"ef", "[SEP]"]
    window = TextWindow(
        features={},
        tokens=tokens,
        paragraphs=np.where(sentences < 2, 0, 1),
        sentences=sentences,
        is_piece=np.array([token in "abcdef" for token in tokens]),
    )
    scores = np.random.default_rng(seed).gamma(0.3, size=(2, 3, 11, 11))
    weights = scores / scores.sum(axis=-1, keepdims=True)
    return AttentionMaps(weights.astype("float32"), window)


def slow_shares(weights, window):
    """Shares of one map `(L, L)`, pair by pair."""
    totals = dict.fromkeys(["same_sentence", "same_paragraph", "special_tokens"], 0.0)
    for query, key in np.ndindex(*weights.shape):
        if not window.is_piece[query]:
            continue
        if not window.is_piece[key]:
            totals["special_tokens"] += weights[query, key]
            continue
        if window.sentences[query] == window.sentences[key]:
            totals["same_sentence"] += weights[query, key]
        if window.paragraphs[query] == window.paragraphs[key]:
            totals["same_paragraph"] += weights[query, key]
    return {name: total / sum(window.is_piece) for name, total in totals.items()}


def test_shares_equal_slow_counting():
    maps = random_maps()
    for layer in (0, 1):
        weights = maps.map(layer)
        found = attention.attention_shares(weights, maps.window)
        assert found == pytest.approx(slow_shares(weights, maps.window), abs=1e-6)
    expected = (maps.weights[1, 0] + maps.weights[1, 1] + maps.weights[1, 2]) / 3
    np.testing.assert_allclose(maps.map(1), expected, rtol=1e-5)
    # Each sentence has two pieces; paragraphs have four, of which all see four, and
    # two; five of eleven positions are special.
    uniform = attention.attention_shares(maps.uniform(), maps.window)
    assert uniform == pytest.approx(
        {
            "same_sentence": 2 / 11,
            "same_paragraph": (4 * 4 + 2 * 2) / 6 / 11,
            "special_tokens": 5 / 11,
        }
    )


# === Windows of text ===

WINDOW_TEXT = ["W1 w2. W3.", "W4 w5 w6 w7."]
TOKENS = ["[CLS]", "w1", "w2", ".", "w3", ".", "w4", "w5", "w6", "w7", ".", "[SEP]"]


def read(paragraphs, pretrained):
    tree = attention.read_tree(paragraphs, pretrained, tiny_slm.SPLITTER)
    return attention.lay_out(tree, pretrained)


def test_a_model_of_sentences_reads_a_sent_before_each(pretrained):
    window = read(WINDOW_TEXT, pretrained)
    first, second, third = TOKENS[1:4], TOKENS[4:6], TOKENS[6:11]
    tokens = ["[CLS]", "[SENT]", *first, "[SENT]", *second, "[SENT]", *third, "[SEP]"]
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
    window = attention.first_window(TREE, room)
    assert window.sentence_lengths.tolist() == sentence_lengths
    assert window.paragraph_lengths.tolist() == paragraph_lengths
    assert window.token_ids.tolist() == list(range(sum(sentence_lengths)))
    assert TREE.sentence_lengths.tolist() == [3, 2, 4, 1]


def test_full_rows_of_a_model_of_sentences_fit_its_tables(pretrained):
    room = window_capacity(pretrained)
    assert room == TextCapacity(tiny_slm.WINDOW_LENGTH - 2, tiny_slm.MAX_SENTENCES)
    tree = DocumentTree(
        np.full(60, 9), np.array([20, 10, 10, 2, 9, 9]), np.array([3, 3])
    )
    window = attention.lay_out(attention.first_window(tree, room), pretrained)
    assert window.num_sentences == tiny_slm.MAX_SENTENCES
    assert len(window.tokens) == tiny_slm.ROW_LENGTH


def test_texts_without_a_word_and_models_without_windows_are_refused(pretrained):
    with pytest.raises(ValueError, match=r"`text` must hold a word.*2 paragraphs"):
        attention.read_tree(["\u200b", "\u0007"], pretrained, tiny_slm.SPLITTER)
    encoder = build_from(tiny_reat.MODEL, vocab_size=70)
    reat = dataclasses.replace(pretrained, encoder=encoder, config=tiny_reat.CONFIG)
    with pytest.raises(ValueError, match=r"that reads windows.*'tiny'.* is a ReAT"):
        window_capacity(reat)
