"""ReAT: blocks that are shared, texts that do not meet, and its saved file."""

import keras
import numpy as np
import pytest

from seg_tf.models import ReAT
from tests.numpy_reference import set_random_weights
from tests.text_batches import text_rows

pytestmark = pytest.mark.slow
BLOCK_LENGTH = 16
SIZES = {
    "vocab_size": 31,
    "block_length": BLOCK_LENGTH,
    "max_sentences": 6,
    "num_sentence_layers": 2,
    "num_alpha_layers": 2,
    "hidden_size": 8,
    "alpha_hidden_size": 12,
    "num_heads": 2,
    "alpha_num_heads": 3,
    "intermediate_size": 16,
    "alpha_intermediate_size": 20,
    "layer_norm_epsilon": 1e-3,
}
LONG = list(range(7, 7 + BLOCK_LENGTH - 3))
TEXTS = [
    [[7, 8, 9], [10], [11, 12, 13, 14], LONG],
    [[15, 16], [17]],
    [[18, 19, 20, 21, 22]],
]


def build_reat(**arguments):
    return set_random_weights(ReAT(**{**SIZES, **arguments}))


def rows_of(rows, **arguments):
    settings = {
        "block_length": BLOCK_LENGTH,
        "num_blocks": 8,
        "num_sentences": 10,
        **arguments,
    }
    return text_rows(rows, **settings)


def sentence_vectors(sequence, features):
    """(row, text, place) of each sentence -> the vectors of its positions."""
    found = {}
    for row, numbers in enumerate(features["sentence_number"]):
        for number in set(numbers) - {0}:
            at = np.flatnonzero(numbers == number)
            key = (
                int(features["text_number"][row, at[0]]),
                int(features["sentence_position"][row, at[0]]),
            )
            found[row, *key] = np.asarray(sequence)[row, at]
    return found


def assert_same_vectors(actual, expected, **tolerance):
    assert actual.keys() == expected.keys()
    for key, vectors in expected.items():
        np.testing.assert_allclose(actual[key], vectors, **tolerance, err_msg=str(key))


def test_sharing_blocks_gives_what_the_padded_array_does():
    """In float64, where rounding cannot hide a difference."""
    reat = build_reat(dtype="float64")
    padded = rows_of([TEXTS, [TEXTS[1]]], share_blocks=False)
    assert padded["sentence_starts"][0, :3].tolist() == [0, 16, 32]
    shared = rows_of([TEXTS, [TEXTS[1]]], num_blocks=5, num_sentences=7)
    assert len(set(shared["sentence_starts"][0] // BLOCK_LENGTH)) < 7
    assert_same_vectors(
        sentence_vectors(reat(shared), shared),
        sentence_vectors(reat(padded), padded),
        rtol=1e-11,
        atol=1e-11,
    )


def test_sentences_influence_those_of_their_text_only():
    reat = build_reat()
    features = rows_of([TEXTS])
    changed = rows_of([[TEXTS[0], [TEXTS[1][0], [27]], TEXTS[2]]])
    before = sentence_vectors(reat(features), features)
    after = sentence_vectors(reat(changed), changed)
    for key, vectors in before.items():
        if key[1] == 2:
            assert np.abs(vectors - after[key]).max() > 1e-4, key
        else:
            np.testing.assert_array_equal(vectors, after[key], err_msg=str(key))


def test_model_that_pools_is_loaded_with_one_pooler(tmp_path):
    reat = build_reat()
    features = rows_of([TEXTS])
    inputs = {
        name: keras.Input((None,), dtype=features[name].dtype.name, name=name)
        for name in reat.feature_names
    }
    pooled = reat.pool(reat(inputs), inputs["sentence_starts"])
    model = keras.Model(inputs, pooled)
    model.save(tmp_path / "pooled.keras")
    loaded = keras.models.load_model(tmp_path / "pooled.keras")
    own = {name: features[name] for name in reat.feature_names}
    np.testing.assert_array_equal(np.asarray(loaded(own)), np.asarray(model(own)))
    assert len(loaded.weights) == len(model.weights) == len(reat.weights)
    (again,) = [one for one in loaded.layers if isinstance(one, ReAT)]
    # Whoever trains one of them trains the other.
    assert loaded.get_layer("pooler") is again.pooler is not reat.pooler


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"vocab_size": None}, "`vocab_size` must be at least 1"),
        ({"alpha_num_heads": 5}, "`num_heads` must divide the width"),
    ],
)
def test_impossible_sizes_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        build_reat(**arguments)
