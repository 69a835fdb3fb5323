"""The report as one HTML file that needs no other."""

import html
import pathlib
import string

from data_pipelines.records.manifest import FILE_NAME, Manifest
from data_pipelines.report import sections
from data_pipelines.report.measurements import Measurements, measure
from seg_tf import files

MAX_DOCUMENTS = 20_000
DOCUMENTS_FOLDER = "documents"


def write_report(
    records_dir: pathlib.Path,
    output: pathlib.Path,
    *,
    documents_dir: pathlib.Path | None = None,
    max_documents: int = MAX_DOCUMENTS,
) -> None:
    """Writes the page on a folder of documents, or of windows of them.

    Args:
        records_dir: what `build_documents`, `build_windows` or `build_records` made.
        output: the HTML file.
        documents_dir: the whole documents that windows were cut from; None is the
            folder `documents` of `records_dir`.
        max_documents: documents to measure lengths of, at most; counts are of all.

    Raises:
        ValueError: if there are no whole documents, or not those of the windows.
    """
    manifest = Manifest.load(records_dir)
    windows = manifest if manifest.kind == "windows" else None
    if windows is not None:
        documents_dir = documents_dir or records_dir / DOCUMENTS_FOLDER
        manifest = _documents_of(records_dir, windows, documents_dir)
    else:
        documents_dir = records_dir
    found = measure(documents_dir, max_documents)
    files.write_text(output, _to_html(manifest, windows, found))


def _documents_of(
    records_dir: pathlib.Path, windows: Manifest, documents_dir: pathlib.Path
) -> Manifest:
    held = "no manifest"
    if (documents_dir / FILE_NAME).is_file():
        documents = Manifest.load(documents_dir)
        found = files.checksum(documents_dir / FILE_NAME)
        if found == windows.options.get("documents_manifest_sha256"):
            return documents
        held = f"other {documents.kind}"
    raise ValueError(
        "`documents_dir` must hold the whole documents that the windows in "
        f"{records_dir} were cut from. Received: {documents_dir}, which holds {held}"
    )


def _to_html(documents: Manifest, windows: Manifest | None, found: Measurements) -> str:
    measured = "all documents"
    if found.num_documents < found.num_all_documents:
        measured = (
            f"{found.num_documents:,} documents drawn at random from "
            f"{found.num_all_documents:,}"
        )
    lead = (
        f"{documents.count('documents'):,} documents of {documents.count('pieces'):,} "
        f"{documents.tokens_name}, read as {documents.options.get('format', 'text')} "
        f"from {len(documents.sources):,} files. Lengths, padding and indices are of "
        f"{measured}."
    )
    parts = {
        "Counts": sections.counts(documents, windows),
        "Vocabulary and sentences": sections.text_fit(documents),
        "Sources and options": sections.build(documents, windows),
        "Left out": sections.rejected(documents),
        "Cleaning": sections.cleaning(documents),
        "Lengths": sections.lengths(found),
        "Padding": sections.padding(found),
        "Indices over the tables": sections.caps(found),
        "Documents": sections.beginnings(found),
    }
    anchors = {title: title.lower().replace(" ", "-") for title in parts}
    template = pathlib.Path(__file__).with_suffix(".html").read_text(encoding="utf-8")
    return string.Template(template).substitute(
        lead=html.escape(lead),
        links="".join(
            f'<a href="#{name}">{title}</a>' for title, name in anchors.items()
        ),
        sections="\n".join(
            f'<section id="{anchors[title]}"><h2>{title}</h2>{content}</section>'
            for title, content in parts.items()
        ),
    )
