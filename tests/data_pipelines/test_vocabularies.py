"""Word counts, and the commands that make vocabularies of pieces and of words."""

import contextlib
import logging
import random
import unicodedata
from collections import Counter

import pytest

from data_pipelines.build_vocab import VocabularyOptions, build_vocabulary
from data_pipelines.build_word_vocab import WordVocabularyOptions, build_word_vocabulary
from data_pipelines.builds import vocabularies
from data_pipelines.builds.vocabularies import WordCounter, learn_pieces
from seg_tf.text.normalization import (
    CASED,
    UNCASED,
    Normalization,
    choose_normalization,
    exact_normalizer,
    word_splitter,
)
from seg_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary, WordVocabulary
from seg_tf.text.word_pieces import WordPieces
from tests import command_calls
from tests.sample_data import sample_data

SYLLABLES = ["ba", "ko", "ri", "tum", "sel", "nap", "do", "gu", "vex", "qui"]
OPTIONS = VocabularyOptions(vocab_size=120, num_unused=3)


def made_up_text(num_paragraphs, seed=0):
    """Words of up to three syllables, some much more frequent than others."""
    generator = random.Random(seed)
    words = ["".join(generator.choices(SYLLABLES, k=k)) for k in [1, 2, 3] * 60]
    weights = [1 / (rank + 1) for rank in range(len(words))]
    for _ in range(num_paragraphs):
        yield " ".join(generator.choices(words, weights, k=30)).capitalize() + "!"


def counts_of(texts, normalization=UNCASED):
    counter = WordCounter(word_splitter(normalization), max_words=10_000)
    for text in texts:
        counter.add(text)
    return counter.counts()


# --- Counting ---------------------------------------------------------------------


@pytest.mark.parametrize("normalization", [UNCASED, CASED])
def test_counts_are_of_words_as_the_tokenizer_splits_them(normalization):
    texts = [
        "Été, été… l'ÉTÉ!",
        "a\tb\x85c  d\u00a0e",
        "中文 中",
        "x\u200by \udc80z",
        "",
    ]
    split = word_splitter(normalization)
    expected = Counter(word for text in texts for word in split(text))
    counts = counts_of(texts, normalization)
    assert counts == expected
    assert list(counts) == sorted(counts, key=lambda word: (-counts[word], word))
    assert expected["été" if normalization == CASED else "ete"] in (1, 3)


def test_memory_is_bounded_and_frequent_words_stay_exact(monkeypatch):
    monkeypatch.setattr(vocabularies, "_MAX_CHUNKS", 50)
    counter = WordCounter(word_splitter(UNCASED), max_words=20)
    for number in range(5_000):
        counter.add(f"often twice twice rare{number}")
        assert len(counter._chunks) <= 50 + 3
        assert len(counter._words) <= 4 * 20 + 51
    counts = counter.counts()
    assert len(counts) == 20
    assert (counts["twice"], counts["often"]) == (10_000, 5_000)
    assert (counter.num_words, counter.num_texts) == (20_000, 5_000)
    assert counter.has_forgotten


# --- Learning ---------------------------------------------------------------------


def test_the_size_is_exact_and_the_order_of_words_changes_nothing():
    items = list(counts_of(made_up_text(300)).items())
    for vocab_size in (60, 150):
        expected = learn_pieces(dict(items), vocab_size, SPECIAL_TOKENS)
        assert len(expected) == len(set(expected)) == vocab_size
        assert tuple(expected[:5]) == SPECIAL_TOKENS
        shuffled = random.Random(vocab_size).sample(items, len(items))
        assert learn_pieces(dict(shuffled), vocab_size, SPECIAL_TOKENS) == expected
    # Frequent words are one piece each.
    assert {word for word, _ in items[:10]} <= set(expected)


def test_fewer_pieces_only_where_the_words_have_no_more():
    tokens = learn_pieces({"ab": 3}, 1000, SPECIAL_TOKENS)
    assert set(tokens) == {*SPECIAL_TOKENS, "a", "b", "##a", "##b", "ab"}


