"""Plain text: a file, a block between blank lines or a line is a document."""

import dataclasses
import io
import itertools
import statistics
from collections.abc import Iterator, Sequence
from typing import ClassVar

from data_pipelines.readers import base
from data_pipelines.readers.errors import DocumentError, too_long
from data_pipelines.readers.io import byte_streams, decoding

_HARD_WRAPPED = ("auto", "yes", "no")
_WHOLE_FILE, _BLANK_LINES, _LINES = _DOCUMENTS = ("file", "blank_lines", "lines")
_LONGEST_WRAPPED_LINE = 100


@dataclasses.dataclass(frozen=True)
class Reader(base.TextReader):
    """Reads text files such as Project Gutenberg's, or of many documents each.

    Args:
        documents: "file": a file is a document, held in memory whole. "blank_lines":
            blank lines separate documents, and a line is a paragraph, as
            `data_pipelines.readers --output` writes them. "lines": a line is a
            document of one paragraph.
        hard_wrapped: whether line ends within a paragraph are mere line breaks.
            "yes": blank lines separate paragraphs, whose lines are joined by a
            space (a hyphen at a line's end stays). "no": every line that is not
            blank is a paragraph. "auto": see `is_hard_wrapped`; "no" where a file
            holds many documents. With documents=blank_lines, "yes" joins the lines
            of a document to its one paragraph.
        encoding: see `base.TextReader`.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".txt", ".text")

    documents: str = _WHOLE_FILE
    hard_wrapped: str = "auto"

    def __post_init__(self):
        super().__post_init__()
        if self.documents not in _DOCUMENTS:
            raise ValueError(
                f"`documents` must be one of {_DOCUMENTS}. Received: {self.documents!r}"
            )
        if self.documents == _LINES and self.hard_wrapped == "yes":
            raise ValueError(
                "`hard_wrapped` must not be yes where a line is a document. Received: "
                "documents='lines', hard_wrapped='yes'"
            )
        if self.hard_wrapped not in _HARD_WRAPPED:
            raise ValueError(
                f"`hard_wrapped` must be one of {_HARD_WRAPPED}. Received: "
                f"{self.hard_wrapped!r}"
            )

    def read_stream(
        self, stream: io.BufferedReader, source: str
    ) -> Iterator[base.Document | base.RejectedDocument]:
        if self.documents != _WHOLE_FILE:
            yield from self._read_documents(stream, source)
            return
        offset = stream.tell()
        data = byte_streams.read_all(stream, self.max_document_bytes)
        text = decoding.decode_utf8(data, first_offset=offset, encoding=self.encoding)
        lines = [line.strip() for line in text.split("\n")]
        if self.hard_wrapped == "no" or (
            self.hard_wrapped == "auto" and not is_hard_wrapped(lines)
        ):
            paragraphs = filter(None, lines)
        else:
            paragraphs = join_wrapped_lines(lines)
        yield base.document_or_rejection(paragraphs, source, base.WHOLE_FILE)

    def _read_documents(
        self, stream: io.BufferedReader, source: str
    ) -> Iterator[base.Document | base.RejectedDocument]:
        blocks = _blocks(stream, self.documents == _LINES, self.max_document_bytes)
        for first_line, offset, data in blocks:
            try:
                if data is None:
                    raise too_long(self.max_document_bytes)
                text = decoding.decode_utf8(data, first_line, offset, self.encoding)
            except DocumentError as error:
                yield base.reject(error, source, f"line {first_line}")
                continue
            lines = enumerate((line.strip() for line in text.split("\n")), first_line)
            # Line ends of old Macs, and lines of other blanks, are seen only now.
            for has_text, run in itertools.groupby(lines, lambda line: bool(line[1])):
                if not has_text:
                    continue
                numbers, paragraphs = zip(*run, strict=True)
                if self.documents == _LINES:
                    for number, paragraph in zip(numbers, paragraphs, strict=True):
                        yield base.Document((paragraph,), source, f"line {number}")
                    continue
                if self.hard_wrapped == "yes":
                    paragraphs = (" ".join(paragraphs),)
                yield base.Document(paragraphs, source, f"line {numbers[0]}")


def _blocks(
    stream: io.BufferedReader, is_line: bool, max_bytes: int
) -> Iterator[tuple[int, int, bytes | None]]:
    """Cuts a file at blank lines, or after every line; holds one block at a time.

    Yields:
        Number of a block's first line, the bytes before it, and its own; None for its
        own where they are more than `max_bytes`.
    """
    offset = stream.tell()
    lines: list[bytes] = []
    first_line, first_offset, size = 1, offset, 0

    def block() -> tuple[int, int, bytes | None]:
        data = b"".join(lines) if size <= max_bytes else None
        return first_line, first_offset, data

    for number, line in enumerate(byte_streams.lines(stream, max_bytes), start=1):
        num_bytes = len(line)
        if isinstance(line, byte_streams.LongLine):
            line, num_bytes = line
        # The first bytes of a long line may be blank.
        is_blank = line.isspace() and num_bytes == len(line)
        if size and (is_line or is_blank):
            yield block()
            lines, size = [], 0
        if not is_blank:
            if not size:
                first_line, first_offset = number, offset
            lines.append(line)
            size += num_bytes
            if size > max_bytes:
                lines.clear()
        offset += num_bytes
    if size:
        yield block()


def join_wrapped_lines(lines: Sequence[str]) -> list[str]:
    """Joins each run of non-empty lines to a paragraph.

    For example, `["It was", "late.", "", "He left."]` becomes
    `["It was late.", "He left."]`.
    """
    return [
        " ".join(run) for has_text, run in itertools.groupby(lines, bool) if has_text
    ]


def is_hard_wrapped(lines: Sequence[str]) -> bool:
    """Decides if a file's line ends are mere line breaks.

    The lines that matter are those that another follows without a blank line
    between them. They are taken for wrapped if

    * at least nine in ten of them have at most 100 characters (where a line is a
      paragraph, or a sentence, more of them are longer), and
    * the file has blank lines to tell its paragraphs apart; or, where it has none
      and may be one paragraph, the lines nearly fill a common width: their median
      is at least three quarters of the longest.

    Args:
        lines: stripped lines of a file; blank ones are empty.
    """
    text = "\n".join(lines).strip("\n")
    lines = text.split("\n")
    followed = [
        len(line) for line, following in itertools.pairwise(lines) if line and following
    ]
    if not followed:
        return True
    num_short = sum(length <= _LONGEST_WRAPPED_LINE for length in followed)
    if num_short < 0.9 * len(followed):
        return False
    if "" in lines:
        return True
    return statistics.median(followed) >= 0.75 * max(followed)
