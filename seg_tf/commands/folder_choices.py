"""Chooses the settings of `seg-tf pretrain FOLDER` from text, time and speed.

Nothing here trains or writes. docs/one_command.md explains the rules.
"""

import itertools
import math
import pathlib
import random
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import charset_normalizer

from data_pipelines.cleaning import duplicates
from data_pipelines.readers import Document, get_reader, plain_text, streams
from data_pipelines.readers.base import LEFT_OUT_REASONS
from seg_tf import file_listing
from seg_tf.config import MuonConfig, RunConfig, StableAdamWConfig
from seg_tf.configs import segabert
from seg_tf.tasks import own_table

_SAMPLE_CHARACTERS = 10_000_000
_MIN_CHARACTERS = 20_000
_ENCODINGS = ("cp1252", "cp1251", "koi8_r", "gb18030", "big5", "shift_jis", "euc_jp")
_ENCODINGS += ("cp949", "utf_16")
_FORMATS = ("plain_text", "markdown", "json_lines", "parquet", "csv")
# A language is recognized if these make up more than 8 % of the words.
_STOP_WORDS = {
    "English": "the of and to in is was that for with it his he as be",
    "German": "der die und den das ist nicht von mit ein zu sich auf dem",
    "French": "le la les et des est une dans que pour qui il du ne",
    "Spanish": "el la los y que en una del por con las se su es",
}


@dataclass(frozen=True)
class Survey:
    """Properties of a text sample. `num_characters` estimates the whole text's size."""

    num_documents: int
    num_characters: int
    copies: float  # Fraction of the characters in copies of earlier documents.
    script: str
    script_share: float
    language: str | None
    distinct_characters: int


def detect_format(sizes: Mapping[str, int]) -> str | None:
    """Detects formats by file names. Returns the one with the most bytes, or None."""
    totals: Counter[str] = Counter()
    for path, size in sizes.items():
        name = path.lower().rpartition("/")[2]
        for suffix in file_listing.COMPRESSION_SUFFIXES:
            name = name.removesuffix(suffix)
        totals["wikiextractor"] += size * name.removeprefix("wiki_").isdigit()
        totals["mediawiki"] += size * ("pages-articles" in name)
        for key in _FORMATS:
            totals[key] += size * name.endswith(type(get_reader(key)).suffixes)
    best, size = max(totals.items(), key=lambda item: item[1], default=("", 0))
    return best if size else None


def guess_encoding(data: bytes) -> str:
    """Guesses the encoding of bytes that are not UTF-8, as Python's codec name."""
    best = charset_normalizer.from_bytes(data, cp_isolation=list(_ENCODINGS)).best()
    return best.encoding if best else "cp1252"


def guess_language(words: Counter[str]) -> str | None:
    """Guesses a text's language by stop words. Returns None if it is unclear."""
    counts = {
        name: sum(words[word] for word in stop_words.split())
        for name, stop_words in _STOP_WORDS.items()
    }
    best, second, *_ = sorted(counts, key=counts.__getitem__, reverse=True)
    is_mixed = best == "English" and counts[second] > 0.1 * counts[best]
    return best if counts[best] > 0.08 * words.total() and not is_mixed else None


def document_options(text: str) -> dict[str, str]:
    """Chooses the reader options that divide a single text file into documents."""
    lines = [line.strip() for line in text.split("\n")]
    if lines.count("") < 10:
        return {"documents": "lines"}
    wrapped = plain_text.is_hard_wrapped(lines) and plain_text.breaks_sentences(lines)
    return {"documents": "blank_lines", "hard_wrapped": "yes" if wrapped else "no"}


def find_text_field(path: str) -> str | None:
    """Returns the field with the most characters in the first rows of a table.

    Returns None if a field is named `text`, none is a string, or the file is invalid.
    """
    sizes: Counter[str] = Counter()
    try:
        for _, row in itertools.islice(own_table.records(pathlib.Path(path)), 200):
            strings = {k: v for k, v in row.items() if isinstance(v, str)}
            sizes.update({name: len(value) for name, value in strings.items()})
    except Exception:  # The reader of the format reports errors, also of compression.
        return None
    return None if "text" in sizes else max(sizes, key=sizes.__getitem__, default=None)