def test_every_character_can_be_encoded_wherever_it_stands():
    counts = counts_of(["zebra zebra, été 中文 don't ß x9"])
    tokens = learn_pieces(counts, 80, SPECIAL_TOKENS)
    letters = {c for word in counts if len(word) > 1 for c in word}
    assert set("".join(counts)) | {f"##{c}" for c in letters} <= set(tokens)
    assert "##中" not in tokens  # An ideograph is a word.
    pieces = WordPieces(Vocabulary(tokens))
    ids, _ = pieces.encode(["arbez 中, x'ßet9z 文zz"])
    assert pieces.vocabulary.unk_id not in ids


@pytest.mark.parametrize("exponent", [0.3, 0.7, 1.5])
def test_the_threshold_is_found_in_a_few_steps(exponent):
    """For sizes that fall as a power, from starts that are far off."""

    def tokens_at(threshold):
        return ["x"] * int(50 + 90_000 * threshold**-exponent)

    for start in (1, 30, 100_000):
        steps = []
        tokens = vocabularies.search_threshold(
            tokens_at, 1050, 50, start, 10**6, lambda *step, to=steps: to.append(step)
        )
        assert len(tokens) == 1050
        assert len(steps) <= 7, steps


@pytest.mark.parametrize(
    ("counts", "vocab_size", "message"),
    [({}, 100, "must contain words"), ({"a": 1}, 6, "must leave room .* 6$")],
)
def test_impossible_vocabularies_are_refused(counts, vocab_size, message):
    with pytest.raises(ValueError, match=message):
        learn_pieces(counts, vocab_size, SPECIAL_TOKENS)
    with pytest.raises(ValueError, match="`vocab_size` must be above the 15 rows"):
        VocabularyOptions(vocab_size=16)


# --- Pieces of a corpus -----------------------------------------------------------


@pytest.fixture
def corpus(tmp_path):
    folder = tmp_path / "text"
    folder.mkdir()
    for number in range(3):
        text = "\n\n".join(made_up_text(60, seed=number))
        (folder / f"{number}.txt").write_text(text, encoding="utf-8")
    return folder


def test_pieces_of_a_corpus(corpus, capsys):
    texts = [path.read_text(encoding="utf-8") for path in corpus.iterdir()]
    (corpus / "empty.txt").write_bytes(b"\xff\xfe\xff")
    vocabulary = build_vocabulary("plain_text", str(corpus), OPTIONS)
    assert vocabulary.size == 120
    unused = ("[unused0]", "[unused1]", "[unused2]")
    assert vocabulary.tokens[:8] == (*SPECIAL_TOKENS, *unused)
    ids, _ = WordPieces(vocabulary).encode(texts)
    assert vocabulary.unk_id not in ids
    assert "left out: 1 " in capsys.readouterr().err


MARKED = {
    "Hindi": "हिन्दी में कुछ शब्द और उनके अर्थ",
    "Japanese": "がっこうのペンとかばん",
    "decomposed": "E\u0301te\u0301",
}


@pytest.mark.parametrize("text", MARKED.values(), ids=MARKED)
@pytest.mark.parametrize("lower_case", [True, False])
def test_stripped_marks_lead_to_a_warning(tmp_path, caplog, text, lower_case):
    (tmp_path / "text.txt").write_text(f"{text} 12. {text}", encoding="utf-8")
    options = VocabularyOptions(vocab_size=200, lower_case=lower_case)
    with caplog.at_level(logging.WARNING):
        vocabulary = build_vocabulary("plain_text", str(tmp_path), options)
    assert ("--nostrip_accents" in caplog.text) == lower_case
    # Counted here by Hugging Face's normalizer: characters that it changes.
    strip = exact_normalizer(
        Normalization(False, strip_accents=True), letters_only=True
    ).normalize_str
    stripped = [c for c in text if strip(c) != c]
    letters = [c for c in text if unicodedata.category(c)[0] in "LM"]
    assert (f"({2 * len(stripped)} of {2 * len(letters)})" in caplog.text) == lower_case
    # The flag in the warning keeps them, and so do records made with the vocabulary.
    caplog.clear()
    options = VocabularyOptions(vocab_size=200, lower_case=True, strip_accents=False)
    unstripped = build_vocabulary("plain_text", str(tmp_path), options)
    assert not caplog.records
    assert any(c.lower() in "".join(unstripped.tokens) for c in stripped)
    assert lower_case != any(c in "".join(vocabulary.tokens) for c in stripped)
    assert choose_normalization(unstripped).strip_accents is False


