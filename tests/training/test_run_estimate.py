import dataclasses

import keras
import numpy as np
import pytest

from seg_tf import configuration, host_memory
from seg_tf.training import device_memory, flops, measurement, pretraining, run_estimate
from seg_tf.training.device_memory import DeviceMemory
from tests.training import word_runs
from tests.training.stand_ins import (
    LENGTH,
    VOCAB_SIZE,
    ArithmeticInputs,
    small_config,
    small_pretrainer,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def config():
    return small_config(num_updates=500)


@pytest.fixture(scope="module")
def pretrainer(config):
    return small_pretrainer(config)


@pytest.fixture(scope="module")
def figures(config, pretrainer):
    return run_estimate.make_plan(config, ArithmeticInputs(), pretrainer)


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


def test_layers_of_a_stack_are_one_part(config, figures):
    deep = dataclasses.replace(
        config, model=dataclasses.replace(config.model, num_layers=3)
    )
    three = run_estimate.count_parameters(small_pretrainer(deep))
    assert three.keys() == figures.parameters.keys()
    part = "encoder: transformer_layers"
    assert three[part] == 3 * figures.parameters[part]


def test_memory_is_that_of_the_variables(figures, pretrainer):
    size = 4 * sum(figures.parameters.values())
    assert figures.memory["weights"] == figures.memory["gradients"] == size
    # Two moments for each parameter, and the counter of updates.
    assert figures.memory["optimizer"] == 2 * size + 8
    assert figures.memory["activations, roughly"] > 0


def test_activations_grow_with_the_batch_and_shrink_with_half_precision(
    figures, pretrainer
):
    def activations(**training):
        config = small_config(**training)
        plan = run_estimate.make_plan(config, ArithmeticInputs(), pretrainer)
        return plan.memory["activations, roughly"]

    of_plan = figures.memory["activations, roughly"]
    assert activations(batch_size=8) == 2 * of_plan
    assert activations(dtype_policy="mixed_bfloat16") == of_plan / 2


def test_predictions_of_masked_positions_are_activations_too(config, figures):
    numbers = config.model.row_activations(config.inputs, VOCAB_SIZE)
    numbers += 5 * config.inputs.masking.max_predictions * VOCAB_SIZE
    assert figures.memory["activations, roughly"] == 4 * 4 * numbers


def test_without_dropout_no_attention_weights_are_held(config):
    def activations(**changes):
        changed = dataclasses.replace(config.model, **changes)
        return changed.row_activations(config.inputs, VOCAB_SIZE)

    weights = 3 * config.model.num_layers * config.model.num_heads * LENGTH**2
    held = activations(dropout=0.0, attention_dropout=0.1)
    assert held - activations(dropout=0.1, attention_dropout=0.0) == weights
    assert activations(dropout=0.1) == held
    assert activations(dropout=0.0) == held - weights


@pytest.mark.parametrize("num_layers", [1, 5])
def test_recomputed_layers_leave_their_inputs_and_one_inside(config, num_layers):
    model = dataclasses.replace(config.model, num_layers=num_layers)
    one = dataclasses.replace(config.model, num_layers=1)
    inside = one.row_activations(config.inputs, VOCAB_SIZE)
    assert model.row_activations(config.inputs, VOCAB_SIZE) == num_layers * inside
    inputs = num_layers * LENGTH * model.hidden_size
    found = model.row_activations(config.inputs, VOCAB_SIZE, recompute_layers=True)
    assert found == inputs + inside


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


@pytest.fixture
def large(figures):
    """A plan of 12 rows, each of 100 bytes beside 300 of other memory."""
    return dataclasses.replace(
        figures,
        batch_size=12,
        micro_batch_size=12,
        memory={"weights": 300, run_estimate.ACTIVATIONS: 1_200},
        epochs=2.0,
    )


def with_memory(figures, size):
    return dataclasses.replace(figures, available=DeviceMemory(size, "the GPU"))


@pytest.mark.parametrize(
    "size, rows",
    [
        pytest.param(1_667, 12, id="all"),
        pytest.param(1_666, 6, id="a tenth is left free"),
        pytest.param(1_000, 6, id="the half"),
        pytest.param(999, 4, id="no seven, which does not divide twelve"),
        pytest.param(445, 1, id="one"),
        pytest.param(444, None, id="not even one"),
    ],
)
def test_largest_micro_batch_is_a_divisor_of_the_batch_that_fits(large, size, rows):
    found = with_memory(large, size)
    assert found.largest_micro_batch_size == rows
    assert found.fits == (rows == 12)
    warned = "\n".join(run_estimate.warnings(found))
    if rows is None:
        assert "Not even a micro-batch of one row fits" in warned
    elif rows < 12:
        assert f"--config.training.micro_batch_size={rows}" in warned
        assert "of memory are needed, and the GPU has 0 MiB" in warned
    else:
        assert not warned


def test_every_process_has_a_micro_batch(large):
    of_three = dataclasses.replace(large, num_processes=3, micro_batch_size=4)
    of_three = dataclasses.replace(of_three, memory={run_estimate.ACTIVATIONS: 4})
    assert with_memory(of_three, 10**6).largest_micro_batch_size == 4


def test_text_that_is_read_too_often_is_warned_of(large):
    enough = with_memory(large, 10**9)
    assert run_estimate.warnings(dataclasses.replace(enough, epochs=40.0)) == []
    often = dataclasses.replace(enough, epochs=100.0)
    (warned,) = run_estimate.warnings(often)
    assert "the text is read 100 times" in warned
    assert "--config.training.num_updates=200" in warned  # 40 % of 500
    assert f"Warning: {warned}" in run_estimate.describe(often, ArithmeticInputs())


def test_a_source_that_is_read_too_often_is_warned_of_by_name(large):
    sources = {
        name: run_estimate.SourceFigures(num_samples=1, epochs=epochs)
        for name, epochs in (("books", 80.0), ("wikipedia", 40.0))
    }
    plan = dataclasses.replace(with_memory(large, 10**9), sources=sources)
    (warned,) = run_estimate.warnings(plan)
    assert "the text of books is read 80 times" in warned
    assert "--config.training.num_updates=250" in warned  # half of 500


def test_flops_are_those_of_the_config(figures, config):
    expected = flops.flops_per_update(config, VOCAB_SIZE)
    assert figures.flops_per_update == expected
    text = run_estimate.describe(figures, ArithmeticInputs())
    assert f"{expected:.3g} an update, {500 * expected:.3g} in all" in text


def test_what_is_computed_again_is_told_of_beside_the_flops_of_the_model(
    config, pretrainer
):
    training = dataclasses.replace(config.training, recompute_layers=True)
    again = dataclasses.replace(config, training=training)
    plan = run_estimate.make_plan(again, ArithmeticInputs(), pretrainer)
    assert plan.flops_per_update == flops.flops_per_update(config, VOCAB_SIZE)
    expected = flops.recomputed_flops_per_update(again, VOCAB_SIZE)
    text = run_estimate.describe(plan, ArithmeticInputs())
    assert f"{expected:.3g} an update, for less memory" in text


def test_memory_of_a_host_is_shared_by_its_processes(monkeypatch):
    monkeypatch.setattr(host_memory, "total_bytes", lambda: 1_000)
    assert device_memory.available() == (1_000, "this machine")
    monkeypatch.setenv("HOROVOD_LOCAL_SIZE", "4")
    assert device_memory.available() == (250, "this machine, for each of 4 processes")


def test_measured_updates_come_after_one_that_is_not_counted(config):
    pretrainer = small_pretrainer(config)
    seconds = measurement.measure(pretrainer, ArithmeticInputs(), config.training, 2)
    assert len(seconds) == 2
    assert min(seconds) > 0
    assert pretrainer.updates == 3


def test_run_takes_as_long_as_its_updates_together(figures):
    text = measurement.describe([0.5, 1.5, 1.0], figures)
    assert "3, after one that is not counted: 1 s each (0.5 to 1.5)" in text
    assert f"{4 * LENGTH * 5 / 6:,.0f} tokens a second" in text
    assert "8 min 20 s, validations and checkpoints not counted" in text


@pytest.mark.parametrize(
    "seconds, expected",
    [
        (12.4, "12 s"),
        (59.9, "60 s"),
        (450, "7 min 30 s"),
        (7_499, "2 h 5 min"),
        (273_600, "3 d 4 h"),
        (8_640_000, "100 d 0 h"),
    ],
)
def test_durations_are_in_two_units(seconds, expected):
    assert measurement.duration(seconds) == expected


def test_optimizer_with_a_plain_rate_has_no_warm_up_to_tell_of(config):
    pretrainer = small_pretrainer(config)
    pretrainer.compile(optimizer=keras.optimizers.SGD(0.1))
    figures = run_estimate.make_plan(config, ArithmeticInputs(), pretrainer)
    assert figures.peak_learning_rate is None
    assert "warm-up" not in run_estimate.describe(figures, ArithmeticInputs())


def test_warm_up_of_a_cosine_is_told_of_too(config):
    cosine = configuration.CosineAdamWConfig(learning_rate=0.3, warmup_updates=7)
    config = dataclasses.replace(config, optimizer=cosine)
    figures = run_estimate.make_plan(
        config, ArithmeticInputs(), small_pretrainer(config)
    )
    text = run_estimate.describe(figures, ArithmeticInputs())
    assert "0.3 after 7 updates of warm-up" in text


def test_late_decay_is_told_of(figures):
    late = dataclasses.replace(figures, decay_begin=4_500)
    text = run_estimate.describe(late, ArithmeticInputs())
    assert "after 5 updates of warm-up, falling from update 4,500 on" in text
    assert "falling" not in run_estimate.describe(figures, ArithmeticInputs())


def test_description_holds_the_figures(figures):
    text = run_estimate.describe(figures, ArithmeticInputs())
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
    found = run_estimate.make_plan(config, inputs, pretrainer)
    lanes, layers, length, width = 4, 2, 7, 12
    numbers = lanes * length * (layers * width + 3)
    assert found.memory["memory of lanes"] == 4 * numbers
    # Two rows at once, without masked positions.
    numbers = config.model.row_activations(config.inputs, word_runs.VOCAB_SIZE)
    assert found.memory["activations, roughly"] == 4 * 2 * numbers
    assert found.parts is found.num_parts is None
    assert found.tokens == 12 * 4 * word_runs.TARGET_LENGTH
    text = run_estimate.describe(found, inputs)
    assert "windows" not in text
    assert f"{found.tokens:,}, padding left out" in text
