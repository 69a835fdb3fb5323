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
