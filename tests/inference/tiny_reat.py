"""A tiny ReAT, and vectors of sentences worked out in the padded array."""

import numpy as np

from seg_tf.config import ExchangeSentenceConfig, ReATConfig, RunConfig
from seg_tf.data.inputs import ReATInputsConfig
from seg_tf.text.normalization import UNCASED
from seg_tf.text.word_pieces import WordPieces
from tests.inference.tiny_slm import VOCABULARY
from tests.text_batches import text_rows

MODEL = ReATConfig(
    block_length=16,
    max_sentences=20,
    num_sentence_layers=1,
    num_alpha_layers=1,
    hidden_size=16,
    alpha_hidden_size=24,
    num_heads=2,
    alpha_num_heads=2,
    intermediate_size=32,
    alpha_intermediate_size=32,
    # So large that another sentence is another answer.
    initializer_range=0.3,
)
CONFIG = RunConfig(
    name="tiny",
    paper="reat_small",
    model=MODEL,
    inputs=ReATInputsConfig(),
    objectives={"exchange_sentence": ExchangeSentenceConfig()},
)


def padded_vectors(encoder, parts):
    """Pooled vectors of one text whose sentences have a block each."""
    features = text_rows(
        [[parts]],
        block_length=16,
        num_blocks=len(parts),
        num_sentences=max(len(parts), 2),
        share_blocks=False,
    )
    pooled = encoder.pool(encoder(features), features["sentence_starts"])
    return np.asarray(pooled)[0, : len(parts)]


def pieces_of(sentences):
    word_pieces = WordPieces(VOCABULARY, UNCASED)
    return [word_pieces.encode([one])[0].tolist() for one in sentences]
