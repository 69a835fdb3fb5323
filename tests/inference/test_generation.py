"""Probabilities word by word are those of one pass; what is drawn and what is not."""

import itertools

import numpy as np
import pytest

from seg_tf.inference import perplexity, word_segments
from seg_tf.inference.generation import TextGenerator
from seg_tf.inference.language_model import LanguageModel
from seg_tf.inference.sampling import Sampling
from tests.inference import tiny_language_model as tiny

pytestmark = pytest.mark.slow

# The text begins with an <eos>, in a sentence and a paragraph of its own.
WORDS = ["<eos>", *tiny.WORDS_OF_TEXT]
SENTENCES = [0, *(1 + one for one in tiny.SENTENCES_OF_TEXT)]
PARAGRAPHS = [0, *(1 + one for one in tiny.PARAGRAPHS_OF_TEXT)]


def word_by_word(model, prompt, num_given):
    """Log probabilities of the word after the prompt, and after each further one."""
    generator = TextGenerator(model, prompt)
    found = [generator.log_probabilities]
    for token_id in tiny.ids_of(WORDS[num_given:]):
        generator.append(token_id)
        found.append(generator.log_probabilities)
    return np.array(found)


@pytest.mark.parametrize(
    ("prompt", "num_given"),
    [
        pytest.param("", 1, id="no prompt"),
        pytest.param("= The w1 =", 5, id="inside a paragraph"),
        pytest.param("= The w1 =\n\nThe w2 the w3 .", 11, id="after a sentence"),
        pytest.param("= The w1 =\n\n", 6, id="after a paragraph"),
        pytest.param(tiny.TEXT + "\n", 32, id="all given"),
    ],
)
def test_word_by_word_is_as_in_one_pass(language_model_dir, prompt, num_given):
    model = tiny.load(language_model_dir, memory_length=40)
    expected = tiny.one_pass(model, tiny.ids_of(WORDS), SENTENCES, PARAGRAPHS)
    found = word_by_word(model, prompt, num_given)
    np.testing.assert_allclose(found, expected[num_given - 1 :], atol=1e-4)
    np.testing.assert_allclose(np.exp(found).sum(axis=1), 1, atol=1e-5)


def test_the_sentences_matter(language_model_dir):
    model = tiny.load(language_model_dir, memory_length=40)
    one_sentence = np.zeros(32, int)
    other = tiny.one_pass(model, tiny.ids_of(WORDS), one_sentence, PARAGRAPHS)
    assert np.abs(word_by_word(model, "", 1) - other).max() > 0.1


def test_with_less_memory_it_is_as_in_segments_of_one_word(
    language_model_dir, tmp_path
):
    model = tiny.load(language_model_dir)
    (tmp_path / "text").write_text(tiny.TEXT)
    text = word_segments.read_text({"": tmp_path / "text"}, model)
    segments = word_segments.segments(text, 1, 1)
    measured = perplexity.measure(model, segments)
    generator = TextGenerator(model)
    losses = []
    for token_id in text.token_ids.tolist():
        losses.append(-generator.log_probabilities[token_id])
        generator.append(token_id)
    # The text alone has no <eos> before it, which memory forgets after two layers of 4.
    reached = 2 * tiny.MEMORY_LENGTH + 1
    text_from_there = word_segments.segments(text, 1, 1)
    before = perplexity.measure(model, itertools.islice(text_from_there, reached))
    assert sum(losses[1 + reached :]) == pytest.approx(
        measured.loss_sum - before.loss_sum, abs=1e-3
    )
    one_pass = tiny.load(language_model_dir, memory_length=40)
    assert abs(np.mean(losses[1:]) - tiny.losses_of_text(one_pass).mean()) > 1e-3


@pytest.mark.parametrize("position_parts", [("token",), ("token", "sentence")])
def test_other_position_parts(tmp_path, position_parts):
    run_dir = tiny.write_checkpoint(tmp_path, position_parts=position_parts)
    model = tiny.load(run_dir, memory_length=40)
    expected = tiny.one_pass(model, tiny.ids_of(WORDS), SENTENCES, PARAGRAPHS)
    np.testing.assert_allclose(word_by_word(model, "", 1), expected, atol=1e-4)


def draw(model, seed, count=24, prompt="The w2", **settings):
    generator = TextGenerator(model, prompt)
    words = generator.sample(Sampling(**settings), np.random.default_rng(seed))
    return list(itertools.islice(words, count))


def test_a_seed_gives_a_text(language_model_dir):
    model = tiny.load(language_model_dir)
    assert draw(model, 1) == draw(model, 1)
    assert draw(model, 1) != draw(model, 2)
    assert draw(model, 1, temperature=0.0) == draw(model, 2, temperature=0.0)


def test_a_model_writes_on(language_model_dir):
    model = LanguageModel.from_preset(language_model_dir)
    written = model.generate("The w2", num_words=24, seed=3)
    assert written.startswith("The w2")
    shown = TextGenerator(model, "The w2").text
    expected = ""
    for token_id in draw(model, 3):
        expected += shown.shown(token_id)
        shown.append(token_id)
    assert written == "The w2" + expected


def test_the_most_probable_follow_one_another(language_model_dir):
    model = tiny.load(language_model_dir, memory_length=40)
    drawn = draw(model, 0, count=12, temperature=0.0)
    generator = TextGenerator(model, "The w2")
    for token_id in drawn:
        allowed = generator.log_probabilities.copy()
        allowed[model.vocabulary.unk_id] = -np.inf
        if generator.text.begins_paragraph:
            allowed[model.vocabulary.eos_id] = -np.inf
        assert token_id == int(np.argmax(allowed))
        generator.append(token_id)


def test_neither_unknown_words_nor_empty_paragraphs_are_drawn(language_model_dir):
    model = tiny.load_anew(language_model_dir)
    # As if these two were nearly certain.
    log_probabilities = model.objective.log_probabilities
    likely = np.zeros(model.vocabulary.size, np.float32)
    likely[[model.vocabulary.eos_id, model.vocabulary.unk_id]] = 20.0
    model.objective.log_probabilities = lambda hidden: (
        log_probabilities(hidden) + likely
    )
    drawn = np.array(draw(model, 0, prompt=""))
    assert model.vocabulary.unk_id not in drawn
    is_end = drawn == model.vocabulary.eos_id
    # So that a word and an <eos> take turns.
    np.testing.assert_array_equal(is_end, np.arange(24) % 2)
