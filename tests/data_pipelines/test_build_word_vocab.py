"""The words of a corpus, the most frequent first."""

import contextlib
from collections import Counter

import pytest

from data_pipelines.build_word_vocab import WordVocabularyOptions, build_word_vocabulary
from data_pipelines.builds import word_counts
from seg_tf.text.normalization import CASED, word_splitter
from seg_tf.text.vocabulary import WordVocabulary
from tests import command_calls
from tests.sample_data import sample_data


@pytest.fixture
def corpus(tmp_path):
    """Two documents of two paragraphs: 11 words between spaces, 4 ends."""
    folder = tmp_path / "text"
    folder.mkdir()
    (folder / "0.txt").write_text("b b a-c a-c\n\nb The <unk>\n")
    (folder / "1.txt").write_text("<unk> <unk>\n\n<eos> Été\n")
    return folder


def build(path, format="plain_text", **options):
    options = {"tokenizer": "whitespace", **options}
    return build_word_vocabulary(format, str(path), WordVocabularyOptions(**options))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # <unk> stands three times in the text, and once for the literal <eos>.
        pytest.param(
            {"min_count": 1}, "<eos> <unk> b a-c The Été", id="whitespace, all"
        ),
        pytest.param({"min_count": 2}, "<eos> <unk> b a-c", id="at least twice"),
        pytest.param({"vocab_size": 3}, "<eos> <unk> b", id="so many"),
        pytest.param({"vocab_size": 9, "min_count": 3}, "<eos> <unk> b", id="both"),
        pytest.param(
            {"min_count": 1, "lower_case": True},
            "<eos> <unk> b a-c ete the",
            id="lower case",
        ),
        pytest.param(
            {"min_count": 2, "tokenizer": "words"},
            "<eos> <unk> < > b unk - a c",
            id="words",
        ),
    ],
)
def test_words_stand_by_falling_frequency(corpus, options, expected):
    assert build(corpus, **options).tokens == tuple(expected.split())


def test_unknown_words_stand_where_their_frequency_puts_them(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("a a a a b b <unk> <unk> <unk> c")
    assert build(path, min_count=1).tokens == ("<eos>", "a", "<unk>", "b", "c")
    # c too is unknown then: as frequent as a, and before it in the order of words.
    assert build(path, min_count=2).tokens == ("<eos>", "<unk>", "a", "b")
    path.write_text("a a a a b b c")
    assert build(path, min_count=2).tokens == ("<eos>", "<unk>", "a", "b")


def test_what_is_covered_is_said(corpus, capsys):
    build(corpus, vocab_size=3)
    said = " ".join(capsys.readouterr().err.split())
    # 11 words: 3 b are known, 3 <unk> are not known in the text itself.
    assert "15 tokens: 11 words, 4 of them distinct, and 4 <eos>" in said
    assert "8 tokens (53.33%) are <unk>, 3 of them so in the text" in said
    assert "forgotten" not in said


def test_forgetting_rare_words_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(word_counts, "_MAX_CHUNKS", 10)
    path = tmp_path / "a.txt"
    path.write_text("\n\n".join(f"often rare{number}" for number in range(100)))
    vocabulary = build(path, vocab_size=3, max_words=5)
    assert vocabulary.tokens == ("<eos>", "<unk>", "often")
    said = capsys.readouterr().err
    assert "300 tokens: 200 words" in said
    assert "100 tokens (33.33%) are <unk>" in said
    assert "max_words=5: the rarest were forgotten" in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "`vocab_size` or `min_count`.*neither"),
        ({"vocab_size": 2}, "`vocab_size` must leave room.*vocab_size=2"),
        ({"vocab_size": 7, "max_words": 6}, "at most `max_words`.*max_words=6"),
        ({"min_count": 1, "tokenizer": "word_pieces"}, "`tokenizer` must be one of"),
        ({"min_count": 9}, "No word of .* occurs min_count=9 times: 11 words"),
    ],
)
def test_what_makes_no_vocabulary_is_refused(corpus, options, message):
    with pytest.raises(ValueError, match=message):
        build(corpus, **options)


def test_vocabulary_of_wikitext_equals_an_independent_count():
    path = sample_data("wikitext-2", "wiki.valid.tokens")
    counts = Counter(path.read_text(encoding="utf-8").split())
    tokens = build(path, "wikitext", min_count=1).tokens
    assert tokens[0] == "<eos>"
    assert set(tokens[1:]) == set(counts)
    frequencies = [counts[token] for token in tokens[1:]]
    assert frequencies == sorted(frequencies, reverse=True)
    assert 1 < tokens.index("<unk>") < 20


@pytest.mark.slow
def test_words_of_text_equal_an_independent_count():
    path = sample_data("gutenberg")
    tokens = build(path, tokenizer="words", vocab_size=500).tokens
    split = word_splitter(CASED)
    counts = Counter()
    for file in path.rglob("*.txt"):
        with contextlib.suppress(UnicodeDecodeError):  # left out by the reader too
            counts.update(split(file.read_text(encoding="utf-8-sig")))
    assert tokens[:2] == ("<eos>", "<unk>")
    assert {word for word, _ in counts.most_common(450)} <= set(tokens)


def test_the_script_writes_the_same_file_in_every_process(corpus, monkeypatch):
    """Though sets of strings have another order in each."""
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    output = corpus.parent / "out" / "words.txt"
    command = (
        *("data_pipelines.build_word_vocab", "--format=plain_text"),
        *(f"--input={corpus}", f"--output={output}"),
        *("--tokenizer=words", "--vocab_size=8"),
    )
    process = command_calls.python("-m", *command)
    printed, errors = process.communicate()
    assert process.returncode == 0, errors
    assert "8 tokens in" in printed
    here = build(corpus, tokenizer="words", vocab_size=8)
    assert WordVocabulary.from_file(output).tokens == here.tokens
    again = command_calls.call(*command)
    assert again.returncode == 1
    assert "--output must not exist" in again.stderr
