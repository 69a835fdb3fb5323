"""The manifest next to the shards: their contents, and how they were built.

It has no date and no absolute path, so equal builds have equal manifests. A manifest
may have been edited, truncated or written by another version of the project:
`Manifest.load` checks every entry, and readers of records rely on it.
"""

import dataclasses
import pathlib
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from seg_tf import files
from seg_tf.config.base import Range
from seg_tf.data import record_schema
from seg_tf.text import encoding
from seg_tf.text.encoding import SENTENCE_PARAMETERS_FILE, TextPreparation
from seg_tf.text.normalization import Normalization
from seg_tf.text.splitters import read_parameters

SCHEMA_VERSION = 2
FILE_NAME = "manifest.json"
PLANS_FOLDER = "plans"
"""Folder next to the manifest for the row plans of large splits."""
MIRROR_FILE = "mirror.json"
"""File that marks a local cache of remote records."""
SPLITS = ("train", "validation")
# `[CLS]` and `[SEP]` of a window.
NUM_SPECIAL_TOKENS = 2
COUNTS = ("documents", "paragraphs", "sentences", "pieces", "records")
TEXT_COUNTS = ("words", "unknown_words", "unsplit_pieces")
"""Counts of documents, which windows lack."""
_SPECIAL_TOKENS = {encoding.WORD_PIECES: ("pad", "unk", "cls", "sep", "mask")}
_SPECIAL_TOKENS_OF_WORDS = ("unk", "eos")
_BUILD_AGAIN = (
    "again with `python -m data_pipelines.build_records --overwrite` (or "
    "build_documents)"
)


