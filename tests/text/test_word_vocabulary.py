"""A vocabulary of words, and what is said about a bad one."""

import pytest

from seg_tf.text.word_vocabulary import EOS, UNK, WordVocabulary


def test_ids_are_line_numbers_from_zero(tmp_path):
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
        pytest.param(["the", EOS, UNK], "on line 1.*with 'the' there", id="not first"),
        pytest.param([EOS, "the"], "hold <unk>.*2 tokens.*which lacks", id="no unk"),
        pytest.param([EOS, UNK, "a", "b", "a"], "'a' on lines 3 and 5", id="twice"),
        pytest.param([EOS, UNK, "", "a"], "line 3 is blank", id="blank"),
        pytest.param([EOS, UNK, "a\t7"], r"line 3: 'a\\t7'", id="table"),
    ],
)
def test_a_file_that_is_no_vocabulary_is_named_with_the_reason(
    tmp_path, tokens, message
):
    path = tmp_path / "words.txt"
    path.write_text("".join(f"{token}\n" for token in tokens))
    with pytest.raises(ValueError, match=message) as error:
        WordVocabulary.from_file(path)
    assert str(path) in str(error.value)


def test_ids_beyond_the_vocabulary_have_no_token():
    vocabulary = WordVocabulary([EOS, UNK, "a"])
    for token_id in (-1, 3):
        with pytest.raises(ValueError, match=f"between 0 and 2.*Received: {token_id}"):
            vocabulary.tokens_of([0, token_id])
