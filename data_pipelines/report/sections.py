"""Sections of the report, each a function to HTML; every text is escaped."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from data_pipelines.builds import text_counts
from data_pipelines.cleaning import drop_counts
from data_pipelines.readers.io.passed_over import passed_over_summary
from data_pipelines.records.manifest import COUNTS, SPLITS, Manifest
from data_pipelines.report import charts
from data_pipelines.report.measurements import CAPS, Measurements
from seg_tf.text import encoding
from seg_tf.text.exact_tokenizer import Normalization

_MAX_SOURCES = 12
_STEP_NAMES = {
    "short_lines": "Lines without enough words",
    "short_documents": "Documents without enough words",
    "language": "Documents of other languages",
    "duplicates": "Documents that repeat an earlier one",
}


def _table(
    head: Sequence[str], rows: Iterable[Sequence[object]], *, text_columns: int = 1
) -> str:
    """A table; all of its columns but the first ones hold numbers."""

    def line(cells: Sequence[object], tag: str) -> str:
        opening = [f"<{tag}>"] * text_columns + [f"<{tag} class=number>"] * len(cells)
        texts = (f"{c:,}" if isinstance(c, int) else str(c) for c in cells)
        cells = (
            f"{begin}{escape(text)}</{tag}>"
            for begin, text in zip(opening, texts, strict=False)
        )
        return f"<tr>{''.join(cells)}</tr>"

    body = "".join(line(cells, "td") for cells in rows)
    return (
        f'<div class="table"><table><thead>{line(head, "th")}</thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def counts(documents: Manifest, windows: Manifest | None) -> str:
    """The counts of the build."""
    labels = {name: name for name in COUNTS} | {"pieces": documents.tokens_name}
    counted = [
        (documents, what, labels[what])
        for what in ("documents", "paragraphs", "sentences", "pieces")
    ]
    if windows is not None:
        label = f"windows of {windows.window_length} positions"
        counted.append((windows, "records", label))
    tiles = "".join(
        f'<div class="tile"><b>{manifest.count(what):,}</b>{label}</div>'
        for manifest, what, label in counted
    )
    rows = [
        (split, *(manifest.count(what, split) for manifest, what, _ in counted))
        for split in SPLITS
    ]
    head = ("split", *(label.split(" of ")[0] for *_, label in counted))
    return f'<div class="tiles">{tiles}</div>{_table(head, rows)}'


def text_fit(documents: Manifest) -> str:
    """Unknown words and unsplit paragraphs, with the warnings of the build."""
    counts = documents.text_counts()
    unknown, unsplit = map(charts.percent, text_counts.shares(documents, counts))
    name, words = documents.tokens_name, counts["words"]
    long_paragraphs = (
        f"{name} in paragraphs of one sentence longer than {text_counts.LONG_SENTENCE}"
    )
    rows = [
        ("words", words, ""),
        (f"{name} a word", f"{documents.count('pieces') / max(words, 1):.2f}", ""),
        ("unknown words", counts["unknown_words"], unknown),
        (long_paragraphs, counts["unsplit_pieces"], unsplit),
    ]
    if documents.tokenizer != encoding.WORD_PIECES:
        del rows[1]  # One a word, beside the ends of paragraphs.
    warnings = text_counts.warnings(documents)
    quoted = "".join(f"<blockquote>{escape(text)}.</blockquote>" for text in warnings)
    return quoted + _table(("", "count", "share"), rows)


def build(documents: Manifest, windows: Manifest | None) -> str:
    """Sources and options."""
    sources = [(source["file"], source["bytes"]) for source in documents.sources]
    total = sum(size for _, size in sources)
    rows, rest = sources[:_MAX_SOURCES], sources[_MAX_SOURCES:]
    if rest:
        rows.append((f"… and {len(rest):,} more", sum(size for _, size in rest)))
    manifest = windows or documents
    vocabulary = manifest.vocabulary
    options = dict(_flat(manifest.options)) | {
        "vocabulary": f"{vocabulary['size']:,} {documents.tokens_name}, "
        f"{Normalization.from_described(vocabulary)}, sha256 "
        f"{vocabulary['sha256'][:16]}…",
        "sentence splitter": manifest.sentence_splitter["name"],
    }
    return (
        f"<p>{len(sources):,} source files, {total:,} bytes.</p>"
        f"{_table(('source', 'bytes'), rows)}"
        f"{_table(('option', 'value'), options.items(), text_columns=2)}"
    )


def _flat(options: Mapping, prefix: str = "") -> Iterable[tuple[str, str]]:
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", str(value)


def rejected(documents: Manifest) -> str:
    """Documents that could not be read, and the files that were passed over."""
    passed_over = ""
    if documents.passed_over:
        names = passed_over_summary(documents.passed_over)
        passed_over = f"<p>{escape(f'Files {names}.')}</p>"
    if not documents.rejected:
        return f"<p>Every document could be read.</p>{passed_over}"
    total = sum(documents.rejected.values())
    return (
        f"<p>{total:,} documents could not be read, or held no text. "
        "<code>rejected.jsonl</code>, beside the documents, lists them, redirects and "
        "pages of other namespaces aside.</p>"
        f"{_table(('reason', 'documents'), documents.rejected.items())}{passed_over}"
    )


def cleaning(documents: Manifest) -> str:
    """Counts and examples of the text that each step dropped."""
    found = documents.cleaning
    if found is None:
        return "<p>No cleaning step was on: all text that was read is there.</p>"
    before = found["before"]
    described = {"read": before}
    described |= {f"− {step}": dropped for step, dropped in found["steps"].items()}
    described |= {"left": found["after"]}
    rows = [
        (
            name,
            *(counted[what] for what in drop_counts.COUNTS),
            charts.percent(counted["characters"] / max(before["characters"], 1)),
        )
        for name, counted in described.items()
    ]
    parts = [_table(("step", *drop_counts.COUNTS, "of all characters"), rows)]
    for step, dropped in found["steps"].items():
        parts.append(f"<h3>{escape(_STEP_NAMES.get(step, step))}</h3>")
        parts += map(_example, dropped["examples"])
        if not dropped["examples"]:
            parts.append("<p>None were found.</p>")
    return "".join(parts)


def _example(example: Mapping) -> str:
    place = ("document {document_id}, {source}, {location}").format(**example)
    why = f" ({example['why']})" if example["why"] else ""
    return (
        f"<blockquote><cite>{escape(place + why)}</cite>"
        f"{escape(example['text'])}</blockquote>"
    )


def lengths(found: Measurements) -> str:
    """Histograms of lengths."""
    rows, figures = [], []
    for name, measured in found.lengths.items():
        median, high = measured.quantile(0.5), measured.quantile(0.95)
        rows.append((name, f"{measured.mean:,.1f}", median, high, measured.longest))
        marks = [("median", median), ("95 %", high)] if high > median else []
        chart = charts.histogram(measured.binned(), marks)
        caption = f"<figcaption>{escape(name.capitalize())}</figcaption>"
        figures.append(f"<figure>{caption}{chart}</figure>")
    head = ("", "mean", "median", "95 % have at most", "longest")
    return (
        f"{_table(head, rows)}"
        "<p>The axes of lengths are logarithmic. A bar’s area is its share: its height "
        "is the share for each doubling of the length.</p>"
        f'<div class="figures">{"".join(figures)}</div>'
    )


def padding(found: Measurements) -> str:
    """Padding at each window length."""
    if not found.windows:
        return "<p>Documents of words are read as one stream, without padding.</p>"
    bars, rows = [], []
    for length, counts in found.windows.items():
        shares = (counts.padding, counts.packed_padding)
        bars.append((f"{length:,}", *shares))
        number = len(counts.lengths)
        mean = f"{counts.pieces / number:,.1f}"
        rows.append((f"{length:,}", number, mean, *map(charts.percent, shares)))
    chart = charts.paired_bars(bars, ("a window a row", "several windows a row"))
    head = ("positions", "windows", "pieces a window", "padding", "packed")
    return (
        "<p>Share of the positions of a batch that hold nothing, by the length of its "
        "rows: windows of whole sentences, none of them shortened at random. Several "
        "windows share a row with <code>PackedWindowInputsConfig</code>.</p>"
        f"<figure>{chart}</figure>{_table(head, rows)}"
    )


def caps(found: Measurements) -> str:
    """Share of the text whose indices are in no row of the tables."""
    if not found.over_cap:
        return "<p>Models of words have no tables of indices.</p>"

    def share(count: int, total: int) -> str:
        return charts.percent(count / max(total, 1))

    rows = [
        (name.replace("_", " "), CAPS[name], share(over, found.num_tokens))
        for name, over in found.over_cap.items()
    ]
    head = ("index in the document", "rows of SegaBERT’s table", "pieces over them")
    window_rows = [
        (
            f"{length:,}",
            share(counts.pieces_slid, counts.pieces),
            share(counts.pieces_clamped, counts.pieces),
        )
        for length, counts in found.windows.items()
    ]
    window_head = ("window of", "paragraph indices slid", "and still over the table")
    listed = [name.removesuffix("_index") for name in CAPS if "paragraph" not in name]
    return (
        f"{_table(head, rows)}"
        f"<p>Indices of {' and '.join(listed)} over the table take its last row, "
        "whatever the window. Paragraphs of a window deep in a document slide down "
        "together until they fit; only in a window of more paragraphs than the table "
        f"has rows do some share the last row.</p>{_table(window_head, window_rows)}"
    )


def beginnings(found: Measurements) -> str:
    """Beginnings of random documents."""
    parts = []
    for document in found.beginnings:
        paragraphs = "".join(
            f"<p>{' '.join(f'<span>{escape(text)}</span>' for text in sentences)}</p>"
            for sentences in document.paragraphs
        )
        more = "" if document.is_whole else "<p>…</p>"
        parts.append(
            f'<article class="document"><cite>document {document.document_id}, '
            f"{document.split}, {document.num_tokens:,} tokens</cite>{paragraphs}{more}"
            "</article>"
        )
    return (
        "<p>As the model reads them: tokens put together again, sentences underlined "
        f"one by one.</p>{''.join(parts)}"
    )
