"""Probabilities word by word are those of one pass; what is drawn and what is not."""

import itertools

import numpy as np
import pytest

from seg_tf.inference.language_model import (
    GrowingText,
    LanguageModel,
    Sampling,
    TextGenerator,
)
from seg_tf.text.normalization import CASED, word_splitter
from seg_tf.text.vocabulary import WordVocabulary
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


def test_with_less_memory_it_is_as_in_segments_of_one_word(
    language_model_dir,
):
    model = tiny.load(language_model_dir)
    text = model.word_text(tiny.TEXT.split("\n"))
    measured = model.measure(text.segments(1))
    generator = TextGenerator(model)
    losses = []
    for token_id in text.token_ids.tolist():
        losses.append(-generator.log_probabilities[token_id])
        generator.append(token_id)
    # The text alone has no <eos> before it, which memory forgets after two layers of 4.
    reached = 2 * tiny.MEMORY_LENGTH + 1
    before = model.measure(itertools.islice(text.segments(1), reached))
    assert sum(losses[1 + reached :]) == pytest.approx(
        measured.loss_sum - before.loss_sum, abs=1e-3
    )
    one_pass = tiny.load(language_model_dir, memory_length=40)
    assert abs(np.mean(losses[1:]) - tiny.losses_of_text(one_pass).mean()) > 1e-3


def draw(model, seed, count=24, prompt="The w2", **settings):
    generator = TextGenerator(model, prompt)
    words = generator.sample(Sampling(**settings), np.random.default_rng(seed))
    return list(itertools.islice(words, count))


def test_a_model_writes_on_and_a_seed_gives_a_text(language_model_dir):
    model = LanguageModel.from_preset(language_model_dir)
    drawn = draw(model, 1)
    assert drawn != draw(model, 2)
    assert draw(model, 1, temperature=0.0) == draw(model, 2, temperature=0.0)
    shown, expected = GrowingText(model, "The w2"), "The w2"
    for token_id in drawn:
        expected += shown.spell(token_id)
        shown.append(token_id)
    for prompt in ("The w2", "The w2 \n"):
        assert model.generate(prompt, num_words=24, seed=1) == expected


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


# === Sampling ===

PROBABILITIES = np.array([0.05, 0.4, 0.0, 0.25, 0.3])
with np.errstate(divide="ignore"):
    LOG_PROBABILITIES = np.log(PROBABILITIES)


def frequencies(sampling, log_probabilities=LOG_PROBABILITIES, count=20_000):
    random = np.random.default_rng(0)
    drawn = [sampling.choose(log_probabilities, random) for _ in range(count)]
    return np.bincount(drawn, minlength=5) / count


@pytest.mark.parametrize(
    ("settings", "weights"),
    [
        ({}, [0.05, 0.4, 0, 0.25, 0.3]),
        ({"temperature": 0.5}, [0.0025, 0.16, 0, 0.0625, 0.09]),
        ({"temperature": 2.0}, [0.05**0.5, 0.4**0.5, 0, 0.5, 0.3**0.5]),
        ({"temperature": 0.0}, [0, 1, 0, 0, 0]),
        ({"top_k": 2}, [0, 0.4, 0, 0, 0.3]),
        ({"top_k": 50}, [0.05, 0.4, 0, 0.25, 0.3]),
        ({"top_p": 0.41}, [0, 0.4, 0, 0, 0.3]),
        ({"top_p": 0.71}, [0, 0.4, 0, 0.25, 0.3]),
        # 0.4 is 0.57 of what the two have together.
        ({"top_k": 2, "top_p": 0.5}, [0, 1, 0, 0, 0]),
        # After the temperature: 0.16 of 0.315 is more than half.
        ({"temperature": 0.5, "top_p": 0.5}, [0, 1, 0, 0, 0]),
    ],
)
def test_each_is_drawn_by_its_probability(settings, weights):
    found = frequencies(Sampling(**settings))
    expected = np.array(weights) / np.sum(weights)
    np.testing.assert_allclose(found, expected, atol=0.015)
    np.testing.assert_array_equal(found[expected == 0], 0)


@pytest.mark.parametrize(
    "settings", [{"temperature": -1.0}, {"top_k": -1}, {"top_p": 0.0}, {"top_p": 1.1}]
)
def test_settings_out_of_range_are_refused(settings):
    ((name, value),) = settings.items()
    with pytest.raises(ValueError, match=f"Received: .*{name}={value}"):
        Sampling(**settings)


# === Growing text ===

