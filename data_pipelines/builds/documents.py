"""Builds document shards and their manifest from raw text."""

from __future__ import annotations

import dataclasses
import functools
import logging
import pathlib
import shutil
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from data_pipelines import BuildError
from data_pipelines.builds import losses, makers, sharded_build, text_counts
from data_pipelines.builds.local_engine import LocalEngine
from data_pipelines.builds.sharded_build import REJECTED_FILE, ShardedBuild
from data_pipelines.builds.sources import SourceLedger, list_sources
from data_pipelines.cleaning import drop_counts, evaluation_texts, steps
from data_pipelines.cleaning.cleaning_options import NO_CLEANING, CleaningOptions
from data_pipelines.readers import COUNTED_REASONS, base
from seg_tf import files
from seg_tf.config.base import Positive, Range, Rate, check_choice, check_ranges
from seg_tf.data import record_schema
from seg_tf.data.manifest import COUNTS, SPLITS, Manifest
from seg_tf.text import encoding
from seg_tf.text.encoding import SENTENCE_PARAMETERS_FILE, VOCABULARY_FILE
from seg_tf.text.normalization import Normalization, choose_normalization
from seg_tf.text.splitters import SentenceParameters, load_parameters, make_splitter
from seg_tf.text.vocabulary import TokenTable

if TYPE_CHECKING:
    from data_pipelines.builds.beam_engine import BeamEngine


