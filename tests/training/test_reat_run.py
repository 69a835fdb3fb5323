"""Runs of ReAT from raw text, whatever documents there are."""

import dataclasses
import math

import numpy as np
import pytest

from seg_tf.config import ExchangeSentenceConfig, MaskedLMConfig, RunConfig
from seg_tf.data.inputs import MaskingConfig, ReATInputsConfig
from seg_tf.training import build, run_folder
from tests.inference import tiny_reat
from tests.training.stand_ins import pretrain
from tests.training.test_sentence_unshuffling_run import CONFIG as SLM_RUN
from tests.worlds import TEXT_LENGTH

pytestmark = pytest.mark.slow

CONFIG = RunConfig(
    name="reat",
    paper="reat_small",
    model=dataclasses.replace(tiny_reat.MODEL, max_sentences=10),
    inputs=ReATInputsConfig(
        window_length=TEXT_LENGTH,
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
    optimizer=SLM_RUN.optimizer,
    training=SLM_RUN.training,
)


def test_documents_of_any_shape_train(text_records, tmp_path):
    inputs = build.build_inputs(CONFIG, str(text_records))
    _, result = pretrain(tmp_path, CONFIG, inputs)
    assert result.updates == 12
    rows = run_folder.read_log(tmp_path / "log.jsonl")
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
