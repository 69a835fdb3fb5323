"""Only what sentences say tells their order, and which of them were moved.

Whole models learn from records, through the input pipeline, where sentences are random
words. What they find out there, they have found by a leak: in an index, a mask, an
order or a length.
"""

import dataclasses
import itertools

import numpy as np
import pytest

from seg_tf.config import (
    AdamWConfig,
    EncoderConfig,
    ExchangeSentenceConfig,
    ReATConfig,
    RunConfig,
    SentenceUnshufflingConfig,
    TrainingConfig,
)
from seg_tf.data.inputs import (
    MaskingConfig,
    ReATInputsConfig,
    SentenceInputsConfig,
    SpanMaskingConfig,
)
from seg_tf.text.tree import DocumentTree
from seg_tf.training import build
from tests.data_pipelines.builders import FIRST_PIECE, write_windows
from tests.training.stand_ins import as_built, make_updates, validate

pytestmark = pytest.mark.slow

NUM_SENTENCES, WORDS_OF_A_PLACE = 5, 4
VOCAB_SIZE = FIRST_PIECE + NUM_SENTENCES * WORDS_OF_A_PLACE
WINDOW_LENGTH = 2 + 2 * NUM_SENTENCES
# Wide, so that what a sentence says is soon told from what all have in common.
WIDE = {"dropout": 0.0, "initializer_range": 0.15, "num_heads": 2, "hidden_size": 32}
ORDER = RunConfig(
    name="leaks",
    paper="slm_base_shuffle_all",
    model=EncoderConfig(
        # All that there are: each of them could give the order away.
        index_tables={
            "position_index": WINDOW_LENGTH + NUM_SENTENCES,
            "sentence_id": NUM_SENTENCES + 2,
            "paragraph_index": NUM_SENTENCES,
            "sentence_index": NUM_SENTENCES,
            "token_index": 4,
        },
        num_layers=1,
        intermediate_size=64,
        **WIDE,
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
EXCHANGE = RunConfig(
    name="leaks",
    paper="reat_small",
    model=ReATConfig(
        block_length=16,
        max_sentences=NUM_SENTENCES,
        num_sentence_layers=1,
        num_alpha_layers=1,
        alpha_hidden_size=32,
        alpha_num_heads=2,
        intermediate_size=64,
        alpha_intermediate_size=64,
        **WIDE,
    ),
    inputs=ReATInputsConfig(
        window_length=WINDOW_LENGTH,
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
    training=TrainingConfig(num_updates=100, batch_size=16),
)


def sentences(generator, words_tell):
    """A document of sentences of one or two words, in paragraphs of any size.

    If words tell, a sentence of place p has words of its own.
    """
    lengths = generator.integers(1, 3, NUM_SENTENCES)
    words = generator.integers(0, VOCAB_SIZE - FIRST_PIECE, lengths.sum())
    if words_tell:
        places = np.repeat(np.arange(NUM_SENTENCES), lengths)
        words = places * WORDS_OF_A_PLACE + words % WORDS_OF_A_PLACE
    first = int(generator.integers(1, NUM_SENTENCES))
    paragraphs = np.array([first, NUM_SENTENCES - first])
    return DocumentTree(FIRST_PIECE + words, lengths, paragraphs)


def write_records(folder, in_training, held_out):
    """Records whose words tell, or not, in documents for training in turn."""
    generator = np.random.default_rng(0)
    turns = itertools.cycle(in_training)
    train = [sentences(generator, next(turns)) for _ in range(2_000)]
    validation = [sentences(generator, held_out) for _ in range(1_000)]
    write_windows(
        folder,
        {"train": [train], "validation": [validation]},
        window_length=WINDOW_LENGTH,
        vocab_size=VOCAB_SIZE,
    )
    return folder


def results_of_a_run(config, *records, built_as=None):
    """Validation results, without the objective's name, on each of the records.

    The run trains on the first. `built_as` is a run with the same model and step, whose
    graphs are reused.
    """
    inputs = [build.build_inputs(config, str(folder)) for folder in records]
    learner = as_built(built_as or config, inputs[0])
    batch_size = config.training.batch_size
    batches = inputs[0].train_dataset(batch_size)
    make_updates(learner, batches, config.training.num_updates)
    (objective,) = config.objectives
    for one in inputs:
        results = validate(learner, one.validation_dataset(batch_size))
        yield {name.removeprefix(f"{objective}_"): v for name, v in results.items()}


@pytest.mark.parametrize("words_tell", [False, True])
def test_order_is_found_where_words_tell_it_and_nowhere_else(tmp_path, words_tell):
    write_records(tmp_path, [words_tell], words_tell)
    (results,) = results_of_a_run(ORDER, tmp_path)
    if words_tell:
        assert results["pointer_accuracy"] > results["pointer_chance"] + 0.2
        assert results["kendall_tau"] > 0.4
    else:
        # 5,000 steps: a standard error of 0.007. Less than chance is what an untrained
        # model has, which does not know yet what was placed before.
        assert results["pointer_accuracy"] < results["pointer_chance"] + 0.028
        assert abs(results["position_accuracy"] - results["position_chance"]) < 0.025
        assert abs(results["kendall_tau"]) < 0.06


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """Words tell in every second document for training, and in all held out or none."""
    return [
        write_records(tmp_path_factory.mktemp("records"), [False, True], held_out)
        for held_out in (True, False)
    ]


@pytest.mark.parametrize("within", ["text", "row"])
def test_moves_are_found_where_words_tell_them_and_nowhere_else(records, within):
    inputs = dataclasses.replace(EXCHANGE.inputs, exchange_within=within)
    config = dataclasses.replace(EXCHANGE, inputs=inputs)
    told, untold = results_of_a_run(config, *records, built_as=EXCHANGE)
    for results in (told, untold):
        assert results["positive_rate"] == pytest.approx(0.4, abs=1e-3)
    # 5,000 sentences: a standard error of about 0.01.
    assert abs(untold["pair_accuracy"] - 0.5) < 0.035
    if within == "text":
        assert told["balanced_accuracy"] > 0.9
        assert told["mcc"] > 0.8
        assert told["accuracy"] > told["majority_accuracy"] + 0.2
