"""Nothing but what sentences say tells which were moved: no index, no order, no mask.

A whole model learns from records, through the input pipeline, where sentences are
random words. What it found out there, it would have found by a leak.
"""

import dataclasses

import numpy as np
import pytest

from seg_tf import configuration
from seg_tf.text.tree import DocumentTree
from seg_tf.training import pretraining
from tests.data_pipelines.builders import FIRST_PIECE, write_windows

NUM_SENTENCES = 5
WORDS_OF_A_PLACE = 4
VOCAB_SIZE = FIRST_PIECE + NUM_SENTENCES * WORDS_OF_A_PLACE
CONFIG = configuration.RunConfig(
    name="leaks",
    paper="reat_small",
    model=configuration.ReATConfig(
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
    inputs=configuration.ReATInputsConfig(
        window_length=2 + 2 * NUM_SENTENCES,
        row_length=128,
        sentences_per_row=32,
        short_sentence_length=5,
        short_max_sentences=NUM_SENTENCES,
        long_sentence_length=16,
        long_max_sentences=NUM_SENTENCES,
        exchange_rate=0.4,
        masking=configuration.MaskingConfig(max_predictions=4),
    ),
    objectives={"exchange_sentence": configuration.ExchangeSentenceConfig()},
    optimizer=configuration.AdamWConfig(learning_rate=3e-3, warmup_updates=20),
    training=configuration.TrainingConfig(num_updates=150, batch_size=16),
)


def document(generator, words_tell):
    """Sentences of one or two words each.

    Where words tell, a sentence of place p has words of its own.
    """
    lengths = generator.integers(1, 3, NUM_SENTENCES)
    words = generator.integers(0, VOCAB_SIZE - FIRST_PIECE, lengths.sum())
    if words_tell:
        places = np.repeat(np.arange(NUM_SENTENCES), lengths)
        words = places * WORDS_OF_A_PLACE + words % WORDS_OF_A_PLACE
    return DocumentTree(FIRST_PIECE + words, lengths, np.array([NUM_SENTENCES]))


@pytest.mark.parametrize("words_tell", [False, True])
def test_moves_are_found_where_words_tell_them_and_nowhere_else(tmp_path, words_tell):
    generator = np.random.default_rng(0)
    write_windows(
        tmp_path,
        {
            split: [[document(generator, words_tell) for _ in range(count)]]
            for split, count in (("train", 2_000), ("validation", 800))
        },
        window_length=CONFIG.inputs.window_length,
        vocab_size=VOCAB_SIZE,
    )
    config = CONFIG
    if not words_tell:
        # What leaks is found sooner than what words tell.
        config = dataclasses.replace(
            CONFIG, training=dataclasses.replace(CONFIG.training, num_updates=100)
        )
    inputs = pretraining.build_inputs(config, str(tmp_path))
    pretrainer = pretraining.build_pretrainer(config, inputs)
    pretrainer.fit(
        inputs.train_dataset(16),
        steps_per_epoch=config.training.num_updates,
        shuffle=False,
        verbose=0,
    )
    results = {
        name.removeprefix("exchange_sentence_"): float(value)
        for name, value in pretrainer.evaluate(
            inputs.validation_dataset(16), return_dict=True, verbose=0
        ).items()
    }
    assert results["positive_rate"] == pytest.approx(0.4, abs=1e-3)
    if words_tell:
        assert results["balanced_accuracy"] > 0.9
        assert results["mcc"] > 0.8
        assert results["accuracy"] > results["majority_accuracy"] + 0.2
    else:
        # 4,000 sentences: a standard error of about 0.01.
        assert abs(results["pair_accuracy"] - 0.5) < 0.035