def test_few_accents_are_counted_without_a_warning(tmp_path, capsys, caplog):
    text = "A café is a place for coffee. " + "Nothing else has an accent here. " * 9
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    build_vocabulary("plain_text", str(tmp_path), VocabularyOptions(vocab_size=100))
    letters = sum(map(str.isalpha, text))
    assert f"letters and marks (1 of {letters})" in capsys.readouterr().err
    assert not caplog.records


def test_rare_characters_beyond_the_limit_are_counted(tmp_path, capsys):
    """A script whose characters are words: a thousand frequent, a hundred rare."""
    frequent, rare = (
        "".join(map(chr, range(first, last)))
        for first, last in ((0x4E00, 0x51E8), (0x51E8, 0x524C))
    )
    (tmp_path / "text.txt").write_text(f"{frequent}。\n\n{frequent}。{rare} [U]")
    options = VocabularyOptions(vocab_size=9000, max_characters=1004)
    vocabulary = build_vocabulary("plain_text", str(tmp_path), options)
    # 2,000 ideographs, two full stops, the last three, and the hundred.
    share = f"{100 / 2105:.2%}"
    assert f"100 rare characters get no piece: {share} " in capsys.readouterr().err
    tokens = set(vocabulary.tokens)
    assert tokens.issuperset(frequent + "。[]u")
    assert tokens.isdisjoint(rare)
    options = VocabularyOptions(vocab_size=9000, max_characters=8000)
    vocabulary = build_vocabulary("plain_text", str(tmp_path), options)
    assert "get no piece" not in capsys.readouterr().err
    assert tokens.union(rare) == set(vocabulary.tokens)


def test_a_corpus_without_words_is_named(tmp_path):
    path = tmp_path / "marks.txt"
    path.write_text("\u200b\u200b", encoding="utf-8")
    with pytest.raises(ValueError, match=r"No words .*marks\.txt.* as plain_text"):
        build_vocabulary("plain_text", str(path), OPTIONS)


def test_a_full_disk_leaves_nothing_half_written(tmp_path, monkeypatch):
    def full_disk(*_):
        raise OSError(28, "No space left on device")

    output = tmp_path / "vocab.txt"
    output.write_text("before")
    monkeypatch.setattr(vocabularies.files.os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space"):
        vocabularies.write_vocabulary(Vocabulary(SPECIAL_TOKENS), output)
    assert output.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["vocab.txt"]


# --- Words of a corpus ------------------------------------------------------------


@pytest.fixture
def words(tmp_path):
    """Two documents of two paragraphs: 11 words between spaces, 4 ends."""
    folder = tmp_path / "words"
    folder.mkdir()
    (folder / "0.txt").write_text("b b a-c a-c\n\nb The <unk>\n")
    (folder / "1.txt").write_text("<unk> <unk>\n\n<eos> Été\n")
    return folder


def build_words(path, format="plain_text", **options):
    options = WordVocabularyOptions(**{"tokenizer": "whitespace", **options})
    return build_word_vocabulary(format, str(path), options)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # <unk> stands three times in the text, and once for the literal <eos>.
        ({"min_count": 1}, "<eos> <unk> b a-c The Été"),
        ({"min_count": 2}, "<eos> <unk> b a-c"),
        ({"vocab_size": 9, "min_count": 3}, "<eos> <unk> b"),
        ({"min_count": 1, "lower_case": True}, "<eos> <unk> b a-c ete the"),
        ({"min_count": 2, "tokenizer": "words"}, "<eos> <unk> < > b unk - a c"),
    ],
)
def test_words_are_sorted_by_falling_frequency(words, options, expected):
    assert build_words(words, **options).tokens == tuple(expected.split())


