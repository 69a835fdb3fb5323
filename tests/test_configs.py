"""The runs in configs/: what the paper says they are, and that they build."""

import dataclasses
import importlib
import pathlib

import numpy as np
import pytest

from configs import segabert_base, segabert_large, segabert_tiny
from seg_tf import configuration

FOLDER = pathlib.Path(segabert_base.__file__).parent
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")
PARAGRAPHS_AND_SENTENCES = {"paragraph_index": 50, "sentence_index": 100}


def load(name):
    return importlib.import_module(f"configs.{name}")


def test_the_nine_runs_are_there():
    sizes = ("tiny", "base", "large")
    models = ("bert", "bert_ps", "segabert")
    assert set(NAMES) >= {f"{model}_{size}" for model in models for size in sizes}


def test_the_two_phases_are_there_large_and_for_a_cpu():
    assert {name for name in NAMES if "phase" in name} == {
        f"{model}_{size}_phase{phase}"
        for model in ("bert", "segabert")
        for size in ("tiny", "large")
        for phase in (1, 2)
    }


@pytest.mark.parametrize("name", NAMES)
def test_config_survives_flags_and_is_named_after_its_file(name):
    module = load(name)
    assert configuration.from_config_dict(module.get_config()) == module.RUN
    assert module.RUN.name == name
    assert f"--config=configs/{name}.py" in module.__doc__
    assert "Expected" in module.__doc__


@pytest.mark.parametrize("size", ["tiny", "base", "large"])
def test_ablations_differ_in_their_tables_only(size):
    ours, bert, bert_ps = (
        load(f"{model}_{size}").RUN for model in ("segabert", "bert", "bert_ps")
    )
    length = ours.inputs.window_length
    assert ours.model.index_tables == {**PARAGRAPHS_AND_SENTENCES, "token_index": 256}
    assert bert.model.index_tables == {"position_index": length}
    assert bert_ps.model.index_tables == {
        "position_index": length,
        **PARAGRAPHS_AND_SENTENCES,
    }
    for other in (bert, bert_ps):
        model = dataclasses.replace(other.model, index_tables=ours.model.index_tables)
        assert ours == dataclasses.replace(
            other, name=ours.name, paper=ours.paper, model=model
        )


@pytest.mark.parametrize("size", ["tiny", "large"])
@pytest.mark.parametrize("phase", [1, 2])
def test_bert_s_phases_differ_from_segabert_s_in_the_tables_only(size, phase):
    ours, bert = (
        load(f"{model}_{size}_phase{phase}").RUN for model in ("segabert", "bert")
    )
    assert ours.model == load(f"segabert_{size}").RUN.model
    assert bert.model.index_tables == {"position_index": 512}
    model = dataclasses.replace(bert.model, index_tables=ours.model.index_tables)
    assert ours == dataclasses.replace(
        bert, name=ours.name, paper=ours.paper, model=model
    )


@pytest.mark.parametrize("name", ["bert_large", "segabert_large"])
@pytest.mark.parametrize(
    ("phase", "length", "predictions", "batch", "rate", "warmup", "updates"),
    [
        (1, 128, 20, 65_536, 6e-3, 2_000, 7_038),
        (2, 512, 80, 32_768, 4e-3, 200, 1_564),
    ],
)
def test_phases_are_those_of_nvidia(
    name, phase, length, predictions, batch, rate, warmup, updates
):
    run = load(f"{name}_phase{phase}").RUN
    assert (run.model.num_layers, run.model.hidden_size) == (24, 1024)
    assert run.inputs.window_length == length
    assert run.inputs.masking.max_predictions == predictions
    assert (run.training.batch_size, run.training.num_updates) == (batch, updates)
    assert run.training.clip_norm == 1.0
    optimizer = run.optimizer
    assert isinstance(optimizer, configuration.LambConfig)
    assert (optimizer.learning_rate, optimizer.warmup_updates) == (rate, warmup)
    assert (optimizer.decay_power, optimizer.decay_from_start) == (0.5, True)
    assert (optimizer.end_learning_rate, optimizer.decay_updates) == (0.0, None)
    assert (optimizer.beta_1, optimizer.beta_2) == (0.9, 0.999)
    assert (optimizer.epsilon, optimizer.weight_decay) == (1e-6, 0.01)
    # The commands' eight processes have whole micro-batches, on either card.
    assert "horovodrun -np 8" in load(f"segabert_large_phase{phase}").__doc__
    share = batch // 8
    assert share % run.training.micro_batch_size == 0
    assert share % {1: 32, 2: 8}[phase] == 0


