"""A tiny model of random weights of every kind of encoder, as if just loaded."""

import functools
import pathlib

import keras
import numpy as np

from seg_tf.checkpoints.pretrained import Pretrained, build_encoder
from seg_tf.config import EncoderConfig, ReATConfig, RunConfig
from seg_tf.data.inputs import (
    ReATInputsConfig,
    SentenceInputsConfig,
    WindowInputsConfig,
)
from seg_tf.finetuning.batches import TextExamples, to_tuples
from seg_tf.layouts.rows import Segment
from seg_tf.preprocessing import TextPreprocessor
from seg_tf.text.encoding import WORD_PIECES
from seg_tf.text.normalization import UNCASED
from tests.inference.tiny_slm import VOCABULARY, WORDS

WINDOW_LENGTH = 48
MAX_SENTENCES = 5
SEGABERT_TABLES = {"paragraph_index": 3, "sentence_index": 4, "token_index": 9}
POSITIONS = {"position_index": WINDOW_LENGTH}
PLACES = {"sentence_id": MAX_SENTENCES + 2}
TABLES = {
    "bert": POSITIONS,
    "bert_ps": {**POSITIONS, "paragraph_index": 3, "sentence_index": 4},
    "segabert": SEGABERT_TABLES,
    "slm": {**POSITIONS, **PLACES},
    "segabert_slm": {**SEGABERT_TABLES, **PLACES},
    "modern": {"sentence_index": 4},
}
MODERN = {
    "trunk": "modern",
    "dropout": 0.0,
    "rotary_shares": {"position_index": 1, "token_index": 2},
    "local_window": 16,
    "global_every": 2,
}
KINDS = (*TABLES, "reat")
BLOCK_LENGTH = 16
SIZES = {"num_heads": 2, "intermediate_size": 16, "hidden_size": 12}
# So large that another word or index is another answer.
SCALE = {"initializer_range": 0.3}


@functools.cache
def tiny(kind, num_token_types=0):
    """One of `KINDS`, which no test may change."""
    keras.utils.set_random_seed(1)
    if kind == "reat":
        model = ReATConfig(
            block_length=BLOCK_LENGTH,
            max_sentences=8,
            num_sentence_layers=1,
            num_alpha_layers=1,
            alpha_num_heads=2,
            alpha_hidden_size=8,
            alpha_intermediate_size=16,
            **SIZES,
            **SCALE,
        )
    else:
        model = EncoderConfig(
            index_tables=TABLES[kind],
            num_layers=2 if kind == "modern" else 1,
            num_token_types=num_token_types,
            **SIZES,
            **SCALE,
            **(MODERN if kind == "modern" else {}),
        )
    if "sentence_id" in TABLES.get(kind, ()):
        inputs = SentenceInputsConfig(
            window_length=WINDOW_LENGTH - MAX_SENTENCES, max_sentences=MAX_SENTENCES
        )
    elif kind == "reat":
        inputs = ReATInputsConfig(window_length=WINDOW_LENGTH)
    else:
        inputs = WindowInputsConfig(window_length=WINDOW_LENGTH)
    encoder = build_encoder(model, VOCABULARY.size)
    for weight in encoder.weights:
        if kind == "modern" and not np.any(
            weight.numpy()
        ):  # output projections that start at zero
            weight.assign(keras.random.normal(weight.shape, stddev=0.3))
    return Pretrained(
        encoder=encoder,
        objectives={},
        config=RunConfig(
            name=f"tiny_{kind}", paper="bert_base", model=model, inputs=inputs
        ),
        vocabulary=VOCABULARY,
        tokenizer=WORD_PIECES,
        normalization=UNCASED,
        sentence_splitter={},
        folder=pathlib.Path("runs/tiny"),
        weights_checksum="",
    )


def some_texts(generator, num_examples, num_texts, longest=12):
    """Examples of texts of 1 to `longest` words."""
    return [
        tuple(
            " ".join(generator.choice(WORDS, int(generator.integers(1, longest + 1))))
            for _ in range(num_texts)
        )
        for _ in range(num_examples)
    ]


def text_batches(pretrained, texts, labels=None, *, batch_size, max_length=None, **how):
    """Batches of features, with labels if there are some."""
    seed = how.pop("seed", None)
    texts = to_tuples(texts)
    preprocessor = TextPreprocessor(pretrained, len(texts[0]), max_length)
    return TextExamples(preprocessor, texts, labels, **how).batches(batch_size, seed)


def example_of(pretrained, texts, room):
    """The example of some texts, each a paragraph; the longest loses its last piece.

    Returns:
        The example, and whether it was cut.
    """
    encode = pretrained.text_encoder().encode
    pieces = [encode([text])[0] for text in texts]
    is_cut = sum(map(len, pieces)) > room
    while sum(map(len, pieces)) > room:
        # Of equally long texts the last one.
        longest = max(range(len(pieces)), key=lambda text: (len(pieces[text]), text))
        pieces[longest] = pieces[longest][:-1]
    segments = [Segment(ids, text, paragraph=text) for text, ids in enumerate(pieces)]
    return tuple(segments), is_cut