SPLIT_TEXT = """\
 = = A <unk> of 3 @.@ 5 = =

 Mr . Smith ( born 1970 ) said : " No . " Then he left . . . for good ?
 " Why ? ! " asked U.S. Marshal Dr. No. 1 . ; so it was .
"""
RAW_TEXT = """\
Mr. Smith (born in St. Louis) said: "No." Then he left!

He went to Washington, D.C. on Jan. 5 and said it. Why? [Nobody knows.]
It rained. 
"""  # noqa: W291 - the space must not make a difference


def load(folder, content, tokenizer):
    """A model that knows all words of a text, and the text as it reads it."""
    (folder / "text.txt").write_text(content)
    split = word_splitter(CASED) if tokenizer == "words" else str.split
    words = dict.fromkeys(["<eos>", "<unk>", *split(content)])
    run_dir = tiny.write_checkpoint(
        folder / "run", WordVocabulary(list(words)), tokenizer, cutoffs=(5, 10)
    )
    model = tiny.load(run_dir)
    lines = (folder / "text.txt").read_text(encoding="utf-8").split("\n")
    return model, model.word_text(lines)


def grow(model, text, prompt, num_given):
    """Counters of a prompt, and of the words after it, each appended."""
    growing = GrowingText(model, prompt)
    assert growing.token_ids.tolist() == [0, *text.token_ids[:num_given]]
    places = [growing.append(int(one)) for one in text.token_ids[num_given:]]
    given = zip(growing.sentences.tolist(), growing.paragraphs.tolist(), strict=True)
    return [*given, *places]


def expected(text):
    """An `<eos>` comes before, in a sentence and a paragraph of its own."""
    sentences, paragraphs = 1 + text.sentences, 1 + text.paragraphs
    return [(0, 0), *zip(sentences.tolist(), paragraphs.tolist(), strict=True)]


@pytest.mark.parametrize(
    ("content", "tokenizer"),
    [
        pytest.param(SPLIT_TEXT, "whitespace", id="marks apart"),
        pytest.param(RAW_TEXT, "words", id="marks joined"),
    ],
)
def test_counters_are_those_of_the_whole_text(tmp_path, content, tokenizer):
    model, text = load(tmp_path, content, tokenizer)
    assert max(text.sentences) > max(text.paragraphs) > 0
    assert grow(model, text, "", 0) == expected(text)
    # All of the text but the last <eos>, or but its last words, as a prompt.
    prompt = content.rstrip()
    assert grow(model, text, prompt, len(text.token_ids) - 1) == expected(text)
    if tokenizer == "whitespace":
        for count in range(1, 5):
            prompt = prompt.rpartition(" ")[0]
            given = len(text.token_ids) - 1 - count
            assert grow(model, text, prompt, given) == expected(text)


@pytest.mark.parametrize(
    ("prompt", "begins"),
    [
        ("", True),
        ("\n\n", True),
        ("The w1", False),
        ("The w1\n", False),
        ("The w1 \r\n", False),
        ("The w1\n\n", True),
        ("The w1\n \n", True),
    ],
)
def test_a_blank_line_ends_the_last_paragraph(language_model_dir, prompt, begins):
    growing = GrowingText(tiny.load(language_model_dir), prompt)
    assert growing.begins_paragraph == begins
    words = ["The", "w1"] * bool(prompt.strip())
    ends = ["<eos>"] * bool(words and begins)
    assert growing.token_ids.tolist() == tiny.ids_of(["<eos>", *words, *ends])
    number = 1 + bool(ends)
    assert growing.append(4) == (number, number)


def test_words_are_shown_as_they_are_appended(tmp_path):
    model, text = load(tmp_path, RAW_TEXT, "words")
    growing = GrowingText(model)
    shown = ""
    for token_id in text.token_ids.tolist():
        shown += growing.spell(token_id)
        growing.append(token_id)
    first, second, third = shown.rstrip("\n").split("\n")
    assert first == 'Mr. Smith (born in St. Louis) said: " No. " Then he left!'
    assert second.endswith("said it. Why? [Nobody knows.]")
    assert third == "It rained."


def test_punkt_may_think_otherwise_but_counters_never_fall(language_model_dir):
    model = tiny.load_anew(language_model_dir)
    growing = GrowingText(model)
    opinions = iter([1, 2, 1, 3])
    model.tree = lambda _: type(
        "Tree", (), {"sentence_lengths": np.ones(next(opinions))}
    )
    assert [growing.append(4)[0] for _ in range(4)] == [1, 2, 2, 3]
