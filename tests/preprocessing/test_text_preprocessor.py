"""Rows made in a graph are those that are made offline, and train the same model."""

import dataclasses
import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf

from seg_tf import tasks
from seg_tf.checkpoints.pretrained import load_pretrained
from seg_tf.finetuning import TextClassifier
from seg_tf.inference import attention
from seg_tf.inference.attention import window_capacity
from seg_tf.preprocessing import DocumentPreprocessor, TextPreprocessor
from seg_tf.text.punkt import SentenceSplitter
from seg_tf.text.vocabulary import Vocabulary
from tests.finetuning import tiny_models
from tests.finetuning.tiny_models import text_batches
from tests.sample_data import released_vocabulary, sample_data

pytestmark = pytest.mark.slow

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
    """So small that most documents are cut."""
    return DocumentPreprocessor(tiny_models.tiny(kind, num_token_types=2))


@pytest.mark.parametrize("kind", ["bert_ps", "segabert_slm", "modern"])
def test_documents_are_laid_out_as_in_pretraining(kind):
    pretrained = tiny_models.tiny(kind, num_token_types=2)
    trees, features = rows_of(kind).read(tf.constant(DOCUMENTS))
    room = window_capacity(pretrained)
    for number, document in enumerate(DOCUMENTS):
        tree = attention.read_tree(document.split("\n"), pretrained, SPLITTER)
        window = attention.first_window(tree, room)
        is_cut = len(window.token_ids) < len(tree.token_ids)
        assert bool(trees.is_cut[number]) == is_cut
        expected = attention.lay_out(window, pretrained).features
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


@pytest.mark.parametrize(
    ("kind", "num_texts"),
    [
        *itertools.product(("bert_ps", "segabert_slm", "reat"), (1, 3)),
        *(("segabert", 2), ("slm", 2), ("modern", 2)),
    ],
)
def test_examples_are_laid_out_as_in_finetuning(kind, num_texts):
    pretrained = tiny_models.tiny(kind, num_token_types=2)
    texts = [*DOCUMENTS, *EMPTY]
    rolled = [texts[3 * part :] + texts[: 3 * part] for part in range(num_texts)]
    examples = list(zip(*rolled, strict=True))
    layout = pretrained.layout()
    room = layout.capacity(num_texts)
    segments, is_example_cut = zip(
        *(tiny_models.example_of(pretrained, one, room) for one in examples),
        strict=True,
    )
    row_shape = tuple(
        np.array([layout.row_shape(one) for one in segments]).max(axis=0).tolist()
    )
    expected = layout.lay_out(list(segments), row_shape)

    rows = TextPreprocessor(pretrained, num_texts)
    given = [tf.constant(of_text) for of_text in zip(*examples, strict=True)]
    is_cut, features = rows.read(given)
    assert is_cut.numpy().tolist() == list(is_example_cut)
    assert any(is_example_cut)
    for name, values in expected.items():
        found = features[name].numpy()
        length = found.shape[1]
        np.testing.assert_array_equal(found, values[:, :length], err_msg=name)
        assert not values[:, length:].any()


def check_equal(found, expected):
    """Compares rows as long as they need with rows of one of few lengths."""
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        part = tuple(map(slice, found[name].shape))
        np.testing.assert_array_equal(found[name], values[part], err_msg=name)
        padding = np.ones(values.shape, bool)
        padding[part] = False
        assert not np.any(values.numpy()[padding])


def dataset_of(pairs, labels, batch_size):
    texts = tuple(map(list, zip(*pairs, strict=True)))
    return tf.data.Dataset.from_tensor_slices((texts, labels)).batch(batch_size)


@pytest.mark.parametrize("kind", ["segabert_slm", "reat"])
def test_real_pairs_are_the_offline_ones_inside_a_pipeline(kind):
    folder = sample_data("glue", "MRPC").parent
    pairs = [one.texts for one in tasks.read("glue/mrpc", folder, "dev")][:150]
    pairs += list(itertools.pairwise([*DOCUMENTS, *EMPTY]))
    # `[SENT]` takes the place of an unused token.
    tokens = list(released_vocabulary().tokens)
    tokens[1] = "[SENT]"
    pretrained = dataclasses.replace(
        tiny_models.tiny(kind), vocabulary=Vocabulary(tokens)
    )
    labels = np.arange(len(pairs))
    batches = dataset_of(pairs, labels, 64).map(TextPreprocessor(pretrained, 2))
    offline = text_batches(pretrained, pairs, labels, batch_size=64, report=bool)
    for found, expected in zip(batches, offline, strict=True):
        np.testing.assert_array_equal(found[1], expected[1])
        check_equal(found[0], expected[0])


def test_what_a_dataset_must_be():
    classifier = TextClassifier.from_preset(tiny_models.tiny("bert"), 2)
    texts = tf.data.Dataset.from_tensor_slices((["w1", "w2"], [0, 1]))
    with pytest.raises(
        ValueError, match=r"`x` must be 1 string .* shapes \[TensorShape\(\[\]\)\]"
    ):
        classifier.fit(texts)
    names = tf.data.Dataset.from_tensor_slices((["w1"], ["yes"])).batch(1)
    with pytest.raises(ValueError, match=r"must be numbers of .* type string"):
        classifier.fit(names)
    with pytest.raises(ValueError, match=r"known number of batches.* cardinality -1"):
        classifier.fit(texts.batch(2).repeat())


def test_other_models_are_refused(language_model_dir):
    with pytest.raises(ValueError, match="`checkpoint` must be of an encoder of texts"):
        TextPreprocessor(load_pretrained(language_model_dir))
