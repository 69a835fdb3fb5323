"""Batches of rows: every row once, lengths that waste little."""

import numpy as np
import pytest

from seg_tf.inference import rows
from seg_tf.layouts.rows import Segment, bucket_length
from seg_tf.layouts.sentences import SentenceLayout


def row(*lengths):
    return [
        Segment(np.full(length, 7, np.int32), sentence=number)
        for number, length in enumerate(lengths)
    ]


@pytest.mark.parametrize("longest", [48, 512, 500])
def test_a_bucket_is_long_enough_and_wastes_little(longest):
    buckets = set()
    shares = []
    for needed in range(3, longest + 1):
        length = bucket_length(needed, longest)
        assert needed <= length <= longest
        assert length - needed < max(16, length / 5)
        buckets.add(length)
        if needed > 128:
            shares.append(1 - needed / length)
    assert len(buckets) <= 17
    if shares:
        assert np.mean(shares) == pytest.approx(0.08, abs=0.005)


def test_every_row_is_in_one_batch_of_its_length():
    generator = np.random.default_rng(0)
    some = [row(*generator.integers(0, 60, 3)) for _ in range(300)]
    seen = []
    for length, numbers in rows.batches(some, 200, tokens_per_batch=500):
        assert len(numbers) * length <= max(500, length)
        for number in numbers:
            assert bucket_length(SentenceLayout.num_tokens(some[number]), 200) == length
        seen.extend(numbers)
    assert sorted(seen) == list(range(300))


def test_a_row_longer_than_a_batch_is_a_batch():
    assert [len(n) for _, n in rows.batches([row(90), row(91)], 200, 10)] == [1, 1]


def test_num_tokens_counts_every_special_token():
    # [CLS] [SENT] a b [SENT] [SENT] c [SEP]
    assert SentenceLayout.num_tokens(row(2, 0, 1)) == 8


def test_cutting_leaves_what_fits_as_it_is():
    pieces = np.arange(7)
    assert rows.cut(pieces, 10) is pieces  # with [CLS], [SENT] and [SEP]
    np.testing.assert_array_equal(rows.cut(pieces, 9), np.arange(6))