def survey(text: str, format: str, options: Mapping[str, Any]) -> Survey:
    """Reads a random sample of a file, folder or glob, and returns its properties.

    Raises a ValueError if more than 5% of the documents cannot be read.
    """
    reader = get_reader(format, **options)
    sources = reader.sources(text)
    characters, letters, words = Counter[str](), Counter[str](), Counter[str]()
    seen, rejected = set[bytes](), []
    num_documents = num_read = num_copied = 0
    names = random.Random(0).sample(list(sources), len(sources))
    for item in (item for name in names for item in reader.read(sources[name], name)):
        if not isinstance(item, Document):
            rejected += [item] * (item.reason not in LEFT_OUT_REASONS)
            continue
        terms = duplicates.normalised_words(item)
        key = duplicates.exact_fingerprint(terms).tobytes()
        num_copied += item.num_characters * (key in seen)
        seen.add(key)
        words.update(terms)
        characters.update("".join(item.paragraphs))
        num_documents += 1
        num_read += item.num_characters
        if num_read >= _SAMPLE_CHARACTERS:
            break
    if len(rejected) > 0.05 * (num_documents + len(rejected)):
        first, hint = rejected[0], "The options: seg-tf readers --help"
        if first.reason == "not_utf8":
            with streams.open_text(sources[first.source]) as file:
                encoding = guess_encoding(file.read(1 << 16))
            hint = f"It looks like {encoding}: add --reader_options={encoding=!s}"
        elif first.reason == "missing_text_field":
            hint = f"Add --format={format} --reader_options=text_field=NAME"
        raise ValueError(
            f"{len(rejected):,} of {num_documents + len(rejected):,} documents cannot "
            f"be read. The first is {first}. {hint}"
        )
    for character, count in characters.items():
        if character.isalpha():
            letters[unicodedata.name(character, "?").split()[0]] += count
    script, count = (letters.most_common(1) or [("?", 0)])[0]
    size = sum(path.stat().st_size for path in sources.values())
    return Survey(
        num_documents=num_documents,
        num_characters=size if num_read >= _SAMPLE_CHARACTERS else num_read,
        copies=num_copied / max(num_read, 1),
        script=script,
        script_share=count / max(letters.total(), 1),
        language=guess_language(words) if script == "LATIN" else None,
        distinct_characters=len(characters),
    )


