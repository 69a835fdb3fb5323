"""Nothing but what sentences say tells which were moved: no index, no order, no mask.

A whole model learns from records, through the input pipeline, where sentences are
random words. What it found out there, it would have found by a leak.
"""

import dataclasses

import numpy as np
import pytest

from seg_tf.config import (
    AdamWConfig,
    ExchangeSentenceConfig,
    ReATConfig,
    RunConfig,
    TrainingConfig,
)
from seg_tf.data.inputs import MaskingConfig, ReATInputsConfig
from seg_tf.text.tree import DocumentTree
from tests.data_pipelines.builders import FIRST_PIECE
from tests.training.telling_words import (
    NUM_SENTENCES,
    VOCAB_SIZE,
    results_of_a_run,
    sentences,
)

pytestmark = pytest.mark.slow

CONFIG = RunConfig(
    name="leaks",
    paper="reat_small",
    model=ReATConfig(
        block_length=16,
        max_sentences=NUM_SENTENCES,
        num_sentence_layers=1,
        num_alpha_layers=1,
        hidden_size=32,
        alpha_hidden_size=32,
        num_heads=2,
        alpha_num_heads=2,
        intermediate_size=64,
        alpha_intermediate_size=64,
        dropout=0.0,
        # Wide, so that what a sentence says is soon told from what all have in common.
        initializer_range=0.15,
    ),
    inputs=ReATInputsConfig(
        window_length=2 + 2 * NUM_SENTENCES,
        row_length=128,
        sentences_per_row=32,
        short_sentence_length=5,
        short_max_sentences=NUM_SENTENCES,
        long_sentence_length=16,
        long_max_sentences=NUM_SENTENCES,
        exchange_rate=0.4,
        masking=MaskingConfig(max_predictions=4),
    ),
    objectives={"exchange_sentence": ExchangeSentenceConfig()},
    optimizer=AdamWConfig(learning_rate=3e-3, warmup_updates=20),
    training=TrainingConfig(num_updates=150, batch_size=16),
)


@pytest.mark.parametrize(
    ("words_tell", "within"), [(False, "text"), (False, "row"), (True, "text")]
)
def test_moves_are_found_where_words_tell_them_and_nowhere_else(
    tmp_path, words_tell, within
):
    def document(generator):
        words, lengths = sentences(generator, words_tell)
        return DocumentTree(words, lengths, np.array([NUM_SENTENCES]))

    config = dataclasses.replace(
        CONFIG, inputs=dataclasses.replace(CONFIG.inputs, exchange_within=within)
    )
    if not words_tell:
        # What leaks is found sooner than what words tell.
        config = dataclasses.replace(
            config, training=dataclasses.replace(CONFIG.training, num_updates=100)
        )
    # Where sentences are exchanged is a matter of the rows alone.
    built_as = dataclasses.replace(config, inputs=CONFIG.inputs)
    results = results_of_a_run(config, tmp_path, document, 2_000, 800, built_as)
    assert results["positive_rate"] == pytest.approx(0.4, abs=1e-3)
    if words_tell:
        assert results["balanced_accuracy"] > 0.9
        assert results["mcc"] > 0.8
        assert results["accuracy"] > results["majority_accuracy"] + 0.2
    else:
        # 4,000 sentences: a standard error of about 0.01.
        assert abs(results["pair_accuracy"] - 0.5) < 0.035


@pytest.mark.parametrize("within", ["text", "row"])
def test_lengths_in_long_documents_do_not_tell_moves(tmp_path, within):
    def document(generator):
        # Many sentences are cut into parts of equal lengths, and documents into texts.
        lengths = generator.geometric(0.3, size=40)
        words = generator.integers(FIRST_PIECE, VOCAB_SIZE, lengths.sum())
        return DocumentTree(words, lengths, np.array([25, 15]))

    config = dataclasses.replace(
        CONFIG,
        inputs=dataclasses.replace(
            CONFIG.inputs, window_length=400, exchange_within=within
        ),
        training=dataclasses.replace(CONFIG.training, num_updates=100),
    )
    results = results_of_a_run(config, tmp_path, document, 400, 200, CONFIG)
    assert results["positive_rate"] == pytest.approx(0.4, abs=0.02)
    assert abs(results["pair_accuracy"] - 0.5) < 0.035
