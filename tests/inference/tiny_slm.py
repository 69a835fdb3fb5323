"""A tiny SLM in a checkpoint, and its answers worked out slowly."""

import keras
import numpy as np
import tensorflow as tf

import seg_tf.models
import seg_tf.objectives  # noqa: F401
from seg_tf import features
from seg_tf.config import (
    EncoderConfig,
    MaskedLMConfig,
    RunConfig,
    SentenceUnshufflingConfig,
    build_from,
    to_dict,
)
from seg_tf.data.inputs import SentenceInputsConfig
from seg_tf.text.encoding import TextPreparation
from seg_tf.text.normalization import UNCASED
from seg_tf.text.punkt import SentenceSplitter
from seg_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from seg_tf.text.word_pieces import WordPieces
from seg_tf.training.checkpoint import Checkpoints
from seg_tf.training.learner import Learner
from tests.layouts.test_sentences import slow_row

MAX_SENTENCES = 4
WINDOW_LENGTH = 44
ROW_LENGTH = WINDOW_LENGTH + MAX_SENTENCES
WORDS = [f"w{number}" for number in range(60)]
VOCABULARY = Vocabulary([*SPECIAL_TOKENS, "[unused0]", ".", *WORDS])
SPLITTER = SentenceSplitter()
INDEX_TABLES = {
    "position_index": ROW_LENGTH,
    "sentence_id": MAX_SENTENCES + 2,
    "paragraph_index": 3,
    "sentence_index": 3,
    "token_index": 20,
}


def tiny_encoder(index_tables, **arguments) -> EncoderConfig:
    """Its weights are so large that another row or index is another answer."""
    sizes = {"hidden_size": 16, "num_heads": 2, "intermediate_size": 32}
    arguments = {"num_layers": 2, "initializer_range": 0.3, **sizes, **arguments}
    return EncoderConfig(index_tables=index_tables, **arguments)


def config(*objectives, inputs=None) -> RunConfig:
    """Config of the run, with objectives besides masked LM."""
    if inputs is None:
        inputs = SentenceInputsConfig(
            window_length=WINDOW_LENGTH, max_sentences=MAX_SENTENCES
        )
    return RunConfig(
        name="tiny",
        paper="bert_base",
        model=tiny_encoder(INDEX_TABLES),
        inputs=inputs,
        objectives={"masked_lm": MaskedLMConfig()}
        | {f"objective_{number}": one for number, one in enumerate(objectives)},
    )


def write_checkpoint(
    folder, run_config=None, text_preparation=True, seed=1, vocabulary=VOCABULARY, **how
):
    """A run's folder with one checkpoint of random weights."""
    if run_config is None:
        run_config = config(SentenceUnshufflingConfig(num_layers=1))
    keras.utils.set_random_seed(seed)
    encoder = build_from(run_config.model, vocab_size=vocabulary.size)
    objectives = {
        name: build_from(one, encoder=encoder)
        for name, one in run_config.objectives.items()
    }
    # Rows of blocks are at least one block long.
    length = getattr(encoder, "block_length", 4)
    sizes = {"B": 1, "L": length, "P": 1, "C": 3, "S": 2, "N": 2}
    specs = features.tensor_specs(features.FEATURES, sizes)
    learner = Learner(
        encoder,
        objectives,
        keras.optimizers.SGD(0.1),
        {name: tf.zeros(shape, dtype) for name, (shape, dtype) in specs.items()},
    )
    Checkpoints(
        folder / "checkpoints",
        keep=1,
        facts={
            "config": to_dict(run_config),
            "vocab_size": vocabulary.size,
            "vocab_checksum": vocabulary.checksum,
        },
        text_preparation=TextPreparation(
            vocabulary.to_bytes(),
            how.pop("normalization", UNCASED),
            how.pop(
                "sentence_splitter",
                {"name": "english", "parameters_sha256": SPLITTER.parameters.checksum},
            ),
            **how,
        )
        if text_preparation
        else None,
    ).save(learner, updates=1, samples=1)
    return folder


def sentence(generator, num_words) -> str:
    """Capitalised words and a period, which is a sentence to Punkt."""
    words = generator.choice(WORDS, num_words)
    return " ".join(words).capitalize() + "."


def candidates_alone(pretrained, sentences, paragraphs=None, sentence_indices=None):
    """`[CLS]`, `[SENT]`, …, `[SEP]` vectors of one row, alone and without padding."""
    count = len(sentences)
    word_pieces = WordPieces(pretrained.vocabulary, pretrained.normalization)
    pieces = [word_pieces.encode([one])[0].tolist() for one in sentences]
    length = 2 + count + sum(map(len, pieces))
    row = slow_row(
        pieces,
        list(range(count)),
        paragraphs or [0] * count,
        sentence_indices or list(range(count)),
        row_length=length,
        max_sentences=count,
        caps=INDEX_TABLES,
        special_ids={"cls": 2, "sep": 3, "pad": 0},
        sent_id=5,
    )
    batch = {name: np.array([values]) for name, values in row.items()}
    batch["padding_mask"] = np.ones((1, length), bool)
    batch["token_type"] = np.zeros((1, length), np.int32)
    output = np.asarray(pretrained.encoder(batch))[0]
    return output[batch["candidate_positions"][0]]