def test_unknown_words_have_the_place_of_their_frequency(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("a a a a b b <unk> <unk> <unk> c")
    assert build_words(path, min_count=1).tokens == ("<eos>", "a", "<unk>", "b", "c")
    # c too is unknown then: as frequent as a, and before it in the order of words.
    assert build_words(path, min_count=2).tokens == ("<eos>", "<unk>", "a", "b")
    path.write_text("a a a a b b c")
    assert build_words(path, min_count=2).tokens == ("<eos>", "<unk>", "a", "b")


def test_coverage_and_dropped_words_are_reported(words, tmp_path, monkeypatch, capsys):
    build_words(words, vocab_size=3)
    output = " ".join(capsys.readouterr().err.split())
    # 11 words: 3 b are known, 3 <unk> are unknown in the text itself.
    assert "15 tokens: 11 words, 4 of them distinct, and 4 <eos>" in output
    assert "8 tokens (53.33%) are <unk>, 3 of them literally in the text" in output
    assert "dropped" not in output
    monkeypatch.setattr(vocabularies, "_MAX_CHUNKS", 10)
    path = tmp_path / "a.txt"
    path.write_text("\n\n".join(f"often rare{number}" for number in range(100)))
    vocabulary = build_words(path, vocab_size=3, max_words=5)
    assert vocabulary.tokens == ("<eos>", "<unk>", "often")
    output = capsys.readouterr().err
    assert "100 tokens (33.33%) are <unk>" in output
    assert "max_words=5: the rarest were dropped" in output


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
def test_impossible_word_vocabularies_are_refused(words, options, message):
    with pytest.raises(ValueError, match=message):
        build_words(words, **options)


@pytest.mark.slow
def test_words_of_text_equal_an_independent_count():
    path = sample_data("wikitext-2", "wiki.valid.tokens")
    counts = Counter(path.read_text(encoding="utf-8").split())
    tokens = build_words(path, "wikitext", min_count=1).tokens
    assert set(tokens[1:]) == set(counts)
    frequencies = [counts[token] for token in tokens[1:]]
    assert frequencies == sorted(frequencies, reverse=True)
    assert 1 < tokens.index("<unk>") < 20
    path = sample_data("gutenberg")
    tokens = build_words(path, tokenizer="words", vocab_size=500).tokens
    split, counts = word_splitter(CASED), Counter()
    for file in path.rglob("*.txt"):
        with contextlib.suppress(UnicodeDecodeError):  # The reader rejects it too.
            counts.update(split(file.read_text(encoding="utf-8-sig")))
    assert tokens[:2] == ("<eos>", "<unk>")
    assert {word for word, _ in counts.most_common(450)} <= set(tokens)


# --- The commands -----------------------------------------------------------------


@pytest.mark.slow
def test_commands_write_the_same_file_in_every_process(
    corpus, words, tmp_path, monkeypatch
):
    """Although sets of strings have another order in each."""
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    flags = ("--vocab_size=8", "--tokenizer=words")
    expected = build_words(words, tokenizer="words", vocab_size=8)
    cases = [("build_word_vocab", words, flags, WordVocabulary, expected)]
    flags = ("--vocab_size=120", "--num_unused=3")
    expected = build_vocabulary("plain_text", str(corpus), OPTIONS)
    cases.append(("build_vocab", corpus, flags, Vocabulary, expected))
    for name, text, flags, vocabulary_class, expected in cases:
        output = tmp_path / "out" / f"{name}.txt"
        process = command_calls.python(
            *("-m", f"data_pipelines.{name}", "--format=plain_text"),
            *(f"--input={text}", f"--output={output}", *flags),
        )
        printed, errors = process.communicate()
        assert process.returncode == 0, errors
        assert f"{expected.size} tokens in" in printed
        assert vocabulary_class.from_file(output).tokens == expected.tokens


def test_commands_replace_no_file_unless_told_to(tmp_path):
    output = tmp_path / "vocab.txt"
    output.write_text("mine")
    command = ("data_pipelines.build_vocab", "--format=plain_text", "--input=missing")
    refused = command_calls.call(*command, f"--output={output}")
    assert refused.returncode == 1
    assert f"--output must not exist: {output}" in refused.stderr
    assert "Traceback" not in refused.stderr
    skipped = command_calls.call(*command, f"--output={output}", "--skip_if_present")
    assert (skipped.returncode, output.read_text()) == (0, "mine")
