"""Counting words, learning pieces, and the script that writes a vocab.txt."""

import logging
import random
import unicodedata
from collections import Counter

import pytest

from data_pipelines import build_vocab
from data_pipelines.build_vocab import VocabularyOptions
from data_pipelines.builds import piece_learning, vocabulary_files, word_counts
from seg_tf.text.normalization import (
    CASED,
    UNCASED,
    Normalization,
    choose_normalization,
    exact_normalizer,
    word_splitter,
)
from seg_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from seg_tf.text.word_pieces import WordPieces
from tests import command_calls

SYLLABLES = ["ba", "ko", "ri", "tum", "sel", "nap", "do", "gu", "vex", "qui"]


def made_up_text(num_paragraphs, seed=0):
    """Words of two or three syllables, some much more frequent than others."""
    generator = random.Random(seed)
    words = ["".join(generator.choices(SYLLABLES, k=k)) for k in [1, 2, 3] * 60]
    weights = [1 / (rank + 1) for rank in range(len(words))]
    for _ in range(num_paragraphs):
        yield " ".join(generator.choices(words, weights, k=30)).capitalize() + "!"


def counts_of(texts, normalization=UNCASED):
    counter = word_counts.WordCounter(word_splitter(normalization), max_words=10_000)
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
    assert counts_of(texts, normalization) == expected
    assert expected["été" if normalization == CASED else "ete"] == (
        1 if normalization == CASED else 3
    )


def test_the_most_frequent_words_come_first():
    counts = counts_of(["b b a a a c d"])
    assert list(counts.items()) == [("a", 3), ("b", 2), ("c", 1), ("d", 1)]


def test_memory_is_bounded_and_frequent_words_stay_exact(monkeypatch):
    monkeypatch.setattr(word_counts, "_MAX_CHUNKS", 50)
    counter = word_counts.WordCounter(word_splitter(UNCASED), max_words=20)
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


@pytest.mark.parametrize("vocab_size", [60, 100, 150])
def test_the_size_is_what_was_asked_for(vocab_size):
    counts = counts_of(made_up_text(300))
    tokens = piece_learning.learn_tokens(counts, vocab_size, SPECIAL_TOKENS)
    assert len(tokens) == len(set(tokens)) == vocab_size
    assert tuple(tokens[:5]) == SPECIAL_TOKENS


def test_fewer_pieces_only_where_the_words_hold_no_more():
    tokens = piece_learning.learn_tokens({"ab": 3}, 1000, SPECIAL_TOKENS)
    assert set(tokens) == {*SPECIAL_TOKENS, "a", "b", "##a", "##b", "ab"}


def test_every_character_can_be_encoded_wherever_it_stands():
    counts = counts_of(["zebra zebra, été 中文 don't ß x9"])
    tokens = piece_learning.learn_tokens(counts, 80, SPECIAL_TOKENS)
    letters = {c for word in counts if len(word) > 1 for c in word}
    assert set("".join(counts)) | {f"##{c}" for c in letters} <= set(tokens)
    assert "##中" not in tokens  # an ideograph is a word of its own
    pieces = WordPieces(Vocabulary(tokens))
    ids, _ = pieces.encode(["arbez 中, x'ßet9z 文zz"])
    assert pieces.vocabulary.unk_id not in ids


def test_rare_characters_beyond_the_limit_get_no_piece():
    counts = {"aab": 50, "abc": 20, "qa": 1}
    tokens = piece_learning.learn_tokens(counts, 40, SPECIAL_TOKENS, max_characters=3)
    assert {"a", "b", "c"} <= set(tokens)
    assert not any("q" in token for token in tokens)


def test_the_order_of_the_words_changes_nothing():
    items = list(counts_of(made_up_text(300)).items())
    expected = piece_learning.learn_tokens(dict(items), 100, SPECIAL_TOKENS)
    for seed in range(3):
        random.Random(seed).shuffle(items)
        assert piece_learning.learn_tokens(dict(items), 100, SPECIAL_TOKENS) == expected


def test_frequent_words_are_one_piece_each():
    counts = counts_of(made_up_text(300))
    tokens = piece_learning.learn_tokens(counts, 150, SPECIAL_TOKENS)
    assert set(list(counts)[:10]) <= set(tokens)


