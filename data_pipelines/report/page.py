"""The report as one HTML file that needs no other."""

import html
import pathlib

from data_pipelines.records.manifest import FILE_NAME as MANIFEST_NAME
from data_pipelines.records.manifest import Manifest
from data_pipelines.report import sections
from data_pipelines.report.measurements import Measurements, measure
from seg_tf import files

MAX_DOCUMENTS = 20_000
DOCUMENTS_FOLDER = "documents"

_STYLE = """
:root { --ink: #1d2733; --soft: #5d6b7a; --line: #e3e8ee; --ground: #fbfcfd;
  --blue: #3b6fb6; --amber: #e0a33c; --panel: #ffffff; }
* { box-sizing: border-box; }
html { scroll-behavior: smooth; }
body { margin: 0; color: var(--ink); background: var(--ground); line-height: 1.55;
  font: 16px/1.55 "Source Sans 3", "Segoe UI", Roboto, "Helvetica Neue", Arial,
  sans-serif; }
.page { display: grid; grid-template-columns: 200px minmax(0, 920px); gap: 48px;
  max-width: 1240px; margin: 0 auto; padding: 40px 32px 80px; }
nav { position: sticky; top: 40px; align-self: start; font-size: 15px; }
nav b { display: block; margin-bottom: 10px; font-size: 13px; letter-spacing: .06em;
  text-transform: uppercase; color: var(--soft); }
nav a { display: block; padding: 4px 0 4px 12px; color: var(--soft);
  text-decoration: none; border-left: 2px solid var(--line); }
nav a:hover { color: var(--blue); border-color: var(--blue); }
h1 { margin: 0 0 6px; font-size: 34px; line-height: 1.2; letter-spacing: -.01em; }
h2 { margin: 56px 0 14px; padding-bottom: 8px; font-size: 23px;
  border-bottom: 1px solid var(--line); }
h3 { margin: 28px 0 8px; font-size: 17px; }
.lead, cite { color: var(--soft); }
.lead { margin: 0 0 24px; }
code { font: 14px ui-monospace, "SFMono-Regular", Consolas, monospace; }
.tiles { display: flex; flex-wrap: wrap; gap: 12px; margin: 24px 0; }
.tile { flex: 1 1 150px; padding: 14px 18px; background: var(--panel);
  border: 1px solid var(--line); border-radius: 10px; color: var(--soft);
  font-size: 14px; }
.tile b { display: block; font-size: 25px; color: var(--ink); letter-spacing: -.01em;
  font-variant-numeric: tabular-nums; }
.table { overflow-x: auto; margin: 14px 0 22px; }
table { border-collapse: collapse; width: 100%; font-size: 15px; }
th, td { padding: 7px 14px 7px 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
th { font-size: 13px; font-weight: 600; color: var(--soft); }
.number { text-align: right; padding-right: 0; padding-left: 14px;
  font-variant-numeric: tabular-nums; white-space: nowrap; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(340px, 1fr));
  gap: 16px; }
figure { margin: 0; padding: 16px 18px 10px; background: var(--panel);
  border: 1px solid var(--line); border-radius: 10px; }
figcaption { margin-bottom: 8px; font-weight: 600; font-size: 15px; }
svg { display: block; width: 100%; height: auto; }
svg text { font-size: 11px; fill: var(--soft); font-variant-numeric: tabular-nums; }
.grid { stroke: var(--line); }
.mark { stroke: var(--ink); stroke-dasharray: 3 3; }
.bar { fill: var(--blue); background: var(--blue); }
.second { fill: var(--amber); background: var(--amber); }
.key { display: inline-block; width: 12px; height: 12px; margin: 0 2px 0 10px;
  border-radius: 2px; }
blockquote, .document { margin: 10px 0; padding: 12px 16px; background: var(--panel);
  border: 1px solid var(--line); border-left: 3px solid var(--amber);
  border-radius: 6px; overflow-wrap: anywhere; }
blockquote { white-space: pre-line; font-size: 15px; }
.document { border-left-color: var(--blue); }
.document p { margin: 8px 0 0; }
.document span { text-decoration: underline; text-decoration-color: #c4d4ea;
  text-decoration-thickness: 1px; text-underline-offset: 4px; }
cite { display: block; font-size: 13px; font-style: normal; }
.why { margin-left: 6px; padding: 1px 8px; color: #7a5410; background: #fdf3de;
  border-radius: 9px; }
@media (max-width: 820px) { .page { display: block; padding: 24px 18px; }
  nav { position: static; margin-bottom: 32px; } }
@media print { nav { display: none; } .page { display: block; } }
"""


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
    files.write_text(output, to_html(manifest, windows, found))


def _documents_of(
    records_dir: pathlib.Path, windows: Manifest, documents_dir: pathlib.Path
) -> Manifest:
    held = "no manifest"
    if (documents_dir / MANIFEST_NAME).is_file():
        documents = Manifest.load(documents_dir)
        found = files.checksum(documents_dir / MANIFEST_NAME)
        if found == windows.options.get("documents_manifest_sha256"):
            return documents
        held = f"other {documents.kind}"
    raise ValueError(
        "`documents_dir` must hold the whole documents that the windows in "
        f"{records_dir} were cut from. Received: {documents_dir}, which holds {held}"
    )


def to_html(documents: Manifest, windows: Manifest | None, found: Measurements) -> str:
    """The page.

    Args:
        documents: manifest of the documents.
        windows: that of the windows cut from them; None where there are none.
        found: what was measured of the documents.
    """
    sampled = (
        "Lengths, padding and indices are of all documents."
        if found.num_documents == found.num_all_documents
        else f"Lengths, padding and indices are of {found.num_documents:,} documents "
        f"drawn at random from {found.num_all_documents:,}."
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
    links, body = [], []
    for title, content in parts.items():
        name = title.lower().replace(" ", "-")
        links.append(f'<a href="#{name}">{html.escape(title)}</a>')
        body.append(f'<section id="{name}"><h2>{html.escape(title)}</h2>{content}')
        body.append("</section>")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Corpus report</title>
<style>{_STYLE}</style>
</head>
<body>
<div class="page">
<nav><b>Contents</b>{"".join(links)}</nav>
<main>
<h1>Corpus report</h1>
<p class="lead">{html.escape(_headline(documents))} {sampled}</p>
{"".join(body)}
</main>
</div>
</body>
</html>
"""


def _headline(documents: Manifest) -> str:
    kind = documents.options.get("format", "text")
    return (
        f"{documents.count('documents'):,} documents of "
        f"{documents.count('pieces'):,} {documents.tokens_name}, read as {kind} from "
        f"{len(documents.sources):,} files."
    )
