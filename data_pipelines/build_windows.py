r"""Cuts the documents of a corpus into windows of a length, ready for training.

  python -m data_pipelines.build_windows --documents_dir=documents \
    --output_dir=windows-128 --window_length=128

Every window is a run of whole sentences of one document; a sentence is cut only
where it is longer than a window, or where --cut_sentences fills every window to the
last piece. Beside its pieces a window carries its place in the document and a seeded
permutation of its sentences. A killed build resumes where it stopped; the result is
the same for any number of workers.
"""

import dataclasses
import pathlib
import shutil
from collections.abc import Sequence

from absl import flags

from data_pipelines.builds import (
    document_build,
    engine_flags,
    remote_output,
    sharded_build,
    window_building,
)
from data_pipelines.builds.engine_flags import Engine
from data_pipelines.builds.local_engine import LocalEngine
from data_pipelines.builds.sharded_build import ShardedBuild
from data_pipelines.builds.window_building import WindowOptions
from data_pipelines.report import report_flag
from seg_tf import files
from seg_tf.data import mirrors, record_schema
from seg_tf.data.manifest import FILE_NAME, Manifest
from seg_tf.text.encoding import SENTENCE_PARAMETERS_FILE, VOCABULARY_FILE


def build_windows(
    options: WindowOptions,
    documents_dir: pathlib.Path,
    output_dir: pathlib.Path,
    *,
    num_workers: int = 1,
    overwrite: bool = False,
    engine: Engine | None = None,
) -> Manifest:
    """Builds the window shards and their manifest.

    Args:
        options: what the windows depend on.
        documents_dir: what `build_documents` made.
        output_dir: where the windows go; not `documents_dir`.
        num_workers: processes of this machine.
        overwrite: whether a build that lies there is removed first.
        engine: what makes the shards; None is a `LocalEngine` of `num_workers`. The
            result is the same with any.

    Returns:
        The manifest. If the same build is complete already, only reads it.

    Raises:
        ValueError: if the documents are missing, or of whole words.
        BuildError: if the folder holds another build, or another process is building
            there or in `documents_dir`.
    """
    with files.locked_for_reading(documents_dir, sharded_build.in_use(documents_dir)):
        return _build(
            options,
            documents_dir,
            output_dir,
            overwrite=overwrite,
            engine=engine or LocalEngine(num_workers),
        )


def _build(
    options: WindowOptions,
    documents_dir: pathlib.Path,
    output_dir: pathlib.Path,
    *,
    overwrite: bool,
    engine: Engine,
) -> Manifest:
    """`build_windows`, with documents that no other process replaces."""
    documents = Manifest.load(documents_dir)
    if documents.kind != "documents":
        raise ValueError(
            f"`documents_dir` must hold documents. Received: {documents_dir}, which "
            f"holds {documents.kind}"
        )
    window_building.check_word_pieces(documents.tokenizer)
    if output_dir.resolve() == documents_dir.resolve():
        raise ValueError(
            "`output_dir` must be another folder than `documents_dir`. "
            f"Received: {output_dir}"
        )
    described = {
        **options.described(),
        "documents_manifest_sha256": files.checksum(documents_dir / FILE_NAME),
    }
    all_options = {**documents.options, **described}
    finished = None if overwrite else _finished_build(output_dir, all_options)
    if finished is not None:
        return finished

    build = ShardedBuild(output_dir, described)
    with build.opened(overwrite=overwrite):
        reports = engine.make_windows(build, options, documents_dir)
        manifest = dataclasses.replace(
            documents,
            kind="windows",
            options=all_options,
            number_widths=record_schema.number_widths(
                documents.vocabulary["size"], options.capacity
            ),
            window_length=options.window_length,
            splits=document_build.collect_shards(reports),
        )
        for name in (VOCABULARY_FILE, SENTENCE_PARAMETERS_FILE):
            with files.written_aside(output_dir / name) as aside:
                shutil.copyfile(documents_dir / name, aside)
        manifest.save(output_dir)
        build.close()
    return manifest


def _finished_build(output_dir: pathlib.Path, options: dict) -> Manifest | None:
    manifest = sharded_build.finished_manifest(output_dir)
    if manifest is None:
        return None
    sharded_build.check_same(
        output_dir,
        {"kind": "windows", "options": options},
        {"kind": manifest.kind, "options": manifest.options},
    )
    return manifest


# --- The script -----------------------------------------------------------------


def define_flags() -> None:
    """Flags that say what the windows depend on."""
    defaults = WindowOptions()
    flags.DEFINE_integer(
        "window_length",
        defaults.window_length,
        "Positions of a window, [CLS] and [SEP] included. The config that trains on "
        "the records has to have the same.",
    )
    flags.DEFINE_float(
        "short_window_rate",
        defaults.short_window_rate,
        "Probability that a window aims at a random shorter length.",
    )
    flags.DEFINE_bool(
        "cut_sentences",
        defaults.cut_sentences,
        "Fill windows to the last word piece, inside a sentence if need be. For masked "
        "LM, above all with several windows a row; not for sentence unshuffling.",
    )
    flags.DEFINE_integer(
        "seed", defaults.seed, "Seed of short lengths and sentence permutations."
    )


def options_from_flags() -> WindowOptions:
    """The options that the flags describe."""
    names = [field.name for field in dataclasses.fields(WindowOptions)]
    return WindowOptions(**{name: flags.FLAGS[name].value for name in names})


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    documents_dir = mirrors.local_records(values.documents_dir)
    output_dir = remote_output.local_folder(values.output_dir)
    manifest = build_windows(
        options_from_flags(),
        documents_dir,
        output_dir,
        engine=engine_flags.engine_from_flags(),
        overwrite=values.overwrite,
    )
    report_flag.write_if_wanted(output_dir, documents_dir)
    remote_output.publish(output_dir, values.output_dir)
    print(document_build.summary(manifest))
    print(f"windows and manifest.json are in {values.output_dir}")


if __name__ == "__main__":
    flags.DEFINE_string(
        "documents_dir", None, "Folder or URL of build_documents.", required=True
    )
    flags.DEFINE_string(
        "output_dir", None, remote_output.OUTPUT_DIR_HELP, required=True
    )
    define_flags()
    engine_flags.define_run_flags()
    engine_flags.run(main)
