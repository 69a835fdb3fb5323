"""Word by word, a text gets the counters that it has as a whole."""

import numpy as np
import pytest

from seg_tf.inference import word_segments
from seg_tf.inference.growing_text import GrowingText
from seg_tf.text.normalization import CASED, word_splitter
from seg_tf.text.vocabulary import WordVocabulary
from tests.inference import tiny_language_model as tiny
from tests.sample_data import sample_data

pytestmark = pytest.mark.slow

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
    return model, word_segments.read_text({"": folder / "text.txt"}, model)


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
        pytest.param(tiny.TEXT, "whitespace", id="plain"),
        pytest.param(SPLIT_TEXT, "whitespace", id="marks apart"),
        pytest.param(RAW_TEXT, "words", id="marks joined"),
    ],
)
def test_counters_are_those_of_the_whole_text(tmp_path, content, tokenizer):
    model, text = load(tmp_path, content, tokenizer)
    assert max(text.sentences) > max(text.paragraphs) > 0
    assert grow(model, text, "", 0) == expected(text)
    # All of the text, but the last <eos>, as a prompt.
    prompt = content.rstrip()
    assert grow(model, text, prompt, len(text.token_ids) - 1) == expected(text)


def test_wikitext_too(tmp_path):
    path = sample_data("wikitext-2", "wiki.valid.tokens")
    with open(path, encoding="utf-8") as file:
        content = "".join(line for line, _ in zip(file, range(90), strict=False))
    model, text = load(tmp_path, content, "whitespace")
    assert text.sentences[-1] > 150
    assert grow(model, text, "", 0) == expected(text)


@pytest.mark.parametrize("num_lines", [1, 3])
def test_a_prompt_is_continued_at_any_word(tmp_path, num_lines):
    model, text = load(tmp_path, SPLIT_TEXT, "whitespace")
    lines = SPLIT_TEXT.split("\n")
    before, line = lines[: num_lines - 1], lines[num_lines - 1]
    num_before = sum(len(one.split()) + 1 for one in before if one.split())
    words = line.split()
    for count in range(1, len(words)):
        prompt = "\n".join([*before, " ".join(words[:count])])
        found = grow(model, text, prompt, num_before + count)
        assert found == expected(text), prompt


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
        shown += growing.shown(token_id)
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
