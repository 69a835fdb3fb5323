"""Nothing but what sentences say tells their order: no index, no mask, no length.

A whole model learns from records, through the input pipeline, where sentences are
random words. What it found out there of their order, it would have found by a leak.
"""

import numpy as np
import pytest

from seg_tf import configuration
from seg_tf.text.tree import DocumentTree
from seg_tf.training import pretraining
from tests.data_pipelines.builders import FIRST_PIECE, write_windows

NUM_SENTENCES = 5
WORDS_OF_A_PLACE = 4
VOCAB_SIZE = FIRST_PIECE + NUM_SENTENCES * WORDS_OF_A_PLACE
WINDOW_LENGTH = 2 + 2 * NUM_SENTENCES
ROW_LENGTH = WINDOW_LENGTH + NUM_SENTENCES
CONFIG = configuration.RunConfig(
    name="leaks",
    paper="slm_base_shuffle_all",
    model=configuration.EncoderConfig(
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
    inputs=configuration.SentenceInputsConfig(
        window_length=WINDOW_LENGTH,
        max_sentences=NUM_SENTENCES,
        shuffle_rate=1.0,
        masking=configuration.SpanMaskingConfig(max_predictions=2),
    ),
    objectives={
        "sentence_unshuffling": configuration.SentenceUnshufflingConfig(num_layers=1)
    },
    optimizer=configuration.AdamWConfig(learning_rate=3e-3, warmup_updates=20),
    training=configuration.TrainingConfig(num_updates=700, batch_size=64),
)


def document(generator, words_tell):
    """Sentences of one or two words each, in paragraphs of any size.

    Where words tell, a sentence of place p has words of its own.
    """
    lengths = generator.integers(1, 3, NUM_SENTENCES)
    words = generator.integers(0, VOCAB_SIZE - FIRST_PIECE, lengths.sum())
    if words_tell:
        places = np.repeat(np.arange(NUM_SENTENCES), lengths)
        words = places * WORDS_OF_A_PLACE + words % WORDS_OF_A_PLACE
    first = int(generator.integers(1, NUM_SENTENCES))
    return DocumentTree(
        FIRST_PIECE + words, lengths, np.array([first, NUM_SENTENCES - first])
    )


@pytest.mark.parametrize("words_tell", [False, True])
def test_order_is_found_where_words_tell_it_and_nowhere_else(tmp_path, words_tell):
    generator = np.random.default_rng(0)
    write_windows(
        tmp_path,
        {
            split: [[document(generator, words_tell) for _ in range(count)]]
            for split, count in (("train", 4_000), ("validation", 1_000))
        },
        window_length=WINDOW_LENGTH,
        vocab_size=VOCAB_SIZE,
    )
    inputs = pretraining.build_inputs(CONFIG, str(tmp_path))
    pretrainer = pretraining.build_pretrainer(CONFIG, inputs)
    pretrainer.fit(
        inputs.train_dataset(64),
        steps_per_epoch=CONFIG.training.num_updates,
        shuffle=False,
        verbose=0,
    )
    results = {
        name.removeprefix("sentence_unshuffling_"): float(value)
        for name, value in pretrainer.evaluate(
            inputs.validation_dataset(64), return_dict=True, verbose=0
        ).items()
    }
    if words_tell:
        assert results["pointer_accuracy"] > results["pointer_chance"] + 0.2
        assert results["kendall_tau"] > 0.4
    else:
        # 5,000 steps: a standard error of 0.007. Less than chance is what an untrained
        # model has, which does not know yet what was placed before.
        assert results["pointer_accuracy"] < results["pointer_chance"] + 0.028
        assert abs(results["position_accuracy"] - results["position_chance"]) < 0.025
        assert abs(results["kendall_tau"]) < 0.06
