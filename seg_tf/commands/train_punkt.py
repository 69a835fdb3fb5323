r"""Trains the Punkt sentence splitter on plain text.

  seg-tf train-punkt --name=punkt-german --input=german.txt \
    --output=german_punkt.json

Training needs no annotation, only a large text in one language with one paragraph per
line. Lines that start with < or # are skipped, so that WikiExtractor's output and
Markdown books can be used. The tables are JSON, byte-identical for the same input.

In Kiss and Strunk's statistics of a large text, one "Mr" without its period outweighs
thousands with it. Therefore NLTK's trainer is run on shards of the text, and entries on
which enough shards agree are kept. The first round learns abbreviations. The second
round learns everything else. Training needs the package nltk (part of the "dev" extra).
"""

import collections
import dataclasses
import importlib.metadata
import itertools
import pathlib
from collections.abc import Iterable, Iterator, Sequence

import fsspec
from absl import flags
from tqdm import tqdm

from data_pipelines import command_flags
from seg_tf import file_listing, files
from seg_tf.text.punkt import tokenize, type_of
from seg_tf.text.punkt_parameters import (
    UNIVERSAL_TERMINATORS,
    PunktCorrections,
    PunktParameters,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """Shard sizes and thresholds for keeping learned entries. Each field is a flag."""

    # Minimum characters per shard in the first and in the second round.
    abbreviation_shard_size: int = 500_000
    shard_size: int = 2_000_000
    # Fraction of shards that must classify a word as an abbreviation, among those in
    # which it occurs at least twice, or once with a period inside.
    abbreviation_share: float = 0.1
    # The same for sentence starters, among the shards in which the word occurs.
    starter_share: float = 0.2
    min_shards: int = 2  # minimum number of shards that must agree
    min_collocation_count: int = 3  # occurrences in a shard
    min_capitalised_count: int = 3  # capitalized occurrences after a period


def make_shards(paragraphs: Iterable[str], size: int) -> Iterator[list[str]]:
    """Yields lists of paragraphs with at least `size` characters, except the last."""
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
    """Returns the word types that enough shards classify as abbreviations."""
    from nltk.tokenize import punkt

    votes, voters = collections.Counter(), collections.Counter()
    for shard in shards:
        trainer = punkt.PunktTrainer()
        # `tokenize` is faster and gives the same tokens. Line breaks do not matter.
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
    """Learns collocations, sentence starters and capitalization, and corrects them."""
    from nltk.tokenize import punkt

    class TrainerWithAbbreviations(punkt.PunktTrainer):
        """Trainer that keeps the given abbreviations and learns no new ones."""

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
    return collections.Counter(
        type_of(token).removesuffix(".")
        for tokens in map(tokenize, shard)
        for token in tokens
    )


RUN = {"errors": (ValueError, OSError, ImportError)}


def define_flags() -> None:
    flags.DEFINE_multi_string(
        "input", None, "Text file, folder or glob; may be repeated.", required=True
    )
    flags.DEFINE_integer("every", 1, "Use only every N-th of the sorted files.", 1)
    flags.DEFINE_string(
        "corrections", None, "TOML file of entries to add to or remove from the tables."
    )
    flags.DEFINE_string("output", None, "JSON file to write.", required=True)
    flags.DEFINE_string("name", "punkt-custom", "Name of the tables, for manifests.")
    flags.DEFINE_string("description", "", "Description of the text, for the output.")
    flags.DEFINE_string(
        "terminators",
        "",
        "Characters that end a sentence wherever they occur. `universal` means "
        f"{UNIVERSAL_TERMINATORS}",
    )
    for field in dataclasses.fields(TrainingOptions):
        define = flags.DEFINE_float if field.type is float else flags.DEFINE_integer
        define(field.name, field.default, "Training option.", lower_bound=0)


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    paths = {
        str(path) for item in values.input for path in file_listing.list_files(item)
    }
    paths = sorted(paths)[:: values.every]
    corrections, origin = PunktCorrections(), {}
    if values.corrections:
        path = pathlib.Path(values.corrections)
        corrections = PunktCorrections.read(path)
        origin = {"corrections": {"file": path.name, "sha256": files.checksum(path)}}
    options = command_flags.options_from_flags(TrainingOptions)
    characters = 0

    def paragraphs(description: str) -> Iterator[str]:
        nonlocal characters
        characters = 0
        for path in tqdm(paths, desc=description, unit="file"):
            with fsspec.open(
                path, "rt", encoding="utf-8", errors="replace", compression="infer"
            ) as file:
                for line in map(str.strip, file):
                    if line and not line.startswith(("<", "#")):
                        characters += len(line)
                        yield line

    abbreviations = learn_abbreviations(
        make_shards(paragraphs("abbreviations"), options.abbreviation_shard_size),
        options,
    )
    abbreviations -= corrections.not_abbreviations
    abbreviations |= corrections.abbreviations
    shards = make_shards(paragraphs("all else"), options.shard_size)
    is_universal = values.terminators == "universal"
    parameters = dataclasses.replace(
        learn_tables(shards, abbreviations, options, corrections),
        terminators=UNIVERSAL_TERMINATORS if is_universal else values.terminators,
        name=values.name,
        provenance={
            "text": values.description,
            "num_files": len(paths),
            "num_characters": characters,
            "trainer": f"NLTK {importlib.metadata.version('nltk')} PunktTrainer",
            "options": dataclasses.asdict(options),
            **origin,
        },
    )
    files.write_bytes(pathlib.Path(values.output), parameters.to_bytes())
    print(
        f"{values.output}: {len(abbreviations)} abbreviations, "
        f"{len(parameters.collocations)} collocations, "
        f"{len(parameters.sentence_starters)} sentence starters, "
        f"capitalization of {len(parameters.orthographic_context)} words"
    )
