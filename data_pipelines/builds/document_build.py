"""The build of whole documents: options to shards and their manifest."""

from __future__ import annotations

import dataclasses
import logging
import pathlib
import shutil
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from data_pipelines.builds import (
    document_building,
    losses,
    rejections,
    sharded_build,
    source_checksums,
    text_counts,
)
from data_pipelines.builds.document_options import DocumentOptions
from data_pipelines.builds.errors import BuildError
from data_pipelines.builds.local_engine import LocalEngine
from data_pipelines.builds.sharded_build import ShardedBuild
from data_pipelines.cleaning import drop_counts, evaluation_texts, steps
from data_pipelines.readers import COUNTED_REASONS
from data_pipelines.readers.base import PassedOver, passed_over_summary
from seg_tf import file_listing, files
from seg_tf.data import record_schema
from seg_tf.data.manifest import COUNTS, SPLITS, Manifest, Shard
from seg_tf.text import encoding
from seg_tf.text.encoding import SENTENCE_PARAMETERS_FILE, VOCABULARY_FILE
from seg_tf.text.normalization import Casing, choose_normalization
from seg_tf.text.splitters import load_parameters, make_splitter
from seg_tf.text.vocabulary import TokenTable

if TYPE_CHECKING:
    from data_pipelines.builds.engine_flags import Engine

REJECTED_FILE = "rejected.jsonl"

_NO_VALIDATION = (
    "warning: nothing is held out, so that nothing measures what a run has learned. "
    "Build with a larger --validation_fraction or with --validation_input, or train "
    "with --config.training.validation_interval=0"
)


def build_documents(
    options: DocumentOptions,
    output_dir: pathlib.Path,
    *,
    num_workers: int = 1,
    overwrite: bool = False,
    engine: Engine | None = None,
) -> Manifest:
    """Builds the document shards and their manifest.

    Args:
        options: what the result depends on.
        output_dir: where it goes.
        num_workers: processes of this machine.
        overwrite: whether a build that lies there is removed first.
        engine: what makes the shards; None is a `LocalEngine` of `num_workers`. The
            result is the same with any.

    Returns:
        The manifest. If the same build is complete already, only reads it and, to
        compare their checksums, the inputs.

    Raises:
        OSError: if an input is missing.
        ValueError: if an input is empty, both inputs hold the same file, the
            vocabulary is unusable, or there is no such language function.
        BuildError: if the folder holds another build, another process is building
            there, an input has changed since the build read it, nothing could be read,
            or more was lost than `options.max_rejected_share`.
    """
    # A language function or file that is missing is told before anything is read.
    steps.steps_of_documents(options.cleaning)
    if options.cleaning.evaluation_texts is not None:
        print(evaluation_texts.summary(options.cleaning), file=sys.stderr)
    not_read = PassedOver()
    sources = document_building.list_sources(options, not_read)
    if not_read.names:
        logging.warning("%s", passed_over_summary(not_read.described()))
    vocabulary = encoding.read_vocabulary(options.tokenizer, options.vocab_file)
    # Read once: a file that is edited meanwhile changes nothing.
    parameters = load_parameters(options.sentence_parameters)
    make_splitter(parameters)  # A function that is missing is told at once.
    options = dataclasses.replace(options, sentence_parameters=parameters)
    options = _with_casing(options, vocabulary)
    described = _describe(options, vocabulary)
    rejected_file = output_dir / REJECTED_FILE
    sizes = [[name, path.stat().st_size] for name, path in sources.items()]
    finished = None if overwrite else _finished_build(output_dir, described, sizes)
    if finished is not None:
        source_checksums.compare_with_finished(sources, finished.sources, output_dir)
        rejections.check_all_kept(options, finished.rejected, rejected_file)
        losses.check(options, finished, rejected_file)
        _warn(finished)
        return finished

    build = ShardedBuild(output_dir, {**described, "sources": sizes})
    with build.opened(overwrite=overwrite):
        reports, described_sources = _make_shards(
            engine or LocalEngine(num_workers), build, options, sources
        )
        rejections.write(rejected_file, reports)
        manifest = dataclasses.replace(
            _assemble(described, vocabulary, reports, described_sources),
            passed_over=not_read.described(),
            broken_files=losses.broken_files(reports, dict(sizes)),
        )
        _check_kept(options, build, manifest, reports)
        with files.written_aside(output_dir / VOCABULARY_FILE) as aside:
            shutil.copyfile(options.vocab_file, aside)
        with files.written_aside(output_dir / SENTENCE_PARAMETERS_FILE) as aside:
            aside.write_bytes(parameters.to_bytes())
        manifest.save(output_dir)
        build.close()
    _warn(manifest)
    return manifest


def _make_shards(
    engine: Engine,
    build: ShardedBuild,
    options: DocumentOptions,
    sources: Mapping[str, file_listing.Path],
) -> tuple[dict[int, dict], list[dict]]:
    """Makes the shards that are missing; returns what `make_documents` does."""
    try:
        return engine.make_documents(build, options, sources)
    except losses.TooManyRejectedError:
        # Without anything finished the next command may have other options.
        if not any(build.progress_dir.rglob("*-*.*")):
            build.abandon(())
        raise


