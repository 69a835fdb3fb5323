"""The manifest beside the shards: what they hold and how they were made.

It has no date and no absolute path, so equal builds have equal manifests. A manifest
may have been edited, cut off by a copy, or written by another version of the project:
`Manifest.load` checks every entry, and whatever reads records relies on it.
"""

import dataclasses
import pathlib
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn

from seg_tf import files
from seg_tf.data import record_schema
from seg_tf.text import encoding
from seg_tf.text.encoding import SENTENCE_PARAMETERS_FILE, TextPreparation
from seg_tf.text.normalization import Normalization
from seg_tf.text.splitters import read_parameters

SCHEMA_VERSION = 2
FILE_NAME = "manifest.json"
PLANS_FOLDER = "plans"
"""Next to the manifest: the plans of rows that training made of a large split."""
MIRROR_FILE = "mirror.json"
"""In a local folder for records of a bucket, whose shards come when they are read."""
SPLITS = ("train", "validation")
# `[CLS]` before a window's pieces and `[SEP]` after them.
NUM_SPECIAL_TOKENS = 2
COUNTS = ("documents", "paragraphs", "sentences", "pieces", "records")
TEXT_COUNTS = ("words", "unknown_words", "unsplit_pieces")
"""Of documents only."""
_MAX_DEPTH = 20
_SPECIAL_TOKENS = {encoding.WORD_PIECES: ("pad", "unk", "cls", "sep", "mask")}
_SPECIAL_TOKENS_OF_WORDS = ("unk", "eos")


class SchemaError(ValueError):
    """An entry of a manifest is not as it must be; the message names it."""


class _Rule(NamedTuple):
    """A rule for values of a type, in words and as a predicate."""

    kind: type
    words: str
    is_valid: Callable[[Any], object]


def _between(least: int, most: int) -> _Rule:
    allowed = range(least, most + 1)
    return _Rule(int, f"an integer from {least} to {most}", allowed.__contains__)


def _one_of(*names: str) -> _Rule:
    return _Rule(str, f"one of {', '.join(names)}", names.__contains__)


def _is_file_name(value: str) -> bool:
    is_name = value.isprintable() and value.strip(". ") and len(value) <= 255
    return bool(is_name) and not {"/", "\\"} & {*value}


