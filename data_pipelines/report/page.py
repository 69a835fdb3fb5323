"""The report as one HTML file that needs no other; every text is escaped."""

import pathlib
import string
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from data_pipelines.builds import text_counts
from data_pipelines.cleaning import drop_counts
from data_pipelines.readers.base import passed_over_summary
from data_pipelines.report import charts
from data_pipelines.report.measurements import CAPS, Measurements, measure
from seg_tf import files
from seg_tf.data.manifest import COUNTS, FILE_NAME, SPLITS, Manifest
from seg_tf.text import encoding
from seg_tf.text.normalization import Normalization

MAX_DOCUMENTS = 20_000
DOCUMENTS_FOLDER = "documents"
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
    manifest = documents = Manifest.load(records_dir)
    if manifest.kind == "windows":
        documents_dir = documents_dir or records_dir / DOCUMENTS_FOLDER
        documents = _documents_of(records_dir, manifest, documents_dir)
    else:
        documents_dir = records_dir
    found = measure(documents_dir, max_documents)
    measured = f"{found.num_documents:,} documents drawn at random"
    if found.num_documents == found.num_all_documents:
        measured = "all documents"
    template = pathlib.Path(__file__).with_suffix(".html").read_text(encoding="utf-8")
    page = string.Template(template).substitute(
        num_documents=f"{documents.count('documents'):,}",
        num_tokens=f"{documents.count('pieces'):,} {documents.tokens_name}",
        format=escape(str(documents.options.get("format", "text"))),
        num_sources=f"{len(documents.sources):,}",
        measured=measured,
        counts=_counts(documents, manifest),
        text_fit=text_fit(documents),
        build=_build(documents, manifest),
        left_out=left_out(documents),
        cleaning=_cleaning(documents.cleaning),
        lengths=_lengths(found),
        padding=_padding(found),
        caps=_caps(found),
    )
    files.write_text(output, page)


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


def _table(
    head: Sequence[str], rows: Iterable[Sequence[object]], *, text_columns: int = 1
) -> str:
    """A table; all of its columns but the first ones hold numbers."""

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


def _counts(documents: Manifest, manifest: Manifest) -> str:
    counted = [(documents, what, what) for what in COUNTS[:3]]
    counted.append((documents, "pieces", documents.tokens_name))
    if manifest.kind == "windows":
        label = f"windows of {manifest.window_length} positions"
        counted.append((manifest, "records", label))
    tiles = "".join(
        f'<div class="tile"><b>{source.count(what):,}</b>{label}</div>'
        for source, what, label in counted
    )
    rows = [
        (split, *(source.count(what, split) for source, what, _ in counted))
        for split in SPLITS
    ]
    head = ("split", *(label.split(" of ")[0] for *_, label in counted))
    return f'<div class="tiles">{tiles}</div>{_table(head, rows)}'


def text_fit(documents: Manifest) -> str:
    """Unknown words and unsplit paragraphs, with the warnings of the build."""
    counts = documents.text_counts()
    unknown, unsplit = map(charts.percent, text_counts.shares(documents, counts))
    name, words = documents.tokens_name, counts["words"]
    long = (
        f"{name} in paragraphs of one sentence longer than {text_counts.LONG_SENTENCE}"
    )
    rows = [
        ("words", words, ""),
        (f"{name} a word", f"{documents.count('pieces') / max(words, 1):.2f}", ""),
        ("unknown words", counts["unknown_words"], unknown),
        (long, counts["unsplit_pieces"], unsplit),
    ]
    if documents.tokenizer != encoding.WORD_PIECES:
        del rows[1]  # One a word, and the ends of paragraphs.
    warnings = text_counts.warnings(documents)
    quoted = "".join(f"<blockquote>{escape(text)}.</blockquote>" for text in warnings)
    return quoted + _table(("", "count", "share"), rows)


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


def left_out(documents: Manifest) -> str:
    """Documents that could not be read, and the files that were passed over."""
    parts = [_table(("reason", "documents"), documents.rejected.items())]
    if not documents.rejected:
        parts = ["<p>Every document could be read.</p>"]
    if documents.passed_over:
        names = passed_over_summary(documents.passed_over)
        parts.append(f"<p>Files {escape(names)}.</p>")
    return "".join(parts)


def _cleaning(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return "<p>No cleaning step was on: all text that was read is there.</p>"
    total = max(found["before"]["characters"], 1)
    sizes = {"read": found["before"]}
    sizes |= {f"− {step}": dropped for step, dropped in found["steps"].items()}
    rows = [
        (
            name,
            *(size[what] for what in drop_counts.COUNTS),
            charts.percent(size["characters"] / total),
        )
        for name, size in (sizes | {"left": found["after"]}).items()
    ]
    parts = [_table(("step", *drop_counts.COUNTS, "of all characters"), rows)]
    for step, dropped in found["steps"].items():
        parts.append(f"<h3>{escape(_STEP_NAMES.get(step, step))}</h3>")
        for example in dropped["examples"]:
            place = "document {document_id}, {source}, {location}".format(**example)
            why = f" ({example['why']})" if example["why"] else ""
            parts.append(
                f"<blockquote><cite>{escape(place + why)}</cite>"
                f"{escape(example['text'])}</blockquote>"
            )
        if not dropped["examples"]:
            parts.append("<p>None were found.</p>")
    return "".join(parts)


def _lengths(found: Measurements) -> str:
    rows, figures = [], []
    for name, measured in found.lengths.items():
        median, high = measured.quantile(0.5), measured.quantile(0.95)
        rows.append((name, f"{measured.mean:,.1f}", median, high, measured.longest))
        marks = [("median", median), ("95 %", high)] if high > median else []
        chart = charts.histogram(measured.binned(), marks)
        caption = f"<figcaption>{escape(name.capitalize())}</figcaption>"
        figures.append(f"<figure>{caption}{chart}</figure>")
    head = ("", "mean", "median", "95 % have at most", "longest")
    return f'{_table(head, rows)}<div class="figures">{"".join(figures)}</div>'


def _padding(found: Measurements) -> str:
    if not found.windows:
        return "<p>Documents of words are read as one stream, without padding.</p>"
    bars, rows = [], []
    for length, counts in found.windows.items():
        shares, number = (counts.padding, counts.packed_padding), len(counts.lengths)
        bars.append((f"{length:,}", *shares))
        mean = f"{counts.pieces / number:,.1f}"
        rows.append((f"{length:,}", number, mean, *map(charts.percent, shares)))
    chart = charts.paired_bars(bars, ("a window a row", "several windows a row"))
    head = ("positions", "windows", "pieces a window", "padding", "packed")
    return f"<figure>{chart}</figure>{_table(head, rows)}"


def _caps(found: Measurements) -> str:
    if not found.over_cap:
        return "<p>Models of words have no tables of indices.</p>"
    indices = [
        (name.replace("_", " "), CAPS[name], _share(over, found.num_tokens))
        for name, over in found.over_cap.items()
    ]
    windows = [
        (
            f"{length:,}",
            _share(counts.pieces_slid, counts.pieces),
            _share(counts.pieces_clamped, counts.pieces),
        )
        for length, counts in found.windows.items()
    ]
    head = ("index in the document", "rows of SegaBERT’s table", "pieces over them")
    window_head = ("window of", "paragraph indices slid", "and still over the table")
    return _table(head, indices) + _table(window_head, windows)


def _share(count: int, total: int) -> str:
    return charts.percent(count / max(total, 1))
