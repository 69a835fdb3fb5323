"""Vectors of the sentences of long texts, worked out in the padded array as well."""

import dataclasses
import pathlib

import numpy as np
import pytest

from seg_tf import configuration
from seg_tf.inference.long_texts import LongTexts
from seg_tf.text.word_pieces import WordPieces
from seg_tf.training.pretrained import Pretrained
from tests.inference.tiny_slm import VOCABULARY, sentence
from tests.text_batches import text_rows

MODEL = configuration.ReATConfig(
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


@pytest.fixture(name="reat", scope="module")
def _reat():
    return Pretrained(
        encoder=configuration.build(MODEL, vocab_size=VOCABULARY.size),
        objectives={},
        config=configuration.RunConfig(name="tiny", paper="reat_small", model=MODEL),
        vocabulary=VOCABULARY,
        tokenizer="word_pieces",
        lower_case=True,
        sentence_splitter={},
        folder=pathlib.Path("runs/tiny"),
        weights_checksum="",
    )


def texts_of(*numbers_of_words):
    generator = np.random.default_rng(1)
    return [sentence(generator, count) for count in numbers_of_words]


def padded_vectors(reat, parts):
    """Pooled vectors of one text whose sentences have a block each."""
    features = text_rows(
        [[parts]],
        block_length=16,
        num_blocks=len(parts),
        num_sentences=max(len(parts), 2),
        share_blocks=False,
    )
    pooled = reat.encoder.pool(reat.encoder(features), features["sentence_starts"])
    return np.asarray(pooled)[0, : len(parts)]


def pieces_of(sentences):
    word_pieces = WordPieces(VOCABULARY, True)
    return [word_pieces.encode([one])[0].tolist() for one in sentences]


@pytest.mark.parametrize("counts", [(3, 1, 7, 12, 2, 2, 5, 9), (4,), (12,) * 9])
def test_vectors_are_those_of_the_padded_array(reat, counts):
    sentences = texts_of(*counts)
    vectors = LongTexts(reat).encode(sentences)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(
        vectors, padded_vectors(reat, pieces_of(sentences)), atol=1e-5
    )


def test_long_sentences_are_the_mean_of_their_parts(reat):
    sentences = texts_of(3, 30, 5)
    first, long, last = pieces_of(sentences)
    assert len(long) == 31
    parts = [first, long[:11], long[11:21], long[21:], last]
    vectors = padded_vectors(reat, parts)
    expected = [vectors[0], vectors[1:4].mean(axis=0), vectors[4]]
    np.testing.assert_allclose(LongTexts(reat).encode(sentences), expected, atol=1e-5)


def test_what_is_too_long_even_so_is_encoded_in_stretches(reat):
    sentences = texts_of(*([2, 5, 3] * 15))
    vectors = LongTexts(reat).encode(sentences)
    expected = [
        padded_vectors(reat, pieces_of(sentences[begin : begin + 20]))
        for begin in (0, 20, 40)
    ]
    np.testing.assert_allclose(vectors, np.concatenate(expected), atol=1e-5)


def test_sentences_without_a_word_have_a_vector_as_well(reat):
    sentences = [*texts_of(3), "", *texts_of(5, 2)]
    np.testing.assert_allclose(
        LongTexts(reat).encode(sentences),
        padded_vectors(reat, pieces_of(sentences)),
        atol=1e-5,
    )


def test_other_sentences_are_context(reat):
    sentences = texts_of(3, 4, 5)
    encode = LongTexts(reat).encode
    changed = encode([sentences[0], *texts_of(9, 5)[1:]])
    assert np.abs(encode(sentences)[0] - changed[0]).max() > 1e-3


def test_another_model_is_refused(reat):
    bert = dataclasses.replace(
        reat.config, name="bert", model=configuration.EncoderConfig()
    )
    with pytest.raises(ValueError, match=r"of a ReAT.*'bert'.*EncoderConfig"):
        LongTexts(dataclasses.replace(reat, config=bert))
