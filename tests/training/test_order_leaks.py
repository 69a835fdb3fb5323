"""Nothing but what sentences say tells their order: no index, no mask, no length.

A whole model learns from records, through the input pipeline, where sentences are
random words. What it found out there of their order, it would have found by a leak.
"""

import dataclasses

import numpy as np
import pytest

from seg_tf.config import (
    AdamWConfig,
    EncoderConfig,
    RunConfig,
    SentenceUnshufflingConfig,
    TrainingConfig,
)
from seg_tf.data.inputs import SentenceInputsConfig, SpanMaskingConfig
from seg_tf.text.tree import DocumentTree
from tests.training.telling_words import (
    FIRST_PIECE,
    NUM_SENTENCES,
    VOCAB_SIZE,
    results_of_a_run,
    sentences,
)

pytestmark = pytest.mark.slow

WINDOW_LENGTH = 2 + 2 * NUM_SENTENCES
ROW_LENGTH = WINDOW_LENGTH + NUM_SENTENCES
CONFIG = RunConfig(
    name="leaks",
    paper="slm_base_shuffle_all",
    model=EncoderConfig(
        # All that there are: each of them could give the order away.
        index_tables={
            "position_index": ROW_LENGTH,
            "sentence_id": NUM_SENTENCES + 2,
            "paragraph_index": NUM_SENTENCES,
            "sentence_index": NUM_SENTENCES,
            "token_index": 4,
        },
        num_layers=1,
        hidden_size=32,
        num_heads=2,
        intermediate_size=64,
        dropout=0.0,
        # Wide, so that what a candidate says is soon told from what all have in common.
        initializer_range=0.15,
    ),
    inputs=SentenceInputsConfig(
        window_length=WINDOW_LENGTH,
        max_sentences=NUM_SENTENCES,
        shuffle_rate=1.0,
        masking=SpanMaskingConfig(max_predictions=2),
    ),
    objectives={"sentence_unshuffling": SentenceUnshufflingConfig(num_layers=1)},
    optimizer=AdamWConfig(learning_rate=3e-3, warmup_updates=20),
    training=TrainingConfig(num_updates=350, batch_size=64),
)


@pytest.mark.parametrize("words_tell", [False, True])
def test_order_is_found_where_words_tell_it_and_nowhere_else(tmp_path, words_tell):
    def document(generator):
        words, lengths = sentences(generator, words_tell)
        # In paragraphs of any size.
        first = int(generator.integers(1, NUM_SENTENCES))
        return DocumentTree(words, lengths, np.array([first, NUM_SENTENCES - first]))

    results = results_of_a_run(CONFIG, tmp_path, document, 2_000, 1_000)
    if words_tell:
        assert results["pointer_accuracy"] > results["pointer_chance"] + 0.2
        assert results["kendall_tau"] > 0.4
    else:
        # 5,000 steps: a standard error of 0.007. Less than chance is what an untrained
        # model has, which does not know yet what was placed before.
        assert results["pointer_accuracy"] < results["pointer_chance"] + 0.028
        assert abs(results["position_accuracy"] - results["position_chance"]) < 0.025
        assert abs(results["kendall_tau"]) < 0.06


def test_lengths_do_not_tell_the_order_inside_long_documents(tmp_path):
    """A window begins with the sentence that did not fit into the one before.

    It is longer than the others. A model that is asked for it finds that out, and has
    a tau of 0.27 where words tell nothing.
    """

    def document(generator):
        lengths = generator.choice([1, 7], 40, p=[0.6, 0.4])
        words = generator.integers(FIRST_PIECE, VOCAB_SIZE, lengths.sum())
        return DocumentTree(words, lengths, np.array([25, 15]))

    tables = {"position_index": 16 + NUM_SENTENCES, "token_index": 8}
    config = dataclasses.replace(
        CONFIG,
        model=dataclasses.replace(
            CONFIG.model, index_tables={**CONFIG.model.index_tables, **tables}
        ),
        inputs=dataclasses.replace(CONFIG.inputs, window_length=16),
        training=dataclasses.replace(CONFIG.training, num_updates=700),
    )
    results = results_of_a_run(config, tmp_path, document, 400, 200)
    assert results["pointer_accuracy"] < results["pointer_chance"] + 0.02
    for name in ("kendall_tau", "kendall_tau_longest_first"):
        assert abs(results[name]) < 0.06, name