def _check_kept(
    options: DocumentOptions,
    build: ShardedBuild,
    manifest: Manifest,
    reports: Mapping[int, dict],
) -> None:
    """Checks that no more was lost than the options allow.

    Raises:
        BuildError: if there was more, or if nothing is left.
    """
    rejected_file = build.output_dir / REJECTED_FILE
    # Slices may have been made without --strict, by a command that was killed.
    rejections.check_all_kept(options, manifest.rejected, rejected_file)
    try:
        rejections.check_not_empty(options, manifest, reports, rejected_file)
    except BuildError:
        # Nothing to resume from: the next command will have other options.
        build.abandon(
            shard["file"]
            for report in reports.values()
            for shard in report["shards"].values()
        )
        raise
    losses.check(options, manifest, rejected_file)


def _warn(manifest: Manifest) -> None:
    for warning in text_counts.warnings(manifest):
        logging.warning("%s", warning)


def counts(manifest: Manifest) -> str:
    """The counts of a build as a line for each split."""
    names = {name: name for name in COUNTS} | {"pieces": manifest.tokens_name}
    return "\n".join(
        f"{split}: "
        + ", ".join(f"{manifest.count(what, split):,} {names[what]}" for what in names)
        for split in SPLITS
    )


def summary(manifest: Manifest) -> str:
    """The counts of a build, and all that was left out of it, for people."""
    lines = [counts(manifest)]
    if (text := text_counts.summary(manifest)) is not None:
        lines.append(text)
    if not manifest.count("records", "validation"):
        lines.append(_NO_VALIDATION)
    if manifest.rejected:
        is_listed = not COUNTED_REASONS.issuperset(manifest.rejected)
        where = f" (see {REJECTED_FILE})" if is_listed else ""
        lines.append(f"left out: {rejections.in_words(manifest.rejected)}{where}")
    if manifest.passed_over:
        lines.append(passed_over_summary(manifest.passed_over))
    if manifest.cleaning:
        lines.append(drop_counts.summary(manifest.cleaning))
    return "\n".join(lines)


def _with_casing(options: DocumentOptions, vocabulary: TokenTable) -> DocumentOptions:
    """The options with the normalization that the vocabulary asks for, if not given."""
    normalization = choose_normalization(
        vocabulary, options.lower_case, options.strip_accents, options.split_ideographs
    )
    if options.lower_case is None:
        print(
            f"Text is {normalization}: {Casing.of(vocabulary)}. "
            "--[no]lower_case, --[no]strip_accents and --[no]split_ideographs override "
            "this",
            file=sys.stderr,
        )
    return dataclasses.replace(options, **dataclasses.asdict(normalization))


def _describe(options: DocumentOptions, vocabulary: TokenTable) -> dict[str, Any]:
    """The entries of the manifest that follow from the options alone."""
    parameters = options.sentence_parameters
    return {
        "vocabulary": document_building.describe_vocabulary(vocabulary, options),
        "sentence_splitter": {
            "name": parameters.name,
            "parameters_sha256": parameters.checksum,
        },
        "options": _result_options(options),
    }


def _result_options(options: DocumentOptions) -> dict:
    """The options as they go into the manifest: no paths of this machine."""
    kept = dataclasses.asdict(options)
    # The inputs are in the names of the sources.
    described_elsewhere = (
        *("input", "validation_input", "vocab_file", "tokenizer", "lower_case"),
        *("strip_accents", "split_ideographs"),
        *("sentence_parameters", "strict", "max_rejected_share"),
    )
    for name in described_elsewhere:
        del kept[name]
    return {**kept, "cleaning": options.cleaning.described()}


def _finished_build(
    output_dir: pathlib.Path, described: Mapping, sizes: list
) -> Manifest | None:
    manifest = sharded_build.finished_manifest(output_dir)
    if manifest is None:
        return None
    found = {
        "kind": manifest.kind,
        **{name: getattr(manifest, name) for name in described},
        "sources": [[source["file"], source["bytes"]] for source in manifest.sources],
    }
    expected = {"kind": "documents", **described, "sources": sizes}
    sharded_build.check_same(output_dir, expected, found)
    return manifest


def _assemble(
    described: Mapping,
    vocabulary: TokenTable,
    reports: Mapping[int, dict],
    described_sources: Iterable[Mapping],
) -> Manifest:
    return Manifest(
        kind="documents",
        **described,
        number_widths=record_schema.number_widths(vocabulary.size, None),
        window_length=None,
        sources=tuple(described_sources),
        rejected=rejections.count(reports),
        splits=collect_shards(reports),
        cleaning=drop_counts.merge(
            reports[number]["cleaning"]
            for number in sorted(reports)
            if "cleaning" in reports[number]
        ),
    )


def collect_shards(reports: Mapping[int, dict]) -> dict[str, tuple[Shard, ...]]:
    """The shards of all reports, by split, in the order of their numbers."""
    return {
        split: tuple(
            Shard(**reports[number]["shards"][split]) for number in sorted(reports)
        )
        for split in SPLITS
    }
