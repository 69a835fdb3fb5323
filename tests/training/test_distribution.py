import pytest

from seg_tf.training import distribution
from seg_tf.training.distribution import Distribution


def test_process_alone_is_the_chief_of_one():
    assert distribution.current() == Distribution(rank=0, size=1)
    assert distribution.current().is_chief


def test_only_rank_zero_is_the_chief():
    assert [Distribution(rank, 3).is_chief for rank in range(3)] == [True, False, False]


@pytest.mark.parametrize("rank, size", [(2, 2), (-1, 2), (0, 0)])
def test_rank_lies_within_the_size(rank, size):
    with pytest.raises(ValueError, match=f"Received: rank={rank}, size={size}"):
        Distribution(rank, size)
