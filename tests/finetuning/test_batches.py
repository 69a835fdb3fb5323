"""Texts and labels as batches: what may be given, and which examples come together."""

import numpy as np
import pytest
import tensorflow as tf

from seg_tf.finetuning.batches import (
    batches_by_shape,
    is_text,
    row_batches,
    to_tuples,
)
from seg_tf.preprocessing import cut_longest
from tests.finetuning.tiny_models import some_texts, text_batches, tiny

pytestmark = pytest.mark.slow


PAIRS = [("a", "b"), ("c", "d")]


@pytest.mark.parametrize(
    ("texts", "num_texts", "expected"),
    [
        (["a", "b"], None, [("a",), ("b",)]),
        (("a", "b"), 1, [("a",), ("b",)]),
        (np.array(["a", "b"]), None, [("a",), ("b",)]),
        (np.array(["a", "b"], object), 1, [("a",), ("b",)]),
        (lambda: tf.constant(["a", "ü"]), 1, [("a",), ("ü",)]),
        ([b"a", "b"], 1, [("a",), ("b",)]),
        ([["a", "b"], ["c", "d"]], None, PAIRS),
        (tuple(PAIRS), 2, PAIRS),
        (np.array(PAIRS), 2, PAIRS),
        (lambda: tf.constant(PAIRS), 2, PAIRS),
        # All first texts and all second ones, as keras-hub takes them.
        ((["a", "c"], ["b", "d"]), 2, PAIRS),
        (lambda: (np.array(["a", "c"]), tf.constant(["b", "d"])), 2, PAIRS),
    ],
)
def test_texts_in_every_form(texts, num_texts, expected):
    texts = texts() if callable(texts) else texts
    assert is_text(texts)
    assert to_tuples(texts, num_texts) == expected


def test_features_and_batches_are_no_texts():
    features = {"token_ids": np.zeros((2, 3))}
    dataset = tf.data.Dataset.from_tensor_slices(["a"])
    for values in (features, dataset, np.zeros(3), tf.zeros(3), [1, 2], None, 3):
        assert not is_text(values)
    assert is_text([])


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("a text", "Received: 'a text'"),
        ([], r"at least one example.* Received: \[\]"),
        ([("a", "b"), "c"], r"of 2 strings. Received: texts\[1\]='c'"),
        (["a", None], r"of one string. Received: texts\[1\]=None"),
        ([("a", "b"), ("a", 3)], r"Received: texts\[1\]=\('a', 3\)"),
    ],
)
def test_other_texts_are_refused(texts, message):
    with pytest.raises(ValueError, match=message):
        to_tuples(texts)


def cut_piece_by_piece(lengths, room):
    lengths = list(lengths)
    while sum(lengths) > room:
        longest = max(range(len(lengths)), key=lambda text: (lengths[text], text))
        lengths[longest] -= 1
    return lengths


@pytest.mark.parametrize("num_texts", [1, 2, 5])
def test_cutting_is_that_of_the_loop(num_texts):
    lengths = np.random.default_rng(num_texts).integers(0, 12, (200, num_texts))
    for room in (0, 1, 7, 20):
        found = cut_longest(tf.constant(lengths, tf.int32), room).numpy()
        expected = [cut_piece_by_piece(row, room) for row in lengths]
        assert found.tolist() == expected


# === Texts and labels ===


def batches(texts, labels=None, kind="bert", **arguments):
    return text_batches(tiny(kind), texts, labels, **{"batch_size": 2, **arguments})


@pytest.mark.parametrize("at_once", [1, 2**22])
def test_rows_are_those_of_the_texts_in_order(monkeypatch, at_once):
    monkeypatch.setattr("seg_tf.finetuning.batches._CHUNK_CHARACTERS", at_once)
    (first, second) = batches([("w0", "w1 w2"), ("w3", ""), ("w4", "w5")])
    assert first["token_ids"][:, :7].numpy().tolist() == [
        [2, 7, 3, 8, 9, 3, 0],
        [2, 10, 3, 3, 0, 0, 0],
    ]
    assert second["token_ids"][:, :5].numpy().tolist() == [[2, 11, 3, 12, 3]]
    assert first["padding_mask"].dtype == bool


