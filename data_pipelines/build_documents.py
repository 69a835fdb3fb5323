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
import json
import logging
import pathlib
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from absl import flags

import seg_tf.command_line as command_line
from data_pipelines import (
    documents_job,
    engine_flags,
    record_schema,
    sharded_build,
    source_checksums,
    text_counts,
    text_flags,
)
from data_pipelines.cleaning import options as cleaning_options
from data_pipelines.cleaning import steps, tally
from data_pipelines.document_options import DocumentOptions
from data_pipelines.documents_job import NO_TOKENS_REASONS
from data_pipelines.engine_flags import Engine
from data_pipelines.local_engine import LocalEngine
from data_pipelines.manifest import COUNTS, SPLITS, Manifest, Shard
from data_pipelines.readers import (
    COUNTED_REASONS,
    LEFT_OUT_REASONS,
    RejectedDocument,
)
from data_pipelines.report import report_flag
from data_pipelines.sharded_build import BuildError, ShardedBuild
from seg_tf import files, output_paths
from seg_tf.text import casing, encoding
from seg_tf.text.punkt_parameters import PARAMETERS_HELP, load_parameters
from seg_tf.text.token_table import TokenTable

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
            there, an input has changed since the build read it, or nothing could be
            read.
    """
    # A language function that is missing is told before anything is read.
    steps.steps_of_documents(options.cleaning)
    sources = documents_job.list_sources(options)
    vocabulary = encoding.read_vocabulary(options.tokenizer, options.vocab_file)
    options = _with_casing(options, vocabulary)
    parameters = load_parameters(options.sentence_parameters)
    described = {
        "vocabulary": documents_job.describe_vocabulary(vocabulary, options),
        "sentence_splitter": {
            "name": parameters.name,
            "parameters_sha256": parameters.checksum,
        },
        "options": _result_options(options),
    }
    sizes = [[name, path.stat().st_size] for name, path in sources.items()]
    finished = None if overwrite else _finished_build(output_dir, described, sizes)
    if finished is not None:
        source_checksums.compare_with_finished(sources, finished.sources, output_dir)
        _check_all_kept(options, finished.rejected, output_dir / REJECTED_FILE)
        _warn(finished)
        return finished

    build = ShardedBuild(output_dir, {**described, "sources": sizes})
    with build.opened(overwrite=overwrite):
        engine = engine or LocalEngine(num_workers)
        reports, described_sources = engine.make_documents(build, options, sources)
        _write_rejected(output_dir / REJECTED_FILE, reports)
        manifest = _assemble(described, vocabulary, reports, described_sources)
        # Slices may have been made without --strict, by a command that was killed.
        _check_all_kept(options, manifest.rejected, output_dir / REJECTED_FILE)
        try:
            _check_not_empty(options, manifest, reports, output_dir / REJECTED_FILE)
        except BuildError:
            # Nothing to go on with: the next command will have other options.
            build.abandon(
                shard["file"]
                for report in reports.values()
                for shard in report["shards"].values()
            )
            raise
        with files.written_aside(output_dir / "vocab.txt") as aside:
            shutil.copyfile(options.vocab_file, aside)
        manifest.save(output_dir)
        build.close()
    _warn(manifest)
    return manifest


def _warn(manifest: Manifest) -> None:
    for warning in text_counts.warnings(manifest):
        logging.warning("%s", warning)


def summary(manifest: Manifest) -> str:
    """The counts of a build as a few lines for people."""
    lines = []
    for split in SPLITS:
        names = {name: name for name in COUNTS} | {"pieces": manifest.tokens_name}
        counts = ", ".join(
            f"{manifest.count(what, split):,} {name}" for what, name in names.items()
        )
        lines.append(f"{split}: {counts}")
    if (text := text_counts.summary(manifest)) is not None:
        lines.append(text)
    if not manifest.count("records", "validation"):
        lines.append(_NO_VALIDATION)
    if manifest.rejected:
        is_listed = not COUNTED_REASONS.issuperset(manifest.rejected)
        where = f" (see {REJECTED_FILE})" if is_listed else ""
        lines.append(f"left out: {_listed(manifest.rejected)}{where}")
    if manifest.cleaning:
        lines.append(tally.summary(manifest.cleaning))
    return "\n".join(lines)


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


def _result_options(options: DocumentOptions) -> dict:
    """The options as they go into the manifest: no paths of this machine."""
    kept = dataclasses.asdict(options)
    # The inputs are in the names of the sources.
    described_elsewhere = (
        *("input", "validation_input", "vocab_file", "tokenizer", "lower_case"),
        *("sentence_parameters", "strict"),
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
        rejected=_count_rejected(reports),
        splits=collect_shards(reports),
        cleaning=tally.merge(
            reports[number]["cleaning"]
            for number in sorted(reports)
            if "cleaning" in reports[number]
        ),
    )


def _check_all_kept(
    options: DocumentOptions, rejected: Mapping[str, int], rejected_file: pathlib.Path
) -> None:
    bad = {
        reason: count
        for reason, count in rejected.items()
        if reason not in LEFT_OUT_REASONS and reason not in NO_TOKENS_REASONS
    }
    if options.strict and bad:
        raise BuildError(
            f"--strict wants all documents; left out: {_listed(bad)}, see "
            f"{rejected_file}"
        )


def _check_not_empty(
    options: DocumentOptions,
    manifest: Manifest,
    reports: Mapping[int, dict],
    rejected_file: pathlib.Path,
) -> None:
    inputs = {None: options.input}  # None is both splits.
    if options.validation_input is not None:
        inputs = {"train": options.input, "validation": options.validation_input}
    for split, given in inputs.items():
        if manifest.count("records", split):
            continue
        reasons = []
        if manifest.rejected:
            reasons.append(f"rejected in all: {_listed(manifest.rejected)}")
        # Names of sources begin with their split where there are inputs of both.
        begin = f"{split}/" if split else ""
        of_split = (
            one for one in _rejected(reports) if one["source"].startswith(begin)
        )
        first = next(of_split, None)
        if first is not None:
            reasons.append(f"first {RejectedDocument(**first)}, see {rejected_file}")
        if manifest.cleaning:
            reasons.append(tally.summary(manifest.cleaning))
        raise BuildError(
            f"there is no document in {given!r}, read as {options.format}: "
            + "; ".join(reasons or ["it holds none"])
        )


def collect_shards(reports: Mapping[int, dict]) -> dict[str, tuple[Shard, ...]]:
    """The shards of all reports, by split, in the order of their numbers."""
    return {
        split: tuple(
            Shard(**reports[number]["shards"][split]) for number in sorted(reports)
        )
        for split in SPLITS
    }


def _rejected(reports: Mapping[int, dict]) -> Iterable[dict]:
    for number in sorted(reports):
        yield from reports[number]["rejected"]


def _count_rejected(reports: Mapping[int, dict]) -> dict[str, int]:
    counts = Counter(item["reason"] for item in _rejected(reports))
    for report in reports.values():
        counts.update(report.get("counted", {}))
    return dict(sorted(counts.items()))


def _write_rejected(path: pathlib.Path, reports: Mapping[int, dict]) -> None:
    with files.written_aside(path) as aside, open(aside, "w", encoding="utf-8") as file:
        for item in _rejected(reports):
            file.write(json.dumps(item, ensure_ascii=False) + "\n")


def _listed(rejected: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in rejected.items())


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
    cleaning_options.define_flags()
    define_run_flags()


def define_run_flags() -> None:
    """Flags that change nothing in the result."""
    engine_flags.define_engine_flags()
    flags.DEFINE_bool("overwrite", False, "Remove a build that lies in --output_dir.")
    report_flag.define_flag()


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
    print(summary(manifest))
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
