import dataclasses

import keras
import numpy as np
import pytest

from seg_tf import configuration
from seg_tf.training import plan, pretraining
from tests.training import word_runs
from tests.training.stand_ins import (
    LENGTH,
    VOCAB_SIZE,
    ArithmeticInputs,
    small_config,
    small_pretrainer,
)


@pytest.fixture(scope="module")
def config():
    return small_config(num_updates=500)


@pytest.fixture(scope="module")
def pretrainer(config):
    return small_pretrainer(config)


@pytest.fixture(scope="module")
def figures(config, pretrainer):
    return plan.make_plan(config, ArithmeticInputs(), pretrainer)


def test_run_is_counted_in_updates_windows_epochs_and_tokens(figures):
    assert figures.num_updates == 500
    assert figures.batch_size == 4
    assert figures.num_samples == 2_000
    assert figures.parts == "windows"
    assert figures.num_parts == 3_000  # one and a half in each
    assert figures.epochs == 2.0  # of 1,000 samples
    assert figures.tokens == 2_000 * LENGTH * 5 / 6  # a sixth is padding
    assert figures.peak_learning_rate == 1e-2
    assert figures.warmup_updates == 5


def test_parameters_are_counted_by_part_and_once(figures, pretrainer):
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
    total = sum(int(np.prod(v.shape)) for v in pretrainer.trainable_variables)
    assert sum(figures.parameters.values()) == total


def test_layers_of_a_stack_are_one_part():
    config = small_config()
    deep = dataclasses.replace(
        config, model=dataclasses.replace(config.model, num_layers=3)
    )
    one = plan.count_parameters(small_pretrainer(config))
    three = plan.count_parameters(small_pretrainer(deep))
    assert three.keys() == one.keys()
    part = "encoder: transformer_layers"
    assert three[part] == 3 * one[part]


def test_memory_is_that_of_the_variables(figures, pretrainer):
    size = 4 * sum(figures.parameters.values())
    assert figures.memory["weights"] == figures.memory["gradients"] == size
    # Two moments for each parameter, and the counter of updates.
    assert figures.memory["optimizer"] == 2 * size + 8
    assert figures.memory["activations, roughly"] > 0


def test_activations_grow_with_the_batch_and_shrink_with_half_precision():
    def activations(**training):
        config = small_config(**training)
        return plan.make_plan(
            config, ArithmeticInputs(), small_pretrainer(config)
        ).memory["activations, roughly"]

    assert activations(batch_size=8) == 2 * activations()
    assert activations(dtype_policy="mixed_bfloat16") == activations() / 2


def test_predictions_of_masked_positions_are_activations_too(config, figures):
    numbers = config.model.row_activations(config.inputs, VOCAB_SIZE)
    numbers += 5 * config.inputs.masking.max_predictions * VOCAB_SIZE
    assert figures.memory["activations, roughly"] == 4 * 4 * numbers


def test_transformer_xl_sees_its_memory_and_predicts_at_every_position():
    model, inputs = word_runs.CONFIG.model, word_runs.CONFIG.inputs
    length = word_runs.TARGET_LENGTH

    def activations(**changes):
        changed = dataclasses.replace(model, **changes)
        return changed.row_activations(inputs, word_runs.VOCAB_SIZE)

    more = activations(memory_length=model.memory_length + 3) - activations()
    assert more == 5 * 3 * length * model.num_layers * model.num_heads
    # Of the words, those up to the first cutoff.
    more = activations(cutoffs=(13, 20)) - activations(cutoffs=(10, 30))
    assert more == 4 * 3 * length
    more = activations(cutoffs=()) - activations()
    assert more == 4 * (word_runs.VOCAB_SIZE - 10) * length


def test_optimizer_with_a_plain_rate_has_no_warm_up_to_tell_of(config):
    pretrainer = small_pretrainer(config)
    pretrainer.compile(optimizer=keras.optimizers.SGD(0.1))
    figures = plan.make_plan(config, ArithmeticInputs(), pretrainer)
    assert figures.peak_learning_rate is None
    assert "warm-up" not in plan.describe(figures, ArithmeticInputs())


def test_warm_up_of_a_cosine_is_told_of_too(config):
    cosine = configuration.CosineAdamWConfig(learning_rate=0.3, warmup_updates=7)
    config = dataclasses.replace(config, optimizer=cosine)
    figures = plan.make_plan(config, ArithmeticInputs(), small_pretrainer(config))
    text = plan.describe(figures, ArithmeticInputs())
    assert "0.3 after 7 updates of warm-up" in text


def test_description_holds_the_figures(figures):
    text = plan.describe(figures, ArithmeticInputs())
    assert "500 of 4 rows" in text
    assert "3,000: 1.50 a row, which they fill to 83.3%" in text
    assert "2.00 epochs over 1,000 (held out: 20)" in text
    assert "0.01 after 5 updates of warm-up" in text
    assert f"{sum(figures.parameters.values()):,}" in text


def test_what_is_remembered_of_lanes_is_counted(tmp_path):
    records = word_runs.write_records(tmp_path)
    config = word_runs.CONFIG
    inputs = pretraining.build_inputs(config, str(records))
    pretrainer = pretraining.build_pretrainer(config, inputs)
    found = plan.make_plan(config, inputs, pretrainer)
    lanes, layers, length, width = 4, 2, 7, 12
    numbers = lanes * length * (layers * width + 3)
    assert found.memory["what is remembered of lanes"] == 4 * numbers
    # Two rows at once, without masked positions.
    numbers = config.model.row_activations(config.inputs, word_runs.VOCAB_SIZE)
    assert found.memory["activations, roughly"] == 4 * 2 * numbers
    assert found.parts is found.num_parts is None
    assert found.tokens == 12 * 4 * word_runs.TARGET_LENGTH
    text = plan.describe(found, inputs)
    assert "windows" not in text
    assert f"{found.tokens:,}, padding left out" in text
