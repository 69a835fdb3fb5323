r"""Trains the tables of the Punkt sentence splitter on plain text.

No annotation is needed, only a lot of text in one language. One line of the input is
one paragraph; with --paragraphs=blank_lines, blank lines separate paragraphs
(hard-wrapped text). WikiExtractor's output and Markdown books can be used unchanged:
lines that start with < or # are left out.

The tables are written as sorted JSON, the same bytes for the same input. Use the path
of the file wherever a splitter is named.

  # From Wikipedia and books: the built-in English table, of every eighth file, with
  # what they do not teach (docs/languages.md has its --description, too).
  python -m seg_tf.commands.train_punkt --name=punkt-english-2 \
      --input='wikipedia/AA/wiki_*' --input='books/*/*.md' --every=8 \
      --corrections=seg_tf/text/data/english_corrections.toml \
      --output=seg_tf/text/data/english_punkt.json

  # Another language, from hard-wrapped text.
  python -m seg_tf.commands.train_punkt --name=punkt-german --input='texte/*.txt' \
      --paragraphs=blank_lines --output=german_punkt.json

Method: Kiss and Strunk's measures grow with the size of the text, and on much text
one stray "Mr" without its period outweighs thousands with it. So NLTK's trainer is
run on shards of the text, and what enough shards agree on is kept. Two rounds:
abbreviations first, then everything else with these abbreviations given. --corrections
names a TOML file of entries that the tables must or must not contain, regardless of the
text; `seg_tf.text.punkt_parameters` describes it.

Training needs the package nltk (part of the extra "dev"); splitting does not.
"""

import collections
import dataclasses
import hashlib
import importlib.metadata
import itertools
import pathlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from absl import app, flags
from tqdm import tqdm

from seg_tf import file_listing, files
from seg_tf.text.punkt import tokenize, type_of
from seg_tf.text.punkt_parameters import (
    UNIVERSAL_TERMINATORS,
    PunktCorrections,
    PunktParameters,
)

_FLAGS = flags.FLAGS


def _option(default: float, help: str) -> Any:
    return dataclasses.field(default=default, metadata={"help": help})


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """Thresholds for the parameters that are kept; the fields are flags."""

    abbreviation_shard_size: int = _option(
        500_000, "Characters of a shard, first round."
    )
    shard_size: int = _option(2_000_000, "Characters of a shard, second round.")
    abbreviation_share: float = _option(
        0.1,
        "Share of the shards that must classify a word as an abbreviation, out of "
        "those in which it occurs at least twice, or once with a period inside.",
    )
    starter_share: float = _option(
        0.2,
        "Share of the shards that must classify a word as a sentence starter, out of "
        "those in which it occurs.",
    )
    min_shards: int = _option(2, "Shards that must agree in any case.")
    min_collocation_count: int = _option(3, "Occurrences of a collocation in a shard.")
    min_capitalised_count: int = _option(
        3, "Capitals after a period for a word to be listed."
    )


def read_paragraphs(
    path: str, *, blank_lines: bool, skip_prefixes: Sequence[str]
) -> Iterator[str]:
    """The paragraphs of a text file: its lines, or what is between blank lines.

    Lines that start with one of `skip_prefixes` count as blank. A malformed byte is
    read as U+FFFD.
    """
    lines = []
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in itertools.chain(file, [""]):
            line = line.strip()
            is_blank = not line or line.startswith(tuple(skip_prefixes))
            if not is_blank:
                lines.append(line)
            if lines and (is_blank or not blank_lines):
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
    """The types that enough shards classify as abbreviations."""
    punkt = _import_nltk()
    votes, voters = collections.Counter(), collections.Counter()
    for shard in shards:
        trainer = punkt.PunktTrainer()
        # Our tokens are the same, but faster; lines make no difference here.
        tokens = itertools.chain.from_iterable(map(tokenize, shard))
        trainer.train_tokens(list(tokens), finalize=False)
        trainer.find_abbrev_types()
        counts = _count_types(shard)
        voting = {word for word, count in counts.items() if count > 1 or "." in word}
        votes.update(voting & trainer.get_params().abbrev_types)
        voters.update(voting)
    return frozenset(
        word
        for word, count in votes.items()
        if count >= max(options.min_shards, options.abbreviation_share * voters[word])
    )


