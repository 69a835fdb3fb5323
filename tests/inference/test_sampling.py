"""What is drawn, and how often."""

import numpy as np
import pytest

from seg_tf.inference.sampling import Sampling

PROBABILITIES = np.array([0.05, 0.4, 0.0, 0.25, 0.3])
with np.errstate(divide="ignore"):
    LOG_PROBABILITIES = np.log(PROBABILITIES)


def frequencies(sampling, log_probabilities=LOG_PROBABILITIES, count=20_000):
    random = np.random.default_rng(0)
    drawn = [sampling.choose(log_probabilities, random) for _ in range(count)]
    return np.bincount(drawn, minlength=5) / count


@pytest.mark.parametrize(
    ("settings", "weights"),
    [
        ({}, [0.05, 0.4, 0, 0.25, 0.3]),
        ({"temperature": 0.5}, [0.0025, 0.16, 0, 0.0625, 0.09]),
        ({"temperature": 2.0}, [0.05**0.5, 0.4**0.5, 0, 0.5, 0.3**0.5]),
        ({"temperature": 0.0}, [0, 1, 0, 0, 0]),
        ({"temperature": 1e-6}, [0, 1, 0, 0, 0]),
        ({"top_k": 1}, [0, 1, 0, 0, 0]),
        ({"top_k": 2}, [0, 0.4, 0, 0, 0.3]),
        ({"top_k": 50}, [0.05, 0.4, 0, 0.25, 0.3]),
        ({"top_p": 0.39}, [0, 1, 0, 0, 0]),
        ({"top_p": 0.41}, [0, 0.4, 0, 0, 0.3]),
        ({"top_p": 0.71}, [0, 0.4, 0, 0.25, 0.3]),
        # 0.4 is 0.57 of what the two have together.
        ({"top_k": 2, "top_p": 0.5}, [0, 1, 0, 0, 0]),
        ({"top_k": 2, "top_p": 0.6}, [0, 0.4, 0, 0, 0.3]),
        # After the temperature: 0.16 of 0.315 is more than half.
        ({"temperature": 0.5, "top_p": 0.5}, [0, 1, 0, 0, 0]),
        ({"top_p": 0.5}, [0, 0.4, 0, 0, 0.3]),
    ],
)
def test_each_is_drawn_by_its_probability(settings, weights):
    found = frequencies(Sampling(**settings))
    expected = np.array(weights) / np.sum(weights)
    np.testing.assert_allclose(found, expected, atol=0.015)
    np.testing.assert_array_equal(found[expected == 0], 0)


def test_a_constant_changes_nothing():
    low = LOG_PROBABILITIES - 1_000
    for settings in ({}, {"temperature": 0.3}, {"top_p": 0.8}):
        np.testing.assert_array_equal(
            frequencies(Sampling(**settings), low, 500),
            frequencies(Sampling(**settings), count=500),
        )


@pytest.mark.parametrize(
    "settings", [{"temperature": -1.0}, {"top_k": -1}, {"top_p": 0.0}, {"top_p": 1.1}]
)
def test_settings_out_of_range_are_refused(settings):
    ((name, value),) = settings.items()
    with pytest.raises(ValueError, match=f"Received: .*{name}={value}"):
        Sampling(**settings)


def test_nothing_to_draw_is_refused():
    with pytest.raises(ValueError, match="Received: nothing"):
        Sampling().choose(np.full(3, -np.inf), np.random.default_rng(0))