# The form of a manifest's JSON: an object by its entries, those that may be missing
# with a question mark, or by "*" for all; a list by its item; (form, None) may be null.
_COUNT = _between(0, (1 << 63) - 1)
_FILE_NAME = _Rule(
    str, "the name of a file of this folder, without separators", _is_file_name
)
_SHA256 = _Rule(str, "64 hexadecimal digits", re.compile("[0-9a-f]{64}").fullmatch)
_TEXT_SIZE = {"documents": _COUNT, "paragraphs": _COUNT, "characters": _COUNT}
_NAMED_FILES = {"count": _COUNT, "first": [str]}
_DROPPED_TEXT = {
    "document_id": _COUNT,
    **dict.fromkeys(("source", "location", "why", "text"), str),
}
_SHARD = {
    "file": _FILE_NAME,
    "bytes": _COUNT,
    "sha256": _SHA256,
    **dict.fromkeys(COUNTS, _COUNT),
    **dict.fromkeys((f"{name}?" for name in TEXT_COUNTS), (_COUNT, None)),
}
_FORM = {
    "kind": _one_of("documents", "windows"),
    "vocabulary": {
        "file": _FILE_NAME,
        "size": _between(1, 1 << 31),
        "sha256": _SHA256,
        "lower_case": bool,
        "strip_accents?": bool,
        "split_ideographs?": bool,
        "special_ids": {"*": _COUNT},
        "tokenizer": _one_of(*encoding.TOKENIZERS),
    },
    "sentence_splitter": {"name": str, "parameters_sha256": str},
    "options": {"*": Any},
    "number_widths": {"*": _one_of("uint16", "uint32")},
    "window_length": (_between(3, 65_535), None),
    "sources": [{"file": str, "bytes": _COUNT, "sha256": _SHA256}],
    "rejected": {"*": _COUNT},
    "splits": {"*": [_SHARD]},
    "cleaning?": (
        {
            "before": _TEXT_SIZE,
            "steps": {"*": {**_TEXT_SIZE, "examples": [_DROPPED_TEXT]}},
            "after": _TEXT_SIZE,
        },
        None,
    ),
    "passed_over?": ({"*": _NAMED_FILES}, None),
    "broken_files?": ({**_NAMED_FILES, "bytes": _COUNT, "of_bytes": _COUNT}, None),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shard:
    """One shard: its file, checked by size and checksum, and what it counts.

    A sentence that two windows share counts in both. `words`, `unknown_words` and
    `unsplit_pieces` are those of documents; None of windows.
    """

    file: str
    bytes: int
    sha256: str
    documents: int
    paragraphs: int
    sentences: int
    pieces: int
    records: int
    words: int | None = None
    unknown_words: int | None = None
    unsplit_pieces: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Manifest:
    """Everything that training and checking need to know about a set of shards.

    Attributes:
        kind: "documents" or "windows".
        vocabulary: the file, and how text is changed before look-ups.
        sentence_splitter: name and checksum of the parameters.
        options: the settings of the build that its result depends on.
        number_widths: type of each number list of a record.
        window_length: positions of a window, `[CLS]` and `[SEP]` included; None
            for documents.
        sources: every input file; where validation had a separate input, `file`
            begins with the split.
        rejected: reason -> number of documents that were left out.
        splits: split name -> its shards.
        cleaning: what each step dropped; None where no step was on.
        passed_over: reason -> files of the input that were not read; None where there
            are none.
        broken_files: sources that could not be read to their end, see
            `losses.describe_broken_files`; None where there are none.
    """

    kind: str
    vocabulary: Mapping[str, Any]
    sentence_splitter: Mapping[str, str]
    options: Mapping[str, Any]
    number_widths: Mapping[str, str]
    window_length: int | None
    sources: tuple[Mapping[str, Any], ...]
    rejected: Mapping[str, int]
    splits: Mapping[str, tuple[Shard, ...]]
    cleaning: Mapping[str, Any] | None = None
    passed_over: Mapping[str, Mapping[str, Any]] | None = None
    broken_files: Mapping[str, Any] | None = None

    @property
    def tokenizer(self) -> str:
        """Name of the tokenizer, one of `seg_tf.text.encoding.TOKENIZERS`."""
        name: str = self.vocabulary["tokenizer"]
        return name

    @property
    def tokens_name(self) -> str:
        """Name of the tokens in messages; the field `pieces` counts either kind."""
        return "pieces" if self.tokenizer == encoding.WORD_PIECES else "words"

    def count(self, what: str, split: str | None = None) -> int:
        """Sum of one of `COUNTS` over the shards of a split, or of all."""
        splits = self.splits if split is None else {split: self.splits[split]}
        return sum(
            getattr(shard, what) for shards in splits.values() for shard in shards
        )

    def text_counts(self, split: str | None = None) -> dict[str, int]:
        """Sums of `TEXT_COUNTS` over a split, or all; empty for windows."""
        splits = self.splits if split is None else {split: self.splits[split]}
        shards = [shard for in_split in splits.values() for shard in in_split]
        counted = {
            name: [getattr(shard, name) for shard in shards] for name in TEXT_COUNTS
        }
        if any(None in counts for counts in counted.values()):
            return {}
        return {name: sum(counts) for name, counts in counted.items()}

    def save(self, folder: pathlib.Path) -> None:
        """Writes `manifest.json`, with the totals for people to read first."""
        head = {"schema_version": SCHEMA_VERSION, "counts": self.counts()}
        files.write_json(folder / FILE_NAME, head | dataclasses.asdict(self))

    def counts(self) -> dict[str, Any]:
        """The totals of all shards, then those of each split."""
        counts, *in_splits = (
            {name: self.count(name, split) for name in COUNTS} | self.text_counts(split)
            for split in (None, *SPLITS)
        )
        return counts | dict(zip(SPLITS, in_splits, strict=True))

    @classmethod
    def load(cls, folder: pathlib.Path) -> "Manifest":
        """Reads the manifest of a folder.

        Raises:
            ValueError: if there is none, or it is of another schema, damaged or
                edited, naming the entry and saying what to do.
        """
        path = pathlib.Path(folder) / FILE_NAME
        if not path.is_file():
            raise ValueError(
                f"{path}: there is no manifest. Build records with "
                "`python -m data_pipelines.build_records`, or run it again if it was "
                "interrupted"
            )
        values = files.read_json(path)
        again = (
            "again with `python -m data_pipelines.build_records --overwrite` (or "
            "build_documents)"
        )
        version = values.get("schema_version") if isinstance(values, dict) else None
        if type(version) is int and version < SCHEMA_VERSION:
            raise ValueError(
                f"{path}: the records have format {version}; this version of the "
                f"project reads format {SCHEMA_VERSION} only. Build them {again}"
            )
        try:
            return cls._from_json(values)
        except SchemaError as error:
            raise ValueError(
                f"{path}: {error}. Restore the manifest that the build wrote, or build "
                f"the records {again}"
            ) from error

    @classmethod
    def _from_json(cls, values: Any) -> "Manifest":
        is_object = isinstance(values, dict)
        version = values.pop("schema_version", None) if is_object else None
        if is_object and (type(version) is not int or version != SCHEMA_VERSION):
            raise SchemaError(
                f"`schema_version` must be {SCHEMA_VERSION}, the only one that this "
                f"version of the project reads. Found: {version!r}"
            )
        counts = values.pop("counts", None) if is_object else None
        _check("", values, _FORM)
        _check_consistency(values)
        splits = {
            split: tuple(Shard(**shard) for shard in values["splits"][split])
            for split in SPLITS
        }
        manifest = cls(
            **{**values, "splits": splits, "sources": tuple(values["sources"])}
        )
        if counts != manifest.counts():
            _fail("counts", "the totals of the shards", counts)
        return manifest


def _check(where: str, value: Any, form: Any) -> None:
    """Raises SchemaError at the first value that is not of its form, see `_FORM`."""
    if isinstance(form, _Rule):
        # A boolean is an integer to Python.
        if type(value) is not form.kind or not form.is_valid(value):
            _fail(where, form.words, value)
    elif isinstance(form, tuple):
        if value is not None:
            _check(where, value, form[0])
    elif form is Any:
        _check_depth(where, value)
    elif isinstance(form, type):
        if not isinstance(value, form):
            _fail(where, "true or false" if form is bool else "a string", value)
    elif isinstance(form, list):
        if not isinstance(value, list):
            _fail(where, "a list", value)
        for number, item in enumerate(value):
            _check(f"{where}[{number}]", item, form[0])
    elif not isinstance(value, dict):
        _fail(where or "manifest", "an object", value)
    else:
        prefix = f"{where}." if where else ""
        for name, item in value.items():
            known = form.get("*") or form.get(name) or form.get(f"{name}?")
            if known is None or (name.endswith("?") and "*" not in form):
                raise SchemaError(
                    f"`{prefix}{name if name.isprintable() else ascii(name)}` is an "
                    "entry that this version of the project does not know; a newer one "
                    "may have written it"
                )
            _check(f"{prefix}{name}", item, known)
        for name in form:
            if name != "*" and not name.endswith("?") and name not in value:
                raise SchemaError(f"`{prefix}{name}` is missing")


def _check_consistency(values: Mapping[str, Any]) -> None:
    """Checks the entries of a manifest that depend on one another."""
    length, vocabulary = values["window_length"], values["vocabulary"]
    is_windows = values["kind"] == "windows"
    if is_windows != (length is not None):
        _fail("window_length", "an integer for windows, null for documents", length)
    if is_windows:
        _equal("vocabulary.tokenizer", vocabulary["tokenizer"], encoding.WORD_PIECES)
        options = values["options"]
        _equal("options.window_length", options.get("window_length", length), length)
        _check("options.cut_sentences", options.get("cut_sentences"), bool)
    names = _SPECIAL_TOKENS.get(vocabulary["tokenizer"], _SPECIAL_TOKENS_OF_WORDS)
    ids = dict.fromkeys(names, _between(0, vocabulary["size"] - 1))
    _check("vocabulary.special_ids", vocabulary["special_ids"], ids)
    # Of every length that windows may have, those of this length.
    widths = record_schema.number_widths(
        vocabulary["size"], length - 2 if is_windows else None
    )
    for name in sorted(widths.keys() | values["number_widths"].keys()):
        found = values["number_widths"].get(name)
        _equal(f"number_widths.{name}", found, widths.get(name))
    seen = set()
    for split in SPLITS:
        if split not in values["splits"]:
            raise SchemaError(f"`splits.{split}` is missing")
        for number, shard in enumerate(values["splits"][split]):
            where, file = f"splits.{split}[{number}].file", shard["file"]
            if not file.endswith(".tfrecord"):
                _fail(where, "the name of a .tfrecord file", file)
            if file in seen:
                _fail(where, "a shard that is listed once", file)
            seen.add(file)


def _fail(where: str, expected: str, found: Any) -> NoReturn:
    raise SchemaError(f"`{where}` must be {expected}. Found: {_shown(found)}")


def _shown(value: Any) -> str:
    """A value in a few characters; of one that holds others only how many."""
    if isinstance(value, dict):
        return f"an object of {len(value)} entries"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def _equal(where: str, found: Any, expected: Any) -> None:
    if type(found) is not type(expected) or found != expected:
        _fail(where, _shown(expected), found)


def _check_depth(where: str, value: Any, depth: int = 0) -> None:
    if depth > _MAX_DEPTH:
        _fail(where, f"nested at most {_MAX_DEPTH} times", value)
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            _check_depth(where, item, depth + 1)


def shard_name(split: str, number: int) -> str:
    """File name of a shard; the same for documents and for windows of them."""
    return f"{split}-{number:05d}.tfrecord"


def shard_paths(
    manifest: Manifest, folder: pathlib.Path, split: str
) -> list[pathlib.Path]:
    """The shards of a split, checked to be there in full length.

    Those of a mirror are checked when they come.

    Raises:
        ValueError: if one, or the offsets beside it, has another size, naming it.
    """
    if (folder / MIRROR_FILE).exists():
        return [folder / shard.file for shard in manifest.splits[split]]
    paths = []
    for shard in manifest.splits[split]:
        path = folder / shard.file
        if not path.is_file():
            raise ValueError(f"{path}: the shard is missing. Build the records again")
        size = path.stat().st_size
        if size != shard.bytes:
            raise ValueError(
                f"{path}: expected {shard.bytes} bytes, found {size}. The shard is "
                "truncated or was replaced; build the records again"
            )
        offsets = path.with_suffix(record_schema.OFFSETS_SUFFIX)
        expected = (shard.records + 1) * record_schema.OFFSET_BYTES
        if offsets.is_file() and (size := offsets.stat().st_size) != expected:
            raise ValueError(
                f"{offsets}: expected {expected} bytes for {shard.records} records, as "
                f"the manifest says, found {size}. One of the two is damaged; build "
                "the records again"
            )
        paths.append(path)
    return paths


def vocabulary_path(manifest: Manifest, folder: pathlib.Path) -> pathlib.Path:
    """The vocabulary beside the shards, checked to be theirs.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is another, naming it.
    """
    path = folder / manifest.vocabulary["file"]
    expected, found = manifest.vocabulary["sha256"], files.checksum(path)
    if found != expected:
        raise ValueError(
            f"{path}: not the vocabulary that the records were built with: the sha256 "
            f"is {found}, expected {expected}. Copy the right one there"
        )
    table = encoding.read_vocabulary(manifest.tokenizer, path)
    in_file = {"size": table.size, "special_ids": dict(table.special_ids)}
    for name, value in in_file.items():
        if manifest.vocabulary[name] != value:
            raise ValueError(
                f"{folder / FILE_NAME}: expected `vocabulary.{name}` to be {value}, "
                f"as in {path.name}, found {manifest.vocabulary[name]}. Restore the "
                "manifest that the build wrote"
            )
    return path


def text_preparation(
    manifest: Manifest, folder: pathlib.Path
) -> TextPreparation | None:
    """Text preprocessing of the records; None if their vocabulary is gone.

    Raises:
        ValueError: if the vocabulary or the parameters of the sentence splitter beside
            the shards are others.
    """
    vocabulary = manifest.vocabulary
    if not (folder / vocabulary["file"]).is_file():
        return None
    path = folder / SENTENCE_PARAMETERS_FILE
    expected = manifest.sentence_splitter["parameters_sha256"]
    found = read_parameters(path).checksum
    if found != expected:
        raise ValueError(
            f"{path}: not the parameters that split the text of the records into "
            f"sentences: the sha256 is {found}, expected {expected}. Copy the right "
            "ones there"
        )
    return TextPreparation(
        vocabulary_path(manifest, folder).read_bytes(),
        Normalization.from_described(vocabulary),
        manifest.sentence_splitter,
        manifest.tokenizer,
        path.read_bytes(),
    )
