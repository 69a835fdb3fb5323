"""Which examples come together in a batch."""

import numpy as np
import pytest

from seg_tf.finetuning.row_batches import row_batches, shuffled

SHAPES = np.array([[16, 2]] * 23 + [[32, 2]] * 14 + [[32, 4]] * 3 + [[48, 2]])


def draw(seed, batch_size=10, shapes=SHAPES):
    batches = shuffled(shapes, batch_size, np.random.default_rng(seed))
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


def test_order_and_company_are_drawn():
    first, second = draw(1), draw(2)
    assert draw(1) == first
    assert first != second
    assert {frozenset(one) for one in first} != {frozenset(one) for one in second}
    orders = {
        tuple(SHAPES[batch, 0].max() for batch in draw(seed)) for seed in range(9)
    }
    assert len(orders) > 1


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


def test_batches_may_be_of_any_shapes():
    batches = numbers_of(dataset(seed=4, by_shape=False))
    assert sorted(np.concatenate(batches)) == list(range(41))
    assert [len(batch) for batch in batches] == [10, 10, 10, 10, 1]
    assert all(len(set(SHAPES[batch, 0])) > 1 for batch in batches[:4])
    assert numbers_of(dataset(seed=4, by_shape=False)) == batches
    assert numbers_of(dataset(seed=5, by_shape=False)) != batches


def test_without_a_seed_examples_stay_in_order():
    batches = dataset(seed=None)
    for _ in range(2):
        assert np.concatenate(numbers_of(batches)).tolist() == list(range(41))


def test_rows_are_as_long_as_the_longest_of_their_batch():
    lengths = [batch["token_ids"].shape[1] for batch in dataset(seed=None)]
    assert lengths == [16, 16, 32, 32, 48]


def test_labels_come_with_their_rows():
    labels = {"start": np.arange(41) * 2, "place": np.arange(82.0).reshape(41, 2)}
    for features, of_batch in dataset(seed=1, labels=labels):
        numbers = features["token_ids"][:, 0]
        assert (of_batch["start"] == 2 * numbers.numpy()).numpy().all()
        assert (of_batch["place"][:, 0] == 2.0 * numbers.numpy()).numpy().all()
        assert features["token_ids"].dtype.name == "int32"


def test_batches_hold_an_example():
    with pytest.raises(ValueError, match=r"at least 1\. Received: batch_size=0"):
        row_batches(None, SHAPES, 0, None)
