"""The report as a self-contained HTML file, in which every text is escaped."""

import io
import math
import pathlib
import string
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import matplotlib
import numpy as np
from matplotlib import ticker
from matplotlib.figure import Figure

from data_pipelines.builds import text_counts
from data_pipelines.cleaning import drop_counts
from data_pipelines.readers.base import passed_over_summary
from data_pipelines.report.measurements import CAPS, Measurements, measure
from seg_tf import files
from seg_tf.data.manifest import COUNTS, FILE_NAME, SPLITS, Manifest
from seg_tf.text import encoding
from seg_tf.text.normalization import Normalization

MAX_DOCUMENTS = 20_000
_MAX_SOURCES = 12
_STEP_NAMES = {
    "short_lines": "Lines without enough words",
    "short_documents": "Documents without enough words",
    "language": "Documents of other languages",
    "duplicates": "Documents that repeat an earlier one",
}
# The salt determines the ids of elements and no date is written: pages are repeatable.
_CHART_SETTINGS = {"svg.hashsalt": "report", "svg.fonttype": "none", "font.size": 9}
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


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
        ValueError: if there are no whole documents, or not those of the windows.
    """
    manifest = documents = Manifest.load(records_dir)
    documents_dir = documents_dir or records_dir / "documents"
    if manifest.kind == "windows":
        documents = _documents(records_dir, manifest, documents_dir)
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
        text_fit=text_fit(documents),
        build=_build(documents, manifest),
        left_out=left_out(documents),
        cleaning=_cleaning(documents.cleaning),
        lengths=_lengths(measurements),
        padding=_padding(measurements),
        caps=_caps(measurements),
    )
    files.write_text(output, page)


def _documents(
    records_dir: pathlib.Path, windows: Manifest, documents_dir: pathlib.Path
) -> Manifest:
    content = "no manifest"
    if (documents_dir / FILE_NAME).is_file():
        documents = Manifest.load(documents_dir)
        checksum = files.checksum(documents_dir / FILE_NAME)
        if checksum == windows.options.get("documents_manifest_sha256"):
            return documents
        content = f"other {documents.kind}"
    raise ValueError(
        "`documents_dir` must contain the whole documents that the windows in "
        f"{records_dir} were cut from. Received: {documents_dir}, which contains "
        f"{content}"
    )


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


def histogram(
    bins: Sequence[tuple[int, int, int]], marks: Sequence[tuple[str, float]]
) -> str:
    """A histogram of lengths over a logarithmic axis as SVG; areas are shares.

    Args:
        bins: first length, last length and count of each bin, ascending.
        marks: name and length of vertical lines.
    """
    with matplotlib.rc_context(_CHART_SETTINGS):
        figure = Figure(figsize=(5, 2.4), layout="constrained")
        axes = figure.add_subplot()
        firsts, lasts, counts = zip(*bins, strict=True)
        edges = np.log2([*firsts, lasts[-1] + 1])
        widths = np.diff(edges)
        heights = counts / np.sum(counts) / widths
        style = {"color": "#3b6fb6", "edgecolor": "white", "clip_on": False}
        axes.bar(edges[:-1], heights, widths, align="edge", **style)
        for name, length in marks:
            # The bar of an integer reaches to the next: a mark is in its middle.
            at = math.log2(length * (length + 1)) / 2
            axes.axvline(at, color="black", linestyle=":", clip_on=False)
            axes.text(at, 1.02, name, ha="center", transform=axes.get_xaxis_transform())
        axes.set_xlim(edges[0], edges[-1])
        axes.xaxis.set_major_locator(ticker.MaxNLocator(integer=True, min_n_ticks=1))
        axes.xaxis.set_major_formatter(lambda power, _: f"{2**power:,.0f}")
        axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.4g} %")
        axes.grid(axis="y", color="#e3e8ee", clip_on=False)
        axes.set_axisbelow(True)
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        output = io.StringIO()
        figure.savefig(output, format="svg", metadata=_NO_METADATA, transparent=True)
    text = output.getvalue()
    # Without the XML declaration, which an element of a page must not have.
    return text[text.index("<svg") :]


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


def text_fit(documents: Manifest) -> str:
    """Unknown words and unsplit paragraphs, with the warnings of the build."""
    counts = documents.text_counts()
    unknown, unsplit = map(_percent, text_counts.shares(documents, counts))
    name, words = documents.tokens_name, counts["words"]
    long = f"{name} in paragraphs of one sentence > {text_counts.LONG_SENTENCE}"
    rows = [
        ("words", words, ""),
        ("unknown words", counts["unknown_words"], unknown),
        (long, counts["unsplit_pieces"], unsplit),
    ]
    if documents.tokenizer == encoding.WORD_PIECES:
        rate = f"{documents.count('pieces') / max(words, 1):.2f}"
        rows.append(("pieces a word", rate, ""))
    warnings = text_counts.warnings(documents)
    quotes = "".join(f"<blockquote>{escape(text)}.</blockquote>" for text in warnings)
    return quotes + _table(("", "count", "share"), rows)


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
    rows, figures = [], []
    for name, counts in measurements.lengths.items():
        median, high = counts.quantile(0.5), counts.quantile(0.95)
        rows.append((name, f"{counts.mean:,.1f}", median, high, counts.longest))
        marks = [("median", median), ("95 %", high)] if high > median else []
        figures.append(
            f"<figure><figcaption>{escape(name.capitalize())}</figcaption>"
            f"{histogram(counts.binned(), marks)}</figure>"
        )
    head = ("", "mean", "median", "95 % have at most", "longest")
    return f'{_table(head, rows)}<div class="figures">{"".join(figures)}</div>'


def _padding(measurements: Measurements) -> str:
    if not measurements.windows:
        return "<p>Documents of words are read as one stream, without padding.</p>"
    rows = [
        (
            f"{length:,}",
            len(counts.lengths),
            f"{counts.pieces / len(counts.lengths):,.1f}",
            *map(_percent, (counts.padding, counts.packed_padding)),
        )
        for length, counts in measurements.windows.items()
    ]
    head = ("positions", "windows", "pieces a window", "padding", "padding if packed")
    return _table(head, rows)


def _caps(measurements: Measurements) -> str:
    if not measurements.over_cap:
        return "<p>Models of words have no tables of indices.</p>"
    num_tokens = max(measurements.num_tokens, 1)
    indices = [
        (name.replace("_", " "), CAPS[name], _percent(over / num_tokens))
        for name, over in measurements.over_cap.items()
    ]
    windows = [
        (f"{length:,}", *(_percent(n / max(counts.pieces, 1)) for n in over))
        for length, counts in measurements.windows.items()
        if (over := (counts.pieces_slid, counts.pieces_clamped))
    ]
    head = ("index in the document", "rows of SegaBERT’s table", "pieces over them")
    window_head = ("window of", "paragraph indices slid", "and still over the table")
    return _table(head, indices) + _table(window_head, windows)
