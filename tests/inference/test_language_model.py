"""Texts as streams of words, and losses over segments as in one long pass."""

import math

import numpy as np
import pytest

from seg_tf.inference.language_model import Measured, standard_count
from tests.inference import tiny_language_model as tiny
from tests.sample_data import sample_data

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def text_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text(tiny.TEXT)
    return path


def measure(model, path, target_length=tiny.TARGET_LENGTH):
    text = model.word_text(path.read_text().split("\n"))
    return model.measure(text.segments(target_length))


@pytest.mark.parametrize("target_length", [7, 50])
def test_with_memory_for_all_text_segments_change_nothing(
    language_model_dir, text_path, target_length
):
    model = tiny.load(language_model_dir, memory_length=31)
    measured = measure(model, text_path, target_length=target_length)
    expected = tiny.losses_of_text(model)
    assert measured.num_predicted == len(expected) == 30
    assert measured.loss() == pytest.approx(expected.mean(), abs=1e-5)
    assert measured.perplexity() == pytest.approx(math.exp(expected.mean()), rel=1e-4)


def test_without_memory_words_see_only_their_segment(language_model_dir, text_path):
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
    assert measured.num_predicted == len(expected) == 30
    assert measured.loss() == pytest.approx(np.mean(expected), abs=1e-5)
    assert abs(measured.loss() - tiny.losses_of_text(model).mean()) > 1e-3


def test_unknown_words_are_counted(language_model_dir, text_path):
    measured = measure(tiny.load(language_model_dir), text_path)
    # "=", "strange" and "@.@"; the first "=" is not predicted.
    assert measured.num_unknown == 3


def test_ratios_are_over_the_tokens_asked_for():
    measured = Measured(loss_sum=20.0, num_predicted=10, num_unknown=0)
    assert measured.loss() == 2
    assert measured.perplexity() == pytest.approx(math.e**2)
    assert measured.loss(40) == 0.5
    assert measured.perplexity(40) == pytest.approx(math.e**0.5)


# === Texts as words ===


@pytest.fixture(scope="module")
def model(language_model_dir):
    return tiny.load(language_model_dir)


def read(model, folder, *contents):
    for number, content in enumerate(contents):
        (folder / f"{number}.txt").write_text(content)
    return model.word_text("\n".join(contents).split("\n"))


def test_words_know_their_sentence_and_paragraph(model, tmp_path):
    text = read(model, tmp_path, tiny.TEXT)
    assert text.token_ids.tolist() == tiny.ids_of(tiny.WORDS_OF_TEXT)
    assert text.sentences.tolist() == tiny.SENTENCES_OF_TEXT
    assert text.paragraphs.tolist() == tiny.PARAGRAPHS_OF_TEXT
    # Three <eos> that are there, two of the blank lines that are not.
    count = standard_count([tmp_path / "0.txt"])
    assert count == len(tiny.WORDS_OF_TEXT) + 2
    assert standard_count([tmp_path / "0.txt"] * 2) == 2 * count


def test_files_are_read_as_one(model, tmp_path):
    once = read(model, tmp_path, tiny.TEXT)
    twice = read(model, tmp_path, tiny.TEXT, "", tiny.TEXT)
    assert twice.token_ids.tolist() == once.token_ids.tolist() * 2
    np.testing.assert_array_equal(twice.sentences[31:], once.sentences + 6)
    np.testing.assert_array_equal(twice.paragraphs[31:], once.paragraphs + 3)


def test_wikitext_has_its_standard_count(model):
    path = sample_data("wikitext-2", "wiki.valid.tokens")
    assert standard_count([path]) == 217_646
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    num_blank = sum(not line.strip() for line in lines)
    assert len(model.word_text(lines).token_ids) + num_blank == 217_646
