"""Loss without context: the closed form, what it is measured on, and the messages."""

import dataclasses
import types

import numpy as np
import pytest
import tensorflow as tf

from seg_tf.config import CausalLMConfig, MaskedLMConfig, SentenceUnshufflingConfig
from seg_tf.training import yardstick
from tests.training.stand_ins import small_config

VOCAB_SIZE, MASK = 20, 4


def zipf(seed):
    """Frequencies of pieces, of which `[MASK]` is none."""
    frequencies = np.random.default_rng(seed).permutation(1 / np.arange(1, 21))
    frequencies[MASK] = 0
    return frequencies / frequencies.sum()


@pytest.mark.parametrize(
    ("kept", "random"), [(0, 0), (0.1, 0.1), (0.2, 0), (0, 0.2), (0.3, 0.7), (1, 0)]
)
def test_expected_losses_equal_the_sum_over_all_targets_and_inputs(kept, random):
    frequencies = zipf(0)
    joint = np.zeros([VOCAB_SIZE, VOCAB_SIZE])
    for target in range(VOCAB_SIZE):
        for piece in range(VOCAB_SIZE):
            chance = random / VOCAB_SIZE
            chance += kept * (piece == target) + (1 - kept - random) * (piece == MASK)
            joint[target, piece] = frequencies[target] * chance
    expected = np.zeros(VOCAB_SIZE)
    for target, piece in zip(*np.nonzero(joint), strict=True):
        loss = -np.log(joint[target, piece] / joint[:, piece].sum())
        expected[target] += joint[target, piece] / frequencies[target] * loss
    pieces = frequencies > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = yardstick.expected_losses(frequencies, kept, random)[pieces]
    np.testing.assert_allclose(losses, expected[pieces], atol=1e-12)
    if not kept and not random:
        entropy = -np.sum(frequencies[pieces] * np.log(frequencies[pieces]))
        np.testing.assert_allclose(losses @ frequencies[pieces], entropy)


class FixedInputs:
    """One batch, endlessly in training; an eighth of its entries is padding."""

    vocab_size = 3
    num_train_samples = 2
    sources = types.MappingProxyType({})

    def __init__(self, ids, weight=1, sources=sources, names=("masked_ids",)):
        self.weight, self.inputs, self.sources = weight, self, sources
        mask = np.not_equal(ids, -1)
        name, mask_name = names if len(names) == 2 else (*names, "masked_weights")
        self._batch = {name: np.maximum(ids, 0), mask_name: mask.astype(np.float32)}

    def train_dataset(self, batch_size):
        assert batch_size == 2
        return tf.data.Dataset.from_tensors(self._batch).repeat()

    def validation_dataset(self, **_):
        return tf.data.Dataset.from_tensors(self._batch)


def run_config(objectives=None, **masking):
    config = small_config(batch_size=2)
    masking = dataclasses.replace(config.inputs.masking, **masking)
    return dataclasses.replace(
        config,
        inputs=dataclasses.replace(config.inputs, masking=masking),
        objectives=objectives or {"masked_lm": MaskedLMConfig()},
    )


IDS = np.array([[0, 0, 0, 1], [0, 1, 1, -1]])


def test_level_is_measured_on_the_targets_of_training_and_validation():
    frequencies = np.array([5, 4, 1]) / 10
    losses = yardstick.expected_losses(frequencies, kept_rate=0.25, random_rate=0.25)
    expected = (4 * losses[0] + 3 * losses[1]) / 7
    config = run_config(mask_token_rate=0.5, random_token_rate=0.25)
    levels = yardstick.losses_without_context(config, FixedInputs(IDS))
    assert list(levels) == ["loss_without_context", "masked_lm_loss_without_context"]
    np.testing.assert_allclose(list(levels.values()), expected)

    # Sources count by their weights, whatever the number of their targets.
    mixture = FixedInputs(
        IDS,
        sources={
            "a": FixedInputs(np.array([[0, 0, 0, 0]]), weight=1),
            "b": FixedInputs(np.array([[1, -1]]), weight=3),
        },
    )
    levels = yardstick.losses_without_context(config, mixture)
    expected = (losses[0] + 3 * losses[1]) / 4
    np.testing.assert_allclose(levels["loss_without_context"], expected)


def test_level_is_that_of_the_objective_which_predicts_pieces():
    masked_lm = MaskedLMConfig(loss_weight=0.5)
    others = {"order": SentenceUnshufflingConfig()}
    inputs = FixedInputs(IDS)
    alone = yardstick.losses_without_context(run_config({"lm": masked_lm}), inputs)
    assert alone["loss_without_context"] == alone["lm_loss_without_context"] / 2
    both = yardstick.losses_without_context(
        run_config({**others, "lm": masked_lm}), inputs
    )
    assert both == {"lm_loss_without_context": alone["lm_loss_without_context"]}
    assert yardstick.losses_without_context(run_config(others), inputs) == {}

    causal = run_config({"lm": CausalLMConfig()})
    words = FixedInputs(IDS, names=("target_ids", "padding_mask"))
    level = yardstick.losses_without_context(causal, words)["loss_without_context"]
    assert level == pytest.approx(-(4 * np.log(0.5) + 3 * np.log(0.4)) / 7)


LATE = (
    "Validation loss 6.08; a model that ignores the context reaches 6.07: see "
    "docs/pretraining.md#plateau"
)
OFF = "Validation loss 6.00: below the 6.07 of a model that ignores the context"


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        # A validation every 50 of 1,000 updates; the tenth ends with the second.
        # Back at the level: no news.
        ([6.3, 6.08, 6.08, 6.03, 6.0, 6.08], [None, LATE, None, None, OFF, None]),
        ([6.3, 6.0, 6.08, 6.0], [None, None, None, None]),
    ],
)
def test_plateau_is_reported_once_and_so_is_its_end(losses, expected):
    rows = [
        {"updates": 50 * number, "loss": loss, "loss_without_context": 6.07}
        for number, loss in enumerate(losses, start=1)
    ]
    messages = [
        yardstick.plateau_message(rows[:end], 1_000) for end in range(1, len(rows) + 1)
    ]
    assert messages == expected
