r"""Builds whole documents: reads text, splits sentences, makes ids of the words.

This is the dear half of preparing a corpus and needs to be done once; windows of
any length are cut from its result in a moment (`data_pipelines.build_windows`).
`data_pipelines.build_records` runs both.

  python -m data_pipelines.build_documents --format=wikiextractor --input=text/ \
    --vocab_file=vocab.txt --output_dir=documents --num_workers=4

Documents of whole words, for models that read a corpus as one stream, take
--tokenizer=words or whitespace and a vocabulary of `data_pipelines.build_word_vocab`;
they need no windows.

A corpus that comes with a validation file of its own gives it as --validation_input;
--input is all trained on then:

  python -m data_pipelines.build_documents --format=wikitext --tokenizer=whitespace \
    --input=wiki.train.tokens --validation_input=wiki.valid.tokens \
    --vocab_file=words.txt --output_dir=records

A killed build goes on where it stopped when the same command is given again. The
result is the same, byte for byte, for any number of workers.
"""

import dataclasses
import logging
import pathlib
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from absl import flags

import seg_tf.command_line as command_line
from data_pipelines.builds import (
    document_building,
    engine_flags,
    losses,
    manifest_summary,
    rejections,
    sharded_build,
    source_checksums,
    text_counts,
    text_flags,
)
from data_pipelines.builds.document_options import DocumentOptions
from data_pipelines.builds.engine_flags import Engine
from data_pipelines.builds.errors import BuildError
from data_pipelines.builds.local_engine import LocalEngine
from data_pipelines.builds.sharded_build import ShardedBuild
from data_pipelines.cleaning import drop_counts, steps
from data_pipelines.cleaning import options as cleaning_options
from data_pipelines.readers.io import passed_over
from data_pipelines.records import record_schema
from data_pipelines.records.manifest import Manifest
from data_pipelines.report import report_flag
from seg_tf import file_listing, files, output_paths
from seg_tf.text import casing, encoding
from seg_tf.text.punkt_parameters import PARAMETERS_HELP, load_parameters
from seg_tf.text.token_table import TokenTable


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
    # A language function that is missing is told before anything is read.
    steps.steps_of_documents(options.cleaning)
    not_read = passed_over.PassedOver()
    sources = document_building.list_sources(options, not_read)
    if not_read.names:
        logging.warning("%s", passed_over.summary(not_read.described()))
    vocabulary = encoding.read_vocabulary(options.tokenizer, options.vocab_file)
    options = _with_casing(options, vocabulary)
    described = _describe(options, vocabulary)
    rejected_file = output_dir / rejections.FILE_NAME
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
        with files.written_aside(output_dir / "vocab.txt") as aside:
            shutil.copyfile(options.vocab_file, aside)
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
    rejected_file = build.output_dir / rejections.FILE_NAME
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


def _with_casing(options: DocumentOptions, vocabulary: TokenTable) -> DocumentOptions:
    """The options with the casing that the vocabulary asks for, unless one is given."""
    lower_case = casing.choose(vocabulary, options.lower_case)
    if options.lower_case is None:
        done = "lower-cased and stripped of accents" if lower_case else "left cased"
        print(
            f"Text is {done}: {casing.Casing.of(vocabulary)}. --lower_case or "
            "--nolower_case overrides this",
            file=sys.stderr,
        )
    return dataclasses.replace(options, lower_case=lower_case)


def _describe(options: DocumentOptions, vocabulary: TokenTable) -> dict[str, Any]:
    """The entries of the manifest that follow from the options alone."""
    parameters = load_parameters(options.sentence_parameters)
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
        *("sentence_parameters", "strict", "max_rejected_share"),
    )
    for name in described_elsewhere:
        del kept[name]
    # Only steps that are on: what an earlier version built is what no step leaves.
    del kept["cleaning"]
    if options.cleaning.is_on:
        kept["cleaning"] = options.cleaning.described()
    return kept


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
        splits=sharded_build.collect_shards(reports),
        cleaning=drop_counts.merge(
            reports[number]["cleaning"]
            for number in sorted(reports)
            if "cleaning" in reports[number]
        ),
    )


# --- The script -----------------------------------------------------------------


def define_flags() -> None:
    """Flags that say what the documents depend on."""
    text_flags.define_text_flags()
    flags.DEFINE_string(
        "vocab_file", None, "A file with a token a line.", required=True
    )
    flags.DEFINE_string("output_dir", None, "Where the result goes.", required=True)
    flags.DEFINE_enum(
        "tokenizer",
        encoding.WORD_PIECES,
        list(encoding.TOKENIZERS),
        "What the tokens are. "
        + " ".join(f"{name}: {line}" for name, line in encoding.TOKENIZERS.items()),
    )
    flags.DEFINE_bool(
        "lower_case",
        None,
        "Lower-case and strip accents (uncased). Default: as the vocabulary says, "
        "not if more than 1 % of its rows have capital letters or accents.",
    )
    flags.DEFINE_string("sentence_parameters", "english", PARAMETERS_HELP)
    flags.DEFINE_string(
        "validation_input",
        None,
        "File, folder or glob of the validation split, read as --input is; all of "
        "--input is the training split then.",
    )
    flags.DEFINE_float(
        "validation_fraction",
        None,
        "Share of documents of --input held out for validation. Default: 0.01, or none "
        "with --validation_input.",
        lower_bound=0.0,
        upper_bound=0.5,
    )
    flags.DEFINE_float(
        "slice_megabytes",
        8.0,
        "Text that makes one shard, in millions of characters. More makes fewer, "
        "larger shards and takes more memory.",
        lower_bound=0.001,
    )
    flags.DEFINE_bool("strict", False, "Stop at the first bad document.")
    flags.DEFINE_float(
        "max_rejected_share",
        0.05,
        "End with an error if more of the corpus than this share cannot be read: of "
        "documents, or of bytes in files that cannot be read to their end. Checked at "
        "the end, and on the way after 1,000 documents. What is finished is kept.",
        lower_bound=0.0,
        upper_bound=1.0,
    )
    cleaning_options.define_flags()
    engine_flags.define_run_flags()


def options_from_flags() -> DocumentOptions:
    """The options that the flags describe."""
    values = flags.FLAGS
    names = {field.name for field in dataclasses.fields(DocumentOptions)}
    return DocumentOptions(
        reader_options=text_flags.reader_options(),
        cleaning=cleaning_options.options_from_flags(),
        **{name: values[name].value for name in names - {"reader_options", "cleaning"}},
    )


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    manifest = build_documents(
        options_from_flags(),
        output_paths.local_path(values.output_dir, "output_dir"),
        engine=engine_flags.engine_from_flags(),
        overwrite=values.overwrite,
    )
    print(manifest_summary.summary(manifest))
    print(f"documents and manifest.json are in {values.output_dir}")
    report_flag.write_if_wanted(pathlib.Path(values.output_dir))


if __name__ == "__main__":
    define_flags()
    sys.exit(
        command_line.run(
            main,
            BuildError,
            goes_on=True,
            has_workers=True,
            parse_flags=engine_flags.parse,
        )
    )
