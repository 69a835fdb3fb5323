"""The report as a self-contained HTML file, in which every text is escaped."""

import pathlib
import string
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from data_pipelines.builds import text_counts
from data_pipelines.cleaning import drop_counts
from data_pipelines.readers.base import passed_over_summary
from data_pipelines.report.measurements import CAPS, Measurements, measure
from seg_tf import files
from seg_tf.data.manifest import COUNTS, FILE_NAME, SPLITS, Manifest
from seg_tf.text.normalization import Normalization

MAX_DOCUMENTS = 20_000
_MAX_SOURCES = 12
_STEP_NAMES = {
    "short_lines": "Lines without enough words",
    "short_documents": "Documents without enough words",
    "language": "Documents of other languages",
    "duplicates": "Documents that repeat an earlier one",
}


def write_report(
    records_dir: pathlib.Path,
    output: pathlib.Path,
    *,
    documents_dir: pathlib.Path | None = None,
    max_documents: int = MAX_DOCUMENTS,
) -> None:
    """Writes the page about a folder of documents, or of windows of them.

    Args:
        records_dir: output of `build_documents`, `build_windows` or `build_records`.
        output: the HTML file.
        documents_dir: the documents that the windows were cut from; None is the folder
            `documents` of `records_dir`.
        max_documents: maximum number of documents to measure; counts are of all.

    Raises:
        ValueError: if there are no whole documents, or other ones.
    """
    manifest = documents = Manifest.load(records_dir)
    if manifest.kind == "windows":
        documents_dir = documents_dir or records_dir / "documents"
        documents = Manifest.load(documents_dir)
        checksum = files.checksum(documents_dir / FILE_NAME)
        if checksum != manifest.options["documents_manifest_sha256"]:
            raise ValueError(
                "`documents_dir` must contain the whole documents that the windows in "
                f"{records_dir} were cut from. Received: {documents_dir}, which "
                f"contains other {documents.kind}"
            )
    else:
        documents_dir = records_dir
    measurements = measure(documents_dir, max_documents)
    measured = f"{measurements.num_documents:,} documents drawn at random"
    if measurements.num_documents == measurements.num_all_documents:
        measured = "all documents"
    template = pathlib.Path(__file__).with_suffix(".html").read_text(encoding="utf-8")
    page = string.Template(template).substitute(
        num_documents=f"{documents.count('documents'):,}",
        num_tokens=f"{documents.count('pieces'):,} {documents.tokens_name}",
        format=escape(str(documents.options.get("format", "text"))),
        num_sources=f"{len(documents.sources):,}",
        measured=measured,
        counts=_counts(documents, manifest),
        text_fit=_text_fit(documents),
        build=_build(documents, manifest),
        left_out=_left_out(documents),
        cleaning=_cleaning(documents.cleaning),
        lengths=_lengths(measurements),
        padding=_padding(measurements),
        caps=_caps(measurements),
    )
    files.write_text(output, page)


# --- Elements ------------------------------------------------------------------------


