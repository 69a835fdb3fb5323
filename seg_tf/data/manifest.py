"""The manifest of a records folder, which describes its shards and their build.

It contains no dates or absolute paths, so equal builds have equal manifests. It may
come from an untrusted source, so `Manifest.load` checks what readers rely on.
"""

import dataclasses
import pathlib
import typing
from collections.abc import Mapping
from typing import Any

from seg_tf import files
from seg_tf.config.base import check_choice, typed
from seg_tf.data import record_schema
from seg_tf.text import encoding
from seg_tf.text.encoding import SENTENCE_PARAMETERS_FILE, TextPreparation
from seg_tf.text.normalization import Normalization
from seg_tf.text.splitters import read_parameters

SCHEMA_VERSION = 2
FILE_NAME = "manifest.json"
MIRROR_FILE = "mirror.json"
"""File that marks a local cache of remote records."""
SPLITS = ("train", "validation")
# `[CLS]` and `[SEP]` of a window.
NUM_SPECIAL_TOKENS = 2
COUNTS = ("documents", "paragraphs", "sentences", "pieces", "records")
TEXT_COUNTS = ("words", "unknown_words", "unsplit_pieces")
"""Additional counts of document shards, which window shards lack."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shard:
    """The file name, size, checksum and counts of a shard.

    A sentence that two windows share is counted in both. `words`, `unknown_words` and
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
    """Describes a set of shards and how they were built.

    Attributes:
        kind: "documents" or "windows".
        vocabulary: description of the vocabulary file and of the text normalization.
        sentence_splitter: name and checksum of the sentence splitter's parameters.
        options: build settings that determine the result.
        number_widths: type of each integer list of a record, "uint16" or "uint32".
        window_length: window length with `[CLS]` and `[SEP]`, or None for documents.
        sources: name, size and checksum of every input file. If validation text is
            separate, file names begin with the split.
        rejected: number of rejected documents by reason.
        splits: shards of each split.
        cleaning: what each cleaning step removed, if any.
        passed_over: input files that were not read, if any.
        broken_files: input files that could not be read completely, if any.
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
        return str(self.vocabulary["tokenizer"])

    @property
    def tokens_name(self) -> str:
        """Name of the tokens in messages, "pieces" or "words"."""
        return "pieces" if self.tokenizer == encoding.WORD_PIECES else "words"

    def count(self, name: str, split: str | None = None) -> int:
        """Sums the count `name` over the shards of `split`, by default all splits."""
        return sum(getattr(shard, name) for shard in self._shards(split))

    def text_counts(self, split: str | None = None) -> dict[str, int]:
        """Sums each of `TEXT_COUNTS`, like `count`. Returns {} for windows."""
        shards = self._shards(split)
        if any(None in map(vars(shard).get, TEXT_COUNTS) for shard in shards):
            return {}
        return {name: self.count(name, split) for name in TEXT_COUNTS}

    def _shards(self, split: str | None) -> list[Shard]:
        names = self.splits if split is None else (split,)
        return [shard for name in names for shard in self.splits[name]]

    def save(self, folder: pathlib.Path) -> None:
        """Writes `manifest.json`, which begins with total and per-split counts."""
        totals, *split_totals = (
            {name: self.count(name, split) for name in COUNTS} | self.text_counts(split)
            for split in (None, *SPLITS)
        )
        counts = totals | dict(zip(SPLITS, split_totals, strict=True))
        head = {"schema_version": SCHEMA_VERSION, "counts": counts}
        files.write_json(folder / FILE_NAME, head | dataclasses.asdict(self))

    @classmethod
    def load(cls, folder: pathlib.Path) -> "Manifest":
        """Reads a manifest. Raises a ValueError if it is missing or invalid."""
        path = pathlib.Path(folder) / FILE_NAME
        if not path.is_file():
            raise ValueError(
                f"{path}: there is no manifest. Build records with "
                "`seg-tf build-records`, or run it again if it was interrupted"
            )
        values = files.read_json(path)
        version = values.get("schema_version") if isinstance(values, dict) else None
        try:
            if version != SCHEMA_VERSION:
                raise ValueError(
                    f"the records have format {version}, this version of the project "
                    f"reads format {SCHEMA_VERSION} only"
                )
            _check(values)
        except ValueError as error:
            raise ValueError(
                f"{path}: {str(error)[:500]}. Restore the manifest that the build "
                "wrote, or build the records again with "
                "`seg-tf build-records --overwrite` (or build_documents)"
            ) from error
        del values["schema_version"], values["counts"]
        splits = {
            split: tuple(Shard(**shard) for shard in values["splits"][split])
            for split in SPLITS
        }
        return cls(**{**values, "splits": splits, "sources": tuple(values["sources"])})


# Types of the entries. A list contains the type of all its items.
_MANIFEST = {
    "schema_version": int,
    "counts": dict,
    **typing.get_type_hints(Manifest),
    "vocabulary": {
        "file": str,
        "size": int,
        "sha256": str,
        "lower_case": bool,
        "strip_accents": bool | None,
        "split_ideographs": bool | None,
        "special_ids": dict,
        "tokenizer": str,
    },
    "sentence_splitter": {"name": str, "parameters_sha256": str},
    "sources": [{"file": str, "bytes": int, "sha256": str}],
    "splits": {split: [typing.get_type_hints(Shard)] for split in SPLITS},
}
_SPECIAL_IDS = {
    encoding.WORD_PIECES: dict.fromkeys(("pad", "unk", "cls", "sep", "mask"), int),
    encoding.WORDS: {"unk": int, "eos": int},
    encoding.WHITESPACE: {"unk": int, "eos": int},
}


def _check(values: Any) -> None:
    _check_types("manifest", values, _MANIFEST)
    vocabulary, length = values["vocabulary"], values.get("window_length")
    check_choice("tokenizer", vocabulary["tokenizer"], encoding.TOKENIZERS)
    special_ids = vocabulary["special_ids"]
    _check_types("special_ids", special_ids, _SPECIAL_IDS[vocabulary["tokenizer"]])
    shards = [shard for split in SPLITS for shard in values["splits"][split]]
    ids = [*special_ids.values(), 0]
    widths = [values["number_widths"].get(name) for name in record_schema.NUMBER_LISTS]
    for rule, is_valid in {
        "`vocabulary.special_ids` must be ids of the vocabulary": (
            0 <= min(ids) <= max(ids) < vocabulary["size"]
        ),
        "`kind` must be documents, or windows with a `window_length` up to 65,535": (
            3 <= (length or 0) <= 65_535
            if values["kind"] == "windows"
            else values["kind"] == "documents" and length is None
        ),
        "`number_widths` must be uint16 or uint32": all(
            width in ("uint16", "uint32") for width in widths
        ),
        "counts of `splits` must be at least 0": all(
            min(shard["bytes"], *(shard[name] for name in COUNTS)) >= 0
            for shard in shards
        ),
    }.items():
        if not is_valid:
            raise ValueError(rule)
    for entry in [vocabulary, *shards]:
        # Files outside the folder are neither read nor written.
        if pathlib.Path(entry["file"]).name != entry["file"]:
            raise ValueError(f"`file` must be a name. Received: {entry['file']!r}")


def _check_types(name: str, value: Any, hint: Any) -> None:
    if isinstance(hint, list):
        for item in typed(name, value, list):
            _check_types(f"{name}[…]", item, hint[0])
    elif isinstance(hint, dict):
        if unknown := typed(name, value, dict).keys() - hint.keys():
            raise ValueError(
                f"`{name}` has entries that this version of the project does not know: "
                f"{sorted(unknown)}"
            )
        for entry, inner in hint.items():
            _check_types(f"{name}.{entry}", value.get(entry), inner)
    else:
        typed(name, value, hint)


def shard_name(split: str, number: int) -> str:
    """Returns the file name of a shard, the same for documents and their windows."""
    return f"{split}-{number:05d}{record_schema.SHARD_SUFFIX}"


def shard_paths(
    manifest: Manifest, folder: pathlib.Path, split: str
) -> list[pathlib.Path]:
    """Checks the sizes of a split's shards and returns their paths.

    Raises a ValueError if a shard is missing or has the wrong size. The shards of a
    mirror are checked when they are fetched instead.
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
    return paths


def vocabulary_path(manifest: Manifest, folder: pathlib.Path) -> pathlib.Path:
    """Returns the vocabulary's path. Raises OSError if missing, ValueError if wrong."""
    path = folder / manifest.vocabulary["file"]
    expected, checksum = manifest.vocabulary["sha256"], files.checksum(path)
    if checksum != expected:
        raise ValueError(
            f"{path}: not the vocabulary that the records were built with: the sha256 "
            f"is {checksum}, expected {expected}. Copy the right one there"
        )
    return path


def text_preparation(
    manifest: Manifest, folder: pathlib.Path
) -> TextPreparation | None:
    """Returns the text preparation of records, or None if the vocabulary is missing.

    Raises a ValueError if sentence parameters are missing or a file does not match.
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
