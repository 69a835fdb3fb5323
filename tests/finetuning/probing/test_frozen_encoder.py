"""Vectors: those of the encoder itself, whatever company rows have."""

import functools

import keras
import numpy as np
import pytest

from seg_tf.finetuning.probing.frozen_encoder import FrozenEncoder
from seg_tf.finetuning.segments import encode_texts
from tests.finetuning.tiny_models import some_texts, tiny

pytestmark = pytest.mark.slow

each_kind = pytest.mark.parametrize(
    "kind", ["bert", "segabert", "segabert_slm", "reat"]
)
joint_kinds = pytest.mark.parametrize("kind", ["slm", "segabert_slm", "reat"])


@functools.cache
def frozen(kind, mode="per_sentence", num_texts=1):
    """One that several tests use; it keeps nothing."""
    return FrozenEncoder(tiny(kind), mode, num_texts)


def some_rows(num_rows=5, num_texts=1, longest=12, seed=1):
    return some_texts(np.random.default_rng(seed), num_rows, num_texts, longest)


def slow_vectors(kind, row):
    """Those of the texts of a row, by calling the checkpoint's encoder on it alone."""
    pretrained = tiny(kind)
    layout = pretrained.layout()
    (example,) = encode_texts(
        pretrained.text_encoder(), [row], layout.capacity(len(row))
    )
    features = layout.lay_out([example], layout.row_shape(example))
    (sequence,) = np.asarray(pretrained.encoder(features), "float64")
    if kind == "reat":
        kernel, bias = map(np.asarray, pretrained.encoder.pooler.weights)
        starts = np.asarray(features["sentence_starts"])[0]
        given = np.asarray(features["given_text"])[0]
        pooled = np.tanh(sequence[starts] @ kernel + bias)
        return [pooled[given == text].mean(axis=0) for text in range(1, 1 + len(row))]
    if not kind.endswith("slm"):
        return [sequence[0]]
    tokens = np.asarray(features["token_ids"])[0].tolist()
    is_sent = [token == pretrained.vocabulary.sent_id for token in tokens]
    return sequence[np.flatnonzero(is_sent)]


def slow_means(kind, row):
    """The means over the word pieces of each text of a row; a ReAT's own vectors."""
    if kind == "reat":
        return slow_vectors(kind, row)
    pretrained = tiny(kind)
    layout = pretrained.layout()
    (example,) = encode_texts(
        pretrained.text_encoder(), [row], layout.capacity(len(row))
    )
    features = layout.lay_out([example], layout.row_shape(example))
    (sequence,) = np.asarray(pretrained.encoder(features), "float64")
    token_ids = np.asarray(features["token_ids"])[0].tolist()
    vocabulary = pretrained.vocabulary
    special = {*vocabulary.special_ids.values(), vocabulary.sent_id}
    special -= {vocabulary.special_ids["unk"]}
    outputs = iter(
        vector
        for vector, token in zip(sequence, token_ids, strict=True)
        if token not in special
    )
    return [
        np.mean([next(outputs) for _ in segment.pieces], axis=0) for segment in example
    ]


@each_kind
def test_means_are_those_over_the_word_pieces_alone(kind):
    encoder = FrozenEncoder(tiny(kind), "per_sentence", 1, mean=True)
    rows = [*some_rows(longest=3), *some_rows(longest=40), ("w1 never-seen ☃",)]
    vectors, _ = encoder.encode(rows)
    expected = [slow_means(kind, row) for row in rows]
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    differs = encoder.describe() != frozen(kind).describe()
    assert differs == (kind != "reat")


def test_each_text_of_a_row_has_its_mean():
    rows = some_rows(num_texts=3)
    vectors, _ = FrozenEncoder(tiny("slm"), "joint", 3, mean=True).encode(rows)
    expected = [slow_means("slm", row) for row in rows]
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


@each_kind
def test_each_text_alone_has_the_vector_of_its_own_row(kind):
    encoder = frozen(kind)
    rows = [*some_rows(longest=3), *some_rows(longest=40)]
    vectors, _ = encoder.encode(rows)
    assert vectors.dtype == np.float32
    assert np.ptp(vectors, axis=0).max() > 0.1
    expected = [slow_vectors(kind, row) for row in rows]
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


