"""Normalization that is inferred from the rows of a vocabulary."""

import pytest

from seg_tf.text.encoding import Words, text_encoder
from seg_tf.text.normalization import (
    CASED,
    UNCASED,
    Normalization,
    choose_normalization,
)
from seg_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary, WordVocabulary
from seg_tf.text.word_pieces import PieceOffsets, WordPieces

WITH_ACCENTS = Normalization(True, strip_accents=False)
LOWER = [f"word{number}" for number in range(990)]
UNUSED = [f"[unused{number}]" for number in range(100)]


def vocabulary(*more):
    return Vocabulary([*SPECIAL_TOKENS, *UNUSED, *LOWER, *more])


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param([], UNCASED, id="none"),
        pytest.param([f"Odd{n}" for n in range(10)], UNCASED, id="one in a hundred"),
        pytest.param([f"Odd{n}" for n in range(11)], CASED, id="more"),
        pytest.param([f"é{n}" for n in range(11)], WITH_ACCENTS, id="accents"),
        pytest.param([f"##É{n}" for n in range(11)], CASED, id="inside words"),
        # Ideographs have spaces put around them, and are what they were.
        pytest.param([chr(0x4E00 + n) for n in range(50)], UNCASED, id="ideographs"),
        pytest.param(
            [f"一{chr(0x4E00 + n)}" for n in range(11)],
            Normalization(True, split_ideographs=False),
            id="words of ideographs",
        ),
    ],
)
def test_rows_that_normalization_changes_tell_which_it_was(more, expected):
    assert choose_normalization(vocabulary(*more)) == expected


def test_few_capitals_among_rows_without_case_are_those_of_cased_text():
    """A cased vocabulary of Hindi has few Latin letters, but has both cases of them."""
    hindi = [f"कि{chr(0x915 + n % 30)}{chr(0x915 + n // 30)}" for n in range(800)]
    latin = ["a", "b", "c", "A", "B", "C"]
    assert choose_normalization(Vocabulary([*SPECIAL_TOKENS, *hindi, *latin])) == CASED
    lower = Vocabulary([*SPECIAL_TOKENS, *hindi, *latin[:3]])
    assert choose_normalization(lower) == WITH_ACCENTS


def test_accents_follow_a_given_casing():
    accented = vocabulary(*(f"é{n}" for n in range(50)))
    assert choose_normalization(accented, lower_case=True) == UNCASED
    assert choose_normalization(accented, lower_case=False) == CASED
    assert choose_normalization(accented, strip_accents=True) == UNCASED


def test_encoders_that_are_told_nothing_follow_the_vocabulary():
    pieces = Vocabulary([*SPECIAL_TOKENS, "Rome", "rome"])
    words = WordVocabulary(["<eos>", "<unk>", "Rome", "rome"])
    assert WordPieces(pieces).encode(["Rome rome"])[0].tolist() == [5, 6]
    assert PieceOffsets(pieces).encode("Rome rome")[0].tolist() == [5, 6]
    assert Words(words).encode(["Rome rome"])[0].tolist() == [2, 3]
    uncased = WordVocabulary(["<eos>", "<unk>", "rome"])
    assert Words(uncased).encode(["Rome rome"])[0].tolist() == [2, 2]
    encoder = text_encoder("word_pieces", pieces, None)
    assert encoder.normalization == CASED
