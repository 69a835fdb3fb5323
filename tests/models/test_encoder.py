"""The encoder, against plain NumPy, keras-hub and tf-models-official."""

import itertools

import numpy as np
import pytest

from seg_tf.models.encoder import Encoder
from tests import numpy_reference, official_models

pytestmark = pytest.mark.slow
SIZES = {
    "vocab_size": 31,
    "num_layers": 2,
    "hidden_size": 8,
    "num_heads": 2,
    "intermediate_size": 16,
}
BERT = {"position_index": 12}
SEGABERT = {"paragraph_index": 4, "sentence_index": 5, "token_index": 9}


def build_encoder(index_tables, scale=0.3, **arguments):
    encoder = Encoder(index_tables=index_tables, **{**SIZES, **arguments})
    return numpy_reference.set_random_weights(encoder, scale)


def random_features(batch=3, length=7, lengths=(7, 4, 1)):
    generator = np.random.default_rng(4)
    features = {
        name: generator.integers(0, rows, (batch, length)).astype("int32")
        for name, rows in {**SEGABERT, "token_ids": SIZES["vocab_size"]}.items()
    }
    features["position_index"] = np.tile(np.arange(length, dtype="int32"), (batch, 1))
    features["padding_mask"] = np.arange(length) < np.array(lengths)[:, None]
    return features


@pytest.mark.parametrize(
    "trunk, settings",
    [
        ("bert", {}),
        ("modern", {}),
        ("modern", {"gated": True, "local_window": 4, "global_every": 2}),
    ],
)
@pytest.mark.parametrize(
    "index_tables, rotary_shares",
    [
        ({}, {"position_index": 1}),
        (SEGABERT, {"position_index": 1}),
        ({}, {"position_index": 2, "token_index": 1, "paragraph_index": 1}),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_rotary_positions_and_modern_trunk_equal_plain_numpy(
    trunk, settings, index_tables, rotary_shares, packed
):
    encoder = build_encoder(
        index_tables,
        trunk=trunk,
        rotary_shares=rotary_shares,
        hidden_size=16,
        num_layers=3,
        layer_norm_epsilon=1e-3,
        packed_windows=packed,
        **settings,
    )
    features = random_features()
    if packed:
        number = np.array([[1, 1, 1, 2, 2, 3, 3], [1, 1, 2, 2, 0, 0, 0], [1] + [0] * 6])
        features["window_number"] = number.astype("int32")
    sizes = {
        name: 8 * share // sum(rotary_shares.values())
        for name, share in rotary_shares.items()
    }
    expected = numpy_reference.encoder(
        numpy_reference.named_weights(encoder),
        features,
        num_layers=3,
        epsilon=1e-3,
        approximate_gelu=False,
        rotary_sizes=sizes,
        trunk=trunk,
        **{name: value for name, value in settings.items() if name != "gated"},
    )
    # Padding far from every token sees none of them: its numbers have no meaning.
    is_token = features["padding_mask"]
    np.testing.assert_allclose(
        encoder(features)[is_token], expected[is_token], atol=1e-5
    )


def test_modern_layers_start_as_the_identity():
    encoder = Encoder(
        index_tables={}, rotary_shares={"position_index": 1}, trunk="modern", **SIZES
    )
    features = random_features()
    embedded = encoder.embeddings_layer_norm(
        encoder.token_embedding(features["token_ids"])
    )
    np.testing.assert_allclose(
        encoder(features), encoder.final_norm(embedded), atol=1e-6
    )


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"trunk": "moderm"}, "`trunk` must be 'bert', or 'modern'.*'moderm'"),
        ({"gated": True}, "gated=True, local_window=None"),
        ({"vocab_size": None}, r"`vocab_size`.*Received: vocab_size=None"),
        ({"index_tables": {"place_index": 3}}, r"`index_tables`.*\['place_index'\]"),
        ({"num_heads": 3}, r"`hidden_size` must be a multiple of `num_heads`.*=3"),
        ({"rotary_shares": {"position": 1}}, "`rotary_shares` must be named"),
        (
            {"rotary_shares": {"position_index": 3, "token_index": 1}},
            "'position_index' has 3",
        ),
        ({"index_tables": {}}, "does not know the order"),
    ],
)
def test_settings_that_cannot_be_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Encoder(**{"index_tables": BERT, **SIZES, **arguments})