# Forms of JSON values: a type; a range; a pattern; a tuple of strings to choose from;
# a list with the form of its items; an object with the forms of its entries, or of all
# entries under "*". Entries with a question mark may be missing or null.
_COUNT = Range(0, 2**63 - 1)
_FILE_NAME = re.compile(r"(?![. ]*$)[^/\\\x00-\x1f]{1,255}")
_SHA256 = re.compile("[0-9a-f]{64}")
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
    **dict.fromkeys((f"{name}?" for name in TEXT_COUNTS), _COUNT),
}
_MANIFEST = {
    "kind": ("documents", "windows"),
    "vocabulary": {
        "file": _FILE_NAME,
        "size": Range(1, 2**31),
        "sha256": _SHA256,
        "lower_case": bool,
        "strip_accents?": bool,
        "split_ideographs?": bool,
        "special_ids": {"*": _COUNT},
        "tokenizer": tuple(encoding.TOKENIZERS),
    },
    "sentence_splitter": {"name": str, "parameters_sha256": str},
    "options": {"*": Any},
    "number_widths": {"*": ("uint16", "uint32")},
    "window_length?": Range(3, 65_535),
    "sources": [{"file": str, "bytes": _COUNT, "sha256": _SHA256}],
    "rejected": {"*": _COUNT},
    "splits": {split: [_SHARD] for split in SPLITS},
    "cleaning?": {
        "before": _TEXT_SIZE,
        "steps": {"*": {**_TEXT_SIZE, "examples": [_DROPPED_TEXT]}},
        "after": _TEXT_SIZE,
    },
    "passed_over?": {"*": _NAMED_FILES},
    "broken_files?": {**_NAMED_FILES, "bytes": _COUNT, "of_bytes": _COUNT},
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shard:
    """One shard: its file, checked by size and checksum, and its counts.

    A sentence that two windows share counts in both. `words`, `unknown_words` and
    `unsplit_pieces` are None for windows.
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
        vocabulary: the file, and the normalization of text before look-ups.
        sentence_splitter: name and checksum of the parameters.
        options: the build settings that determine its result.
        number_widths: type of each number list of a record.
        window_length: positions of a window, `[CLS]` and `[SEP]` included; None
            for documents.
        sources: every input file; with a separate validation input, `file` begins with
            the split.
        rejected: reason -> number of rejected documents.
        splits: split name -> its shards.
        cleaning: what each step dropped; None without cleaning.
        passed_over: reason -> input files that were not read; None if all were.
        broken_files: sources that could not be read to their end, see
            `losses.describe_broken_files`; None if all were.
    """

    kind: str
    vocabulary: Mapping[str, Any]
    sentence_splitter: Mapping[str, str]
    options: Mapping[str, Any]
    number_widths: Mapping[str, str]
    window_length: int | None = None
    sources: tuple[Mapping[str, Any], ...]
    rejected: Mapping[str, int]
    splits: Mapping[str, tuple[Shard, ...]]
    cleaning: Mapping[str, Any] | None = None
    passed_over: Mapping[str, Mapping[str, Any]] | None = None
    broken_files: Mapping[str, Any] | None = None

    @property
    def tokenizer(self) -> str:
        """Name of the tokenizer, one of `seg_tf.text.encoding.TOKENIZERS`."""
        return str(self.vocabulary["tokenizer"])

    @property
    def tokens_name(self) -> str:
        """Name of the tokens in messages; the field `pieces` counts either kind."""
        return "pieces" if self.tokenizer == encoding.WORD_PIECES else "words"

    def count(self, name: str, split: str | None = None) -> int:
        """Sum of one of `COUNTS` over the shards of a split, or over all shards."""
        return sum(getattr(shard, name) for shard in self._shards(split))

    def text_counts(self, split: str | None = None) -> dict[str, int]:
        """Sums of `TEXT_COUNTS` over a split, or over all shards; empty for windows."""
        shards = self._shards(split)
        if any(None in map(vars(shard).get, TEXT_COUNTS) for shard in shards):
            return {}
        return {name: self.count(name, split) for name in TEXT_COUNTS}

    def _shards(self, split: str | None) -> list[Shard]:
        names = self.splits if split is None else (split,)
        return [shard for name in names for shard in self.splits[name]]

    def counts(self) -> dict[str, Any]:
        """The totals of all shards, then those of each split."""
        totals, *split_totals = (
            {name: self.count(name, split) for name in COUNTS} | self.text_counts(split)
            for split in (None, *SPLITS)
        )
        return totals | dict(zip(SPLITS, split_totals, strict=True))

    def save(self, folder: pathlib.Path) -> None:
        """Writes `manifest.json`, which begins with the totals."""
        head = {"schema_version": SCHEMA_VERSION, "counts": self.counts()}
        files.write_json(folder / FILE_NAME, head | dataclasses.asdict(self))

    @classmethod
    def load(cls, folder: pathlib.Path) -> "Manifest":
        """Reads the manifest of a folder.

        Raises:
            ValueError: if there is no manifest, or it is damaged, edited or written
                for another schema. The message names the entry and the remedy.
        """
        path = pathlib.Path(folder) / FILE_NAME
        if not path.is_file():
            raise ValueError(
                f"{path}: there is no manifest. Build records with "
                "`python -m data_pipelines.build_records`, or run it again if it was "
                "interrupted"
            )
        values = files.read_json(path)
        version = values.get("schema_version") if isinstance(values, dict) else None
        if type(version) is int and version < SCHEMA_VERSION:
            raise ValueError(
                f"{path}: the records have format {version}; this version of the "
                f"project reads format {SCHEMA_VERSION} only. Build them {_BUILD_AGAIN}"
            )
        try:
            if isinstance(values, dict):
                version = values.pop("schema_version", None)
                _check("schema_version", version, Range(SCHEMA_VERSION, SCHEMA_VERSION))
            counts = values.pop("counts", None) if isinstance(values, dict) else None
            _check("", values, _MANIFEST)
            _check_consistency(values)
            splits = {
                split: tuple(Shard(**shard) for shard in values["splits"][split])
                for split in SPLITS
            }
            sources = tuple(values["sources"])
            manifest = cls(**{**values, "splits": splits, "sources": sources})
            if counts != manifest.counts():
                _fail("counts", "be the totals of the shards", counts)
        except ValueError as error:
            raise ValueError(
                f"{path}: {error}. Restore the manifest that the build wrote, or build "
                f"the records {_BUILD_AGAIN}"
            ) from error
        return manifest


def _check(name: str, value: Any, form: Any) -> None:
    """Raises a ValueError at the first entry of `value` that does not have its form."""
    if isinstance(form, dict):
        if not isinstance(value, dict):
            _fail(name or "manifest", "be an object", value)
        prefix = f"{name}." if name else ""
        for entry, item in value.items():
            if entry in form or "*" in form:
                _check(f"{prefix}{entry}", item, form.get(entry, form.get("*")))
            elif f"{entry}?" not in form:
                raise ValueError(
                    f"`{prefix}{entry if entry.isprintable() else ascii(entry)}` is an "
                    "entry that this version of the project does not know; a newer one "
                    "may have written it"
                )
            elif item is not None:
                _check(f"{prefix}{entry}", item, form[f"{entry}?"])
        for entry in form:
            if entry != "*" and not entry.endswith("?") and entry not in value:
                raise ValueError(f"`{prefix}{entry}` is missing")
    elif isinstance(form, list):
        if not isinstance(value, list):
            _fail(name, "be a list", value)
        for number, item in enumerate(value):
            _check(f"{name}[{number}]", item, form[0])
    elif isinstance(form, Range):
        # A boolean is an integer to Python.
        if type(value) is not int or value not in form:
            low, high = form.low, form.high
            rule = f"an integer from {low} to {high}" if low < high else str(low)
            _fail(name, f"be {rule}", value)
    elif isinstance(form, re.Pattern):
        if not isinstance(value, str) or not form.fullmatch(value):
            names = {_FILE_NAME: "the name of a file, without separators"}
            _fail(name, f"be {names.get(form, '64 hexadecimal digits')}", value)
    elif isinstance(form, tuple):
        if value not in form:
            _fail(name, f"be {'one of ' * (len(form) > 1)}{', '.join(form)}", value)
    elif form is not Any and type(value) is not form:
        _fail(name, "be true or false" if form is bool else "be a string", value)


def _check_consistency(values: Mapping[str, Any]) -> None:
    """Checks entries of a manifest that depend on one another."""
    length, vocabulary = values.get("window_length"), values["vocabulary"]
    options, widths = values["options"], values["number_widths"]
    if (values["kind"] == "windows") != (length is not None):
        _fail("window_length", "be an integer for windows, null for documents", length)
    if length is not None:
        tokenizer = vocabulary["tokenizer"]
        _check("vocabulary.tokenizer", tokenizer, (encoding.WORD_PIECES,))
        window_length = options.get("window_length", length)
        _check("options.window_length", window_length, Range(length, length))
        _check("options.cut_sentences", options.get("cut_sentences"), bool)
    names = _SPECIAL_TOKENS.get(vocabulary["tokenizer"], _SPECIAL_TOKENS_OF_WORDS)
    ids = dict.fromkeys(names, Range(0, vocabulary["size"] - 1))
    _check("vocabulary.special_ids", vocabulary["special_ids"], ids)
    longest_list = None if length is None else length - NUM_SPECIAL_TOKENS
    expected = record_schema.number_widths(vocabulary["size"], longest_list)
    _check("number_widths", widths, {name: (expected[name],) for name in expected})
    files_listed = set()
    for split in SPLITS:
        for number, shard in enumerate(values["splits"][split]):
            where, file = f"splits.{split}[{number}].file", shard["file"]
            if not file.endswith(record_schema.SHARD_SUFFIX):
                _fail(where, "be the name of a .tfrecord file", file)
            if file in files_listed:
                _fail(where, "be a shard that is listed once", file)
            files_listed.add(file)


def _fail(name: str, rule: str, value: Any) -> NoReturn:
    raise ValueError(f"`{name}` must {rule}. Found: {_shown(value)}")


def _shown(value: Any) -> str:
    """A value in at most 80 characters; only the size of a container."""
    if isinstance(value, dict):
        return f"an object of {len(value)} entries"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def shard_name(split: str, number: int) -> str:
    """File name of a shard; the same for documents and their windows."""
    return f"{split}-{number:05d}{record_schema.SHARD_SUFFIX}"


def shard_paths(
    manifest: Manifest, folder: pathlib.Path, split: str
) -> list[pathlib.Path]:
    """Paths of the shards of a split, whose sizes are checked.

    The shards of a mirror are checked when they are fetched.

    Raises:
        ValueError: if a shard or its offsets file has the wrong size.
    """
    paths = [folder / shard.file for shard in manifest.splits[split]]
    if (folder / MIRROR_FILE).exists():
        return paths
    for path, shard in zip(paths, manifest.splits[split], strict=True):
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
                f"{offsets}: expected {expected} bytes for {shard.records} records, "
                f"from the manifest, found {size}. One of the two is damaged; build "
                "the records again"
            )
    return paths


