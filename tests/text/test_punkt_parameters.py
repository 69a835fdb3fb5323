"""Punkt parameters and corrections are read from every source, or refused precisely."""

import dataclasses
import json

import pytest
from nltk import tabdata

from benchmarks.sentence_boundaries import boundary_scores, read_gold
from seg_tf.text.punkt import PunktDecision, SentenceSplitter, ends_sentence
from seg_tf.text.punkt_parameters import PunktCorrections, PunktParameters
from seg_tf.text.splitters import load_parameters, read_parameters
from tests.sample_data import sample_data

PARAMETERS = PunktParameters(
    name="mine",
    provenance={"text": "none"},
    abbreviation_types=frozenset({"dr", "é.u"}),
    collocations=frozenset({("##number##", "km"), ("dr", "no")}),
    sentence_starters=frozenset({"the"}),
    orthographic_context={"the": 34, "dr": 4, "é": 34},
)

TAB_FILES = {
    "abbrev_types.txt": "dr\n. . \nu.s",
    "collocations.tab": "##number##\tkm\ndr\tno",
    "sent_starters.txt": "the\nhe",
    "ortho_context.tab": "the\t34\ndr\t4",
}


@pytest.fixture
def tab_folder(tmp_path):
    folder = tmp_path / "punkt_tab" / "english"
    folder.mkdir(parents=True)
    for name, text in TAB_FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_saved_parameters_are_read_back(tmp_path):
    path = tmp_path / "mine.json"
    path.write_bytes(PARAMETERS.to_bytes())
    read = read_parameters(path)
    assert read.abbreviation_types == {"dr", "é.u"}
    assert read.collocations == {("##number##", "km"), ("dr", "no")}
    assert read.sentence_starters == {"the"}
    assert read.orthographic_context == {"the": 34, "dr": 4, "é": 34}
    assert (read.name, read.provenance) == ("mine", {"text": "none"})
    assert load_parameters(str(path)) == read


def test_checksum_is_of_the_tables_alone():
    renamed = dataclasses.replace(PARAMETERS, name="other", provenance={})
    assert renamed.checksum == PARAMETERS.checksum
    assert len(PARAMETERS.checksum) == 64
    changed = [
        dataclasses.replace(PARAMETERS, abbreviation_types=frozenset({"dr"})),
        dataclasses.replace(PARAMETERS, collocations=frozenset()),
        dataclasses.replace(PARAMETERS, sentence_starters=frozenset({"he"})),
        dataclasses.replace(PARAMETERS, orthographic_context={"the": 2, "dr": 4}),
        dataclasses.replace(PARAMETERS, terminators="。"),
    ]
    assert len({PARAMETERS.checksum, *(other.checksum for other in changed)}) == 6


def test_real_punkt_tab_folder_as_nltk_reads_it():
    folder = sample_data("punkt", "english_tab")
    ours = PunktParameters.from_punkt_tab(folder)
    decoder = tabdata.PunktDecoder()

    def read(name, decode):
        with open(folder / name, encoding="utf-8") as file:
            return decode(file)

    assert ours.abbreviation_types == read("abbrev_types.txt", decoder.txt2set)
    assert ours.collocations == set(read("collocations.tab", decoder.tab2tups))
    assert ours.sentence_starters == read("sent_starters.txt", decoder.txt2set)
    assert ours.orthographic_context == read("ortho_context.tab", decoder.tab2intdict)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("abbrev_types.txt", "dr\n\nmr", r"line 2: .*non-empty"),
        ("collocations.tab", "dr\tno\ndr", r"line 2: a collocation must be two"),
        ("ortho_context.tab", "the\t1", r"line 1: orthographic flags must be a sum"),
    ],
)
def test_malformed_line_is_named(tab_folder, name, text, message):
    (tab_folder / name).write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=rf"{name}, {message}"):
        load_parameters(str(tab_folder))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("format", None, "does not contain Punkt"),
        ("format_version", 9, '"format_version" 1'),
        ("collocations", None, "KeyError.*collocations"),
        ("collocations", [["a"]], "two word types"),
        ("orthographic_context", {"1": ["a"]}, "sum of"),
        ("terminators", "。a", '"terminators" marks'),
    ],
)
def test_malformed_json_is_named(tmp_path, key, value, message):
    path = tmp_path / "mine.json"
    path.write_bytes(PARAMETERS.to_bytes())
    values = json.loads(path.read_text(encoding="utf-8"))
    values[key] = value
    if value is None:
        del values[key]
    path.write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(ValueError, match=message) as caught:
        load_parameters(str(path))
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("starter", [False, True])
def test_reduction_keeps_every_decision(starter):
    words = {f"w{flags}x": flags for flags in range(0, 128, 2)}
    full = PunktParameters(
        orthographic_context=words,
        sentence_starters=frozenset(words if starter else ()),
    )
    reduced = full.reduced()
    assert len(reduced.orthographic_context) < len(words)
    assert len(set(reduced.orthographic_context.values())) == 3
    before, after = PunktDecision(full), PunktDecision(reduced)
    for word in words:
        for token in (word, word.capitalize()):
            kinds = [before.before(t).kind for t in ("?", "J.", "5.", "...", "a")]
            expected = [
                ends_sentence(kind, before.after(token).evidence) for kind in kinds
            ]
            assert [
                ends_sentence(kind, after.after(token).evidence) for kind in kinds
            ] == expected, (token, words[word])


def _precision_recall_f1(parameters, paragraphs):
    return boundary_scores(SentenceSplitter(parameters).spans, paragraphs)


def test_english_table_splits_better_than_nltks():
    paragraphs = read_gold(sample_data("ud_english_ewt", "en_ewt-ud-dev.conllu"))
    assert sum(len(paragraph.ends) for paragraph in paragraphs) == 2001
    theirs = PunktParameters.from_punkt_tab(sample_data("punkt", "english_tab"))
    none = _precision_recall_f1(PunktParameters(), paragraphs)
    theirs = _precision_recall_f1(theirs, paragraphs)
    ours = _precision_recall_f1(PunktParameters.english(), paragraphs)
    assert none[2] < 0.865 < ours[2]
    assert all(mine > other for mine, other in zip(ours, none, strict=True))
    assert ours[0] > theirs[0] + 0.005
    assert ours[1] > theirs[1] - 0.002
    assert ours[2] > theirs[2] + 0.002


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("abbreviations = ", "corrections.toml: "),
        ("[abbreviation]", "corrections.toml: .*argument 'abbreviation'"),
        ("[abbreviations]\na = 'Mr'", "group 'a' .*in lower case. Received: 'Mr'"),
        ("[abbreviations]\na = 'mr.'", "without their period. Received: 'mr.'"),
        ("[collocations]\na = 3", "group 'a' of 'collocations'"),
    ],
)
def test_a_malformed_file_is_refused(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        _read(tmp_path, text)


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
