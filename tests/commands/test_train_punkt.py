"""Training finds what it should in a small text, and is the same every time."""

import hashlib
import json

import pytest

from seg_tf.commands import train_punkt
from seg_tf.commands.train_punkt import TrainingOptions
from seg_tf.text.punkt import SentenceSplitter
from seg_tf.text.punkt_parameters import PunktCorrections
from seg_tf.text.splitters import read_parameters
from tests import command_calls

pytestmark = pytest.mark.slow

_NOUNS = ["dog", "cat", "house", "river", "garden", "window", "letter", "summer"]
_NAMES = ["Brown", "Green", "Baker", "Miller"]


def _paragraphs(count=400):
    """Text with two abbreviations, words that end sentences, and one starter."""
    for number in range(count):
        one = _NOUNS[number % len(_NOUNS)]
        other = _NOUNS[(number // 8 + 3) % len(_NOUNS)]
        name = _NAMES[number % len(_NAMES)]
        yield (
            f"The {one} was seen by Mr. {name} and the {other}. However the {other} "
            f"was near the {one}. They saw tools, i.e. the {one}, and the {other}. "
            f"The {one} was seen by the {other}."
        )


OPTIONS = TrainingOptions(
    abbreviation_shard_size=10_000, shard_size=20_000, min_capitalised_count=1
)


def _train(paragraphs, options=OPTIONS):
    shards = list(train_punkt.make_shards(paragraphs, options.abbreviation_shard_size))
    abbreviations = train_punkt.learn_abbreviations(shards, options)
    shards = train_punkt.make_shards(paragraphs, options.shard_size)
    return train_punkt.learn_tables(shards, abbreviations, options, PunktCorrections())


def test_what_a_small_text_teaches():
    parameters = _train(list(_paragraphs()))
    assert parameters.abbreviation_types == {"mr", "i.e"}
    assert "however" in parameters.sentence_starters
    assert {"the"} <= parameters.orthographic_context.keys()
    assert not {"brown", "mr."} & parameters.orthographic_context.keys()
    assert SentenceSplitter(parameters).split("I saw Mr. Baker. The dog ran.") == [
        "I saw Mr. Baker.",
        "The dog ran.",
    ]


def test_one_shard_with_the_word_but_no_period_is_outvoted():
    spoilt = [*_paragraphs(), *["Mr and Mr and Mr and mr ran home again."] * 250]
    assert "mr" in _train(spoilt).abbreviation_types
    together = TrainingOptions(
        abbreviation_shard_size=10**9, shard_size=20_000, min_shards=1
    )
    assert "mr" not in _train(spoilt, together).abbreviation_types


def test_command_writes_the_same_bytes_every_time(tmp_path, monkeypatch):
    text = tmp_path / "text.txt"
    text.write_text("\n".join(['<doc id="1">', "# Title", *_paragraphs()]))
    arguments = (
        f"--input={text}",
        "--name=small",
        "--description=made up",
        "--abbreviation_shard_size=10000",
        "--shard_size=20000",
    )
    there, here = tmp_path / "there.json", tmp_path / "here.json"
    # Sets of strings have another order in it.
    monkeypatch.setenv("PYTHONHASHSEED", "1")
    process = command_calls.python(
        *("-m", "seg_tf", "train-punkt"), f"--output={there}", *arguments
    )
    printed, errors = process.communicate()
    assert process.returncode == 0, errors
    assert "2 abbreviations" in printed
    command_calls.run(train_punkt, f"--output={here}", *arguments)
    assert there.read_bytes() == here.read_bytes()
    values = json.loads(here.read_bytes())
    assert values["name"] == "small"
    assert values["provenance"]["text"] == "made up"
    assert values["provenance"]["num_files"] == 1
    # Without markup and headings.
    assert values["provenance"]["num_characters"] == sum(map(len, _paragraphs()))
    assert values["provenance"]["options"]["shard_size"] == 20_000
    assert values["provenance"]["trainer"].startswith("NLTK ")


CORRECTIONS = """
[abbreviations]
titles = "mme"
[not_abbreviations]
none = "mr"
[collocations]
before_numbers = ["no", "##number##"]
[sentence_starters]
pronouns = "it"
[not_sentence_starters]
none = "however"
"""


def test_corrections_take_part_and_have_the_last_word(tmp_path):
    paragraphs = list(_paragraphs())
    (tmp_path / "a.txt").write_text("\n".join(paragraphs))
    (tmp_path / "b.txt").write_text("Not read.")
    corrections = tmp_path / "mine.toml"
    corrections.write_text(CORRECTIONS)
    command_calls.run(
        train_punkt,
        f"--input={tmp_path}/*.txt",
        "--every=2",
        f"--corrections={corrections}",
        f"--output={tmp_path}/out.json",
        "--abbreviation_shard_size=10000",
        "--shard_size=20000",
        "--min_capitalised_count=1",
    )
    parameters = read_parameters(tmp_path / "out.json")
    plain = _train(paragraphs)
    assert plain.abbreviation_types == {"mr", "i.e"}
    assert parameters.abbreviation_types == {"mme", "i.e"}
    assert "however" in plain.sentence_starters - parameters.sentence_starters
    assert "it" in parameters.sentence_starters - plain.sentence_starters
    # "Mr." is no abbreviation in the second round, so names begin sentences.
    assert "miller" in parameters.sentence_starters - plain.sentence_starters
    assert ("no", "##number##") in parameters.collocations - plain.collocations
    assert parameters.provenance["num_files"] == 1
    assert parameters.provenance["corrections"] == {
        "file": "mine.toml",
        "sha256": hashlib.sha256(corrections.read_bytes()).hexdigest(),
    }
