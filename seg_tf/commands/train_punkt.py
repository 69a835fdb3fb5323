r"""Trains the tables of the Punkt sentence splitter on plain text.

No annotation is needed, only much text of one language. One line of the input is
one paragraph, or, with --paragraphs=blank_lines, what is between blank lines
(hard-wrapped text). Files that WikiExtractor wrote and Markdown books can be given
as they are: lines that start with < or # are left out.

The tables are written as JSON, sorted, the same bytes for the same input. Use them
wherever a splitter is named, by the path of the file.

To make a table:

  # From Wikipedia and books: the built-in English table, of every eighth file, with
  # what they do not teach (docs/languages.md has its --description, too).
  python -m seg_tf.commands.train_punkt --name=punkt-english-2 \
      --input='wikipedia/AA/wiki_*' --input='books/*/*.md' --every=8 \
      --corrections=seg_tf/text/data/english_corrections.toml \
      --output=seg_tf/text/data/english_punkt.json

  # Another language, from hard-wrapped text.
  python -m seg_tf.commands.train_punkt --name=punkt-german --input='texte/*.txt' \
      --paragraphs=blank_lines --output=german_punkt.json

  # With marks that end a sentence wherever they stand, as in Hindi.
  python -m seg_tf.commands.train_punkt --name=punkt-hindi --input='hindi/*.txt' \
      --terminators=universal --output=hindi_punkt.json

Method: Kiss and Strunk's measures grow with the size of the text, and on much text
one stray "Mr" without its period outweighs thousands with it. So NLTK's trainer is
run on shards of the text, and what enough shards agree on is kept. Two rounds:
abbreviations first, then everything else with these abbreviations given. --corrections
names a TOML file of entries that the tables get, or must not have, whatever the text
says; `seg_tf.text.punkt_parameters` describes it.

Training needs the package nltk (part of the extra "dev"); splitting does not.
"""

import collections
import dataclasses
import glob
import hashlib
import importlib.metadata
import itertools
import os
import pathlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from absl import app, flags
from tqdm import tqdm

from seg_tf import files
from seg_tf.text.punkt import tokenize, type_of
from seg_tf.text.punkt_parameters import (
    UNIVERSAL_TERMINATORS,
    PunktCorrections,
    PunktParameters,
)

_FLAGS = flags.FLAGS


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """Thresholds for the parameters that are kept.

    Attributes:
        abbreviation_shard_size: characters of a shard of the first round.
        shard_size: characters of a shard of the second round.
        abbreviation_share: share of the shards that must take a type for an
            abbreviation, out of those in which it occurs at least twice. A type
            with a period inside counts from its first occurrence.
        starter_share: share of the shards that must take a type for a sentence
            starter, out of those in which it occurs.
        min_shards: shards that must agree in any case.
        min_collocation_count: occurrences of a collocation in a shard.
        min_capitalised_count: how often a word must follow a period with a capital,
            in all of the text, for its capitalisation to be kept.
    """

    abbreviation_shard_size: int = 500_000
    shard_size: int = 2_000_000
    abbreviation_share: float = 0.1
    starter_share: float = 0.2
    min_shards: int = 2
    min_collocation_count: int = 3
    min_capitalised_count: int = 3


@dataclasses.dataclass
class SecondRound:
    """Counts of the second round, added up over shards."""

    starters: collections.Counter
    collocations: collections.Counter
    orthographic_context: collections.Counter
    shards_with: collections.Counter
    capitalised_after_period: collections.Counter


def find_files(patterns: Sequence[str]) -> list[str]:
    """The files that paths and glob patterns name, sorted, none of them twice.

    Raises:
        ValueError: if a pattern names no file.
    """
    files = set()
    for pattern in patterns:
        found = [path for path in glob.glob(pattern) if os.path.isfile(path)]
        if not found:
            raise ValueError(
                f"`--input` must name files. Received: {pattern!r}, which names none"
            )
        files.update(found)
    return sorted(files)


def read_paragraphs(
    path: str, *, blank_lines: bool, skip_prefixes: Sequence[str]
) -> Iterator[str]:
    """The paragraphs of a text file, in order.

    Args:
        path: a UTF-8 text file. A malformed byte is read as U+FFFD.
        blank_lines: whether blank lines part paragraphs, rather than every line
            being one.
        skip_prefixes: lines that start with one of these are left out.
    """
    lines = []
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in itertools.chain(file, [""]):
            line = line.strip()
            if skip_prefixes and line.startswith(tuple(skip_prefixes)):
                line = ""
            if line:
                lines.append(line)
            if lines and not (line and blank_lines):
                yield "\n".join(lines)
                lines = []


