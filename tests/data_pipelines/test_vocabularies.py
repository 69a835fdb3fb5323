"""Word counts, and the commands that make vocabularies of pieces and of words."""

import random
from collections import Counter

import pytest

from data_pipelines import build_vocab
from data_pipelines.build_vocab import VocabularyOptions, build_vocabulary
from data_pipelines.builds import vocabularies
from data_pipelines.builds.vocabularies import learn_pieces
from seg_tf.text.normalization import UNCASED, word_splitter
from seg_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary, WordVocabulary
from seg_tf.text.word_pieces import WordPieces
from tests import command_calls

SYLLABLES = ["ba", "ko", "ri", "tum", "sel", "nap", "do", "gu", "vex", "qui"]
OPTIONS = VocabularyOptions(vocab_size=120)


def made_up_text(num_paragraphs, seed=0):
    """Words of up to three syllables, some much more frequent than others."""
    generator = random.Random(seed)
    words = ["".join(generator.choices(SYLLABLES, k=k)) for k in [1, 2, 3] * 60]
    weights = [1 / (rank + 1) for rank in range(len(words))]
    for _ in range(num_paragraphs):
        yield " ".join(generator.choices(words, weights, k=30)).capitalize() + "!"


def counts_of(texts, normalization=UNCASED):
    split = word_splitter(normalization)
    return Counter(word for text in texts for word in split(text))


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


def test_every_character_can_be_encoded_wherever_it_stands():
    counts = counts_of(["zebra zebra, été 中文 don't ß x9"])
    tokens = learn_pieces(counts, 80, SPECIAL_TOKENS)
    letters = {c for word in counts if len(word) > 1 for c in word}
    assert set("".join(counts)) | {f"##{c}" for c in letters} <= set(tokens)
    assert "##中" not in tokens  # An ideograph is a word.
    pieces = WordPieces(Vocabulary(tokens))
    ids, _ = pieces.encode(["arbez 中, x'ßet9z 文zz"])
    assert pieces.vocabulary.unk_id not in ids
    # Of words that are too long, only the characters.
    assert learn_pieces({"a" * 1_000: 1}, 80, SPECIAL_TOKENS) == [*SPECIAL_TOKENS, "a"]


@pytest.mark.parametrize("exponent", [0.3, 0.7, 1.5])
def test_the_threshold_is_found_in_a_few_steps(exponent):
    """For sizes that fall as a power, from starts that are far off."""
    for start in (1, 30, 100_000):
        steps = []

        def tokens_at(threshold, steps=steps):
            steps.append(threshold)
            return ["x"] * int(50 + 90_000 * threshold**-exponent)

        tokens = vocabularies.search_threshold(tokens_at, 1050, 50, start, 10**6)
        assert len(tokens) == 1050
        assert len(steps) <= 7, steps


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
    unused = [f"[unused{number}]" for number in range(10)]
    assert vocabulary.tokens[:15] == (*SPECIAL_TOKENS, *unused)
    ids, _ = WordPieces(vocabulary).encode(texts)
    assert vocabulary.unk_id not in ids
    assert "left out: {'not_utf8': 1}" in capsys.readouterr().err


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
    options = VocabularyOptions(**{"tokenizer": "whitespace", **options})
    return build_vocabulary(format, str(path), options)


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


def test_coverage_and_dropped_words_are_reported(words, tmp_path, monkeypatch, capsys):
    build_words(words, vocab_size=3)
    output = " ".join(capsys.readouterr().err.split())
    # 11 words: 3 b are known, 3 <unk> are unknown in the text itself.
    assert "15 tokens: 11 words, 4 of them distinct, and 4 <eos>" in output
    assert "8 tokens (53.33%) are <unk>" in output
    assert "dropped" not in output
    monkeypatch.setattr(vocabularies, "_MAX_CHUNKS", 10)
    path = tmp_path / "a.txt"
    path.write_text("\n\n".join(f"often rare{number}" for number in range(100)))
    monkeypatch.setattr(build_vocab, "_MAX_WORDS", 5)
    vocabulary = build_words(path, vocab_size=3)
    assert vocabulary.tokens == ("<eos>", "<unk>", "often")
    output = capsys.readouterr().err
    assert "100 tokens (33.33%) are <unk>" in output
    assert "More than 5 distinct words: the rarest were dropped" in output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "`min_count`, must limit.*vocab_size=None, min_count=None"),
        (
            {"vocab_size": 2},
            "`vocab_size` must leave room.* 2 reserved rows.*vocab_size=2",
        ),
        ({"min_count": 9}, "No word of .* occurs min_count=9 times: 11 words"),
    ],
)
def test_impossible_word_vocabularies_are_refused(words, options, message):
    with pytest.raises(ValueError, match=message):
        build_words(words, **options)


# --- The commands -----------------------------------------------------------------


@pytest.mark.slow
def test_commands_write_the_same_file_in_every_process(
    corpus, words, tmp_path, monkeypatch
):
    """Although sets of strings have another order in each."""
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    flags = ("--vocab_size=8", "--tokenizer=words")
    expected = build_words(words, tokenizer="words", vocab_size=8)
    cases = [("words", words, flags, WordVocabulary, expected)]
    flags = ("--vocab_size=120",)
    expected = build_vocabulary("plain_text", str(corpus), OPTIONS)
    cases.append(("pieces", corpus, flags, Vocabulary, expected))
    for name, text, flags, vocabulary_class, expected in cases:
        output = tmp_path / "out" / f"{name}.txt"
        process = command_calls.python(
            *("-m", "seg_tf", "build-vocab", "--format=plain_text"),
            *(f"--input={text}", f"--output={output}", *flags),
        )
        printed, errors = process.communicate()
        assert process.returncode == 0, errors
        assert f"{expected.size} tokens in" in printed
        assert vocabulary_class.from_file(output).tokens == expected.tokens


def test_commands_replace_no_file_unless_told_to(tmp_path):
    output = tmp_path / "vocab.txt"
    output.write_text("mine")
    command = ("build-vocab", "--format=plain_text", "--input=missing")
    refused = command_calls.call(*command, f"--output={output}")
    assert refused.returncode == 1
    assert f"--output must not exist: {output}" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert output.read_text() == "mine"


def test_rare_characters_beyond_the_limit_get_no_piece(tmp_path, capsys):
    """A script whose characters are words: a thousand frequent, a hundred rare."""
    frequent, rare = (
        "".join(map(chr, range(first, last)))
        for first, last in ((0x4E00, 0x51E8), (0x51E8, 0x524C))
    )
    (tmp_path / "text.txt").write_text(f"{frequent}。\n\n{frequent}。{rare} [U]")
    options = VocabularyOptions(vocab_size=9000, max_characters=1004)
    tokens = set(build_vocabulary("plain_text", str(tmp_path), options).tokens)
    assert "; 100 rare ones get no piece" in capsys.readouterr().err
    assert tokens.issuperset(frequent + "。[]u")
    assert tokens.isdisjoint(rare)
    with pytest.raises(
        ValueError, match="`vocab_size` must leave room for text next to 15"
    ):
        VocabularyOptions(vocab_size=16)
