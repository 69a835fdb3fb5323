"""Documents whose words tell nothing, or their sentence's place; and a run on them.

What a model finds out where words tell nothing, it has found by a leak.
"""

import numpy as np

from seg_tf.training import build
from tests.data_pipelines.builders import FIRST_PIECE, write_windows
from tests.training import stand_ins
from tests.training.stand_ins import make_updates, validate

NUM_SENTENCES = 5
WORDS_OF_A_PLACE = 4
VOCAB_SIZE = FIRST_PIECE + NUM_SENTENCES * WORDS_OF_A_PLACE


def sentences(generator, words_tell):
    """Ids and lengths of sentences of one or two words each.

    Where words tell, a sentence of place p has words of its own.
    """
    lengths = generator.integers(1, 3, NUM_SENTENCES)
    words = generator.integers(0, VOCAB_SIZE - FIRST_PIECE, lengths.sum())
    if words_tell:
        places = np.repeat(np.arange(NUM_SENTENCES), lengths)
        words = places * WORDS_OF_A_PLACE + words % WORDS_OF_A_PLACE
    return FIRST_PIECE + words, lengths


def results_of_a_run(
    config, folder, document, num_train, num_validation, built_as=None
):
    """Validation results of the one objective of a run, without its name.

    Args:
        config: the run.
        folder: an empty folder for the records.
        document: makes a document, given a generator.
        num_train: how many to learn from.
        num_validation: how many to validate with.
        built_as: a run of the same model and step; None is this one.
    """
    generator = np.random.default_rng(0)
    write_windows(
        folder,
        {
            split: [[document(generator) for _ in range(count)]]
            for split, count in (("train", num_train), ("validation", num_validation))
        },
        window_length=config.inputs.window_length,
        vocab_size=VOCAB_SIZE,
    )
    inputs = build.build_inputs(config, str(folder))
    learner = stand_ins.as_built(built_as or config, inputs)
    batch_size = config.training.batch_size
    batches = inputs.train_dataset(batch_size)
    make_updates(learner, batches, config.training.num_updates)
    found = validate(learner, inputs.validation_dataset(batch_size))
    (objective,) = config.objectives
    return {
        name.removeprefix(f"{objective}_"): float(value)
        for name, value in found.items()
    }
