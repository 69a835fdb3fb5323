"""Runs of SLM from raw text, whatever documents there are."""

import json

import numpy as np
import pytest

from data_pipelines.builds.documents import DocumentOptions, build_documents
from data_pipelines.builds.windows import WindowOptions, build_windows
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

pytestmark = pytest.mark.slow

WINDOW_LENGTH = 48
MAX_SENTENCES = 8
CONFIG = RunConfig(
    name="slm",
    paper="slm_base",
    model=EncoderConfig(
        index_tables={
            "position_index": WINDOW_LENGTH + MAX_SENTENCES,
            "sentence_id": MAX_SENTENCES + 2,
        },
        num_layers=1,
        hidden_size=16,
        num_heads=2,
        intermediate_size=32,
    ),
    inputs=SentenceInputsConfig(
        window_length=WINDOW_LENGTH,
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
DOCUMENTS = {
    "one sentence": "The only sentence here.",
    "one word": "word",
    # As many sentences as pieces but for the last: every row has to merge.
    "five hundred sentences": "\n".join(["Go on. Stop! Why?"] * 166 + ["One. Two."]),
    "without pieces": "\u200b\n\u200b \u200b\nA line between.\n\u200b",
    "nothing at all": "\u200b",
    "one endless sentence": "and " * 200 + "so on",
}


@pytest.fixture(scope="module")
def records_dir(tmp_path_factory):
    return write_records(tmp_path_factory.mktemp("sentences"))


def write_records(folder):
    """Documents and windows of all these documents, in `folder`."""
    with open(folder / "text.jsonl", "w") as file:
        for _ in range(6):  # so that every kind is held out, too
            for text in DOCUMENTS.values():
                file.write(json.dumps({"text": text}) + "\n")
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]"]
    letters = [*"abcdefghijklmnopqrstuvwxyz.!?"]
    pieces = [*specials, *letters, *(f"##{one}" for one in letters), "and", "go", "on"]
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    build_documents(
        DocumentOptions(
            format="json_lines",
            input=str(folder / "text.jsonl"),
            vocab_file=str(folder / "vocab.txt"),
            validation_fraction=0.2,
        ),
        folder / "documents",
    )
    build_windows(
        WindowOptions(window_length=WINDOW_LENGTH), folder / "documents", folder
    )
    return folder


def test_documents_of_any_shape_train_and_are_put_in_order(records_dir, tmp_path):
    inputs = build.build_inputs(CONFIG, str(records_dir))
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