@pytest.mark.parametrize(("kind", "seed"), [("slm", None), ("reat", 3)])
def test_labels_stay_with_their_texts(kind, seed):
    texts = some_texts(np.random.default_rng(1), 11, 1)
    labels = [tiny(kind).text_encoder().encode([one])[0].sum() for (one,) in texts]
    seen = []
    for features, of_batch in batches(texts, labels, kind, seed=seed):
        ids = features["token_ids"].numpy()
        # Ids up to that of the period are special.
        np.testing.assert_array_equal((ids * (ids > 6)).sum(axis=1), of_batch)
        seen += of_batch.numpy().tolist()
    assert sorted(seen) == sorted(labels)


@pytest.mark.parametrize("kind", [int, float])
def test_scores_of_a_regression_do_not_hang_together_by_length(kind):
    # Long texts have high scores, and short ones low: the mean of a batch by length
    # tells which it is.
    texts = ["w0"] * 16 + [" ".join(["w1"] * 20)] * 16
    labels = [kind(0)] * 16 + [kind(4)] * 16
    found = batches(texts, labels, batch_size=8, seed=1)
    means = {float(of_batch.numpy().mean()) for _, of_batch in found}
    assert (means == {0.0, 4.0}) == (kind is int)


def test_cut_texts_are_counted():
    said = []
    texts = ["w0 " * 20, "w1", "w2 " * 9]
    (first, _) = batches(texts, max_length=10, report=said.append)
    assert said == ["Truncated, because longer than 8 word pieces: 2 of 3 rows"]
    assert first["token_ids"][0].numpy().tolist() == [2, *[7] * 8, 3]
    batches(["w0"], max_length=10, report=said.append)
    assert len(said) == 1


def test_an_empty_batch_is_refused():
    with pytest.raises(ValueError, match=r"`batch_size`.*batch_size=0"):
        batches(["w0", "w1"], batch_size=0)


def test_half_a_surrogate_pair_is_no_piece():
    (features,) = batches(["w0 \ud83d w1"])
    assert features["token_ids"].numpy()[0, :4].tolist() == [2, 7, 8, 3]


# === Which examples come together ===


SHAPES = np.array([[16, 2]] * 23 + [[32, 2]] * 14 + [[32, 4]] * 3 + [[48, 2]])


def draw(seed, batch_size=10, shapes=SHAPES):
    batches = batches_by_shape(shapes, batch_size, np.random.default_rng(seed))
    return [batch.tolist() for batch in batches]


@pytest.mark.parametrize("batch_size", [1, 3, 10, 41, 100])
def test_every_example_is_in_one_batch(batch_size):
    batches = draw(1, batch_size)
    assert sorted(np.concatenate(batches)) == list(range(41))
    sizes = sorted(map(len, batches), reverse=True)
    assert len(batches) == -(-41 // batch_size)
    assert all(size == batch_size for size in sizes[:-1])


def test_examples_of_one_shape_come_together():
    mixed = [
        batch for batch in draw(1) if len({tuple(SHAPES[one]) for one in batch}) > 1
    ]
    # Two batches of 16 and one of 32 are full; what is left makes one and a rest.
    assert len(mixed) == 1


def dataset(seed, labels=None, by_shape=True):
    def make_batch(numbers, row_shape):
        rows = np.zeros((len(numbers), row_shape[0]), np.int32)
        rows[:, 0] = numbers
        features = {"token_ids": rows}
        if labels is None:
            return features
        return features, {name: values[numbers] for name, values in labels.items()}

    return row_batches(make_batch, SHAPES, 10, seed, by_shape)


def numbers_of(batches):
    return [batch["token_ids"][:, 0].numpy().tolist() for batch in batches]


def test_each_time_there_is_another_order_and_it_hangs_on_the_seed_alone():
    batches = dataset(seed=4)
    first, second = numbers_of(batches), numbers_of(batches)
    assert first != second
    assert sorted(np.concatenate(first)) == list(range(41))
    assert sorted(np.concatenate(second)) == list(range(41))
    again = dataset(seed=4)
    assert [numbers_of(again), numbers_of(again)] == [first, second]
    assert numbers_of(dataset(seed=5)) != first
    assert len(batches) == 5


def test_rows_are_as_long_as_the_longest_of_their_batch():
    lengths = [batch["token_ids"].shape[1] for batch in dataset(seed=None)]
    assert lengths == [16, 16, 32, 32, 48]