@dataclasses.dataclass(frozen=True, kw_only=True)
class DocumentOptions:
    """Options that determine the records of a document build.

    Attributes:
        format: a key of `readers.FORMATS`, or `package.module:Reader`.
        reader_options: options of the format, by name.
        input: file, folder or glob, or another input that the format accepts. Several
            inputs are separated by commas.
        vocab_file: file with one token per line.
        tokenizer: "word_pieces", "words" or "whitespace", see `encoding.TOKENIZERS`.
        lower_case: whether to lowercase text. If None, inferred from the vocabulary
            (`seg_tf.text.normalization.choose_normalization`).
        strip_accents: whether to strip accents. If None, equals `lower_case` or, if
            that is also None, is inferred.
        split_ideographs: whether each Chinese character is a word. If None, inferred.
        sentence_parameters: parameters of the sentence splitter, or a name or file that
            `load_parameters` accepts.
        validation_input: file, folder or glob of the validation split, in the same
            format as `input`. All of `input` is then the training split.
        validation_fraction: fraction (0 to 0.5) of the documents of `input` to hold out
            for validation, spread evenly over all inputs. Default: 0.01, or none with
            `validation_input`.
        slice_megabytes: size of a slice in millions of characters. Each slice becomes
            one shard per split. Smaller slices keep more workers busy on a small corpus
            and need less memory (3 bytes or more per character in each worker).
        max_rejected_share: maximum fraction of documents that may be lost, or of bytes
            if files cannot be read to their end. Above it, the build stops after the
            first 1,000 documents or at the end. Finished work is kept.
        cleaning: options of the cleaning steps.
    """

    format: str
    input: str
    vocab_file: str
    reader_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    tokenizer: str = encoding.WORD_PIECES
    lower_case: bool | None = None
    strip_accents: bool | None = None
    split_ideographs: bool | None = None
    sentence_parameters: SentenceParameters | str = "english"
    validation_input: str | None = None
    validation_fraction: (
        Annotated[float, Range("lie between 0 and 0.5", 0, 0.5)] | None
    ) = None
    slice_megabytes: Positive = 8.0
    max_rejected_share: Rate = 0.05
    cleaning: CleaningOptions = NO_CLEANING

    def __post_init__(self):
        check_choice("tokenizer", self.tokenizer, encoding.TOKENIZERS)
        if self.validation_input is None and self.validation_fraction is None:
            object.__setattr__(self, "validation_fraction", 0.01)
        check_ranges(self)
        if None not in (self.validation_input, self.validation_fraction):
            raise ValueError(
                "`validation_fraction` must not be given with `validation_input`, "
                "which is the whole validation split. Received: "
                f"validation_fraction={self.validation_fraction}, "
                f"validation_input={self.validation_input!r}"
            )

    @property
    def normalization(self) -> Normalization:
        """The three normalization options. None means inferred from the vocabulary."""
        return Normalization(self.lower_case, self.strip_accents, self.split_ideographs)

    @property
    def slice_characters(self) -> int:
        """Number of characters at which a slice is complete."""
        return int(self.slice_megabytes * 1e6)

    def split_of(self, document_id: int, source: str) -> str:
        """Returns "train" or "validation", the split that a document belongs to.

        With `validation_input`, source names begin with their split (`list_sources`).
        Otherwise the second document is the first to be held out, so even a corpus of
        two documents has a validation split.
        """
        if self.validation_input is not None:
            return source.partition("/")[0]
        fraction = self.validation_fraction
        before, here = ((document_id - n) * fraction // 1 for n in (2, 1))
        return "validation" if here > before else "train"


def build_documents(
    options: DocumentOptions,
    output_dir: pathlib.Path,
    *,
    num_workers: int = 1,
    overwrite: bool = False,
    engine: LocalEngine | BeamEngine | None = None,
) -> Manifest:
    """Builds the document shards and their manifest and returns the manifest.

    `num_workers` local processes are used if `engine` is None. Either engine writes
    identical bytes. With `overwrite`, first removes an existing build in `output_dir`.
    Otherwise, if the same build is already complete, only checks the inputs.

    Raises:
        OSError: if an input is missing.
        ValueError: if an input, the vocabulary or a user's function is unusable.
        BuildError: if the folder contains another build or is in use, an input has
            changed, nothing could be read, or `options.max_rejected_share` is exceeded.
    """
    # Reports a missing language function or file before reading anything.
    steps.steps_of_documents(options.cleaning)
    if options.cleaning.evaluation_texts is not None:
        texts = evaluation_texts.load(options.cleaning)
        print(f"looking for {texts}", file=sys.stderr)
    not_read: base.PassedOver = {}
    ledger = SourceLedger(list_sources(options, not_read), output_dir)
    passed_over = base.describe_passed_over(not_read)
    if passed_over:
        logging.warning("%s", base.passed_over_summary(passed_over))
    vocabulary = encoding.read_vocabulary(options.tokenizer, options.vocab_file)
    # Read once, so that edits to the file during the build have no effect.
    parameters = load_parameters(options.sentence_parameters)
    make_splitter(parameters)  # Reports a missing function at once.
    normalization = choose_normalization(
        vocabulary, options.lower_case, options.strip_accents, options.split_ideographs
    )
    if options.lower_case is None:
        print(
            f"Text is {normalization}, as the rows of {vocabulary.source}. "
            "--[no]lower_case, --[no]strip_accents and --[no]split_ideographs override "
            "this",
            file=sys.stderr,
        )
    options = dataclasses.replace(
        options, sentence_parameters=parameters, **dataclasses.asdict(normalization)
    )
    described = _describe(options, vocabulary)
    rejected_file = output_dir / REJECTED_FILE
    # Keyed by number, because a different order of sources is a different build.
    sizes = {str(number): item for number, item in enumerate(ledger.sizes.items())}
    if not overwrite:
        expected = {"kind": "documents", **described, "sources": sizes}
        finished = sharded_build.finished_manifest(output_dir, expected)
        if finished is not None:
            ledger.compare({item["file"]: item["sha256"] for item in finished.sources})
            losses.check(options, finished, rejected_file)
            _warn(finished)
            return finished

    build = ShardedBuild(output_dir, {**described, "sources": sizes})
    with build.opened(overwrite=overwrite):
        # Workers may run on other machines, and the file may be edited meanwhile.
        vocab_file = build.progress_dir / VOCABULARY_FILE
        shutil.copyfile(options.vocab_file, vocab_file)
        options = dataclasses.replace(options, vocab_file=str(vocab_file))
        try:
            engine = engine or LocalEngine(num_workers)
            make_slices = engine.prepare(build, options, ledger)
            duplicates = makers.find_duplicates(options, build, make_slices)
            new_maker = functools.partial(makers.SliceMaker, options, duplicates)
            reports = make_slices(build, new_maker, "documents")
        except losses.TooManyRejectedError:
            # If no slice is finished, the next command may use other options.
            if not any(build.progress_dir.rglob("*-*.*")):
                build.abandon()
            raise
        losses.write(rejected_file, reports)
        manifest = Manifest(
            kind="documents",
            **described,
            number_widths=record_schema.number_widths(vocabulary.size, None),
            window_length=None,
            sources=ledger.describe(),
            splits=sharded_build.shards_by_split(reports),
            cleaning=drop_counts.merge(
                reports[n]["cleaning"]
                for n in sorted(reports)
                if "cleaning" in reports[n]
            ),
            passed_over=passed_over,
            **losses.manifest_entries(reports, ledger.sizes),
        )
        try:
            losses.check_not_empty(options, manifest, rejected_file)
        except BuildError:
            # There is nothing to resume: the next command will use other options.
            shards = (shard for split in SPLITS for shard in manifest.splits[split])
            build.abandon(shard.file for shard in shards)
            raise
        losses.check(options, manifest, rejected_file)
        files.write_bytes(output_dir / VOCABULARY_FILE, vocab_file.read_bytes())
        parameters_file = output_dir / SENTENCE_PARAMETERS_FILE
        files.write_bytes(parameters_file, parameters.to_bytes())
        manifest.save(output_dir)
        build.close()
    _warn(manifest)
    return manifest


def _warn(manifest: Manifest) -> None:
    for warning in text_counts.warnings(manifest):
        logging.warning("%s", warning)


def _describe(options: DocumentOptions, vocabulary: TokenTable) -> dict[str, Any]:
    """Returns the manifest entries that follow from the options. Omits local paths."""
    parameters = options.sentence_parameters
    names = ("format", "reader_options", "validation_fraction", "slice_megabytes")
    return {
        "vocabulary": {
            "file": VOCABULARY_FILE,
            "size": vocabulary.size,
            "sha256": vocabulary.checksum,
            # Includes only normalization settings that differ from BERT's.
            **options.normalization.described(),
            "special_ids": dict(vocabulary.special_ids),
            "tokenizer": options.tokenizer,
        },
        "sentence_splitter": {
            "name": parameters.name,
            "parameters_sha256": parameters.checksum,
        },
        "options": {
            **{name: getattr(options, name) for name in names},
            "cleaning": options.cleaning.described(),
        },
    }


def counts(manifest: Manifest) -> str:
    """Formats the counts of a build, one line per split."""
    names = {name: name for name in COUNTS} | {"pieces": manifest.tokens_name}
    return "\n".join(
        f"{split}: "
        + ", ".join(f"{manifest.count(what, split):,} {names[what]}" for what in names)
        for split in SPLITS
    )


def summary(manifest: Manifest) -> str:
    """Formats a build's counts and losses, with a warning if nothing is held out."""
    lines = [counts(manifest)]
    if (text := text_counts.summary(manifest)) is not None:
        lines.append(text)
    if not manifest.count("records", "validation"):
        lines.append(
            "warning: no documents are held out, so nothing measures what a run has "
            "learned. Build with a larger --validation_fraction or with "
            "--validation_input, or train with --config.training.validation_interval=0"
        )
    if manifest.rejected:
        is_listed = not COUNTED_REASONS.issuperset(manifest.rejected)
        where = f" (see {REJECTED_FILE})" if is_listed else ""
        lines.append(f"left out: {losses.readable(manifest.rejected)}{where}")
    if manifest.passed_over:
        lines.append(base.passed_over_summary(manifest.passed_over))
    if manifest.cleaning:
        lines.append(drop_counts.summary(manifest.cleaning))
    return "\n".join(lines)
