"""The manifest beside the shards: what they hold and how they were made.

It has no date and no absolute path, so equal builds have equal manifests.
"""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Annotated, Any

from seg_tf import files
from seg_tf.data import manifest_schema, record_schema
from seg_tf.data.manifest_schema import (
    BrokenFiles,
    Cleaning,
    Count,
    FileName,
    NamedFiles,
    SchemaError,
    Sha256,
    Source,
    Splitter,
    VocabularyEntry,
    WindowLength,
    one_of,
)
from seg_tf.text import encoding
from seg_tf.text.encoding import SENTENCE_PARAMETERS_FILE, TextPreparation
from seg_tf.text.normalization import Normalization
from seg_tf.text.splitters import read_parameters

SCHEMA_VERSION = 2
FILE_NAME = "manifest.json"
PLANS_FOLDER = "plans"
"""Beside the manifest: what training has planned of a large split."""
MIRROR_FILE = "mirror.json"
"""In a local folder for records of a bucket, whose shards come when they are read."""
SPLITS = ("train", "validation")
# `[CLS]` before a window's pieces and `[SEP]` after them.
NUM_SPECIAL_TOKENS = 2
COUNTS = ("documents", "paragraphs", "sentences", "pieces", "records")
TEXT_COUNTS = ("words", "unknown_words", "unsplit_pieces")
"""Of documents only."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shard:
    """One shard: its file, checked by size and checksum, and what it counts.

    `paragraphs` and `sentences` of a window shard count parts: a sentence that two
    windows share counts in both. `words`, `unknown_words` and `unsplit_pieces`
    (`data_pipelines.builds.text_counts`) are those of documents; None of windows.
    """

    file: FileName
    bytes: Count
    sha256: Sha256
    documents: Count
    paragraphs: Count
    sentences: Count
    pieces: Count
    records: Count
    words: Count | None = None
    unknown_words: Count | None = None
    unsplit_pieces: Count | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Manifest:
    """Everything that training and checking need to know about a set of shards.

    Attributes:
        kind: "documents" or "windows".
        vocabulary: the file, and how text is changed before look-ups; `strip_accents`
            and `split_ideographs` only where they are not BERT's.
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

    kind: Annotated[str, one_of("documents", "windows")]
    vocabulary: VocabularyEntry
    sentence_splitter: Splitter
    options: Mapping[str, Any]
    number_widths: Mapping[str, Annotated[str, one_of("uint16", "uint32")]]
    window_length: WindowLength | None
    sources: tuple[Source, ...]
    rejected: Mapping[str, Count]
    splits: Mapping[str, tuple[Shard, ...]]
    cleaning: Cleaning | None = None
    passed_over: Mapping[str, NamedFiles] | None = None
    broken_files: BrokenFiles | None = None

    @property
    def tokenizer(self) -> str:
        """Name of the tokenizer, one of `seg_tf.text.encoding.TOKENIZERS`."""
        return self.vocabulary["tokenizer"]

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
        shards = [shard for of_split in splits.values() for shard in of_split]
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
            return cls._of(values)
        except SchemaError as error:
            raise ValueError(
                f"{path}: {error}. Restore the manifest that the build wrote, or build "
                f"the records {again}"
            ) from error

    @classmethod
    def _of(cls, values: Any) -> "Manifest":
        """The manifest that a JSON file holds."""
        is_object = isinstance(values, dict)
        version = values.pop("schema_version", None) if is_object else None
        if is_object and (type(version) is not int or version != SCHEMA_VERSION):
            raise SchemaError(
                f"`schema_version` must be {SCHEMA_VERSION}, the only one that this "
                f"version of the project reads. Found: {version!r}"
            )
        counts = values.pop("counts", None) if is_object else None
        manifest_schema.check("", values, cls)
        manifest_schema.check_consistency(values, SPLITS)
        splits = {
            split: tuple(Shard(**shard) for shard in values["splits"][split])
            for split in SPLITS
        }
        manifest = cls(
            **{**values, "splits": splits, "sources": tuple(values["sources"])}
        )
        if counts != manifest.counts():
            manifest_schema.fail("counts", "the totals of the shards", counts)
        return manifest


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
    described = {"size": table.size, "special_ids": dict(table.special_ids)}
    for name, of_file in described.items():
        if manifest.vocabulary[name] != of_file:
            raise ValueError(
                f"{folder / FILE_NAME}: expected `vocabulary.{name}` to be {of_file}, "
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
    return TextPreparation(
        vocabulary_path(manifest, folder).read_bytes(),
        Normalization.from_described(vocabulary),
        manifest.sentence_splitter,
        manifest.tokenizer,
        _sentence_parameters(manifest, folder / SENTENCE_PARAMETERS_FILE),
    )


def _sentence_parameters(manifest: Manifest, path: pathlib.Path) -> bytes:
    """Those beside the shards, checked."""
    expected = manifest.sentence_splitter["parameters_sha256"]
    found = read_parameters(path).checksum
    if found != expected:
        raise ValueError(
            f"{path}: not the parameters that split the text of the records into "
            f"sentences: the sha256 is {found}, expected {expected}. Copy the right "
            "ones there"
        )
    return path.read_bytes()
