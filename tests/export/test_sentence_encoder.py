"""Vectors of texts and of their sentences, against a text alone in Keras."""

import numpy as np
import pytest

from seg_tf.export.sentence_encoder import SentenceEncoder
from seg_tf.inference import text_windows
from seg_tf.inference.long_texts import LongTexts
from tests.finetuning import tiny_models
from tests.inference.tiny_slm import SPLITTER

pytestmark = pytest.mark.slow

# Of other lengths than their order, with and without paragraphs, too long, and empty.
TEXTS = [
    "W1 w2 w3. W4 w5.\nW6.",
    "W7 w8.",
    "W9 w10 w11 w12. " * 30,
    "",
    "W2. W13 w1\n\nW2 w3.",
]


def window_alone(pretrained, text):
    tree = text_windows.read_tree(text.split("\n"), pretrained, SPLITTER)
    capacity = text_windows.window_capacity(pretrained)
    window = text_windows.lay_out(text_windows.first_window(tree, capacity), pretrained)
    return window, pretrained.encoder(window.features, training=False)[0].numpy()


@pytest.mark.parametrize("kind", ["segabert", "slm", "modern"])
def test_vectors_are_those_of_each_text_alone(kind):
    pretrained = tiny_models.tiny(kind)
    encoder = SentenceEncoder(pretrained)
    means = encoder.encode(TEXTS, batch_size=2)
    firsts = encoder.encode(TEXTS, "cls")
    in_context = encoder.encode_sentences(TEXTS, batch_size=2)
    sents = encoder.encode(TEXTS, "sent") if kind == "slm" else None
    for number, text in enumerate(TEXTS):
        if not text:
            assert not means[number].any()
            assert in_context[number].sentences == ()
            assert in_context[number].vectors.shape == (0, means.shape[1])
            continue
        window, sequence = window_alone(pretrained, text)
        close = {"atol": 3e-6, "rtol": 3e-6}
        np.testing.assert_allclose(
            means[number], sequence[window.is_piece].mean(axis=0), **close
        )
        np.testing.assert_allclose(firsts[number], sequence[0], **close)
        found = in_context[number]
        is_sent = np.array(window.tokens) == "[SENT]"
        of_each = [
            sequence[
                (window.sentences == one)
                & (is_sent if kind == "slm" else window.is_piece)
            ]
            for one in range(window.num_sentences)
        ]
        expected = np.array([one.mean(axis=0) for one in of_each])
        np.testing.assert_allclose(found.vectors, expected, **close)
        assert (
            list(found.sentences)
            == [one for line in text.split("\n") for one in SPLITTER.split(line)][
                : window.num_sentences
            ]
        )
        assert found.is_cut == (number == 2)
        if sents is not None:
            np.testing.assert_allclose(sents[number], expected.mean(axis=0), **close)


def test_long_texts_have_the_mean_of_their_sentences():
    pretrained = tiny_models.tiny("reat")
    encoder = SentenceEncoder(pretrained)
    text = TEXTS[0]
    sentences = [one for line in text.split("\n") for one in SPLITTER.split(line)]
    expected = LongTexts(pretrained).encode(sentences).vectors
    (found,) = encoder.encode_sentences([text])
    np.testing.assert_allclose(found.vectors, expected, atol=3e-6)
    for vectors in ("mean", "sent"):
        np.testing.assert_allclose(
            encoder.encode([text], vectors)[0], expected.mean(axis=0), atol=3e-6
        )


@pytest.mark.parametrize(
    ("kind", "vectors", "names"),
    [("bert", "sent", "mean, cls"), ("reat", "cls", "mean, sent"), ("slm", "max", "")],
)
def test_vectors_that_a_model_has_not_are_refused(kind, vectors, names):
    encoder = SentenceEncoder(tiny_models.tiny(kind))
    with pytest.raises(ValueError, match=f"one of {names}.*Received: '{vectors}'"):
        encoder.encode(["W1."], vectors)
    with pytest.raises(ValueError, match=r"`batch_size` must .* batch_size=0"):
        encoder.encode(["W1."], batch_size=0)
