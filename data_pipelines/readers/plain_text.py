"""Reads plain text with one document per file, block of lines, or line."""

import dataclasses
import io
import itertools
import statistics
from collections.abc import Iterator, Sequence
from typing import ClassVar

from data_pipelines.readers import base, streams
from seg_tf.config.base import check_choice

_SHORTEST_WRAPPED_LINE, _LONGEST_WRAPPED_LINE = 40, 100
_SENTENCE_ENDS = tuple(".!?:;…。！？।॥؟۔\"'”’»)]")


@dataclasses.dataclass(frozen=True)
class PlainTextReader(base.TextReader):
    """Plain text with one document per file, block of lines, or line.

    Args:
        documents: str. "file": each file is a document and is loaded into memory whole.
            "blank_lines": blank lines separate documents and each line is a paragraph.
            "lines": each line is a document with one paragraph.
        hard_wrapped: str. Whether line ends within a paragraph are mere line breaks.
            "yes": blank lines separate paragraphs, whose lines are joined by spaces (a
            hyphen at the end of a line stays). "no": every non-blank line is a
            paragraph. "auto": decided by `is_hard_wrapped` if documents=file, otherwise
            "no". With documents=blank_lines, "yes" joins all lines of a document.
        encoding: str. See `base.TextReader`.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".txt", ".text")

    documents: str = "file"
    hard_wrapped: str = "auto"

    def __post_init__(self):
        super().__post_init__()
        check_choice("documents", self.documents, ("file", "blank_lines", "lines"))
        check_choice("hard_wrapped", self.hard_wrapped, ("auto", "yes", "no"))

    def read_stream(
        self, stream: io.BufferedReader, source: str
    ) -> Iterator[base.Document | base.RejectedDocument]:
        if self.documents != "file":
            yield from self._read_documents(stream, source)
            return
        text = streams.read_document(stream, self.max_document_bytes)
        lines = [line.strip() for line in text.split("\n")]
        if self.hard_wrapped == "yes" or (
            self.hard_wrapped == "auto" and is_hard_wrapped(lines)
        ):
            runs = itertools.groupby(lines, bool)
            lines = [" ".join(run) for has_text, run in runs if has_text]
        yield base.to_document(filter(None, lines), source, base.WHOLE_FILE)

    def _read_documents(
        self, stream: io.BufferedReader, source: str
    ) -> Iterator[base.Document | base.RejectedDocument]:
        for block in self._blocks(stream):
            first_line = block.first.number
            try:
                text = block.decode()
            except streams.DocumentError as error:
                yield base.reject(error, source, f"line {first_line}")
                continue
            lines = enumerate((line.strip() for line in text.split("\n")), first_line)
            # Decoding may reveal more line ends (`\r`) and blank lines.
            for has_text, run in itertools.groupby(lines, lambda line: bool(line[1])):
                if not has_text:
                    continue
                numbers, paragraphs = zip(*run, strict=True)
                if self.documents == "lines":
                    for number, paragraph in zip(numbers, paragraphs, strict=True):
                        yield base.Document((paragraph,), source, f"line {number}")
                    continue
                if self.hard_wrapped == "yes":
                    paragraphs = (" ".join(paragraphs),)
                yield base.Document(paragraphs, source, f"line {numbers[0]}")

    def _blocks(self, stream: io.BufferedReader) -> Iterator[streams.Block]:
        """Yields the blocks between blank lines, or each line if documents=lines."""
        block = None
        for line in streams.lines(stream, self.max_document_bytes):
            is_blank = line.data.isspace()
            if block is not None and not is_blank:
                block.add(line)
            elif not is_blank:
                block = streams.Block(line, self.max_document_bytes)
            # A line is complete, even if the rest of the file is damaged.
            if block is not None and (is_blank or self.documents == "lines"):
                yield block
                block = None
        if block is not None:
            yield block


def is_hard_wrapped(lines: Sequence[str]) -> bool:
    """Returns whether the line breaks of a file only wrap its text (hard wrapping).

    Only non-blank lines that another non-blank line follows are considered, without the
    longest tenth. A file is hard-wrapped if it has no such lines, or if both are true:

    * The longest of these lines has at most 100 characters, unlike many paragraphs.
    * The lines nearly fill a common width: their median length is at least three
      quarters of the longest, and at least 40 characters. Lines of lists are shorter.
    """
    lines = "\n".join(lines).strip("\n").split("\n")
    lengths = [
        len(line) for line, following in itertools.pairwise(lines) if line and following
    ]
    if not lengths:
        return True
    lengths = sorted(lengths)[: (9 * len(lengths) + 9) // 10]
    required = max(_SHORTEST_WRAPPED_LINE, 0.75 * lengths[-1])
    return lengths[-1] <= _LONGEST_WRAPPED_LINE and (
        statistics.median(lengths) >= required
    )


def breaks_sentences(lines: Sequence[str]) -> bool:
    """Returns whether most lines that precede another line end within a sentence."""
    ends = [
        line.endswith(_SENTENCE_ENDS)
        for line, following in itertools.pairwise(lines)
        if line and following
    ]
    return sum(ends) < 0.5 * len(ends)