def choose_text(sample: Survey, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Chooses settings for building records. `overrides` take precedence.

    Raises a ValueError if the text has fewer than 20,000 characters outside copies.
    """
    usable = sample.num_characters * (1 - sample.copies)
    if usable < _MIN_CHARACTERS:
        raise ValueError(
            f"The text must have at least {_MIN_CHARACTERS:,} characters without "
            f"copies. Received: {usable:,.0f}. Add text, or start from a trained "
            "model: docs/continued_pretraining.md"
        )
    is_english = sample.language == "English"
    size = 2_048 if usable < 5e5 else 4_096 if usable < 5e6 else 8_192
    is_ideographic = sample.script in ("CJK", "HIRAGANA", "KATAKANA", "HANGUL")
    if is_ideographic:  # Each character needs a piece.
        needed = 2 ** math.ceil(math.log2(2 * sample.distinct_characters))
        size = max(size, min(8_192, needed))
    size = overrides.get("vocab_size", size)
    return {
        "sentence_parameters": "english" if is_english else "universal",
        "lower_case": is_english,  # It strips accents, too.
        "vocab_size": size,
        "max_characters": max(1_000, size // 2) if is_ideographic else 1_000,
        "duplicates": "exact" if sample.copies >= 0.005 else "none",
        **overrides,
    }


RATES = {"modern_tiny": 4e-3, "modern_mini": 2e-3, "modern_base": 5e-4}
_LEVELS = {"position_index": 4, "token_index": 2}
_LEVELS |= {"sentence_index": 1, "paragraph_index": 1}

# Loss = c + a * (million parameters)**-0.85 + b * (million pieces)**-0.2, lower with
# Muon. Least squares over the runs in docs/one_command.md.
LOSS_CONSTANT, LOSS_PARAMETERS, LOSS_PIECES, LOSS_MUON = 1.48, 1.63, 3.27, -0.13
LOSS_EXPONENTS = (-0.85, -0.2)
LOSS_LEVEL = 6.14  # Of a model that ignores the context, in these runs.
# Decay of the value of repeated text, and the repetitions after which it has next to
# none (Muennighoff et al., 2023). Not measured here.
_REPEATS, MAX_EPOCHS = 15.4, 40
NUM_VALIDATIONS, _MIN_UPDATES, _MARGIN = 10, 50, 0.03


def configure(
    size: str, window: int, *, muon: bool, gpu: bool, bfloat16: bool
) -> RunConfig:
    """Returns a config of SegaBERT that masks 30% of the word pieces.

    `size` is a key of `RATES`. `window` is the length of a row.
    """
    run, mini = segabert.RUNS[size], segabert.RUNS["modern_mini"]
    masking = replace(mini.inputs.masking, max_predictions=math.ceil(0.31 * window))
    optimizer = MuonConfig if muon else StableAdamWConfig
    return replace(
        run,
        model=replace(run.model, index_tables={}, rotary_shares=_LEVELS),
        inputs=replace(mini.inputs, window_length=window, masking=masking),
        optimizer=optimizer(
            learning_rate=RATES[size], warmup_updates=100, decay_share=0.2
        ),
        training=replace(
            mini.training,
            dtype_policy=run.training.dtype_policy if bfloat16 else "float32",
            batch_size=128 if gpu else 16,
            validation_batches=10,
        ),
    )


class Speed(NamedTuple):
    """Measured seconds of an update and of a run's start, and pieces per update.

    `level` is the loss of a model that ignores the context.
    """

    update: float
    start: float
    pieces: float
    level: float = LOSS_LEVEL


class Plan(NamedTuple):
    """Length and predicted loss of a run. If `is_short`, the text limits the length."""

    num_updates: int
    seconds: float
    epochs: float
    loss: float
    is_short: bool


def predict_loss(parameters: float, pieces: float, text: float, muon: bool) -> float:
    """Predicts the loss after training on `pieces` word pieces.

    `text` is the number of word pieces in the text. Repetitions count for less.
    """
    if pieces > text:
        repeats = pieces / text - 1
        pieces = text * (1 + _REPEATS * (1 - math.exp(-repeats / _REPEATS)))
    of_size = LOSS_PARAMETERS * (parameters / 1e6) ** LOSS_EXPONENTS[0]
    of_pieces = LOSS_PIECES * (pieces / 1e6) ** LOSS_EXPONENTS[1]
    return LOSS_CONSTANT + of_size + of_pieces + LOSS_MUON * muon


def plan_length(
    config: RunConfig,
    speed: Speed,
    seconds: float,
    text: float,
    vocab_size: int,
    asked: int | None = None,
) -> Plan:
    """Plans the length of a run that takes at most `seconds`, including validations.

    `text` counts the text's word pieces. Raises ValueError if too few updates fit.
    """
    # A validation is a forward pass of some batches, a checkpoint and a curve.
    validation = 0.4 * config.training.validation_batches * speed.update + 1.5
    fixed = 1.5 * speed.start + (NUM_VALIDATIONS + 3) * validation
    fitting = int((seconds * (1 - _MARGIN) - fixed) / speed.update)
    if fitting < _MIN_UPDATES and not asked:
        needed = (_MIN_UPDATES * speed.update + fixed) / (1 - _MARGIN) - seconds
        raise ValueError(
            f"`--minutes` must leave time for {_MIN_UPDATES} updates. Add at least "
            f"{math.ceil(needed / 60)}. Finished records are not built again"
        )
    most = max(_MIN_UPDATES, int(MAX_EPOCHS * text / speed.pieces))
    num_updates = asked or min(fitting, most)
    muon = isinstance(config.optimizer, MuonConfig)
    pieces, weights = num_updates * speed.pieces, config.model.least_weights(vocab_size)
    return Plan(
        num_updates=num_updates,
        seconds=num_updates * speed.update + fixed,
        epochs=pieces / text,
        loss=speed.level / LOSS_LEVEL * predict_loss(weights, pieces, text, muon),
        is_short=not asked and most < fitting,
    )


def choose_size(
    flops: Mapping[str, float],
    measure: Callable[[str], Speed],
    plan: Callable[[str, Speed], Plan],
) -> tuple[str, Plan]:
    """Returns the size with the lowest predicted loss, and its plan.

    Measures the most promising sizes, and estimates the speed of the rest from `flops`,
    the FLOPs per update. Raises a ValueError if the chosen size is too slow.
    """
    best, speeds = next(iter(flops)), dict[str, Speed]()
    while best not in speeds:
        speeds[best] = measured = measure(best)
        losses = {}
        for name in flops:
            update = measured.update * flops[name] / flops[best]
            speed = speeds.get(name) or measured._replace(update=update)
            try:
                losses[name] = plan(name, speed).loss
            except ValueError:  # Too slow for the time.
                losses[name] = math.inf
        best = min(losses, key=lambda name: losses[name])
    return best, plan(best, speeds[best])
