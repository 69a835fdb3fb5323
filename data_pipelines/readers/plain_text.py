"""Plain text: a file is a document, blank lines separate its paragraphs."""

import dataclasses
import io
import itertools
import statistics
from collections.abc import Iterator, Sequence
from typing import ClassVar

from data_pipelines.readers import base, byte_streams, decoding

_HARD_WRAPPED = ("auto", "yes", "no")
_LONGEST_WRAPPED_LINE = 100


@dataclasses.dataclass(frozen=True)
class Reader(base.FileReader):
    """Reads text files such as Project Gutenberg's.

    A file is held in memory whole, as the one document that it is.

    Args:
        hard_wrapped: whether line ends within a paragraph are mere line breaks.
            "yes": blank lines separate paragraphs, whose lines are joined by a
            space (a hyphen at a line's end stays). "no": every line that is not
            blank is a paragraph. "auto": see `is_hard_wrapped`.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".txt", ".text")

    hard_wrapped: str = "auto"

    def __post_init__(self):
        if self.hard_wrapped not in _HARD_WRAPPED:
            raise ValueError(
                f"`hard_wrapped` must be one of {_HARD_WRAPPED}. Received: "
                f"{self.hard_wrapped!r}"
            )

    def read_stream(
        self, stream: io.BufferedReader, source: str
    ) -> Iterator[base.Document | base.RejectedDocument]:
        offset = stream.tell()
        data = byte_streams.read_all(stream, self.max_document_bytes)
        text = decoding.decode_utf8(data, first_offset=offset)
        lines = [line.strip() for line in text.split("\n")]
        if self.hard_wrapped == "no" or (
            self.hard_wrapped == "auto" and not is_hard_wrapped(lines)
        ):
            paragraphs = filter(None, lines)
        else:
            paragraphs = join_wrapped_lines(lines)
        yield base.document_or_rejection(paragraphs, source, base.WHOLE_FILE)


def join_wrapped_lines(lines: Sequence[str]) -> list[str]:
    """Joins each run of non-empty lines to a paragraph.

    For example, `["It was", "late.", "", "He left."]` becomes
    `["It was late.", "He left."]`.
    """
    return [
        " ".join(run) for has_text, run in itertools.groupby(lines, bool) if has_text
    ]


def is_hard_wrapped(lines: Sequence[str]) -> bool:
    """Whether a file's line ends are mere line breaks.

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