def make_shards(paragraphs: Iterable[str], size: int) -> Iterator[list[str]]:
    """Groups paragraphs into lists of at least `size` characters, the last less."""
    shard, length = [], 0
    for paragraph in paragraphs:
        shard.append(paragraph)
        length += len(paragraph)
        if length >= size:
            yield shard
            shard, length = [], 0
    if shard:
        yield shard


def learn_abbreviations(
    shards: Iterable[list[str]], options: TrainingOptions
) -> frozenset[str]:
    """The types that enough shards take for abbreviations."""
    punkt = _import_nltk()
    votes, voters = collections.Counter(), collections.Counter()
    for shard in shards:
        trainer = punkt.PunktTrainer()
        # Tokens of ours are the same, sooner; lines make no difference here.
        tokens = itertools.chain.from_iterable(map(tokenize, shard))
        trainer.train_tokens(list(tokens), finalize=False)
        trainer.find_abbrev_types()
        found = trainer.get_params().abbrev_types
        counts = _count_types(shard)
        heard = {word for word, count in counts.items() if count > 1 or "." in word}
        votes.update(heard & found)
        voters.update(heard)
    return frozenset(
        word
        for word, count in votes.items()
        if count >= options.min_shards
        and count >= options.abbreviation_share * voters[word]
    )


def collect(
    shards: Iterable[list[str]],
    abbreviations: frozenset[str],
    options: TrainingOptions,
) -> SecondRound:
    """Adds up the counts of all shards, abbreviations aside."""
    punkt = _import_nltk()

    class TrainerWithAbbreviations(punkt.PunktTrainer):
        """Takes the abbreviations as given: looks for none, and drops none."""

        ABBREV_BACKOFF = 0
        INCLUDE_ABBREV_COLLOCS = True
        MIN_COLLOC_FREQ = options.min_collocation_count - 1

        def _unique_types(self, tokens: list) -> set:
            return set()

    totals = SecondRound(*(collections.Counter() for _ in range(5)))
    for shard in shards:
        trainer = TrainerWithAbbreviations()
        trainer.get_params().abbrev_types.update(abbreviations)
        trainer.train("\n\n".join(shard))
        found = trainer.get_params()
        totals.starters.update(found.sent_starters)
        totals.collocations.update(found.collocations)
        for word, seen in found.ortho_context.items():
            totals.orthographic_context[word] |= seen
        totals.shards_with.update(_count_types(shard).keys())
        totals.capitalised_after_period.update(_capitalised_after_period(shard))
    return totals


def make_parameters(
    abbreviations: frozenset[str],
    totals: SecondRound,
    options: TrainingOptions,
    *,
    terminators: str = "",
    corrections: PunktCorrections | None = None,
    name: str,
    provenance: dict[str, Any],
) -> PunktParameters:
    """The tables that the second round yields, without entries that decide nothing.

    Args:
        abbreviations: those of the first round, corrected already.
        totals: the counts of the second round.
        options: thresholds.
        terminators: characters that end a sentence wherever they stand.
        corrections: entries that the other tables get or must not have.
        name: name of the table.
        provenance: where it comes from.
    """
    corrections = corrections or PunktCorrections()
    starters = frozenset(
        word
        for word, count in totals.starters.items()
        if count >= options.min_shards
        and count >= options.starter_share * totals.shards_with[word]
    )
    starters = starters - corrections.not_sentence_starters
    starters |= corrections.sentence_starters
    collocations = corrections.collocations | {
        pair
        for pair, count in totals.collocations.items()
        if count >= options.min_shards and pair[1] not in starters
    }
    context = {
        word: seen
        for word, seen in totals.orthographic_context.items()
        if totals.capitalised_after_period[word] >= options.min_capitalised_count
    }
    return PunktParameters(
        abbreviation_types=abbreviations,
        collocations=collocations,
        sentence_starters=starters,
        orthographic_context=context,
        terminators=terminators,
        name=name,
        provenance=provenance,
    ).reduced()


def _count_types(shard: list[str]) -> collections.Counter:
    """Number of occurrences of each type, with or without a final period."""
    counts = collections.Counter()
    for tokens in map(tokenize, shard):
        counts.update(type_of(token).removesuffix(".") for token in tokens)
    return counts


def _capitalised_after_period(shard: list[str]) -> collections.Counter:
    """Number of times that each type is capitalised right after a period."""
    counts = collections.Counter()
    for tokens in map(tokenize, shard):
        for before, after in itertools.pairwise(tokens):
            if before.endswith(".") and after[0].isupper():
                counts[type_of(after)] += 1
    return counts


def _import_nltk() -> Any:
    try:
        from nltk.tokenize import punkt
    except ImportError as error:
        raise ValueError(
            "training needs the package nltk, which is not installed: "
            "`pip install nltk`, or install this package with the extra 'dev'"
        ) from error
    return punkt