@pytest.mark.parametrize("exponent", [0.3, 0.7, 1.5])
def test_the_threshold_is_found_in_a_few_tries(exponent):
    """On sizes that fall as a power, from starts that are far off."""

    def tokens_at(threshold):
        return ["x"] * int(50 + 90_000 * threshold**-exponent)

    for start in (1, 30, 100_000):
        tries = []
        found = piece_learning._search(
            tokens_at, 1050, 50, start, 10**6, lambda *seen, to=tries: to.append(seen)
        )
        assert len(found) == 1050
        assert len(tries) <= 7, tries


@pytest.mark.parametrize(
    ("counts", "vocab_size", "message"),
    [({}, 100, "must hold words"), ({"a": 1}, 6, "must leave room .* 6$")],
)
def test_what_cannot_be_learnt_is_refused(counts, vocab_size, message):
    with pytest.raises(ValueError, match=message):
        piece_learning.learn_tokens(counts, vocab_size, SPECIAL_TOKENS)


# --- The corpus and the script ----------------------------------------------------


@pytest.fixture
def corpus(tmp_path):
    folder = tmp_path / "text"
    folder.mkdir()
    for number in range(3):
        text = "\n\n".join(made_up_text(60, seed=number))
        (folder / f"{number}.txt").write_text(text, encoding="utf-8")
    return folder


OPTIONS = VocabularyOptions(vocab_size=120, num_unused=3)


def test_reserved_rows_come_first(corpus):
    vocabulary = build_vocab.build_vocabulary("plain_text", str(corpus), OPTIONS)
    assert vocabulary.size == 120
    assert vocabulary.pad_id == 0
    assert vocabulary.tokens[:8] == (
        *SPECIAL_TOKENS,
        "[unused0]",
        "[unused1]",
        "[unused2]",
    )


def test_the_corpus_has_no_unknown_words(corpus):
    vocabulary = build_vocab.build_vocabulary("plain_text", str(corpus), OPTIONS)
    texts = [path.read_text(encoding="utf-8") for path in corpus.iterdir()]
    ids, _ = WordPieces(vocabulary).encode(texts)
    assert vocabulary.unk_id not in ids


MARKED = {
    "Hindi": "हिन्दी में कुछ शब्द और उनके अर्थ",
    "Japanese": "がっこうのペンとかばん",
    "French": "Été à la forêt, près de l'hôtel",
    "decomposed": "E\u0301te\u0301",
}


@pytest.mark.parametrize("text", MARKED.values(), ids=MARKED)
@pytest.mark.parametrize("lower_case", [True, False])
def test_marks_that_accent_stripping_removes_are_warned_of(
    tmp_path, caplog, text, lower_case
):
    (tmp_path / "text.txt").write_text(f"{text} 12. {text}", encoding="utf-8")
    options = VocabularyOptions(vocab_size=200, lower_case=lower_case)
    with caplog.at_level(logging.WARNING):
        vocabulary = build_vocab.build_vocabulary("plain_text", str(tmp_path), options)
    assert ("--nostrip_accents" in caplog.text) == lower_case
    # Counted here by Hugging Face's normaliser: characters that it changes.
    strip = exact_normalizer(
        Normalization(False, strip_accents=True), letters_only=True
    ).normalize_str
    stripped = [c for c in text if strip(c) != c]
    letters = [c for c in text if unicodedata.category(c)[0] in "LM"]
    assert (f"({2 * len(stripped)} of {2 * len(letters)})" in caplog.text) == lower_case
    # The flag that the warning names keeps them.
    caplog.clear()
    options = VocabularyOptions(vocab_size=200, lower_case=True, strip_accents=False)
    kept = build_vocab.build_vocabulary("plain_text", str(tmp_path), options)
    assert not caplog.records
    assert any(c.lower() in "".join(kept.tokens) for c in stripped)
    assert lower_case != any(c in "".join(vocabulary.tokens) for c in stripped)
    # Records made with it keep them without a flag.
    assert choose_normalization(kept).strip_accents is False


def test_few_accents_are_counted_without_a_warning(tmp_path, capsys, caplog):
    text = "A café is a place for coffee. " + "Nothing else has an accent here. " * 9
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    options = VocabularyOptions(vocab_size=100)
    build_vocab.build_vocabulary("plain_text", str(tmp_path), options)
    letters = sum(map(str.isalpha, text))
    assert f"letters and marks (1 of {letters})" in capsys.readouterr().err
    assert not caplog.records


