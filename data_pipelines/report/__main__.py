r"""Writes a page on records: what went in, what was left out, how long things are.

  python -m data_pipelines.report --records_dir=records
  python -m data_pipelines.report --records_dir=windows-128 --documents_dir=documents \
    --output=corpus.html

Sources and options, counts, what could not be read, what each cleaning step dropped
with examples, histograms of the lengths of documents, paragraphs and sentences, padding
at several window lengths, and how much of the text has indices that SegaBERT's tables
have no row for. One HTML file, which loads nothing else.
"""

import sys
from collections.abc import Sequence

from absl import flags

from data_pipelines.report import FILE_NAME, page
from seg_tf import command_line, output_paths
from seg_tf.data import mirrors


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    records_dir = mirrors.local_records(values.records_dir)
    output = records_dir / FILE_NAME
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
    flags.DEFINE_string(
        "records_dir", None, "Folder with manifest.json.", required=True
    )
    flags.DEFINE_string(
        "documents_dir",
        None,
        "The whole documents, if they do not lie in the records' folder `documents`.",
    )
    flags.DEFINE_string(
        "output", None, f"The file. Default: {FILE_NAME} in --records_dir."
    )
    flags.DEFINE_integer(
        "max_documents",
        page.MAX_DOCUMENTS,
        "Documents to measure, drawn at random; all if there are no more.",
        lower_bound=1,
    )
    sys.exit(command_line.run(main))
