import math

import keras
import numpy as np
import pytest

from seg_tf.config import AdamWConfig
from seg_tf.training.optimizers.schedule import WarmupCosineDecay, WarmupPolynomialDecay


def slow_rate(updates, *, peak, warmup, decay, end, power, from_start=False):
    """The rate of the update after `updates` others, in plain arithmetic."""
    if updates < warmup:
        return peak * (updates + 1) / warmup
    if updates >= decay:
        return end
    span = decay if from_start else decay - warmup
    return end + (peak - end) * ((decay - updates) / span) ** power


@pytest.mark.parametrize(
    "peak, warmup, decay, end, power",
    [
        pytest.param(1e-4, 10, 100, 0.0, 1.0, id="linear"),
        pytest.param(6e-3, 20, 70, 0.0, 0.5, id="square root"),
        pytest.param(1e-4, 10, 90, 2e-6, 1.0, id="ends above zero"),
        pytest.param(1e-3, 0, 50, 0.0, 1.0, id="no warm-up"),
        pytest.param(1e-3, 50, 50, 1e-5, 1.0, id="warm-up only"),
        pytest.param(1e-3, 1, 1, 0.0, 1.0, id="one update"),
    ],
)
def test_rate_equals_plain_arithmetic(peak, warmup, decay, end, power):
    rate = WarmupPolynomialDecay(peak, decay, warmup, end, power)
    for updates in range(decay + 20):
        expected = slow_rate(
            updates, peak=peak, warmup=warmup, decay=decay, end=end, power=power
        )
        np.testing.assert_allclose(float(rate(updates)), expected, rtol=1e-6, atol=0)


def test_decay_from_start_drops_to_where_the_decay_is_when_the_warm_up_ends():
    rate = WarmupPolynomialDecay(6e-3, 100, 36, power=0.5, decay_from_start=True)
    # sqrt((100 - 36) / 100) = 0.8
    np.testing.assert_allclose(float(rate(35)), 6e-3, rtol=1e-6)
    np.testing.assert_allclose(float(rate(36)), 0.8 * 6e-3, rtol=1e-6)
    for updates in range(110):
        expected = slow_rate(
            updates,
            peak=6e-3,
            warmup=36,
            decay=100,
            end=0.0,
            power=0.5,
            from_start=True,
        )
        np.testing.assert_allclose(float(rate(updates)), expected, rtol=1e-6, atol=0)


def test_peak_is_reached_and_no_update_of_the_run_has_rate_zero():
    rates = [float(WarmupPolynomialDecay(1.0, 100, 10)(u)) for u in range(100)]
    assert max(rates) == rates[9] == rates[10] == 1.0
    assert min(rates) > 0


def test_late_updates_of_a_long_run_are_not_rounded_away():
    rate = WarmupPolynomialDecay(1e-4, 25_000_000, 10_000)
    last, before = float(rate(24_999_999)), float(rate(24_999_990))
    np.testing.assert_allclose(last, 1e-4 / 24_990_000, rtol=1e-6)
    np.testing.assert_allclose(before / last, 10, rtol=1e-6)


def slow_cosine_rate(updates, *, peak, warmup, decay, end, from_start=False):
    """The same of a cosine, as half a wave from the peak to the end rate."""
    if updates < warmup:
        return peak * (updates + 1) / warmup
    if updates >= decay:
        return end
    begin = 0 if from_start else warmup
    angle = math.pi * (updates - begin) / (decay - begin)
    return end + (peak - end) * (1 + math.cos(angle)) / 2


@pytest.mark.parametrize(
    "peak, warmup, decay, end, from_start",
    [
        pytest.param(2.5e-4, 0, 60, 0.0, False, id="no warm-up"),
        pytest.param(2.5e-4, 10, 60, 0.0, False, id="warm-up"),
        pytest.param(2.5e-4, 20, 60, 0.0, True, id="counted from the start"),
        pytest.param(1e-3, 5, 40, 1e-4, False, id="ends above zero"),
        pytest.param(1e-3, 50, 50, 1e-5, False, id="warm-up only"),
    ],
)
def test_cosine_rate_equals_plain_arithmetic(peak, warmup, decay, end, from_start):
    rate = WarmupCosineDecay(peak, decay, warmup, end, from_start)
    for updates in range(decay + 10):
        expected = slow_cosine_rate(
            updates,
            peak=peak,
            warmup=warmup,
            decay=decay,
            end=end,
            from_start=from_start,
        )
        np.testing.assert_allclose(float(rate(updates)), expected, rtol=2e-6, atol=0)


