"""Texts and labels as datasets."""

import numpy as np
import pytest

from seg_tf.finetuning.classification.text_batches import text_batches
from tests.finetuning.tiny_models import some_texts, tiny

pytestmark = pytest.mark.slow


def batches(texts, labels=None, kind="bert", **arguments):
    return text_batches(tiny(kind), texts, labels, **{"batch_size": 2, **arguments})


def test_rows_are_those_of_the_texts_in_order():
    (first, second) = batches([("w0", "w1 w2"), ("w3", ""), ("w4", "w5")])
    assert first["token_ids"][:, :7].numpy().tolist() == [
        [2, 7, 3, 8, 9, 3, 0],
        [2, 10, 3, 3, 0, 0, 0],
    ]
    assert second["token_ids"][:, :5].numpy().tolist() == [[2, 11, 3, 12, 3]]
    assert first["padding_mask"].dtype == bool


@pytest.mark.parametrize("kind", ["segabert", "slm", "reat"])
@pytest.mark.parametrize("seed", [None, 3])
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


@pytest.mark.parametrize(
    ("labels", "dtype"),
    [([0, 1], "int32"), ([True, False], "int32"), (np.array([0.5, 1]), "float32")],
)
def test_labels_are_ints_for_classes_and_floats_for_numbers(labels, dtype):
    ((_, of_batch),) = batches(["w0", "w1"], labels)
    assert of_batch.dtype == dtype


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
    assert said == ["Cut, because they are longer than 8 word pieces: 2 of 3 examples"]
    assert first["token_ids"][0].numpy().tolist() == [2, *[7] * 8, 3]
    batches(["w0"], max_length=10, report=said.append)
    assert len(said) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"labels": [1]}, r"`labels` must hold one label.*\(1,\), 2 examples"),
        ({"labels": 1}, r"`labels` must hold one label.*\(\), 2 examples"),
        ({"labels": ["yes", "no"]}, "`labels` must be numbers.*<U3"),
        ({"batch_size": 0}, "`batch_size`.*batch_size=0"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        batches(["w0", "w1"], **arguments)
