"""Rows made in the graph are those that Keras models are fed with."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from seg_tf.checkpoints.pretrained import load_pretrained
from seg_tf.export.served_rows import ServedRows
from seg_tf.finetuning.segments import as_tuples, encode_texts
from seg_tf.finetuning.segments import cut_longest as exact_cut
from seg_tf.inference import text_windows
from seg_tf.inference.text_windows import window_capacity
from seg_tf.preprocessing.segments import cut_longest
from seg_tf.text.graph.sentences import GraphSentenceSplitter
from seg_tf.text.punkt import SentenceSplitter
from tests.finetuning import tiny_models
from tests.inference import tiny_language_model

pytestmark = pytest.mark.slow

KINDS = [kind for kind in tiny_models.KINDS if kind != "reat"]
SPLITTER = SentenceSplitter()
DOCUMENTS = [
    "W1 w2. W3 [SEP] w4.\nW5 w6 w7.",
    "W1.\r\n\n  W2 w3. W4? \n\u200b\nW5. W6. W7. W8. W9 no newline",
    "w1 " * 100,
    "W1 w2 w3. " * 40 + "\n",
    "\n".join(["W1 w2."] * 40),
    "Ünknown wörds. 中文 w1!",
]
EMPTY = ["", " \n\u200b\n"]


@functools.cache
def rows_of(kind):
    """Its own room is so small that most documents are cut."""
    return ServedRows(tiny_models.tiny(kind, num_token_types=2))


@functools.cache
def splitter():
    return GraphSentenceSplitter(SPLITTER.parameters)


@pytest.mark.parametrize("kind", KINDS)
def test_documents_are_laid_out_as_in_pretraining(kind):
    pretrained = tiny_models.tiny(kind, num_token_types=2)
    trees, features = rows_of(kind).of_texts(tf.constant(DOCUMENTS))
    room = window_capacity(pretrained)
    for number, document in enumerate(DOCUMENTS):
        tree = text_windows.read_tree(document.split("\n"), pretrained, SPLITTER)
        window = text_windows.first_window(tree, room)
        is_cut = len(window.token_ids) < len(tree.token_ids)
        assert bool(trees.is_cut[number]) == is_cut
        expected = text_windows.lay_out(window, pretrained).features
        for name, values in expected.items():
            row = features[name][number].numpy()
            length = values.shape[1]
            np.testing.assert_array_equal(row[:length], values[0], err_msg=name)
            assert not row[length:].any()
        sentences = [
            sentence.decode()
            for sentence in trees.sentences[number].numpy()
            if sentence
        ]
        split = [
            sentence
            for paragraph in document.split("\n")
            for sentence in SPLITTER.split(paragraph)
            if sentence != "\u200b"
        ]
        assert sentences == split[: len(window.sentence_lengths)]


@pytest.mark.parametrize("num_texts", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_examples_are_laid_out_as_in_finetuning(kind, num_texts):
    pretrained = tiny_models.tiny(kind, num_token_types=2)
    texts = [*DOCUMENTS, *EMPTY]
    examples = as_tuples(
        list(zip(texts, texts[3:] + texts[:3], strict=True))
        if num_texts == 2
        else texts
    )
    layout = pretrained.layout()
    room = layout.capacity(num_texts)
    segments = encode_texts(pretrained.text_encoder(), examples, room)
    row_shape = tuple(
        np.array([layout.row_shape(one) for one in segments]).max(axis=0).tolist()
    )
    expected = layout.lay_out(list(segments), row_shape)

    rows = rows_of(kind)
    given = [tf.constant(of_text) for of_text in zip(*examples, strict=True)]
    is_cut, features = rows.of_segments(given, room)
    assert int(tf.reduce_sum(tf.cast(is_cut, tf.int32))) == segments.num_cut > 0
    for name, values in expected.items():
        found = features[name].numpy()
        length = found.shape[1]
        np.testing.assert_array_equal(found, values[:, :length], err_msg=name)
        assert not values[:, length:].any()


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_document_is_a_row_of_finetuning(kind):
    """Which knows empty texts, as pretraining does not."""
    rows = rows_of(kind)
    trees, features = rows.of_texts(tf.constant([*EMPTY, DOCUMENTS[0]]))
    assert trees.num_sentences.numpy().tolist() == [0, 0, 3]
    _, expected = rows.of_segments([tf.constant(EMPTY)], 10)
    for name in tiny_models.tiny(kind).encoder.feature_names:
        length = expected[name].shape[1]
        np.testing.assert_array_equal(
            features[name][:2, :length], expected[name], err_msg=name
        )
        assert not features[name][:2, length:].numpy().any()


def test_texts_are_cut_by_berts_rule():
    pairs = np.array([[a, b] for a in range(9) for b in range(9)])
    for room in range(12):
        found = cut_longest([tf.constant(pairs[:, 0]), tf.constant(pairs[:, 1])], room)
        np.testing.assert_array_equal(np.stack(found, axis=1), exact_cut(pairs, room))


def test_other_models_are_refused(tmp_path):
    folder = tiny_language_model.write_checkpoint(tmp_path)
    with pytest.raises(ValueError, match=r"`checkpoint` must be .*TransformerXLConfig"):
        ServedRows(load_pretrained(folder))
