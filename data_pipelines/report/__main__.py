r"""Writes a page about records: sources, what was left out, and lengths.

  seg-tf report --records_dir=records
  seg-tf report --records_dir=windows-128 --documents_dir=documents \
    --output=corpus.html

Sources and options, counts, what could not be read, what each cleaning step dropped
with examples, histograms of the lengths of documents, paragraphs and sentences, padding
at several window lengths, and the share of the text whose indices exceed SegaBERT's
tables. One HTML file, which loads nothing else.
"""

import sys
from collections.abc import Sequence

from absl import flags

from data_pipelines import command_flags
from data_pipelines.report import page
from seg_tf import command_line, output_paths
from seg_tf.data import mirrors


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    records_dir = mirrors.local_records(values.records_dir)
    output = records_dir / command_flags.REPORT_NAME
    if values.output is not None or records_dir.is_dir():
        output = output_paths.file_path(values.output or str(output), "output")
    documents_dir = values.documents_dir and mirrors.local_records(values.documents_dir)
    page.write_report(
        records_dir,
        output,
        documents_dir=documents_dir,
        max_documents=values.max_documents,
    )
    print(f"the report is {output}")


if __name__ == "__main__":
    command_flags.define_records_flag()
    flags.DEFINE_string(
        "documents_dir",
        None,
        "The whole documents, if they are not in the folder `documents` of the "
        "records.",
    )
    flags.DEFINE_string(
        "output",
        None,
        f"The file. Default: {command_flags.REPORT_NAME} in --records_dir.",
    )
    flags.DEFINE_integer(
        "max_documents",
        page.MAX_DOCUMENTS,
        "Number of documents to measure, drawn at random.",
        lower_bound=1,
    )
    sys.exit(command_line.run(main))
