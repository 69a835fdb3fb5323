import math

import keras
import numpy as np
import pytest

from seg_tf.config import AdamWConfig
from seg_tf.training.optimizers import WarmupDecay


def slow_rate(
    updates, *, peak, warmup, decay, end=0.0, power=1.0, begin=None, cosine=False
):
    """The rate of the update after `updates` others, in plain arithmetic."""
    begin = warmup if begin is None else begin
    if updates < warmup:
        return peak * (updates + 1) / warmup
    if updates >= decay:
        return end
    share = min(1, (decay - updates) / (decay - begin))
    fall = (1 - math.cos(math.pi * share)) / 2 if cosine else share**power
    return end + (peak - end) * fall


@pytest.mark.parametrize(
    "peak, warmup, decay, end, power",
    [
        pytest.param(1e-4, 10, 100, 0.0, 1.0, id="linear"),
        pytest.param(6e-3, 20, 70, 0.0, 0.5, id="square root"),
        pytest.param(1e-4, 10, 90, 2e-6, 1.0, id="ends above zero"),
        pytest.param(1e-3, 0, 50, 0.0, 1.0, id="no warm-up"),
        pytest.param(1e-3, 50, 50, 1e-5, 1.0, id="warm-up only"),
        pytest.param(1e-3, 1, 1, 0.0, 1.0, id="one update"),
        pytest.param(2.5e-4, 10, 60, 0.0, None, id="cosine"),
        pytest.param(1e-3, 5, 40, 1e-4, None, id="cosine above zero"),
        pytest.param(1e-3, 50, 50, 1e-5, None, id="cosine, warm-up only"),
    ],
)
@pytest.mark.parametrize("from_start", [False, True])
def test_rate_equals_plain_arithmetic(peak, warmup, decay, end, power, from_start):
    settings = {"end_learning_rate": end, "decay_from_start": from_start}
    rate = WarmupDecay(peak, decay, warmup, power=power, **settings)
    # Loaded again: it keeps every argument.
    rate = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(rate)
    )
    for updates in range(decay + 20):
        expected = slow_rate(
            updates,
            peak=peak,
            warmup=warmup,
            decay=decay,
            end=end,
            power=power,
            begin=0 if from_start else None,
            cosine=power is None,
        )
        np.testing.assert_allclose(float(rate(updates)), expected, rtol=2e-6, atol=0)


def test_late_updates_of_a_long_run_are_not_rounded_away():
    rate = WarmupDecay(1e-4, 25_000_000, 10_000)
    last, before = float(rate(24_999_999)), float(rate(24_999_990))
    np.testing.assert_allclose(last, 1e-4 / 24_990_000, rtol=1e-6)
    np.testing.assert_allclose(before / last, 10, rtol=1e-6)


def test_one_percent_is_the_default_warm_up_and_never_nothing():
    assert AdamWConfig().warmup(500_000) == 5_000
    assert AdamWConfig().warmup(20) == 1


def test_late_decay_stays_at_the_peak_until_it_begins():
    rate = WarmupDecay(8e-3, 50, 4, 1e-3, decay_begin=40)
    for updates in range(60):
        expected = slow_rate(updates, peak=8e-3, warmup=4, decay=50, end=1e-3, begin=40)
        np.testing.assert_allclose(float(rate(updates)), expected, rtol=1e-6)


def test_before_the_decay_no_bit_depends_on_when_it_begins():
    one, other = (
        WarmupDecay(3e-4, length, 7, 1e-5, decay_begin=begin)
        for length, begin in ((50, 40), (1_000_000, 700_000))
    )
    rates = [[float(rate(updates)) for updates in range(41)] for rate in (one, other)]
    assert rates[0] == rates[1]
    assert float(one(41)) < float(other(41))