def _table(
    head: Sequence[str], rows: Iterable[Sequence[object]], *, text_columns: int = 1
) -> str:
    """A table; all columns but the first `text_columns` contain numbers."""

    def line(cells: Sequence[object], tag: str) -> str:
        texts = (f"{c:,}" if isinstance(c, int) else str(c) for c in cells)
        return "".join(
            f"<{tag}{'' if column < text_columns else ' class=number'}>"
            f"{escape(text)}</{tag}>"
            for column, text in enumerate(texts)
        )

    body = "".join(f"<tr>{line(cells, 'td')}</tr>" for cells in rows)
    return (
        f'<div class="table"><table><thead><tr>{line(head, "th")}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _percent(share: float) -> str:
    """A readable share with two significant digits."""
    value = 100 * share
    if value == 0 or value >= 10:
        return f"{value:.0f} %" if value in (0, 100) else f"{value:.1f} %"
    return f"{value:.1f} %" if value >= 1 else f"{value:.2g} %"


# --- Sections ------------------------------------------------------------------------


def _counts(documents: Manifest, manifest: Manifest) -> str:
    columns = [(documents, name, name) for name in COUNTS[:3]]
    columns.append((documents, "pieces", documents.tokens_name))
    if manifest.kind == "windows":
        label = f"windows of {manifest.window_length} positions"
        columns.append((manifest, "records", label))
    rows = [
        (split or "all", *(source.count(name, split) for source, name, _ in columns))
        for split in (*SPLITS, None)
    ]
    return _table(("split", *(label for *_, label in columns)), rows)


def _text_fit(documents: Manifest) -> str:
    """Unknown words and unsplit paragraphs, with the warnings of the build."""
    quotes = [
        f"<blockquote>{escape(text)}.</blockquote>"
        for text in text_counts.warnings(documents)
    ]
    summary = text_counts.summary(documents) or ""
    return f"{''.join(quotes)}<p>{escape(summary)}.</p>"


def _build(documents: Manifest, manifest: Manifest) -> str:
    sources = [(source["file"], source["bytes"]) for source in documents.sources]
    rows, rest = sources[:_MAX_SOURCES], sources[_MAX_SOURCES:]
    if rest:
        rows.append((f"… and {len(rest):,} more", sum(size for _, size in rest)))
    rows.append(("all", sum(size for _, size in sources)))
    vocabulary = manifest.vocabulary
    options = dict(_flat(manifest.options)) | {
        "vocabulary": f"{vocabulary['size']:,} {documents.tokens_name}, "
        f"{Normalization.from_described(vocabulary)}, sha256 "
        f"{vocabulary['sha256'][:16]}…",
        "sentence splitter": manifest.sentence_splitter["name"],
    }
    return _table(("source", "bytes"), rows) + _table(
        ("option", "value"), options.items(), text_columns=2
    )


def _flat(options: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", str(value)


def _left_out(documents: Manifest) -> str:
    """Documents that could not be read, and files that were passed over."""
    html = "<p>Every document could be read.</p>"
    if documents.rejected:
        html = _table(("reason", "documents"), documents.rejected.items())
    if documents.passed_over:
        html += f"<p>Files {escape(passed_over_summary(documents.passed_over))}.</p>"
    return html


def _cleaning(cleaning: Mapping[str, Any] | None) -> str:
    if cleaning is None:
        return "<p>No cleaning step was on.</p>"
    total = max(cleaning["before"]["characters"], 1)
    sizes = {"read": cleaning["before"]}
    sizes |= {f"− {step}": dropped for step, dropped in cleaning["steps"].items()}
    rows = [
        (
            name,
            *(size[what] for what in drop_counts.COUNTS),
            _percent(size["characters"] / total),
        )
        for name, size in (sizes | {"left": cleaning["after"]}).items()
    ]
    parts = [_table(("step", *drop_counts.COUNTS, "of all characters"), rows)]
    for step, dropped in cleaning["steps"].items():
        parts.append(f"<h3>{escape(_STEP_NAMES.get(step, step))}</h3>")
        for example in dropped["examples"]:
            place = "document {document_id}, {source}, {location}".format(**example)
            why = f" ({example['why']})" if example["why"] else ""
            parts.append(
                f"<blockquote><cite>{escape(place + why)}</cite>"
                f"{escape(example['text'])}</blockquote>"
            )
    return "".join(parts)


def _lengths(measurements: Measurements) -> str:
    rows = []
    for name, lengths in measurements.lengths.items():
        median, high = np.quantile(lengths, [0.5, 0.95], method="inverted_cdf")
        mean = f"{np.mean(lengths):,.1f}"
        rows.append((name, mean, int(median), int(high), max(lengths)))
    return _table(("", "mean", "median", "95 % have at most", "longest"), rows)


def _padding(measurements: Measurements) -> str:
    if not measurements.windows:
        return "<p>Documents of words are read as one stream, without padding.</p>"
    rows = [
        (f"{length:,}", len(lengths), *map(_percent, measurements.padding(length)))
        for length, lengths in measurements.windows.items()
    ]
    return _table(("positions", "windows", "padding", "padding if packed"), rows)


def _caps(measurements: Measurements) -> str:
    if not measurements.over_cap:
        return "<p>Models of words have no tables of indices.</p>"
    rows = [
        (name.replace("_", " "), CAPS[name], _percent(over / measurements.num_tokens))
        for name, over in measurements.over_cap.items()
    ]
    head = ("index in the document", "rows of SegaBERT’s table", "pieces over them")
    return _table(head, rows)
