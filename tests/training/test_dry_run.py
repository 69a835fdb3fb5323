"""Plans of runs: what they count, what they warn of, and measured speed."""

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


@pytest.fixture(scope="module")
def figures(config, learner):
    return dry_run.make_plan(config, ArithmeticInputs(), learner)


def test_the_description_has_the_figures(figures, config):
    assert figures.num_samples == 2_000
    assert figures.tokens == 2_000 * LENGTH * 5 / 6  # a sixth is padding
    flops = throughput.flops_per_update(config, VOCAB_SIZE)
    text = dry_run.describe(figures)
    for part in (
        "500 of 4 rows",
        "2,000: 2.00 epochs over 1,000 (held out: 20)",
        "which fill the rows to 83.3%",
        "0.01 after 5 updates of warm-up",
        f"{sum(figures.parameters.values()):,}",
        f"{flops:.3g} an update, {500 * flops:.3g} in all",
    ):
        assert part in text
    assert "Warning" not in text


def test_memory_is_that_of_the_variables_and_activations(figures, config, learner):
    size = 4 * sum(figures.parameters.values())
    assert figures.memory["weights"] == figures.memory["gradients"] == size
    # Two moments for each parameter, and the counter of updates.
    assert figures.memory["optimizer"] == 2 * size + 8
    numbers = config.model.row_activations(config.inputs, VOCAB_SIZE)
    numbers += 5 * config.inputs.masking.max_predictions * VOCAB_SIZE
    assert figures.memory[dry_run.ACTIVATIONS] == 4 * 4 * numbers
    half = small_config(batch_size=8, dtype_policy="mixed_bfloat16")
    plan = dry_run.make_plan(half, ArithmeticInputs(), learner)
    assert plan.memory[dry_run.ACTIVATIONS] == 2 * 8 * numbers


def test_parameters_are_counted_by_part_and_once(figures, learner):
    width, inner = 8, 16
    layer = 4 * (width * width + width) + 2 * width * inner + inner + width + 4 * width
    assert figures.parameters == {
        "encoder: token_embedding": VOCAB_SIZE * width,
        "encoder: index_embedding": LENGTH * width,
        "encoder: embeddings_layer_norm": 2 * width,
        "encoder: transformer_layers": layer,
        # The token table that it shares with the encoder is counted there.
        "masked_lm": width * width + width + 2 * width + VOCAB_SIZE,
    }
    total = sum(int(np.prod(v.shape)) for v in learner.trainable_variables)
    assert sum(figures.parameters.values()) == total


@pytest.mark.parametrize("num_layers", [1, 5])
def test_recomputed_layers_leave_their_inputs_and_one_inside(config, num_layers):
    model = dataclasses.replace(config.model, num_layers=num_layers)
    one = dataclasses.replace(config.model, num_layers=1)
    inside = one.row_activations(config.inputs, VOCAB_SIZE)
    assert model.row_activations(config.inputs, VOCAB_SIZE) == num_layers * inside
    inputs = num_layers * LENGTH * model.hidden_size
    found = model.row_activations(config.inputs, VOCAB_SIZE, recompute_layers=True)
    assert found == inputs + inside


@pytest.mark.parametrize(
    ("size", "rows"), [(1_667, 12), (1_666, 6), (999, 4), (445, 1), (444, None)]
)
def test_the_largest_micro_batch_divides_the_batch_and_fits(figures, size, rows):
    training = dataclasses.replace(figures.config.training, batch_size=12)
    plan = dataclasses.replace(
        figures,
        config=dataclasses.replace(figures.config, training=training),
        micro_batch_size=12,
        memory={"weights": 300, dry_run.ACTIVATIONS: 1_200},
        available=(size, "the GPU"),
    )
    assert plan.largest_micro_batch_size == rows
    warned = "\n".join(dry_run.warnings(plan))
    if rows is None:
        assert "Not even a micro-batch of one row fits" in warned
    elif rows < 12:
        assert f"--config.training.micro_batch_size={rows}" in warned
        assert "of memory are needed, and the GPU has 0 MiB" in warned
    else:
        assert not warned


def test_text_that_is_read_too_often_is_warned_of(figures):
    inputs = ArithmeticInputs()
    inputs.num_train_samples = 50
    assert dry_run.warnings(dataclasses.replace(figures, inputs=inputs)) == []
    inputs.num_train_samples = 20
    (warned,) = dry_run.warnings(dataclasses.replace(figures, inputs=inputs))
    assert "the text is read 100 times" in warned
    assert "--config.training.num_updates=200" in warned  # 40 % of 500


def test_memory_of_lanes_is_counted(tmp_path):
    config = word_runs.CONFIG
    inputs = build.build_inputs(config, str(word_runs.write_records(tmp_path)))
    learner = build.build_learner(config, inputs)
    plan = dry_run.make_plan(config, inputs, learner)
    lanes, layers, length, width = 4, 2, 7, 12
    numbers = lanes * length * (layers * width + 3)
    assert plan.memory["memory of lanes"] == 4 * numbers
    assert "windows" not in dry_run.describe(plan)


def test_measured_updates_come_after_one_that_is_not_counted(figures, config):
    learner = small_learner(config)
    batches = iter(ArithmeticInputs().train_dataset(4))
    seconds = dry_run.measure(learner, batches, 2)
    assert len(seconds) == 2
    assert learner.updates == 3
    text = dry_run.describe_measurement([0.5, 1.5, 1.0], figures)
    assert "3, after one that is not counted: 1 s each (0.5 to 1.5)" in text
    assert f"{4 * LENGTH * 5 / 6:,.0f} tokens a second" in text
    assert "0:08:20, validations and checkpoints not counted" in text
