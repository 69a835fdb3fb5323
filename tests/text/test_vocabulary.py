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
    content = b"the\n[MASK]\n[SEP]\n[CLS]\n[UNK]\n##s\n[PAD]\n"
    for start in (b"", b"\xef\xbb\xbf"):
        vocabulary = Vocabulary.from_file(write(tmp_path, start + content))
        assert vocabulary.size == 7
        assert vocabulary.tokens[0] == "the"
        special = vocabulary.pad_id, vocabulary.unk_id, vocabulary.cls_id
        assert special == (6, 4, 3)
        assert (vocabulary.sep_id, vocabulary.mask_id) == (2, 1)
        assert vocabulary.id_of("##s") == 5
    with pytest.raises(ValueError, match=r"`token` must be in .*Received: 'x'"):
        vocabulary.id_of("x")


def test_checksum_is_that_of_the_bytes_of_the_file(tmp_path):
    content = "\r\n".join(LINES).encode()
    vocabulary = Vocabulary.from_file(write(tmp_path, content))
    assert vocabulary.tokens == tuple(LINES)
    assert vocabulary.checksum == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("token", ["\u2028", "\x85", "\u3000", "\x1c", "##\xa0"])
def test_characters_that_end_lines_elsewhere_are_tokens(tmp_path, token):
    content = "\n".join([*LINES, token, "last"]).encode()
    vocabulary = Vocabulary.from_file(write(tmp_path, content))
    assert vocabulary.tokens[-2:] == (token, "last")


WORDS = b"<eos>\n<unk>\n"


@pytest.mark.parametrize(
    ("kind", "content", "message"),
    [
        (Vocabulary, b"", r"0 tokens\), which lacks \[PAD\], \[UNK\]"),
        (Vocabulary, b"[PAD]\n[UNK]\n[CLS]\n[SEP]\nthe", r"which lacks \[MASK\]$"),
        (Vocabulary, b"[PAD]\n\xff\xfe\n", "UTF-8 .*at byte 6"),
        (Vocabulary, b"[PAD]\n\n[UNK]\n", "line 2: ''"),
        (Vocabulary, b"[PAD]\n[UNK]\na\nb\na\n", "line 5: 'a'"),
        (Vocabulary, b"[PAD]\t0\n[UNK]\t1\n", r"line 1: '\[PAD\]\\t0'"),
        (WordVocabulary, b"the\n" + WORDS, "<eos> on line 1"),
        (WordVocabulary, b"<eos>\nthe", "and <unk>.*2 tokens"),
    ],
)
def test_wrong_files_are_named_with_the_reason(tmp_path, kind, content, message):
    path = write(tmp_path, content)
    with pytest.raises(ValueError, match=message) as error:
        kind.from_file(path)
    assert str(path) in str(error.value)


def test_ids_of_words(tmp_path):
    content = b"<eos>\nthe\n,\n<unk>\nThe\n"
    vocabulary = WordVocabulary.from_file(write(tmp_path, content))
    assert dict(vocabulary.special_ids) == {"eos": 0, "unk": 3}
    assert (vocabulary.eos_id, vocabulary.unk_id, vocabulary.size) == (0, 3, 5)
    assert (vocabulary.id_of("the"), vocabulary.id_of("The")) == (1, 4)
    assert vocabulary.tokens_of([4, 0]) == ["The", EOS]
    assert vocabulary.to_bytes() == content
    assert UNKNOWN_WORD in vocabulary.tokens