def test_bert_equals_tf_models_official_with_the_same_weights():
    encoder = build_encoder(BERT, approximate_gelu=True)
    peer = official_models.bert_encoder_class()(
        vocab_size=SIZES["vocab_size"],
        hidden_size=SIZES["hidden_size"],
        num_layers=SIZES["num_layers"],
        num_attention_heads=SIZES["num_heads"],
        max_sequence_length=BERT["position_index"],
        type_vocab_size=1,
        dict_outputs=True,
        inner_dim=SIZES["intermediate_size"],
    )
    weights = numpy_reference.named_weights(encoder)
    for variable in peer.variables:
        if path := _path_of_official(variable.name):
            variable.assign(weights.pop(path))
        elif variable.name.startswith("type_embeddings"):
            variable.assign(np.zeros((1, 8)))
    assert all("seed" in path for path in weights)

    features = random_features()
    expected = peer(
        {
            "input_word_ids": features["token_ids"],
            "input_type_ids": np.zeros_like(features["token_ids"]),
            "input_mask": features["padding_mask"].astype("int32"),
        }
    )["sequence_output"]
    np.testing.assert_allclose(encoder(features), expected, atol=1e-5)


OFFICIAL_NAMES = {
    "word_embeddings/embeddings": "token_embedding/embeddings",
    "position_embedding/embeddings": "index_embedding/position_index",
    "embeddings/layer_norm/gamma": "embeddings_layer_norm/gamma",
    "embeddings/layer_norm/beta": "embeddings_layer_norm/beta",
}
OFFICIAL_PARTS = {
    "self_attention_layer_norm": "self_attention_layer_norm",
    "self_attention": "self_attention_layer",
    "intermediate": "feedforward_intermediate_dense",
    "output_layer_norm": "feedforward_layer_norm",
    "output": "feedforward_output_dense",
}


def _path_of_official(name):
    """Our path of the weight that tf-models-official calls `name`."""
    name = name.removesuffix(":0")
    if name.startswith("transformer/layer_"):
        _, layer, part, rest = name.split("/", 3)
        return f"transformer_{layer}/{OFFICIAL_PARTS[part]}/{rest}"
    return OFFICIAL_NAMES.get(name)


LENGTHS_OF_WINDOWS = ((4, 2, 3), (9,), (1, 7), ())  # of each row


def packed_features(length=12):
    """Rows of windows of these lengths, then padding."""
    features = random_features(batch=4, length=length, lengths=[0] * 4)
    features["window_number"] = np.zeros((4, length), "int32")
    for row, lengths in enumerate(LENGTHS_OF_WINDOWS):
        begin = 0
        for number, size in enumerate(lengths, start=1):
            features["window_number"][row, begin : begin + size] = number
            features["position_index"][row, begin : begin + size] = np.arange(size)
            begin += size
        features["padding_mask"][row, :begin] = True
    return features


# Without dropout Keras takes another way to attention.
@pytest.mark.parametrize(
    ("dtype", "dropout"), [("float32", 0.1), ("mixed_float16", 0.0), ("bfloat16", 0.0)]
)
def test_packed_windows_never_meet(dtype, dropout):
    encoder = build_encoder(
        SEGABERT, scale=1.0, packed_windows=True, dtype=dtype, dropout=dropout
    )
    features = packed_features()
    before = np.asarray(encoder(features))
    places = ((0, 4), (0, 8), (2, 0), (1, 10))  # the last is padding
    for name, (row, position) in itertools.product(["token_ids", *SEGABERT], places):
        changed = {key: values.copy() for key, values in features.items()}
        changed[name][row, position] = (changed[name][row, position] + 1) % 4
        after = np.asarray(encoder(changed))
        own = features["window_number"] == features["window_number"][row, position]
        own &= np.arange(4)[:, None] == row
        np.testing.assert_array_equal(after[~own], before[~own])
        assert (after[own] != before[own]).any()


def test_embeddings_are_normalised_before_dropout():
    encoder = build_encoder(SEGABERT, num_layers=0, dropout=0.5)
    features = random_features(batch=8, lengths=[7] * 8)
    dropped = np.asarray(encoder(features, training=True))
    assert 0.3 < (dropped == 0).mean() < 0.7
    expected = np.where(dropped == 0, 0, 2 * np.asarray(encoder(features)))
    np.testing.assert_allclose(dropped, expected, rtol=1e-5)