def main(argv: Sequence[str]) -> None:
    if len(argv) > 1:
        raise ValueError(f"unexpected argument {argv[1]!r}; all options are flags")
    punkt_version = _nltk_version()
    paths = find_files(_FLAGS.input)[:: _FLAGS.every]
    corrections, origin = PunktCorrections(), {}
    if _FLAGS.corrections:
        path = pathlib.Path(_FLAGS.corrections)
        corrections = PunktCorrections.read(path)
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        origin = {"corrections": {"file": path.name, "sha256": sha256}}
    options = TrainingOptions(
        **{
            field.name: _FLAGS[field.name].value
            for field in dataclasses.fields(TrainingOptions)
        }
    )
    characters = 0

    def paragraphs(description: str) -> Iterator[str]:
        nonlocal characters
        characters = 0
        size = sum(os.path.getsize(path) for path in paths)
        with tqdm(total=size, desc=description, unit="B", unit_scale=True) as bar:
            for path in paths:
                for paragraph in read_paragraphs(
                    path,
                    blank_lines=_FLAGS.paragraphs == "blank_lines",
                    skip_prefixes=_FLAGS.skip_prefixes,
                ):
                    characters += len(paragraph)
                    yield paragraph
                bar.update(os.path.getsize(path))

    abbreviations = learn_abbreviations(
        make_shards(paragraphs("abbreviations"), options.abbreviation_shard_size),
        options,
    )
    abbreviations -= corrections.not_abbreviations
    abbreviations |= corrections.abbreviations
    totals = collect(
        make_shards(paragraphs("all else"), options.shard_size), abbreviations, options
    )
    terminators = _FLAGS.terminators
    if terminators == "universal":
        terminators = UNIVERSAL_TERMINATORS
    parameters = make_parameters(
        abbreviations,
        totals,
        options,
        terminators=terminators,
        corrections=corrections,
        name=_FLAGS.name,
        provenance={
            "text": _FLAGS.description,
            "num_files": len(paths),
            "num_characters": characters,
            "command": "python -m seg_tf.commands.train_punkt",
            "trainer": f"NLTK {punkt_version} PunktTrainer",
            "options": dataclasses.asdict(options),
            **origin,
        },
    )
    with files.written_aside(pathlib.Path(_FLAGS.output)) as aside:
        parameters.save(aside)
    print(
        f"{_FLAGS.output}: {len(abbreviations)} abbreviations, "
        f"{len(parameters.collocations)} collocations, "
        f"{len(parameters.sentence_starters)} sentence starters, "
        f"capitalisation of {len(parameters.orthographic_context)} words"
    )


def _nltk_version() -> str:
    _import_nltk()
    return importlib.metadata.version("nltk")


def define_flags() -> None:
    flags.DEFINE_multi_string(
        "input", None, "Text file or glob pattern; may be repeated.", required=True
    )
    flags.DEFINE_integer(
        "every", 1, "Of the files, sorted, take every n-th, from the first.", 1
    )
    flags.DEFINE_string(
        "corrections",
        None,
        "TOML file of entries that the tables get or must not have; "
        "seg_tf/text/data/english_corrections.toml is one.",
    )
    flags.DEFINE_string("output", None, "JSON file to write.", required=True)
    flags.DEFINE_string("name", "punkt-custom", "Name of the table, for manifests.")
    flags.DEFINE_string("description", "", "Description of the text, for the file.")
    flags.DEFINE_string(
        "terminators",
        "",
        "Characters that end a sentence wherever they stand; universal: "
        f"{UNIVERSAL_TERMINATORS}",
    )
    flags.DEFINE_enum(
        "paragraphs", "lines", ["lines", "blank_lines"], "Separator of paragraphs."
    )
    flags.DEFINE_list(
        "skip_prefixes", ["<", "#"], "Lines that start with one of these are left out."
    )
    helps = {
        "abbreviation_shard_size": "Characters of a shard, first round.",
        "shard_size": "Characters of a shard, second round.",
        "abbreviation_share": "Share of the shards that must agree on one.",
        "starter_share": "Share of the shards that must agree on one.",
        "min_shards": "Shards that must agree in any case.",
        "min_collocation_count": "Occurrences of a collocation in a shard.",
        "min_capitalised_count": "Capitals after a period for a word to be listed.",
    }
    for field in dataclasses.fields(TrainingOptions):
        define = flags.DEFINE_float if field.type is float else flags.DEFINE_integer
        define(field.name, field.default, helps[field.name], lower_bound=0)


if __name__ == "__main__":
    define_flags()
    try:
        app.run(main)
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")