@pytest.mark.parametrize("name", ["bert", "segabert"])
def test_tiny_phases_are_the_large_ones_made_small(name):
    for phase in (1, 2):
        tiny, large = (load(f"{name}_{s}_phase{phase}").RUN for s in ("tiny", "large"))
        assert tiny.paper == large.paper
        assert tiny.inputs == large.inputs
        for field in ("learning_rate", "warmup_updates"):
            assert getattr(tiny.optimizer, field) != getattr(large.optimizer, field)
        assert tiny.optimizer == dataclasses.replace(
            large.optimizer,
            learning_rate=tiny.optimizer.learning_rate,
            warmup_updates=tiny.optimizer.warmup_updates,
        )
        assert tiny.training.num_updates == round(large.training.num_updates / 10)
        assert tiny.training.batch_size == large.training.batch_size // 1024
        # Both accumulate.
        for training in (tiny.training, large.training):
            assert training.micro_batch_size < training.batch_size // 2


@pytest.mark.parametrize(
    "name", ["bert_tiny", "bert_large", "segabert_tiny", "segabert_large"]
)
def test_second_phase_goes_on_from_the_weights_of_the_first(name):
    first, second = (load(f"{name}_phase{phase}") for phase in (1, 2))
    assert first.RUN.model == second.RUN.model
    assert f"--output_dir=runs/{first.RUN.name}" in first.__doc__
    assert f"--initial_checkpoint=runs/{first.RUN.name}" in second.__doc__
    assert "--initial_checkpoint" not in first.__doc__


@pytest.mark.parametrize(
    ("run", "updates", "layers", "size", "heads", "intermediate"),
    [
        (segabert_base.RUN, 500_000, 12, 768, 12, 3072),
        (segabert_large.RUN, 1_000_000, 24, 1024, 16, 4096),
    ],
    ids=["base", "large"],
)
def test_values_are_those_of_the_paper(run, updates, layers, size, heads, intermediate):
    """Segatron, section 3.2, and BERT where that paper says "following BERT"."""
    model, optimizer, training = run.model, run.optimizer, run.training
    assert (model.num_layers, model.hidden_size) == (layers, size)
    assert (model.num_heads, model.intermediate_size) == (heads, intermediate)
    assert (model.dropout, model.layer_norm_epsilon) == (0.1, 1e-12)
    assert model.num_token_types == 0
    assert (training.num_updates, training.batch_size) == (updates, 256)
    assert (optimizer.learning_rate, optimizer.end_learning_rate) == (1e-4, 0)
    assert (optimizer.beta_1, optimizer.beta_2) == (0.9, 0.999)
    assert (optimizer.warmup_updates, optimizer.decay_power) == (None, 1)
    assert run.inputs.window_length == 512
    masking = run.inputs.masking
    assert (masking.mask_rate, masking.max_predictions) == (0.15, 80)
    assert (masking.mask_token_rate, masking.random_token_rate) == (0.8, 0.1)
    assert list(run.objectives) == ["masked_lm"]


def num_parameters(model, vocab_size):
    """Counted by hand: tables, layers, LayerNorms."""
    width, inner = model.hidden_size, model.intermediate_size
    tables = vocab_size + sum(model.index_tables.values())
    layer = 4 * (width * width + width) + 2 * width * inner + inner + width + 4 * width
    return tables * width + 2 * width + model.num_layers * layer


@pytest.mark.parametrize("name", NAMES)
def test_encoder_builds_at_its_size(name):
    # Two layers of it: more of them are more of the same.
    model = dataclasses.replace(load(name).RUN.model, num_layers=2)
    encoder = configuration.build(model, vocab_size=1000)
    trainable = sum(np.prod(weight.shape) for weight in encoder.trainable_weights)
    assert trainable == num_parameters(model, 1000)


@pytest.mark.parametrize(
    ("run", "millions"), [(segabert_base.RUN, 109), (segabert_large.RUN, 334)]
)
def test_parameter_counts_are_bert_s(run, millions):
    # BERT's published 110M and 340M are with the pooler and two token types.
    assert round(num_parameters(run.model, 30522) / 1e6) == millions


def test_tiny_is_small_enough_for_a_laptop():
    assert num_parameters(segabert_tiny.RUN.model, 8192) < 2_000_000
