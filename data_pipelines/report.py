r"""Writes an HTML report on records: sources, dropped text, lengths and padding.

  seg-tf report --records_dir=records
  seg-tf report --records_dir=windows-128 --documents_dir=documents \
    --output=corpus.html

Reports sources and options, counts, documents that could not be read, what each
cleaning step dropped (with examples), lengths of documents, paragraphs and sentences,
padding at several window lengths, and the fraction of the text whose indices exceed
SegaBERT's tables. The page is one self-contained HTML file.
"""

from __future__ import annotations

import array
import dataclasses
import pathlib
import random
import string
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
from absl import flags

from data_pipelines import command_flags
from data_pipelines.builds import text_counts
from data_pipelines.builds.sharded_build import REPORT_FILE
from data_pipelines.builds.windows import WindowOptions, cut_windows
from data_pipelines.cleaning import drop_counts
from data_pipelines.readers.base import passed_over_summary
from seg_tf import command_line, files
from seg_tf.config import EncoderConfig
from seg_tf.config.base import flat
from seg_tf.data import examples, mirrors, shards
from seg_tf.data.manifest import (
    COUNTS,
    FILE_NAME,
    NUM_SPECIAL_TOKENS,
    SPLITS,
    Manifest,
    shard_paths,
)
from seg_tf.text import encoding
from seg_tf.text.normalization import Normalization

_MAX_DOCUMENTS = 20_000
_MAX_SOURCES = 12
_percent = "{:.2%}".format


def write_report(
    records_dir: pathlib.Path,
    output: pathlib.Path,
    *,
    documents_dir: pathlib.Path | None = None,
) -> None:
    """Writes an HTML report on a folder of documents or windows to `output`.

    For windows, raises ValueError if `documents_dir` (default: `records_dir/documents`)
    does not contain their documents. Measures at most 20,000 random documents.
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
    measurements = measure(documents_dir, _MAX_DOCUMENTS)
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
    """Formats an HTML table. Columns after the first `text_columns` contain numbers."""

    def line(cells: Sequence[object], tag: str) -> str:
        texts = (f"{c:,}" if type(c) is int else str(c) for c in cells)
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
    options = flat(manifest.options) | {
        "vocabulary": f"{vocabulary['size']:,} {documents.tokens_name}, "
        f"{Normalization.from_described(vocabulary)}, sha256 "
        f"{vocabulary['sha256'][:16]}…",
        "sentence splitter": manifest.sentence_splitter["name"],
    }
    return _table(("source", "bytes"), rows) + _table(
        ("option", "value"), options.items(), text_columns=2
    )


def _left_out(documents: Manifest) -> str:
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
        parts.append(f"<h3>{escape(step)}</h3>")
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
        return "<p>Word-level documents are read as one stream, without padding.</p>"
    rows = [
        (f"{length:,}", len(lengths), _percent(measurements.padding(length)))
        for length, lengths in measurements.windows.items()
    ]
    return _table(("positions", "windows", "padding"), rows)


def _caps(measurements: Measurements) -> str:
    if not measurements.over_cap:
        return "<p>Word-level models have no index tables.</p>"
    rows = [
        (name.replace("_", " "), CAPS[name], _percent(over / measurements.num_tokens))
        for name, over in measurements.over_cap.items()
    ]
    head = ("index in the document", "rows of SegaBERT’s table", "pieces over them")
    return _table(head, rows)


WINDOW_LENGTHS = (128, 256, 512, 1024, 2048)
CAPS: Mapping[str, int] = EncoderConfig().index_tables
"""Sizes of SegaBERT's index tables, which are the defaults of `EncoderConfig`."""
_SEED = 0


@dataclasses.dataclass
class Measurements:
    """Lengths measured in `num_documents` of `num_all_documents` documents.

    Attributes:
        lengths: kind of length -> measured lengths.
        windows: window length -> number of used positions in each window of whole
            sentences. Empty for documents of words.
        over_cap: index name -> number of tokens, of `num_tokens`, whose index in the
            document is beyond SegaBERT's table. Empty for documents of words.
    """

    num_documents: int
    num_all_documents: int
    lengths: dict[str, array.array]
    windows: dict[int, array.array]
    num_tokens: int
    over_cap: dict[str, int]

    def padding(self, window_length: int) -> float:
        """Returns the fraction of padding, with one window per row."""
        lengths = self.windows[window_length]
        return 1 - sum(lengths) / (len(lengths) * window_length)


def measure(folder: pathlib.Path, max_documents: int) -> Measurements:
    """Measures all documents in a folder, or a random sample of `max_documents`."""
    manifest = Manifest.load(folder)
    paths = [path for name in SPLITS for path in shard_paths(manifest, folder, name)]
    reader = shards.RecordReader(paths, in_order=True)
    numbers = range(len(reader))
    if len(reader) > max_documents:
        numbers = sorted(random.Random(_SEED).sample(numbers, max_documents))
    tokens = manifest.tokens_name
    names = ("paragraphs a document", "sentences a paragraph")
    names += (f"{tokens} a sentence", f"{tokens} a document")
    lengths = {name: array.array("i") for name in names}
    has_pieces = manifest.tokenizer == encoding.WORD_PIECES
    windows = {
        length: array.array("i") for length in (WINDOW_LENGTHS if has_pieces else ())
    }
    over_cap = dict.fromkeys(CAPS, 0) if has_pieces else {}
    num_tokens = 0
    with command_line.progress_bar(len(numbers), "report", "documents") as bar:
        for number in numbers:
            tree, document_id, _ = examples.decode(
                reader[number], manifest.number_widths
            )
            num_tokens += len(tree.token_ids)
            sizes = ([len(tree.paragraph_lengths)], tree.paragraph_lengths)
            sizes += (tree.sentence_lengths, [len(tree.token_ids)])
            for values, some in zip(lengths.values(), sizes, strict=True):
                values.extend(map(int, some))
            for window_length, used in windows.items():
                options = WindowOptions(
                    window_length=window_length, short_window_rate=0.0
                )
                used.extend(
                    len(window.token_ids) + NUM_SPECIAL_TOKENS
                    for window, _ in cut_windows(tree, document_id, options)
                )
            if over_cap:
                indices = tree.indices()
                for name, cap in CAPS.items():
                    over_cap[name] += int(np.sum(indices[name] >= cap))
            bar.update()
    return Measurements(
        len(numbers), len(reader), lengths, windows, num_tokens, over_cap
    )


def define_flags() -> None:
    command_flags.define_records_flag()
    flags.DEFINE_string(
        "documents_dir",
        None,
        "Folder of the whole documents. Default: the subfolder `documents` of "
        "--records_dir.",
    )
    flags.DEFINE_string(
        "output", None, f"Output file. Default: {REPORT_FILE} in --records_dir."
    )


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    records_dir = mirrors.local_records(values.records_dir)
    output = records_dir / REPORT_FILE
    if values.output is not None or records_dir.is_dir():
        output = command_line.file_path(values.output or str(output), "output")
    documents_dir = values.documents_dir
    if documents_dir is None and Manifest.load(records_dir).kind == "windows":
        documents_dir = f"{values.records_dir}/documents"
    documents_dir = documents_dir and mirrors.local_records(documents_dir)
    write_report(records_dir, output, documents_dir=documents_dir)
    print(f"the report is {output}")
