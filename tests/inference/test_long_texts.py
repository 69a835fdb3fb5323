"""Vectors of the sentences of long texts, worked out in the padded array as well."""

import pathlib

import numpy as np
import pytest

from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.config import build_from
from seg_tf.inference import text_windows
from seg_tf.inference.long_texts import LongTexts
from seg_tf.text.normalization import UNCASED
from seg_tf.text.tree import DocumentTree
from tests.finetuning import tiny_models
from tests.inference.tiny_reat import CONFIG, MODEL, padded_vectors, pieces_of
from tests.inference.tiny_slm import VOCABULARY, sentence

pytestmark = pytest.mark.slow


@pytest.fixture(name="reat", scope="module")
def _reat():
    return Pretrained(
        encoder=build_from(MODEL, vocab_size=VOCABULARY.size),
        objectives={},
        config=CONFIG,
        vocabulary=VOCABULARY,
        tokenizer="word_pieces",
        normalization=UNCASED,
        sentence_splitter={},
        folder=pathlib.Path("runs/tiny"),
        weights_checksum="",
    )


def texts_of(*numbers_of_words):
    generator = np.random.default_rng(1)
    return [sentence(generator, count) for count in numbers_of_words]


@pytest.mark.parametrize("counts", [(3, 1, 7, 12, 2, 2, 5, 9), (4,), (12,) * 9])
def test_vectors_are_those_of_the_padded_array(reat, counts):
    sentences = texts_of(*counts)
    encoded = LongTexts(reat).encode(sentences)
    assert encoded.vectors.dtype == np.float32
    pieces = pieces_of(sentences)
    np.testing.assert_allclose(
        encoded.vectors, padded_vectors(reat.encoder, pieces), atol=1e-5
    )
    assert encoded.num_parts == len(counts)
    assert encoded.num_positions == sum(3 + len(one) for one in pieces)
    assert encoded.num_passes == 1


def test_long_sentences_are_the_mean_of_their_parts(reat):
    sentences = texts_of(3, 30, 5)
    first, long, last = pieces_of(sentences)
    assert len(long) == 31
    parts = [first, long[:11], long[11:21], long[21:], last]
    vectors = padded_vectors(reat.encoder, parts)
    expected = [vectors[0], vectors[1:4].mean(axis=0), vectors[4]]
    encoded = LongTexts(reat).encode(sentences)
    np.testing.assert_allclose(encoded.vectors, expected, atol=1e-5)
    assert encoded.num_parts == 5
    assert encoded.num_positions == 5 * 3 + 4 + 31 + 6


def test_what_is_too_long_even_so_is_encoded_in_stretches(reat):
    sentences = texts_of(*([2, 5, 3] * 15))
    encoded = LongTexts(reat).encode(sentences)
    assert encoded.num_passes == 3
    expected = [
        padded_vectors(reat.encoder, pieces_of(sentences[begin : begin + 15]))
        for begin in (0, 15, 30)
    ]
    np.testing.assert_allclose(encoded.vectors, np.concatenate(expected), atol=1e-5)


def test_stretches_end_with_sentences(reat):
    # Seven of three parts each, for a model of 20 places.
    sentences = texts_of(*[30] * 7)
    encoder = LongTexts(reat)
    encoded = encoder.encode(sentences)
    assert (encoded.num_parts, encoded.num_passes) == (21, 2)
    apart = [encoder.encode(some).vectors for some in (sentences[:4], sentences[4:])]
    np.testing.assert_allclose(encoded.vectors, np.concatenate(apart), atol=1e-5)


def test_a_sentence_longer_than_a_stretch_is_torn(reat):
    encoded = LongTexts(reat).encode(texts_of(1, 13 * 45, 1))
    assert (encoded.num_parts, encoded.num_passes) == (48, 3)
    assert np.isfinite(encoded.vectors).all()


def test_sentences_without_a_word_have_a_vector_as_well(reat):
    sentences = [*texts_of(3), "", *texts_of(5, 2)]
    np.testing.assert_allclose(
        LongTexts(reat).encode(sentences).vectors,
        padded_vectors(reat.encoder, pieces_of(sentences)),
        atol=1e-5,
    )


def test_other_sentences_are_context(reat):
    sentences = texts_of(3, 4, 5)
    encode = LongTexts(reat).encode
    changed = encode([sentences[0], *texts_of(9, 5)[1:]]).vectors
    assert np.abs(encode(sentences).vectors[0] - changed[0]).max() > 1e-3


def window_vectors(pretrained, sentences, first_index, paragraph_lengths):
    """Vectors of the sentences of a window of a document, read alone."""
    tree = DocumentTree(
        np.concatenate(sentences),
        np.array([len(one) for one in sentences]),
        np.array(paragraph_lengths),
        first_index,
    )
    window = text_windows.lay_out(tree, pretrained)
    sequence = pretrained.encoder(window.features, training=False)[0].numpy()
    is_sent = np.array(window.tokens) == "[SENT]"
    is_read = is_sent if is_sent.any() else window.is_piece
    return [
        sequence[(window.sentences == number) & is_read].mean(axis=0)
        for number in range(len(sentences))
    ]


@pytest.mark.parametrize("kind", ["segabert", "slm"])
def test_other_encoders_read_windows_of_the_text(kind):
    pretrained = tiny_models.tiny(kind)
    # Four of ten pieces fit into a row of 48: three and three and three.
    sentences = texts_of(*[9] * 9)
    encoded = LongTexts(pretrained).encode(sentences, [0, 0, 1, 1, 1, 1, 2, 2, 2])
    pieces = pieces_of(sentences)
    expected = [
        *window_vectors(pretrained, pieces[:3], (0, 0, 0), [2, 1]),
        *window_vectors(pretrained, pieces[3:6], (1, 1, 0), [3]),
        *window_vectors(pretrained, pieces[6:], (2, 0, 0), [3]),
    ]
    np.testing.assert_allclose(encoded.vectors, expected, atol=1e-5)
    assert (encoded.num_parts, encoded.num_passes) == (9, 3)
    assert encoded.num_positions == 3 * 2 + 9 * (10 + (kind == "slm"))


def test_a_sentence_longer_than_a_window_is_read_in_parts():
    pretrained = tiny_models.tiny("segabert")
    sentences = texts_of(60)
    (pieces,) = pieces_of(sentences)
    encoded = LongTexts(pretrained).encode(sentences)
    parts = [
        window_vectors(pretrained, [pieces[:31]], (0, 0, 0), [1]),
        window_vectors(pretrained, [pieces[31:]], (0, 0, 31), [1]),
    ]
    np.testing.assert_allclose(encoded.vectors, np.mean(parts, axis=0), atol=1e-5)
    assert (encoded.num_parts, encoded.num_passes) == (2, 2)


def test_long_texts_take_many_passes():
    """Of every sentence, and in no more than a search through each stretch."""
    encoded = LongTexts(tiny_models.tiny("bert")).encode(texts_of(*[5, 9, 2] * 40))
    assert encoded.vectors.shape[0] == encoded.num_parts == 120
    # 46 pieces a row, of 760 in all.
    assert 17 <= encoded.num_passes <= 25
