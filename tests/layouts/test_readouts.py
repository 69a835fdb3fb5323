"""Vectors of texts that were read together, or each alone."""

import keras
import numpy as np
import pytest

from seg_tf.inference.sentence_encoder import SentenceEncoder
from seg_tf.inference.texts import Sentence
from seg_tf.layouts.layout import FirstToken, PooledSentences, SentenceTokens
from tests.finetuning.tiny_models import example_of, some_texts, tiny

FIVE = some_texts(np.random.default_rng(4), 3, 5, longest=6)


def text_vectors(kind, texts):
    """`(examples, texts, width)`, and the sequence and features behind them."""
    pretrained = tiny(kind)
    layout = pretrained.layout()
    num_texts = len(texts[0])
    room = layout.capacity(num_texts)
    examples = [example_of(pretrained, one, room)[0] for one in texts]
    shapes = [layout.row_shape(example) for example in examples]
    features = layout.lay_out(examples, tuple(np.max(shapes, axis=0).tolist()))
    sequence = pretrained.encoder(features)
    readout = layout.readout(num_texts)
    vectors = readout.text_vectors(pretrained.encoder, sequence, features)
    return np.asarray(vectors), np.asarray(sequence), features


def test_joint_vectors_of_slm_are_those_at_its_sentence_tokens():
    vectors, sequence, features = text_vectors("slm", FIVE)
    for row, ids in enumerate(features["token_ids"].tolist()):
        at = [place for place, one in enumerate(ids) if one == 5]
        assert len(at) == 5
        np.testing.assert_array_equal(vectors[row], sequence[row, at])


def test_joint_vectors_of_reat_are_those_of_a_long_text():
    texts = [*FIVE, ("w1 " * 30, "w2", "w3 " * 7, "w4", "w5")]
    vectors, *_ = text_vectors("reat", texts)
    documents = [[Sentence(one, "") for one in text] for text in texts]
    encoded = SentenceEncoder(tiny("reat")).encode_documents(documents)
    for row, one in enumerate(encoded):
        np.testing.assert_allclose(vectors[row], one.vectors, atol=1e-5)


@pytest.mark.parametrize("kind", ["slm", "reat"])
def test_texts_are_read_in_context_of_one_another(kind):
    assert tiny(kind).layout().vectors_per_text
    together, *_ = text_vectors(kind, FIVE)
    alone, *_ = text_vectors(kind, [(text,) for text in FIVE[0]])
    assert together.shape[1] == 5
    assert np.abs(together[0] - alone[:, 0]).max() > 1e-3


def test_a_window_has_one_vector():
    assert not tiny("bert").layout().vectors_per_text
    vectors, sequence, _ = text_vectors("bert", [(text,) for text in FIVE[0]])
    np.testing.assert_array_equal(vectors, sequence[:, :1])


@pytest.mark.parametrize(
    "readout", [FirstToken(), SentenceTokens(num_texts=3), PooledSentences(num_texts=4)]
)
def test_keras_can_save_a_readout(readout):
    saved = keras.saving.serialize_keras_object(readout)
    restored = keras.saving.deserialize_keras_object(saved)
    assert type(restored) is type(readout)
    assert restored.num_vectors == readout.num_vectors
    assert vars(restored) == vars(readout)
