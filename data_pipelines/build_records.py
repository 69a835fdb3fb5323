r"""Turns raw text into training records: documents first, then windows of them.

  python -m data_pipelines.build_records --format=wikiextractor --input=text/ \
    --vocab_file=vocab.txt --output_dir=records --window_length=512 --num_workers=4

The records, manifest.json and vocab.txt end up in --output_dir, a folder or a URL such
as s3://bucket/records, the whole documents in its folder `documents` (windows of
another length need only these: `data_pipelines.build_windows`). A killed build resumes
where it stopped when the same command is given again, a finished one is left as it is,
and the result is the same, byte for byte, for any number of workers. --validation_input
takes the validation split of a corpus that comes with one.

A corpus that outgrows one machine is built by Apache Beam, with the same result; Beam's
own options follow after --:

  python -m data_pipelines.build_records --format=wikiextractor --input=text/ \
    --vocab_file=vocab.txt --output_dir=records --engine=beam --runner=FlinkRunner -- \
    --flink_master=host:8081

To look at the result: python -m data_pipelines.inspect_records --records_dir=records
To verify it:          python -m data_pipelines.check_records --records_dir=records
"""

from collections.abc import Sequence

from absl import flags

from data_pipelines import build_documents, build_windows
from data_pipelines.builds import (
    document_build,
    engine_flags,
    remote_output,
    window_building,
)
from data_pipelines.report import report_flag

DOCUMENTS_FOLDER = "documents"


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    output_dir = remote_output.local_folder(values.output_dir)
    documents_dir = remote_output.local_folder(values.output_dir, DOCUMENTS_FOLDER)
    # Options are checked before the slow first half starts.
    window_options = build_windows.options_from_flags()
    window_building.check_word_pieces(values.tokenizer)
    engine = engine_flags.engine_from_flags()
    documents = document_build.build_documents(
        build_documents.options_from_flags(),
        documents_dir,
        engine=engine,
        overwrite=values.overwrite,
    )
    windows = build_windows.build_windows(
        window_options,
        documents_dir,
        output_dir,
        engine=engine,
        overwrite=values.overwrite,
    )
    report_flag.write_if_wanted(output_dir)
    remote_output.publish(documents_dir, values.output_dir, DOCUMENTS_FOLDER)
    remote_output.publish(output_dir, values.output_dir)
    print(
        f"documents in {values.output_dir}/{DOCUMENTS_FOLDER}\n"
        f"{document_build.summary(documents)}"
    )
    print(
        f"windows of {windows.window_length} positions in {values.output_dir}\n"
        f"{document_build.counts(windows)}"
    )


if __name__ == "__main__":
    build_documents.define_flags()
    build_windows.define_flags()
    engine_flags.run(main)
