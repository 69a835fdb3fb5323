"""Losses over segments with memory are those of one long pass."""

import math

import numpy as np
import pytest

from seg_tf.inference import perplexity, word_segments
from seg_tf.inference.perplexity import Measured
from tests.inference import tiny_language_model as tiny

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def text_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text(tiny.TEXT)
    return path


def measure(model, path, lanes=1, target_length=tiny.TARGET_LENGTH):
    text = word_segments.read_text({"": path}, model)
    batches = word_segments.segments(text, lanes, target_length)
    return perplexity.measure(model, batches)


@pytest.mark.parametrize("target_length", [1, 7, 30, 50])
def test_with_memory_for_all_text_segments_change_nothing(
    language_model_dir, text_path, target_length
):
    model = tiny.load(language_model_dir, memory_length=31)
    measured = measure(model, text_path, target_length=target_length)
    expected = tiny.losses_of_text(model)
    assert measured.num_predicted == len(expected) == 30
    assert measured.loss() == pytest.approx(expected.mean(), abs=1e-5)
    assert measured.perplexity() == pytest.approx(math.exp(expected.mean()), rel=1e-4)


def test_words_see_no_further_than_the_memory(language_model_dir, text_path):
    # Without memory, one layer deep or two, each segment is a pass of its own.
    model = tiny.load(language_model_dir, memory_length=0)
    measured = measure(model, text_path)
    ids = tiny.ids_of(tiny.WORDS_OF_TEXT)
    expected = []
    for begin in range(0, 30, tiny.TARGET_LENGTH):
        end = begin + tiny.TARGET_LENGTH
        log_probabilities = tiny.one_pass(
            model,
            ids[begin:end],
            tiny.SENTENCES_OF_TEXT[begin:end],
            tiny.PARAGRAPHS_OF_TEXT[begin:end],
        )
        targets = ids[begin + 1 : end + 1]
        expected += [-log_probabilities[at, one] for at, one in enumerate(targets)]
    assert len(expected) == 30
    assert measured.loss() == pytest.approx(np.mean(expected), abs=1e-5)
    assert abs(measured.loss() - tiny.losses_of_text(model).mean()) > 1e-3


def test_lanes_are_passes_of_their_own(language_model_dir, text_path):
    model = tiny.load(language_model_dir, memory_length=31)
    measured = measure(model, text_path, lanes=4)
    ids = tiny.ids_of(tiny.WORDS_OF_TEXT)
    expected = []
    for begin, end in ((0, 8), (8, 16), (16, 24), (24, 30)):
        log_probabilities = tiny.one_pass(
            model,
            ids[begin:end],
            tiny.SENTENCES_OF_TEXT[begin:end],
            tiny.PARAGRAPHS_OF_TEXT[begin:end],
        )
        targets = ids[begin + 1 : end + 1]
        expected += [-log_probabilities[at, one] for at, one in enumerate(targets)]
    assert measured.num_predicted == len(expected) == 30
    assert measured.loss() == pytest.approx(np.mean(expected), abs=1e-5)


def test_unknown_words_are_counted(language_model_dir, text_path):
    measured = measure(tiny.load(language_model_dir), text_path)
    # "=", "strange" and "@.@"; the first "=" is not predicted.
    assert measured.num_unknown == 3


def test_nothing_to_predict_is_refused(language_model_dir):
    with pytest.raises(ValueError, match="There must be a word to predict"):
        perplexity.measure(tiny.load(language_model_dir), [])


def test_ratios_are_over_the_tokens_asked_for():
    measured = Measured(loss_sum=20.0, num_predicted=10, num_unknown=0)
    assert measured.loss() == 2
    assert measured.perplexity() == pytest.approx(math.e**2)
    assert measured.loss(40) == 0.5
    assert measured.perplexity(40) == pytest.approx(math.e**0.5)
    assert Measured(1e6, 1, 0).perplexity() == math.inf
