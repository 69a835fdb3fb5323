"""Vocabulary files, and the messages about bad ones."""

import hashlib

import pytest

from seg_tf.text.vocabulary import (
    EOS,
    SPECIAL_TOKENS,
    UNKNOWN_WORD,
    Vocabulary,
    WordVocabulary,
)

LINES = [*SPECIAL_TOKENS, "the", "##s"]


def write(tmp_path, content):
    path = tmp_path / "vocab.txt"
    path.write_bytes(content)
    return path


def test_ids_are_line_numbers_from_zero(tmp_path):
    path = write(tmp_path, b"the\n[MASK]\n[SEP]\n[CLS]\n[UNK]\n##s\n[PAD]\n")
    vocabulary = Vocabulary.from_file(path)
    assert vocabulary.size == 7
    assert vocabulary.tokens[0] == "the"
    assert [
        vocabulary.pad_id,
        vocabulary.unk_id,
        vocabulary.cls_id,
        vocabulary.sep_id,
        vocabulary.mask_id,
        vocabulary.id_of("##s"),
    ] == [6, 4, 3, 2, 1, 5]


def test_checksum_is_that_of_the_bytes_of_the_file(tmp_path):
    content = "\r\n".join(LINES).encode()
    path = write(tmp_path, content)
    vocabulary = Vocabulary.from_file(path)
    assert vocabulary.tokens == tuple(LINES)
    assert vocabulary.checksum == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(
    "token", ["\u2028", "\x85", "\u3000", "\x1c", "##\xa0"], ids=ascii
)
def test_a_character_that_ends_lines_elsewhere_is_a_token(tmp_path, token):
    content = "\n".join([*LINES, token, "last"]).encode()
    vocabulary = Vocabulary.from_file(write(tmp_path, content))
    assert vocabulary.tokens[-2:] == (token, "last")


@pytest.mark.parametrize("token", SPECIAL_TOKENS)
def test_a_missing_special_token_is_named_with_the_file(tmp_path, token):
    lines = [line for line in LINES if line != token]
    path = write(tmp_path, "\n".join(lines).encode())
    with pytest.raises(ValueError, match="lacks ") as error:
        Vocabulary.from_file(path)
    assert str(path) in str(error.value)
    assert str(error.value).endswith(f"which lacks {token}")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"", r"0 tokens\), which lacks \[PAD\], \[UNK\]", id="empty"),
        pytest.param(b"\n", "line 1 is blank", id="only a line end"),
        pytest.param(b"[PAD]\n\xff\xfe\n", "UTF-8 .*at byte 6", id="not UTF-8"),
        pytest.param(b"[PAD]\n\n[UNK]\n", "line 2 is blank", id="blank line"),
        pytest.param(
            b"[PAD]\n[UNK]\na\nb\na\n", "'a' on lines 3 and 5", id="duplicate"
        ),
        pytest.param(b"[PAD]\t0\n[UNK]\t1\n", r"line 1: '\[PAD\]\\t0'", id="table"),
        pytest.param(b"It was the best of times,\n", "line 1: 'It was", id="prose"),
    ],
)
def test_a_file_that_is_no_vocabulary_is_named_with_the_reason(
    tmp_path, content, message
):
    path = write(tmp_path, content)
    with pytest.raises(ValueError, match=message) as error:
        Vocabulary.from_file(path)
    assert str(path) in str(error.value)


def test_ids_of_words(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("<eos>\nthe\n,\n<unk>\nThe\n", encoding="utf-8")
    vocabulary = WordVocabulary.from_file(path)
    assert vocabulary.size == 5
    assert (vocabulary.eos_id, vocabulary.unk_id) == (0, 3)
    assert dict(vocabulary.special_ids) == {"eos": 0, "unk": 3}
    assert (vocabulary.id_of("the"), vocabulary.id_of("The")) == (1, 4)
    assert vocabulary.tokens_of([4, 0]) == ["The", EOS]
    assert vocabulary.to_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        pytest.param([], "on line 1.*with nothing there", id="empty"),
        pytest.param(
            ["the", EOS, UNKNOWN_WORD], "on line 1.*with 'the' there", id="not first"
        ),
        pytest.param([EOS, "the"], "hold <unk>.*2 tokens.*which lacks", id="no unk"),
        pytest.param(
            [EOS, UNKNOWN_WORD, "a", "b", "a"], "'a' on lines 3 and 5", id="twice"
        ),
        pytest.param([EOS, UNKNOWN_WORD, "", "a"], "line 3 is blank", id="blank"),
        pytest.param([EOS, UNKNOWN_WORD, "a\t7"], r"line 3: 'a\\t7'", id="table"),
    ],
)
def test_a_file_that_is_no_vocabulary_of_words_is_named(tmp_path, tokens, message):
    path = tmp_path / "words.txt"
    path.write_text("".join(f"{token}\n" for token in tokens))
    with pytest.raises(ValueError, match=message) as error:
        WordVocabulary.from_file(path)
    assert str(path) in str(error.value)
