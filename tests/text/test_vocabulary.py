"""A vocabulary file, and what is said about a bad one."""

import hashlib

import pytest

from seg_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests.sample_data import sample_data

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


def test_the_released_vocabulary_has_its_known_ids():
    path = sample_data("bert_vocab", "bert-base-uncased-vocab.txt")
    vocabulary = Vocabulary.from_file(path)
    assert vocabulary.size == 30522
    assert (vocabulary.pad_id, vocabulary.unk_id) == (0, 100)
    assert (vocabulary.cls_id, vocabulary.sep_id, vocabulary.mask_id) == (101, 102, 103)
    assert vocabulary.id_of("hello") == 7592


def test_checksum_is_that_of_the_bytes_of_the_file(tmp_path):
    content = "\r\n".join(LINES).encode()
    path = write(tmp_path, content)
    vocabulary = Vocabulary.from_file(path)
    assert vocabulary.tokens == tuple(LINES)
    assert vocabulary.checksum == hashlib.sha256(content).hexdigest()


def test_tokens_and_the_file_of_them_have_one_checksum(tmp_path):
    vocabulary = Vocabulary(LINES)
    path = write(tmp_path, vocabulary.to_bytes())
    assert Vocabulary.from_file(path).tokens == vocabulary.tokens
    assert Vocabulary.from_file(path).checksum == vocabulary.checksum
    assert Vocabulary([*LINES, "a"]).checksum != vocabulary.checksum


@pytest.mark.parametrize(
    "token", ["\u2028", "\x85", "\u3000", "\x1c", "##\xa0"], ids=ascii
)
def test_a_character_that_ends_lines_elsewhere_is_a_token(tmp_path, token):
    content = "\n".join([*LINES, token, "last"]).encode()
    vocabulary = Vocabulary.from_file(write(tmp_path, content))
    assert vocabulary.tokens[-2:] == (token, "last")


def test_a_byte_order_mark_is_no_part_of_the_first_token(tmp_path):
    content = b"\xef\xbb\xbf" + "\n".join(LINES).encode()
    assert Vocabulary.from_file(write(tmp_path, content)).pad_id == 0


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


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"absent\.txt"):
        Vocabulary.from_file(tmp_path / "absent.txt")


def test_an_unknown_token_is_named():
    with pytest.raises(ValueError, match=r"vocabulary tokens .*'\[SENT\]'"):
        Vocabulary(LINES).id_of("[SENT]")
