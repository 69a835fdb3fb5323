"""The sections of the report, each a function to HTML; every text is escaped."""

import html
from collections.abc import Iterable, Mapping, Sequence

from data_pipelines.builds import text_counts
from data_pipelines.cleaning import drop_counts
from data_pipelines.readers.io.passed_over import summary as passed_over_summary
from data_pipelines.records.manifest import COUNTS, SPLITS, Manifest
from data_pipelines.report import charts
from data_pipelines.report.measurements import CAPS, Measurements
from seg_tf.text import encoding

_MAX_SOURCES = 12
_STEP_NAMES = {
    "short_lines": "Lines without enough words",
    "short_documents": "Documents without enough words",
    "language": "Documents of other languages",
    "duplicates": "Documents that repeat an earlier one",
}


def _escape(value: object) -> str:
    return html.escape(str(value))


def _table(
    head: Sequence[str], rows: Iterable[Sequence[object]], *, text_columns: int = 1
) -> str:
    """A table whose columns, but the first ones, are numbers."""

    def line(cells: Sequence[object], tag: str) -> str:
        return "".join(
            f"<{tag}{'' if number < text_columns else ' class=number'}>"
            f"{_escape(f'{cell:,}' if isinstance(cell, int) else cell)}</{tag}>"
            for number, cell in enumerate(cells)
        )

    body = "".join(f"<tr>{line(cells, 'td')}</tr>" for cells in rows)
    return (
        f'<div class="table"><table><thead><tr>{line(head, "th")}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def counts(documents: Manifest, windows: Manifest | None) -> str:
    """The counts of the build."""
    labels = {name: name for name in COUNTS} | {"pieces": documents.tokens_name}
    things = ("documents", "paragraphs", "sentences", "pieces")
    tiles = "".join(
        f'<div class="tile"><b>{documents.count(what):,}</b>{labels[what]}</div>'
        for what in things
    )
    if windows is not None:
        tiles += (
            f'<div class="tile"><b>{windows.count("records"):,}</b>windows of '
            f"{windows.window_length} positions</div>"
        )
    rows = []
    for split in SPLITS:
        row = [split, *(documents.count(what, split) for what in things)]
        rows.append([*row, windows.count("records", split)] if windows else row)
    head = ["split", *(labels[what] for what in things), *(["windows"] * bool(windows))]
    return f'<div class="tiles">{tiles}</div>{_table(head, rows)}'


def text_fit(documents: Manifest) -> str:
    """Unknown words and unsplit paragraphs, with the warnings of the build."""
    counts = documents.text_counts()
    if not counts:
        return "<p>The version that built these documents did not count it.</p>"
    unknown, unsplit = text_counts.shares(documents, counts)
    pieces, name = documents.count("pieces"), documents.tokens_name
    rows = [
        ("words", counts["words"], ""),
        (f"{name} a word", f"{pieces / max(counts['words'], 1):.2f}", ""),
        ("unknown words", counts["unknown_words"], charts.percent(unknown)),
        (
            f"{name} in paragraphs of one sentence longer than "
            f"{text_counts.LONG_SENTENCE}",
            counts["unsplit_pieces"],
            charts.percent(unsplit),
        ),
    ]
    if documents.tokenizer != encoding.WORD_PIECES:
        del rows[1]  # One a word, beside the ends of paragraphs.
    warnings = "".join(
        f"<blockquote>{_escape(text)}.</blockquote>"
        for text in text_counts.warnings(documents)
    )
    return f"{warnings}{_table(('', 'count', 'share'), rows)}"


def build(documents: Manifest, windows: Manifest | None) -> str:
    """Sources and options."""
    sources = documents.sources
    total = sum(source["bytes"] for source in sources)
    rows = [(source["file"], source["bytes"]) for source in sources[:_MAX_SOURCES]]
    if len(sources) > _MAX_SOURCES:
        rest = sources[_MAX_SOURCES:]
        rows.append(
            (f"… and {len(rest):,} more", sum(source["bytes"] for source in rest))
        )
    manifest = windows or documents
    options = dict(_flat(manifest.options))
    options["vocabulary"] = (
        f"{manifest.vocabulary['size']:,} {documents.tokens_name}, "
        f"{'lower-cased' if manifest.vocabulary['lower_case'] else 'cased'}, sha256 "
        f"{manifest.vocabulary['sha256'][:16]}…"
    )
    options["sentence splitter"] = manifest.sentence_splitter["name"]
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
    """Describes what could not be read, and the files that were passed over."""
    passed_over = ""
    if documents.passed_over:
        line = f"Files {passed_over_summary(documents.passed_over)}."
        passed_over = f"<p>{_escape(line)}</p>"
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
    """What each step dropped, with examples."""
    found = documents.cleaning
    if found is None:
        return "<p>No cleaning step was on: all text that was read is there.</p>"
    rows = [("read", *(found["before"][name] for name in drop_counts.COUNTS), "")]
    for step, dropped in found["steps"].items():
        share = dropped["characters"] / max(found["before"]["characters"], 1)
        dropped_counts = (dropped[name] for name in drop_counts.COUNTS)
        rows.append((f"− {step}", *dropped_counts, charts.percent(share)))
    share = found["after"]["characters"] / max(found["before"]["characters"], 1)
    left = (found["after"][name] for name in drop_counts.COUNTS)
    rows.append(("left", *left, charts.percent(share)))
    head = ("step", *drop_counts.COUNTS, "of all characters")
    parts = [_table(head, rows)]
    for step, dropped in found["steps"].items():
        parts.append(f"<h3>{_escape(_STEP_NAMES.get(step, step))}</h3>")
        examples = [_example(example) for example in dropped["examples"]]
        parts.append("".join(examples) or "<p>None were found.</p>")
    return "".join(parts)


def _example(example: Mapping) -> str:
    place = f"document {example['document_id']}, {example['source']}, "
    place += example["location"]
    why = f' <span class="why">{_escape(example["why"])}</span>'
    return (
        f"<blockquote><cite>{_escape(place)}{why if example['why'] else ''}</cite>"
        f"{_escape(example['text'])}</blockquote>"
    )


def lengths(found: Measurements) -> str:
    """Histograms of lengths."""
    rows, figures = [], []
    for name, measured in found.lengths.items():
        median, high = measured.quantile(0.5), measured.quantile(0.95)
        rows.append((name, f"{measured.mean:,.1f}", median, high, measured.longest))
        marks = [("median", median), ("95 %", high)] if high > median else []
        chart = charts.histogram(measured.binned(), marks)
        figures.append(
            f"<figure><figcaption>{_escape(name.capitalize())}</figcaption>{chart}"
            "</figure>"
        )
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
    measured = [
        (length, counts, counts.padding, counts.packed_padding)
        for length, counts in found.windows.items()
    ]
    rows = [
        (
            f"{length:,}",
            len(counts.lengths),
            f"{counts.pieces / len(counts.lengths):,.1f}",
            charts.percent(alone),
            charts.percent(packed),
        )
        for length, counts, alone, packed in measured
    ]
    head = ("positions", "windows", "pieces a window", "padding", "packed")
    chart = charts.paired_bars([(f"{row[0]:,}", row[2], row[3]) for row in measured])
    return (
        "<p>Share of the positions of a batch that hold nothing, by the length of its "
        "rows: windows of whole sentences, none of them shortened at random. "
        '<span class="key bar"></span> a window a row '
        '<span class="key second"></span> several windows a row '
        "(<code>PackedWindowInputsConfig</code>)</p>"
        f"<figure>{chart}</figure>{_table(head, rows)}"
    )


def caps(found: Measurements) -> str:
    """How much of the text has indices that the tables have no row for."""
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
    """How random documents begin."""
    parts = []
    for document in found.beginnings:
        paragraphs = "".join(
            "<p>"
            + " ".join(f"<span>{_escape(sentence)}</span>" for sentence in sentences)
            + "</p>"
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