def test_cosine_is_half_way_down_in_the_middle_and_flat_at_both_ends():
    rate = WarmupCosineDecay(1.0, 1_000)
    np.testing.assert_allclose(float(rate(500)), 0.5, rtol=1e-6)
    assert float(rate(0)) == 1
    # A first step of the size (pi / 1000)**2 / 4, a last rate of the same.
    step = (math.pi / 1_000) ** 2 / 4
    np.testing.assert_allclose(1 - float(rate(1)), step, rtol=0.05)
    np.testing.assert_allclose(float(rate(999)), step, rtol=1e-5)


def test_a_cosine_longer_than_the_run_is_stopped_on_its_way():
    rate = WarmupCosineDecay(2.5e-4, 500_000, 16_000, decay_from_start=True)
    expected = 2.5e-4 * (1 + math.cos(0.7 * math.pi)) / 2
    np.testing.assert_allclose(float(rate(350_000)), expected, rtol=1e-5)


def test_cosine_serialisation_keeps_every_argument():
    schedule = WarmupCosineDecay(3e-4, 77, 5, 1e-6, decay_from_start=True)
    copy = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(schedule)
    )
    for updates in (0, 4, 5, 40, 76, 90):
        expected = slow_cosine_rate(
            updates, peak=3e-4, warmup=5, decay=77, end=1e-6, from_start=True
        )
        np.testing.assert_allclose(float(copy(updates)), expected, rtol=2e-6)


def test_one_percent_is_the_default_warm_up_and_never_nothing():
    assert AdamWConfig().warmup(500_000) == 5_000
    assert AdamWConfig().warmup(20) == 1


def test_late_decay_stays_at_the_peak_until_it_begins():
    rate = WarmupPolynomialDecay(8e-3, 50, 4, 1e-3, decay_begin=40)
    for updates in range(60):
        if updates < 4:
            expected = 8e-3 * (updates + 1) / 4
        else:
            left = min(10, max(50 - updates, 0))
            expected = 1e-3 + 7e-3 * left / 10
        np.testing.assert_allclose(float(rate(updates)), expected, rtol=1e-6)


def test_before_the_decay_no_bit_depends_on_when_it_begins():
    one, other = (
        WarmupPolynomialDecay(3e-4, length, 7, 1e-5, decay_begin=begin)
        for length, begin in ((50, 40), (1_000_000, 700_000))
    )
    rates = [[float(rate(updates)) for updates in range(41)] for rate in (one, other)]
    assert rates[0] == rates[1]
    assert float(one(41)) < float(other(41))


def test_serialisation_keeps_every_argument():
    schedule = WarmupPolynomialDecay(3e-4, 77, 5, 1e-6, 2.0, decay_from_start=True)
    copy = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(schedule)
    )
    for updates in (0, 4, 5, 40, 76, 90):
        expected = slow_rate(
            updates,
            peak=3e-4,
            warmup=5,
            decay=77,
            end=1e-6,
            power=2.0,
            from_start=True,
        )
        np.testing.assert_allclose(float(copy(updates)), expected, rtol=1e-6)


@pytest.mark.parametrize(
    "arguments, named",
    [
        ({"decay_updates": 10, "warmup_updates": 11}, "warmup_updates"),
        ({"decay_updates": 10, "warmup_updates": -1}, "warmup_updates"),
        ({"decay_updates": 10, "end_learning_rate": 2e-3}, "end_learning_rate"),
        ({"decay_updates": 10, "power": 0.0}, "power"),
        ({"decay_updates": 10, "decay_begin": 10}, "decay_begin"),
        ({"decay_updates": 9, "warmup_updates": 3, "decay_begin": 2}, "decay_begin"),
        (
            {"decay_updates": 9, "decay_begin": 2, "decay_from_start": True},
            "decay_begin",
        ),
    ],
)
def test_impossible_schedules_are_refused(arguments, named):
    with pytest.raises(ValueError, match=f"`{named}`.*Received"):
        WarmupPolynomialDecay(1e-3, **arguments)


@pytest.mark.parametrize(
    "arguments, named",
    [
        ({"decay_updates": 10, "warmup_updates": 11}, "warmup_updates"),
        ({"decay_updates": 10, "end_learning_rate": 2e-3}, "end_learning_rate"),
    ],
)
def test_impossible_cosines_are_refused(arguments, named):
    with pytest.raises(ValueError, match=f"`{named}`.*Received"):
        WarmupCosineDecay(1e-3, **arguments)
