"""Plans of runs: their figures, the warning about memory, and measured speed."""

import dataclasses

import numpy as np
import pytest

from seg_tf.training import build, dry_run, throughput
from tests.training import word_runs
from tests.training.stand_ins import (
    LENGTH,
    VOCAB_SIZE,
    ArithmeticInputs,
    small_config,
    small_learner,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def config():
    return small_config(num_updates=500)


@pytest.fixture(scope="module")
def learner(config):
    return small_learner(config)


def test_the_description_has_the_figures(config, learner):
    flops = throughput.flops_per_update(config, VOCAB_SIZE)
    text = dry_run.describe(config, ArithmeticInputs(), learner)
    for part in (
        "500 of 4 rows",
        "2,000: 2.00 epochs over 1,000 (held out: 20)",
        # A sixth is padding.
        f"{2_000 * LENGTH * 5 // 6:,}, which fill the rows to 83.3%",
        f"{sum(int(np.prod(v.shape)) for v in learner.trainable_variables):,}",
        f"{flops:.3g} an update, {500 * flops:.3g} in all",
    ):
        assert part in text
    assert "Warning" not in text


def test_memory_is_that_of_the_variables_and_activations(config, learner, monkeypatch):
    inputs = ArithmeticInputs()
    sizes = dry_run.memory(config, inputs, learner)
    weights = 4 * sum(int(np.prod(v.shape)) for v in learner.trainable_variables)
    assert sizes["weights"] == sizes["gradients"] == weights
    # Two moments for each parameter, and the counter of updates.
    assert sizes["optimizer"] == 2 * weights + 8
    numbers = config.model.row_activations(config.inputs, VOCAB_SIZE)
    numbers += 5 * config.inputs.masking.max_predictions * VOCAB_SIZE
    assert sizes[dry_run.ACTIVATIONS] == 4 * 4 * numbers
    half = small_config(dtype_policy="mixed_bfloat16")
    found = dry_run.memory(half, inputs, learner)[dry_run.ACTIVATIONS]
    assert found == 4 * 2 * numbers
    needed = sum(sizes.values())
    for size, is_warned in ((1.2 * needed, False), (1.1 * needed, True)):
        available = (size, "the GPU")
        monkeypatch.setattr(throughput, "available_memory", lambda one=available: one)
        text = dry_run.describe(config, inputs, learner)
        assert ("of memory are needed, and the GPU has 0 MiB" in text) == is_warned


@pytest.mark.parametrize("num_layers", [1, 5])
def test_recomputed_layers_leave_their_inputs_and_one_inside(config, num_layers):
    model = dataclasses.replace(config.model, num_layers=num_layers)
    one = dataclasses.replace(config.model, num_layers=1)
    inside = one.row_activations(config.inputs, VOCAB_SIZE)
    assert model.row_activations(config.inputs, VOCAB_SIZE) == num_layers * inside
    inputs = num_layers * LENGTH * model.hidden_size
    found = model.row_activations(config.inputs, VOCAB_SIZE, recompute_layers=True)
    assert found == inputs + inside


def test_memory_of_lanes_is_counted(word_records):
    config = word_runs.CONFIG
    inputs = build.build_inputs(config, str(word_records))
    learner = build.build_learner(config, inputs)
    lanes, layers, length, width = 4, 2, 7, 12
    sizes = dry_run.memory(config, inputs, learner)
    numbers = 4 * layers * width + 8 * 3  # in float32 and int64
    assert sizes["memory of lanes"] == lanes * length * numbers


def test_measured_updates_come_after_one_that_is_not_counted(config):
    learner = small_learner(config)
    batches = iter(ArithmeticInputs().train_dataset(4))
    seconds = dry_run.measure(learner, batches, 2)
    assert len(seconds) == 2
    assert learner.updates == 3
    text = dry_run.describe_measurement([0.5, 1.5, 1.0], config, ArithmeticInputs())
    assert "3, after one that is not counted: 1 s each (0.5 to 1.5)" in text
    assert f"{4 * LENGTH * 5 / 6:,.0f} tokens a second" in text
    assert "0:08:20, validations and checkpoints not counted" in text
