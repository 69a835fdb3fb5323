"""Corrections of Punkt's tables: what a file says, spelt out, or a refusal."""

import hashlib
import importlib.resources

import pytest

from seg_tf.text.punkt import SentenceSplitter
from seg_tf.text.punkt_corrections import PunktCorrections
from seg_tf.text.punkt_parameters import PunktParameters

TEXT = """
[abbreviations]
titles = "mme messrs"
units = '''ft
{9..11}-in'''
[not_abbreviations]
numerals = "ii"
[collocations]
before_numbers = ["no fig", "##number##"]
months = ["sat", "sept. may"]
[sentence_starters]
pronouns = "he she"
[not_sentence_starters]
names = "maggie"
"""


def _read(tmp_path, text):
    path = tmp_path / "corrections.toml"
    path.write_text(text, encoding="utf-8")
    return PunktCorrections.read(path)


def _english():
    data = importlib.resources.files("seg_tf.text") / "data"
    return data / "english_corrections.toml"


def test_a_file_is_spelt_out(tmp_path):
    assert _read(tmp_path, TEXT) == PunktCorrections(
        abbreviations=frozenset({"mme", "messrs", "ft", "9-in", "10-in", "11-in"}),
        not_abbreviations=frozenset({"ii"}),
        collocations=frozenset(
            {
                ("no", "##number##"),
                ("fig", "##number##"),
                ("sat", "sept."),
                ("sat", "may"),
            }
        ),
        sentence_starters=frozenset({"he", "she"}),
        not_sentence_starters=frozenset({"maggie"}),
    )


def test_two_ranges_in_a_word(tmp_path):
    read = _read(tmp_path, '[abbreviations]\ninitials = "{a..c}.{x..z}"')
    assert read.abbreviations == {f"{a}.{b}" for a in "abc" for b in "xyz"}


def test_tables_may_be_left_out(tmp_path):
    assert _read(tmp_path, "# nothing") == PunktCorrections()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("abbreviations = ", "corrections.toml: "),
        ("[abbreviation]", r"tables must be of abbreviations, .*'abbreviation'"),
        ("abbreviations = 'mr'", "tables must be of"),
        ("[abbreviations]\na = 'Mr'", "group 'a' .*in lower case. Received: 'Mr'"),
        ("[abbreviations]\na = 'mr.'", "without their period. Received: 'mr.'"),
        ("[abbreviations]\na = ['mr']", "group 'a' .*must be a string"),
        ("[collocations]\na = ['mr']", "group 'a' of 'collocations'"),
        ("[collocations]\na = 3", "group 'a' of 'collocations'"),
        (
            "[abbreviations]\na = 'mr ii'\n[not_abbreviations]\nb = 'ii'",
            "must not share words. Received: ii in both",
        ),
    ],
)
def test_a_malformed_file_is_refused(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        _read(tmp_path, text)


def test_the_english_table_was_made_with_the_corrections_beside_it():
    english, corrections = PunktParameters.english(), PunktCorrections.read(_english())
    assert english.provenance["corrections"] == {
        "file": "english_corrections.toml",
        "sha256": hashlib.sha256(_english().read_bytes()).hexdigest(),
    }
    assert corrections.abbreviations <= english.abbreviation_types
    assert not corrections.not_abbreviations & english.abbreviation_types
    assert corrections.collocations <= english.collocations
    assert corrections.sentence_starters <= english.sentence_starters
    assert not corrections.not_sentence_starters & english.sentence_starters


@pytest.mark.parametrize(
    "sentences",
    [
        ["They asked Mme. Walska and Mlle. Lange.", "Neither came."],
        ["It was sold by Messrs. Parker.", "Nobody knew."],
        ["A 4-in. gun and a 12-in. Armstrong stood there.", "Nobody came in.", "Ah."],
        ["It is 6 in. long and 3 ft. wide.", "She came in.", "It rained."],
        ["Is it No. 5 or Fig. 3 of Vol. 2?", "I said no.", "I meant it."],
        ["It begins on Sat. Sept. 23 or Sun. Oct. 1.", "There he sat.", "Fine."],
        ["It snowed on Dec. 15 in Ft. Worth.", "Gov. Davis saw it."],
        ["A.J. Ayer met J.G. Frazer.", "Both had read P.D. James."],
        ["It ended with World War II.", "Construction began in the U.S. Air Force."],
        ["They visited Dr. Who in Oct. 1966, etc.", "You may, too.", "Nobody did."],
        ["It closes at 5 p.m. Saturday.", "It opens at 8 a.m.", "Where is it?"],
    ],
)
def test_english_abbreviations(sentences):
    assert SentenceSplitter().split(" ".join(sentences)) == sentences