def vocabulary_path(manifest: Manifest, folder: pathlib.Path) -> pathlib.Path:
    """The vocabulary file of the records, checked against the manifest.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is another vocabulary.
    """
    path = folder / manifest.vocabulary["file"]
    expected, checksum = manifest.vocabulary["sha256"], files.checksum(path)
    if checksum != expected:
        raise ValueError(
            f"{path}: not the vocabulary that the records were built with: the sha256 "
            f"is {checksum}, expected {expected}. Copy the right one there"
        )
    table = encoding.read_vocabulary(manifest.tokenizer, path)
    described = {
        "size": (manifest.vocabulary["size"], table.size),
        "special_ids": (manifest.vocabulary["special_ids"], dict(table.special_ids)),
    }
    for name, (value, in_file) in described.items():
        if value != in_file:
            raise ValueError(
                f"{folder / FILE_NAME}: expected `vocabulary.{name}` to be {in_file}, "
                f"as in {path.name}, found {value}. Restore the manifest that the "
                "build wrote"
            )
    return path


def text_preparation(
    manifest: Manifest, folder: pathlib.Path
) -> TextPreparation | None:
    """Text preprocessing of the records; None if their vocabulary file is absent.

    Raises:
        ValueError: if the vocabulary or the sentence splitter's parameters differ from
            the manifest.
    """
    vocabulary = manifest.vocabulary
    if not (folder / vocabulary["file"]).is_file():
        return None
    path = folder / SENTENCE_PARAMETERS_FILE
    expected = manifest.sentence_splitter["parameters_sha256"]
    checksum = read_parameters(path).checksum
    if checksum != expected:
        raise ValueError(
            f"{path}: not the parameters that split the text of the records into "
            f"sentences: the sha256 is {checksum}, expected {expected}. Copy the right "
            "ones there"
        )
    return TextPreparation(
        vocabulary_path(manifest, folder).read_bytes(),
        Normalization.from_described(vocabulary),
        manifest.sentence_splitter,
        manifest.tokenizer,
        path.read_bytes(),
    )
