"""Runs of SLM from raw text, whatever documents there are."""

import numpy as np
import pytest

from seg_tf.config import (
    AdamWConfig,
    EncoderConfig,
    MaskedLMConfig,
    RunConfig,
    SentenceUnshufflingConfig,
    TrainingConfig,
)
from seg_tf.data.inputs import (
    SentenceInputsConfig,
    SpanMaskingConfig,
)
from seg_tf.training import build, run_folder
from tests.training.stand_ins import pretrain
from tests.worlds import SENTENCE_LENGTH

pytestmark = pytest.mark.slow

MAX_SENTENCES = 8
CONFIG = RunConfig(
    name="slm",
    paper="slm_base",
    model=EncoderConfig(
        index_tables={
            "position_index": SENTENCE_LENGTH + MAX_SENTENCES,
            "sentence_id": MAX_SENTENCES + 2,
        },
        num_layers=1,
        hidden_size=16,
        num_heads=2,
        intermediate_size=32,
    ),
    inputs=SentenceInputsConfig(
        window_length=SENTENCE_LENGTH,
        max_sentences=MAX_SENTENCES,
        masking=SpanMaskingConfig(max_predictions=8),
    ),
    objectives={
        "masked_lm": MaskedLMConfig(),
        "sentence_unshuffling": SentenceUnshufflingConfig(num_layers=1),
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


def test_documents_of_any_shape_train_and_are_put_in_order(sentence_records, tmp_path):
    inputs = build.build_inputs(CONFIG, str(sentence_records))
    counts = np.concatenate(
        [
            batch["candidate_mask"].numpy().sum(axis=1) - 2
            for batch in inputs.validation_dataset(8)
        ]
    )
    # The only sentence of a window that begins inside a document is no candidate.
    assert {0, 1} <= set(counts)
    assert counts.max() == MAX_SENTENCES
    _, result = pretrain(tmp_path, CONFIG, inputs)
    assert result.updates == 12
    rows = run_folder.read_log(tmp_path / "log.jsonl")
    trained = [row for row in rows if row["kind"] == run_folder.TRAIN]
    validated = [row for row in rows if row["kind"] == run_folder.VALIDATION]
    assert all(np.isfinite(row["sentence_unshuffling_loss"]) for row in rows)
    assert trained[0]["skipped_steps"] == 0
    # What takes decoding is measured in validation alone.
    assert "sentence_unshuffling_pointer_accuracy" in trained[0]
    assert "sentence_unshuffling_kendall_tau" not in trained[0]
    for name in ("position_accuracy", "perfect_match", "position_chance"):
        assert 0 <= validated[-1][f"sentence_unshuffling_{name}"] <= 1
    assert -1 <= validated[-1]["sentence_unshuffling_kendall_tau"] <= 1
