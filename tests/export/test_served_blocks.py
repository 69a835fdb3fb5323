"""ReAT in the graph: rows as for Keras models, and vectors of the sentences."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from seg_tf.checkpoints.pretrained import load_pretrained
from seg_tf.export.served import ServedEncoder
from seg_tf.inference.sentence_encoder import SentenceEncoder
from seg_tf.layouts import blocks
from seg_tf.preprocessing import DocumentPreprocessor
from tests.finetuning import tiny_models
from tests.finetuning.tiny_models import example_of
from tests.inference.test_sentence_encoder import encoded, sentences_of

pytestmark = pytest.mark.slow

# Of up to 8 sentences, or parts of 13 pieces of long ones.
DOCUMENTS = [
    "W1 w2. W3 [SEP] w4.\nW5 w6 w7.",
    "W1.",
    "W1 w2. " + "w3 " * 30 + ". W4.\nW5.",
    "W1 " + "w2 " * 50 + ".",
    "\n".join(f"W{number} w1 w2 w3 w4 w5." for number in range(8)),
]
TOO_LONG = [
    "w1 " * 300,
    "W1 w2. " * 9,
    "W1 w2. W3. " + "w3 " * 120 + ". W4.",
]


def pretrained():
    # The vocabulary has a row for <Attn>.
    return tiny_models.tiny("reat")


@functools.cache
def served():
    preprocessor = DocumentPreprocessor(pretrained())
    return ServedEncoder(pretrained(), preprocessor).functions


@functools.cache
def encoder():
    return SentenceEncoder(pretrained())


def test_documents_are_encoded_as_long_texts():
    found = served()["serving_default"](tf.constant([*DOCUMENTS, ""]))
    for number, document in enumerate(DOCUMENTS):
        sentences = sentences_of(document)
        expected = encoded(encoder(), sentences)
        assert expected.num_passes == 1
        is_there = found["sentence_mask"][number].numpy()
        assert is_there.sum() == len(sentences)
        vectors = found["sentence_vectors"][number].numpy()
        np.testing.assert_allclose(vectors[is_there], expected.vectors, atol=2e-6)
        assert not vectors[~is_there].any()
        np.testing.assert_allclose(
            found["pooled_output"][number], expected.vectors.mean(axis=0), atol=2e-6
        )
        texts = [text.decode() for text in found["sentences"][number].numpy() if text]
        assert texts == sentences
    assert not found["is_cut"].numpy().any()
    assert not found["sentence_mask"][-1].numpy().any()


def test_of_long_documents_the_beginning_is_read():
    found = served()["serving_default"](tf.constant(TOO_LONG))
    assert found["is_cut"].numpy().all()
    # 8 parts of a sentence; 8 sentences; two, since the third has 10 parts.
    assert found["sentence_mask"].numpy().sum(axis=1).tolist() == [1, 8, 2]
    expected = encoded(encoder(), ["W1 w2."] * 8).vectors
    np.testing.assert_allclose(found["sentence_vectors"][1], expected, atol=2e-6)


def test_vectors_of_pairs_are_those_of_the_readout():
    first, second = DOCUMENTS[:3], DOCUMENTS[2:]
    found = served()["encode_pairs"](tf.constant(first), tf.constant(second))
    layout = pretrained().layout()
    examples = [
        example_of(pretrained(), pair, layout.capacity(2))[0]
        for pair in zip(first, second, strict=True)
    ]
    encoder = pretrained().encoder
    for number, example in enumerate(examples):
        row = layout.lay_out([example], layout.row_shape(example))
        sequence = encoder(row, training=False)
        expected = layout.readout(2).head_vectors(encoder, sequence, row)[0]
        np.testing.assert_allclose(
            found["sentence_vectors"][number], expected, atol=2e-6
        )


def test_long_sentences_are_split_as_in_numpy():
    rows = [[3, 10, 0, 27], [1], [13, 14, 40]]
    parts, sentence = blocks._split_rows(tf.ragged.constant(rows, tf.int32), 13)
    for number, row in enumerate(rows):
        lengths, part = blocks.split_long(np.array(row), 13)
        assert parts[number].numpy().tolist() == lengths.tolist()
        assert sentence[number].numpy().tolist() == (np.cumsum(part == 0) - 1).tolist()


def test_a_model_of_other_rows_is_refused(language_model_dir):
    with pytest.raises(ValueError, match="must be of an encoder of texts"):
        DocumentPreprocessor(load_pretrained(language_model_dir))
