# Shape key: B batch, L sequence length, H heads, E head size.

import keras_hub
import numpy as np
import pytest

from seg_tf.ops.rotary import rotary_sizes, rotate, rotations

B, L, H, E = 2, 5, 3, 8


@pytest.fixture(name="vectors")
def _vectors():
    return np.random.default_rng(0).normal(size=(B, L, H, E)).astype("float32")


def test_one_index_equals_keras_hub(vectors):
    index = np.tile(np.arange(L), (B, 1))
    ours = rotate(vectors, rotations({"position_index": index}, {"position_index": E}))
    theirs = keras_hub.layers.RotaryEmbedding()(vectors)
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_products_depend_on_distances_in_every_level_alone(vectors):
    sizes = rotary_sizes(E, {"token_index": 1, "sentence_index": 1})
    generator = np.random.default_rng(1)
    indices = {name: generator.integers(0, 9, (B, L)) for name in sizes}

    def products(shifts):
        shifted = {name: indices[name] + shifts[name] for name in sizes}
        turned = np.asarray(rotate(vectors, rotations(shifted, sizes)))
        return np.einsum("blhe,bmhe->bhlm", turned, turned)

    before = products({"token_index": 0, "sentence_index": 0})
    after = products({"token_index": 70, "sentence_index": 3})
    np.testing.assert_allclose(after, before, atol=1e-5)
    indices["sentence_index"] = indices["sentence_index"] * 2
    changed = products({"token_index": 0, "sentence_index": 0})
    assert np.abs(changed - before).max() > 0.1


def test_large_indices_are_exact_in_half_precision_policies(vectors):
    """Angles in bfloat16 would be off by whole turns."""
    index = np.full((1, 1), 16_383)
    found = np.asarray(rotations({"position_index": index}, {"position_index": E}))
    angles = 16_383 * 10_000.0 ** (-np.arange(0, E, 2) / E)
    expected = np.concatenate([np.cos(angles), np.sin(angles)])
    np.testing.assert_allclose(found[0, 0], expected, atol=2e-3)


@pytest.mark.parametrize(
    "head_size, shares",
    [
        (8, {"a": 3, "b": 1, "c": 4}),
        (9, {"a": 1}),
        (8, {"a": 0, "b": 1}),
        (8, {"a": -1}),
    ],
)
def test_shares_without_an_even_size_are_refused(head_size, shares):
    with pytest.raises(ValueError, match="an even number of a head's"):
        rotary_sizes(head_size, shares)
