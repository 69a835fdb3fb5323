"""Files of tab-separated columns: where they lie, their rows, what is wrong in them.

No field is quoted: a quotation mark is a character of the text, balanced or not (those
of QNLI are not). A row ends at a line feed and at nothing else.
"""

import dataclasses
import pathlib
from collections.abc import Callable, Iterator, Sequence


@dataclasses.dataclass(frozen=True, slots=True)
class TableRow:
    """One row of a file.

    Attributes:
        path: the file.
        line: number of the line, from 1.
        columns: names of the columns.
        fields: their contents.
    """

    path: pathlib.Path
    line: int
    columns: tuple[str, ...]
    fields: tuple[str, ...]

    def field(self, column: str) -> str:
        return self.fields[self.columns.index(column)]

    def error(self, column: str, rule: str) -> ValueError:
        """An error about the content of a column, which `rule` forbids."""
        number = self.columns.index(column)
        return ValueError(
            f"{self.path}:{self.line}: column {number + 1} ({column}) must be {rule}. "
            f"Received: {self.fields[number]!r}"
        )


def find_file(
    data_dir: pathlib.Path, folder: str, names: Sequence[str]
) -> pathlib.Path:
    """A task's file, in its folder of `data_dir` or in `data_dir` itself.

    Args:
        data_dir: folder of the benchmark, or of the task.
        folder: the task's folder in the benchmark's.
        names: names of the file; the first that exists is taken.

    Raises:
        FileNotFoundError: if there is none, naming what was looked for.
    """
    if found := existing_file(data_dir, folder, names):
        return found
    looked_for = ", ".join(map(str, _candidates(data_dir, folder, names)))
    raise FileNotFoundError(
        "`data_dir` must be the folder of a benchmark, or of the task, and hold the "
        f"file of the split. Received: {data_dir}; there is none of {looked_for}"
    )


def existing_file(
    data_dir: pathlib.Path, folder: str, names: Sequence[str]
) -> pathlib.Path | None:
    """Like `find_file`, but None if there is none."""
    candidates = _candidates(data_dir, folder, names)
    return next((path for path in candidates if path.is_file()), None)


def read_rows(
    path: pathlib.Path,
    *,
    required: Sequence[str],
    columns: Sequence[str] = (),
    on_short_row: Callable[[TableRow], None] | None = None,
    more_columns: bool = False,
) -> Iterator[TableRow]:
    """The rows of a file, in order.

    Args:
        path: the file: UTF-8, perhaps with a byte-order mark.
        required: columns that must be there.
        columns: names of the columns of a file without a header; otherwise the first
            line has them.
        on_short_row: is given rows with too few fields, which are then left out.
        more_columns: whether rows may have fields behind those of `columns`.

    Yields:
        Rows with as many fields as there are columns.

    Raises:
        ValueError: if the file is not UTF-8, holds no row, lacks a column, or if a row
            has a wrong number of fields; file, line and column are named.
    """
    names = tuple(columns)
    is_empty = True
    with open(path, "rb") as file:
        for line, content in enumerate(file, start=1):
            fields = _fields(path, line, content)
            if not names:
                names = fields
                _check_header(path, names, required)
                continue
            is_empty = False
            if more_columns:
                fields = fields[: len(names)]
            row = TableRow(path, line, names, fields)
            if len(fields) == len(names):
                yield row
            elif on_short_row and len(fields) < len(names):
                on_short_row(row)
            else:
                raise ValueError(
                    f"{path}:{line}: a row must have {len(names)} columns "
                    f"({', '.join(names)}). Received: {len(fields)}, "
                    f"{_shortened(content)}"
                )
    if is_empty:
        raise ValueError(f"{path} must hold rows. Received: a file without any")


def number_of(row: TableRow, column: str, lowest: float, highest: float) -> float:
    """The number in a column, which must lie in a range."""
    rule = f"a number from {lowest:g} to {highest:g}"
    try:
        number = float(row.field(column))
    except ValueError:
        raise row.error(column, rule) from None
    if not lowest <= number <= highest:  # not a number is not in any range
        raise row.error(column, rule)
    return number


def word_number(row: TableRow, column: str, words: Sequence[str]) -> int:
    """The number, among `words`, of the word in a column."""
    word = row.field(column)
    if word not in words:
        missing = "" if word else "; the label is missing"
        raise row.error(column, f"one of {', '.join(words)}{missing}")
    return words.index(word)


def _candidates(
    data_dir: pathlib.Path, folder: str, names: Sequence[str]
) -> list[pathlib.Path]:
    folders = (data_dir / folder, data_dir)
    return [place / name for place in folders for name in names]


def _fields(path: pathlib.Path, line: int, content: bytes) -> tuple[str, ...]:
    content = content.removesuffix(b"\n").removesuffix(b"\r")
    try:
        text = content.decode("utf-8-sig" if line == 1 else "utf-8")
    except UnicodeDecodeError as error:
        column = content[: error.start].count(b"\t") + 1
        raise ValueError(
            f"{path}:{line}: column {column} must be UTF-8. Received: "
            f"{content[error.start : error.start + 1]!r} ({error.reason}) after "
            f"{_shortened(content[: error.start], from_the_end=True)}"
        ) from None
    return tuple(text.split("\t"))


def _check_header(
    path: pathlib.Path, names: tuple[str, ...], required: Sequence[str]
) -> None:
    missing = [name for name in required if name not in names]
    if missing:
        raise ValueError(
            f"{path}:1: the header must name the columns {', '.join(required)}; it "
            f"lacks {', '.join(missing)}. Received: {', '.join(names)}"
        )


def _shortened(content: bytes, from_the_end: bool = False) -> str:
    text = content.decode("utf-8", "replace").rstrip("\r\n")
    if len(text) <= 60:
        return repr(text)
    return f"…{text[-60:]!r}" if from_the_end else f"{text[:60]!r}…"