@joint_kinds
def test_texts_together_have_the_vectors_of_their_row(kind):
    encoder = frozen(kind, "joint", 3)
    rows = some_rows(num_texts=3)
    vectors, _ = encoder.encode(rows)
    expected = [slow_vectors(kind, row) for row in rows]
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    # In context, so the last text counts for the vector of the first.
    other = [(*texts[:-1], rows[0][0]) for texts in rows[1:]]
    difference = encoder.encode(other)[0][:, 0] - vectors[1:, 0]
    assert np.abs(difference).max() > 1e-4


@pytest.mark.parametrize("kind", ["segabert_slm", "reat"])
def test_rows_do_not_hang_on_their_batches(kind):
    rows = [*some_rows(longest=3), *some_rows(longest=40)]
    one, _ = frozen(kind).encode(rows)
    small = FrozenEncoder(tiny(kind), "per_sentence", 1, tokens_per_batch=1)
    seen = []
    other, _ = small.encode(rows, seen.append)
    np.testing.assert_allclose(one, other, atol=1e-5)
    assert seen == [1] * len(rows)
    np.testing.assert_allclose(small.encode(rows[::-1])[0], other[::-1], atol=1e-5)


def test_texts_are_rows_of_their_own_or_share_one():
    examples = [("a", "b"), ("c", "d")]
    alone = frozen("slm", "per_sentence", 2)
    assert alone.rows_of(examples) == [("a",), ("b",), ("c",), ("d",)]
    joint = frozen("slm", "joint", 2)
    assert joint.rows_of(examples) == examples


def test_long_texts_are_cut_and_counted():
    encoder = FrozenEncoder(tiny("slm"), "per_sentence", 1, max_length=8)
    rows = [("w1 " * 30,), ("w1 " * 5,), ("w1 " * 6,)]
    vectors, num_cut = encoder.encode(rows)
    assert num_cut == 2
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-6)


def test_there_is_no_dropout():
    encoder = frozen("segabert")
    rows = some_rows()
    first, _ = encoder.encode(rows)
    np.testing.assert_array_equal(first, encoder.encode(rows)[0])


@pytest.mark.parametrize("kind", ["segabert", "reat"])
def test_new_weights_hang_on_their_seed_alone(kind):
    rows = some_rows()

    def twin(seed):
        return FrozenEncoder(
            tiny(kind), "per_sentence", 1, randomly_initialized=True, seed=seed
        )

    # Not 1, which the tiny model itself is drawn from.
    one, same, other = twin(2), twin(2), twin(3)
    np.testing.assert_array_equal(one.encode(rows)[0], same.encode(rows)[0])
    assert np.abs(one.encode(rows)[0] - other.encode(rows)[0]).max() > 1e-2
    assert one.describe() == same.describe()
    pretrained = frozen(kind)
    checksums = {
        encoder.describe()["encoder_sha256"] for encoder in (one, other, pretrained)
    }
    assert len(checksums) == 3


def test_half_precision_follows_the_policy():
    rows = some_rows()
    expected, _ = frozen("slm").encode(rows)
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        encoder = FrozenEncoder(tiny("slm"), "per_sentence", 1)
    finally:
        keras.config.set_dtype_policy("float32")
    vectors, _ = encoder.encode(rows)
    assert vectors.dtype == np.float32
    assert np.abs(vectors - expected).max() > 1e-4
    np.testing.assert_allclose(vectors, expected, atol=0.1)
    assert encoder.describe()["dtype_policy"] == "mixed_bfloat16"


@pytest.mark.parametrize(
    ("kind", "mode", "num_texts", "message"),
    [
        ("segabert", "joint", 5, r'`mode` must be "per_sentence".*tiny_segabert'),
        ("bert", "alone", 5, "`mode` must be one of per_sentence, joint.*'alone'"),
        ("slm", "joint", 6, "`texts` must be at most.*6 texts"),
    ],
)
def test_what_cannot_be_is_refused(kind, mode, num_texts, message):
    with pytest.raises(ValueError, match=message):
        FrozenEncoder(tiny(kind), mode, num_texts)


def test_one_text_alone_is_joint_as_well():
    vectors = [
        frozen("bert", mode).encode(some_rows())[0]
        for mode in ("joint", "per_sentence")
    ]
    np.testing.assert_array_equal(*vectors)
