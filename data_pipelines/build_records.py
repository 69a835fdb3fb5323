r"""Turns raw text into training records: whole documents, then windows.

  seg-tf build-records --format=wikiextractor --input=text/ \
    --vocab_file=vocab.txt --output_dir=records --window_length=512 --num_workers=4

Writes the records, manifest.json and vocab.txt to --output_dir, a folder or a URL such
as s3://bucket/records. The whole documents are in its subfolder `documents`, and
windows of another length can be built from them (`seg-tf build-windows`). To
resume an interrupted build, run the same command again. A finished build is left
unchanged. The result is identical, byte for byte, for any number of workers. If the
corpus has a separate validation split, pass it as --validation_input.

A corpus that is too large for one machine can be built with Apache Beam. The result is
the same. Pass Beam's options after --:

  seg-tf build-records --format=wikiextractor --input=text/ \
    --vocab_file=vocab.txt --output_dir=records --engine=beam --runner=FlinkRunner -- \
    --flink_master=host:8081

To look at the result: seg-tf inspect-records --records_dir=records
To verify it:          seg-tf check-records --records_dir=records
"""

from collections.abc import Sequence

from absl import flags

from data_pipelines import build_documents, build_windows, command_flags
from data_pipelines.builds import documents, sharded_build, windows

DOCUMENTS_FOLDER = "documents"
RUN = command_flags.RUN_BUILD


def define_flags() -> None:
    build_documents.define_flags()
    build_windows.define_window_flags()


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    output_dir = sharded_build.local_folder(values.output_dir)
    documents_dir = sharded_build.local_folder(values.output_dir, DOCUMENTS_FOLDER)
    # Check the options before the slow first half starts.
    window_options = command_flags.options_from_flags(windows.WindowOptions)
    windows.check_word_pieces(values.tokenizer)
    engine = command_flags.engine_from_flags()
    document_manifest = documents.build_documents(
        build_documents.options_from_flags(),
        documents_dir,
        engine=engine,
        overwrite=values.overwrite,
    )
    manifest = windows.build_windows(
        window_options,
        documents_dir,
        output_dir,
        engine=engine,
        overwrite=values.overwrite,
    )
    command_flags.write_requested_report(output_dir)
    sharded_build.publish(documents_dir, values.output_dir, DOCUMENTS_FOLDER)
    sharded_build.publish(output_dir, values.output_dir)
    print(
        f"documents in {values.output_dir}/{DOCUMENTS_FOLDER}\n"
        f"{documents.summary(document_manifest)}\n"
        f"windows of {manifest.window_length} positions in {values.output_dir}\n"
        f"{documents.counts(manifest)}"
    )