def test_a_file_without_text_is_counted_and_the_rest_is_read(corpus, capsys):
    (corpus / "empty.txt").write_bytes(b"\xff\xfe\xff")
    build_vocab.build_vocabulary("plain_text", str(corpus), OPTIONS)
    assert "left out: 1 " in capsys.readouterr().err


def test_characters_beyond_the_limit_are_counted(tmp_path, capsys):
    """Of a script whose characters are words each: a thousand, and a hundred more."""
    frequent, rare = (
        "".join(map(chr, range(first, last)))
        for first, last in ((0x4E00, 0x51E8), (0x51E8, 0x524C))
    )
    (tmp_path / "text.txt").write_text(f"{frequent}。\n\n{frequent}。{rare} [U]")
    options = VocabularyOptions(vocab_size=9000, max_characters=1004)
    vocabulary = build_vocab.build_vocabulary("plain_text", str(tmp_path), options)
    # 2,000 ideographs, two full stops, the last three, and the hundred.
    share = f"{100 / 2105:.2%}"
    assert (
        f"100 rare characters get no piece: {share} of all" in capsys.readouterr().err
    )
    tokens = set(vocabulary.tokens)
    assert tokens.issuperset(frequent + "。[]u")
    assert tokens.isdisjoint(rare)
    options = VocabularyOptions(vocab_size=9000, max_characters=8000)
    vocabulary = build_vocab.build_vocabulary("plain_text", str(tmp_path), options)
    assert "get no piece" not in capsys.readouterr().err
    assert tokens.union(rare) == set(vocabulary.tokens)


def test_a_corpus_without_words_is_named(tmp_path):
    path = tmp_path / "marks.txt"
    path.write_text("\u200b\u200b", encoding="utf-8")
    with pytest.raises(ValueError, match=r"No words .*marks\.txt.* as plain_text"):
        build_vocab.build_vocabulary("plain_text", str(path), OPTIONS)


def test_a_size_without_room_for_pieces_is_refused():
    with pytest.raises(ValueError, match="`vocab_size` must be above the 15 rows"):
        VocabularyOptions(vocab_size=16)


def test_nothing_half_written_stands_under_the_final_name(tmp_path, monkeypatch):
    def full_disk(*_):
        raise OSError(28, "No space left on device")

    output = tmp_path / "vocab.txt"
    output.write_text("before")
    monkeypatch.setattr(vocabulary_files.files.os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space"):
        vocabulary_files.write_vocabulary(Vocabulary(SPECIAL_TOKENS), output)
    assert output.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["vocab.txt"]


def arguments(corpus, output, *more):
    return (
        *("--format=plain_text", f"--input={corpus}", f"--output={output}"),
        *("--vocab_size=120", *more),
    )


@pytest.mark.slow
def test_the_script_writes_the_same_file_in_every_process(
    corpus, tmp_path, monkeypatch
):
    """Though sets of strings have another order in each."""
    output = tmp_path / "out" / "vocab.txt"
    monkeypatch.setenv("PYTHONHASHSEED", "1")
    process = command_calls.python(
        *("-m", "data_pipelines.build_vocab"),
        *arguments(corpus, output, "--num_unused=3"),
    )
    printed, errors = process.communicate()
    assert process.returncode == 0, errors
    assert "120 tokens" in printed
    here = build_vocab.build_vocabulary("plain_text", str(corpus), OPTIONS)
    assert Vocabulary.from_file(output).tokens == here.tokens
    assert Vocabulary.from_file(output).checksum == here.checksum


def test_the_script_does_not_replace_a_file_unasked(tmp_path):
    output = tmp_path / "vocab.txt"
    output.write_text("mine")
    command = ("data_pipelines.build_vocab", *arguments(tmp_path / "absent", output))
    refused = command_calls.call(*command)
    assert refused.returncode == 1
    assert f"--output must not exist: {output}" in refused.stderr
    assert "Traceback" not in refused.stderr
    skipped = command_calls.call(*command, "--skip_if_present")
    assert (skipped.returncode, output.read_text()) == (0, "mine")