def learn_tables(
    shards: Iterable[list[str]],
    abbreviations: frozenset[str],
    options: TrainingOptions,
    corrections: PunktCorrections,
) -> PunktParameters:
    """The tables of the second round, without entries that decide nothing.

    Args:
        shards: paragraphs of the text, grouped.
        abbreviations: result of the first round, already corrected.
        options: thresholds.
        corrections: entries that the tables must or must not contain.
    """
    punkt = _import_nltk()

    class TrainerWithAbbreviations(punkt.PunktTrainer):
        """Neither looks for abbreviations nor drops any."""

        ABBREV_BACKOFF = 0
        INCLUDE_ABBREV_COLLOCS = True
        MIN_COLLOC_FREQ = options.min_collocation_count - 1

        def _unique_types(self, tokens: list) -> set:
            return set()

    starters, collocations, context, shards_with, capitalised = (
        collections.Counter() for _ in range(5)
    )
    for shard in shards:
        trainer = TrainerWithAbbreviations()
        trainer.get_params().abbrev_types.update(abbreviations)
        trainer.train("\n\n".join(shard))
        tables = trainer.get_params()
        starters.update(tables.sent_starters)
        collocations.update(tables.collocations)
        for word, seen in tables.ortho_context.items():
            context[word] |= seen
        shards_with.update(_count_types(shard).keys())
        for tokens in map(tokenize, shard):
            for before, after in itertools.pairwise(tokens):
                if before.endswith(".") and after[0].isupper():
                    capitalised[type_of(after)] += 1
    sentence_starters = {
        word
        for word, count in starters.items()
        if count >= max(options.min_shards, options.starter_share * shards_with[word])
    }
    sentence_starters -= corrections.not_sentence_starters
    sentence_starters |= corrections.sentence_starters
    return PunktParameters(
        abbreviation_types=abbreviations,
        collocations=corrections.collocations
        | {
            pair
            for pair, count in collocations.items()
            if count >= options.min_shards and pair[1] not in sentence_starters
        },
        sentence_starters=frozenset(sentence_starters),
        orthographic_context={
            word: seen
            for word, seen in context.items()
            if capitalised[word] >= options.min_capitalised_count
        },
    ).reduced()


def _count_types(shard: list[str]) -> collections.Counter:
    """Number of occurrences of each type, with or without a final period."""
    return collections.Counter(
        type_of(token).removesuffix(".")
        for tokens in map(tokenize, shard)
        for token in tokens
    )


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
    _import_nltk()
    paths = {
        str(path) for item in _FLAGS.input for path in file_listing.list_files(item)
    }
    paths = sorted(paths)[:: _FLAGS.every]
    corrections, origin = PunktCorrections(), {}
    if _FLAGS.corrections:
        path = pathlib.Path(_FLAGS.corrections)
        corrections = PunktCorrections.read(path)
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        origin = {"corrections": {"file": path.name, "sha256": sha256}}
    fields = dataclasses.fields(TrainingOptions)
    options = TrainingOptions(
        **{field.name: _FLAGS[field.name].value for field in fields}
    )
    characters = 0

    def paragraphs(description: str) -> Iterator[str]:
        nonlocal characters
        characters = 0
        for path in tqdm(paths, desc=description, unit="file"):
            for paragraph in read_paragraphs(
                path,
                blank_lines=_FLAGS.paragraphs == "blank_lines",
                skip_prefixes=_FLAGS.skip_prefixes,
            ):
                characters += len(paragraph)
                yield paragraph

    abbreviations = learn_abbreviations(
        make_shards(paragraphs("abbreviations"), options.abbreviation_shard_size),
        options,
    )
    abbreviations -= corrections.not_abbreviations
    abbreviations |= corrections.abbreviations
    tables = learn_tables(
        make_shards(paragraphs("all else"), options.shard_size),
        abbreviations,
        options,
        corrections,
    )
    terminators = _FLAGS.terminators
    parameters = dataclasses.replace(
        tables,
        terminators=(
            UNIVERSAL_TERMINATORS if terminators == "universal" else terminators
        ),
        name=_FLAGS.name,
        provenance={
            "text": _FLAGS.description,
            "num_files": len(paths),
            "num_characters": characters,
            "command": "python -m seg_tf.commands.train_punkt",
            "trainer": f"NLTK {importlib.metadata.version('nltk')} PunktTrainer",
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


def define_flags() -> None:
    flags.DEFINE_multi_string(
        "input",
        None,
        "Text file, folder or glob pattern; may be repeated.",
        required=True,
    )
    flags.DEFINE_integer(
        "every", 1, "Of the files, sorted, use every n-th, from the first.", 1
    )
    flags.DEFINE_string(
        "corrections",
        None,
        "TOML file of entries that the tables must or must not contain; "
        "seg_tf/text/data/english_corrections.toml is an example.",
    )
    flags.DEFINE_string("output", None, "JSON file to write.", required=True)
    flags.DEFINE_string("name", "punkt-custom", "Name of the table, for manifests.")
    flags.DEFINE_string("description", "", "Description of the text, for the file.")
    flags.DEFINE_string(
        "terminators",
        "",
        "Characters that end a sentence wherever they occur; universal: "
        f"{UNIVERSAL_TERMINATORS}",
    )
    flags.DEFINE_enum(
        "paragraphs", "lines", ["lines", "blank_lines"], "Separator of paragraphs."
    )
    flags.DEFINE_list(
        "skip_prefixes", ["<", "#"], "Lines that start with one of these are left out."
    )
    for field in dataclasses.fields(TrainingOptions):
        define = flags.DEFINE_float if field.type is float else flags.DEFINE_integer
        define(field.name, field.default, field.metadata["help"], lower_bound=0)


if __name__ == "__main__":
    define_flags()
    try:
        app.run(main)
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")
