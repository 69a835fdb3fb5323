"""Attention weights, re-derived in NumPy, and their shares, counted in loops."""

import numpy as np
import pytest

from seg_tf.checkpoints.pretrained import load_pretrained
from seg_tf.data.inputs import PackedWindowInputsConfig, WindowInputsConfig
from seg_tf.inference import attention_maps, text_windows
from seg_tf.inference.attention_maps import HeadChoice
from seg_tf.inference.attention_tables import AttentionTable
from seg_tf.inference.text_windows import TextWindow, window_capacity
from tests import numpy_reference
from tests.inference import tiny_slm, tiny_windows

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
    tree = text_windows.read_tree(TEXT, pretrained, tiny_slm.SPLITTER)
    tree = text_windows.first_window(tree, window_capacity(pretrained))
    window = text_windows.lay_out(tree, pretrained)
    maps = attention_maps.attention_maps(pretrained.encoder, window)
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
        (tiny_windows.BERT_WITH_PS, WindowInputsConfig, {}),
        (tiny_windows.SEGABERT, PackedWindowInputsConfig, {}),
        (tiny_windows.SEGABERT, WindowInputsConfig, MODERN),
    ],
    ids=["bert with p.s.", "packed segabert", "modern"],
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
    tokens = [
        "[CLS]",
        "[SENT]",
        "a",
        "b",
        "[SENT]",
        "c",
        "d",
        "[SENT]",
        "e",
        "f",
        "[SEP]",
    ]
    window = TextWindow(
        features={},
        tokens=tokens,
        paragraphs=np.where(sentences < 2, 0, 1),
        sentences=sentences,
        is_piece=np.array([token in "abcdef" for token in tokens]),
    )
    scores = np.random.default_rng(seed).gamma(0.3, size=(2, 3, 11, 11))
    weights = scores / scores.sum(axis=-1, keepdims=True)
    return attention_maps.AttentionMaps(weights.astype("float32"), window)


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
    found = attention_maps.attention_shares(maps.weights, maps.window)
    for layer, head in np.ndindex(2, 3):
        expected = slow_shares(maps.weights[layer, head], maps.window)
        assert set(found) == set(expected)
        for name, share in expected.items():
            assert found[name][layer, head] == pytest.approx(share, abs=1e-6), name


def test_uniform_shares_are_counts_of_positions():
    # Each sentence has two pieces; paragraphs have four, of which all see four, and
    # two; five of eleven positions are special.
    assert attention_maps.uniform_shares(random_maps().window) == pytest.approx(
        {
            "same_sentence": 2 / 11,
            "same_paragraph": (4 * 4 + 2 * 2) / 6 / 11,
            "special_tokens": 5 / 11,
        }
    )


def test_maps_are_of_heads_or_of_their_mean():
    maps = random_maps()
    np.testing.assert_array_equal(maps.map(HeadChoice(1, 2)), maps.weights[1, 2])
    expected = (maps.weights[1, 0] + maps.weights[1, 1] + maps.weights[1, 2]) / 3
    np.testing.assert_allclose(maps.map(HeadChoice(1)), expected, rtol=1e-5)
    assert [choice.head_name for choice in (HeadChoice(1), HeadChoice(1, 2))] == [
        "mean",
        "2",
    ]
    had = [(1, None), (1, 2), (2, None), (2, 0), (0, 3)]
    assert [maps.has(HeadChoice(*one)) for one in had] == [True, True, *[False] * 3]


def test_a_table_leaves_out_what_a_model_has_not():
    maps = random_maps()
    choices = [HeadChoice(1), HeadChoice(0, 2), HeadChoice(0, 3), HeadChoice(2)]
    table = AttentionTable.of(maps, choices)
    assert list(table.shares) == choices[:2]
    expected = slow_shares(maps.weights[0, 2], maps.window)
    assert table.shares[choices[1]] == pytest.approx(expected, abs=1e-6)
    titles, _, of_head, uniform = str(table).splitlines()
    assert titles.split("  ")[-1] == "special tokens"
    share = expected["same_sentence"]
    assert of_head.startswith("  layer 0, head 2 ")
    assert f"{share:.3f} ({share / (2 / 11):5.2f} x)" in of_head
    assert uniform.startswith("  uniform attention ")
    assert f"{2 / 11:.3f} ( 1.00 x)" in uniform
