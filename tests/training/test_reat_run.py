"""Runs of ReAT from raw text, whatever documents there are."""

import dataclasses
import math

import numpy as np
import pytest

from data_pipelines.builds.windows import WindowOptions, build_windows
from seg_tf.checkpoints.pretrained import load_pretrained
from seg_tf.config import (
    AdamWConfig,
    EncoderConfig,
    ExchangeSentenceConfig,
    MaskedLMConfig,
    ReATConfig,
    RunConfig,
    TrainingConfig,
)
from seg_tf.data.inputs import MaskingConfig, ReATInputsConfig, WindowInputsConfig
from seg_tf.training import build, dry_run, run_folder
from seg_tf.training.run_folder import RunFolder, describe_run
from tests.training.stand_ins import pretrain
from tests.training.test_sentence_unshuffling_run import (
    records_dir as _documents_dir,  # noqa: F401 - a fixture
)

pytestmark = pytest.mark.slow

CONFIG = RunConfig(
    name="reat",
    paper="reat_small",
    model=ReATConfig(
        block_length=16,
        max_sentences=10,
        num_sentence_layers=1,
        num_alpha_layers=1,
        hidden_size=16,
        alpha_hidden_size=24,
        num_heads=2,
        alpha_num_heads=2,
        intermediate_size=32,
        alpha_intermediate_size=32,
    ),
    inputs=ReATInputsConfig(
        window_length=600,
        row_length=128,
        sentences_per_row=32,
        short_sentence_length=8,
        short_max_sentences=4,
        long_sentence_length=16,
        long_max_sentences=10,
        masking=MaskingConfig(max_predictions=20),
    ),
    objectives={
        "masked_lm": MaskedLMConfig(),
        "exchange_sentence": ExchangeSentenceConfig(),
    },
    optimizer=AdamWConfig(learning_rate=1e-3, warmup_updates=1),
    training=TrainingConfig(
        num_updates=12,
        batch_size=6,
        micro_batch_size=3,
        log_interval=4,
        validation_interval=6,
        validation_batches=20,
        checkpoint_interval=6,
    ),
)


@pytest.fixture(name="records_dir", scope="module")
def _records_dir(_documents_dir, tmp_path_factory):  # noqa: F811
    return write_records(_documents_dir, tmp_path_factory.mktemp("windows"))


def write_records(documents_dir, folder):
    """Windows of the documents of `test_sentence_unshuffling_run`, in `folder`."""
    build_windows(WindowOptions(window_length=600), documents_dir / "documents", folder)
    return folder


def test_documents_of_any_shape_train(records_dir, tmp_path):
    inputs = build.build_inputs(CONFIG, str(records_dir))
    learner = build.build_learner(CONFIG, inputs)
    folder = RunFolder(tmp_path / "run")
    result = pretrain(
        CONFIG,
        inputs,
        learner,
        folder,
        describe_run(CONFIG, {"manifest_checksum": "records"}),
        report=str,
    )
    assert result.updates == 12
    rows = run_folder.read_log(folder.log_file)
    assert rows[0]["skipped_steps"] == 0
    seen = inputs.train_dataset(rows[0]["samples"])
    padding = 1 - np.mean(next(iter(seen))["padding_mask"])
    assert padding > 0
    assert rows[0]["padding_share"] == pytest.approx(padding)
    for row in rows:
        own = {
            name.removeprefix("exchange_sentence_"): value
            for name, value in row.items()
            if name.startswith("exchange_sentence_")
        }
        assert all(np.isfinite(value) for value in own.values())
        assert row["loss"] == pytest.approx(row["masked_lm_loss"] + own["loss"])
        yes, said = own["positive_rate"], own["predicted_rate"]
        assert 0.05 < yes < 0.4
        assert own["majority_accuracy"] == pytest.approx(1 - yes)
        assert own["balanced_accuracy"] == pytest.approx(
            (own["recall"] + own["specificity"]) / 2
        )
        variance = yes * (1 - yes) * said * (1 - said)
        expected = (own["recall"] - said) * yes / math.sqrt(variance) if variance else 0
        assert own["mcc"] == pytest.approx(expected)

    loaded = load_pretrained(folder.path)
    batch = next(iter(inputs.validation_dataset(2)))
    for name, objective in loaded.objectives.items():
        expected = learner.objectives[name](learner.encoder(batch), batch)
        found = objective(loaded.encoder(batch), batch)
        assert float(found.loss[0]) == pytest.approx(float(expected.loss[0]))
        assert float(found.loss[1]) > 0


def test_micro_batches_give_the_gradient_of_the_whole(records_dir):
    """Rows of unlike numbers of sentences: a mean of means would be another."""
    inputs = build.build_inputs(CONFIG, str(records_dir))
    weights = []
    for micro_batch_size in (6, 2):
        config = dataclasses.replace(
            CONFIG,
            model=dataclasses.replace(CONFIG.model, dropout=0.0),
            training=dataclasses.replace(
                CONFIG.training, micro_batch_size=micro_batch_size
            ),
        )
        learner = build.build_learner(config, inputs)
        batch = next(iter(inputs.train_dataset(6)))
        learner.train_step(batch)
        weights.append([np.asarray(one) for one in learner.trainable_variables])
    for one, other in zip(*weights, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5)


def test_plan_tells_parameters_and_memory(records_dir):
    inputs = build.build_inputs(CONFIG, str(records_dir))
    learner = build.build_learner(CONFIG, inputs)
    figures = dry_run.make_plan(CONFIG, inputs, learner)
    parts = figures.parameters
    assert parts["encoder: alpha_layers"] > parts["encoder: sentence_layers"]
    assert sum(parts.values()) == sum(
        math.prod(one.shape) for one in learner.trainable_variables
    )
    twice = dataclasses.replace(
        CONFIG, inputs=dataclasses.replace(CONFIG.inputs, row_length=256)
    )
    # In proportion to the positions: attention is inside blocks, and to sentences.
    for config, factor in ((CONFIG, 1), (twice, 2)):
        assert config.model.row_activations(config.inputs, 100) == (
            factor * CONFIG.model.row_activations(CONFIG.inputs, 100)
        )
    text = dry_run.describe(figures)
    assert f"which they fill to {inputs.fill:.1%}" in text
    assert "  texts            " in text
    assert "windows" not in text


def test_plain_rows_are_refused_with_what_to_take_instead(records_dir):
    config = dataclasses.replace(
        CONFIG,
        model=EncoderConfig(
            index_tables={"position_index": 600},
            num_layers=1,
            hidden_size=16,
            num_heads=2,
            intermediate_size=32,
        ),
        inputs=WindowInputsConfig(window_length=600),
    )
    inputs = build.build_inputs(config, str(records_dir))
    with pytest.raises(ValueError, match=r"sentence_starts.*ReATInputsConfig"):
        build.build_learner(config, inputs)
