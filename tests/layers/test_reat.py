"""The alpha layer of ReAT, against loops."""

import numpy as np
import pytest

from seg_tf.layers.reat import AlphaTransformerLayer, SentenceTransformerLayer
from tests import numpy_reat, numpy_reference
from tests.text_batches import some_rows, text_rows

ARGUMENTS = {
    "intermediate_size": 12,
    "num_heads": 2,
    "block_length": 10,
    "layer_norm_epsilon": 1e-3,
}


INPUTS = ("sentence_number", "text_number", "attention_positions", "sentence_mask")


def build(cls, **arguments):
    """A layer with weights large enough for every one of them to matter."""
    layer = cls(**{**ARGUMENTS, **arguments})
    layer.build((None, None, 8))
    generator = np.random.default_rng(3)
    for weight in layer.trainable_weights:
        offset = 1.0 if weight.path.endswith("gamma") else 0.0
        weight.assign(offset + 0.4 * generator.normal(size=weight.shape))
    return layer


@pytest.fixture(name="features")
def _features():
    features = text_rows(
        some_rows(3, 4), block_length=10, num_blocks=4, num_sentences=9
    )
    features["attention_positions"] = features["sentence_starts"] + 1
    return features


@pytest.fixture(name="hidden")
def _hidden(features):
    shape = (*features["token_ids"].shape, 8)
    return np.random.default_rng(4).normal(size=shape).astype("float32")


def test_sentence_layer_is_an_ordinary_one_of_each_sentence(hidden, features):
    layer = build(SentenceTransformerLayer)
    expected = numpy_reat.sentence_layer(
        numpy_reference.named_weights(layer),
        hidden,
        features,
        epsilon=1e-3,
        approximate_gelu=False,
    )
    outputs = layer(hidden, features["sentence_number"])
    is_token = features["padding_mask"]
    np.testing.assert_allclose(
        np.asarray(outputs)[is_token], expected[is_token], atol=1e-5
    )


def test_mixing_sees_attention_tokens_alone(hidden, features):
    """With nothing done inside sentences, other words of a text make no difference."""
    layer = build(AlphaTransformerLayer)
    transformer = layer.sentence_layer.transformer_layer
    for weight in transformer.trainable_weights:
        if "attention_output" in weight.path or "output_dense" in weight.path:
            weight.assign(np.zeros(weight.shape))
    row = 0
    text = features["text_number"][row] == 3
    is_attention = features["position_index"][row] == 1
    sentence = features["sentence_number"][row]
    first = sentence[text].min()
    elsewhere = text & (sentence > first)
    before = np.asarray(layer(hidden, *(features[name] for name in INPUTS)))
    for changes in (False, True):
        place = np.flatnonzero(text & (sentence == first) & (is_attention == changes))[
            -1
        ]
        changed = hidden.copy()
        changed[row, place, 0] += 1.0
        after = np.asarray(layer(changed, *(features[name] for name in INPUTS)))
        difference = np.abs(after - before)[row].max(axis=1)
        assert elsewhere.any()
        assert (difference[elsewhere] > 1e-3).all() == changes
        assert (difference[elsewhere] == 0).all() != changes
        assert (difference[~text & (sentence > 0)] == 0).all()


@pytest.mark.parametrize("cls", [AlphaTransformerLayer, SentenceTransformerLayer])
def test_impossible_sizes_are_refused(cls):
    with pytest.raises(ValueError, match=r"`num_heads` must divide.*num_heads=3"):
        build(cls, num_heads=3)
    with pytest.raises(ValueError, match=r"`block_length` must be at least 1.*=0"):
        build(cls, block_length=0)
