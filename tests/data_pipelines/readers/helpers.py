"""What several tests of readers need."""

import pathlib

from data_pipelines import readers


def read_bytes(
    folder: pathlib.Path, format: str, data: bytes, name: str = "file", **options
) -> list:
    """Reads a file with these bytes by the reader of a format."""
    path = folder / name
    path.write_bytes(data)
    return list(readers.get_reader(format, **options).read(path))


def read_text(folder: pathlib.Path, format: str, text: str, **options) -> list:
    return read_bytes(folder, format, text.encode(), **options)


def paragraphs(items: list) -> list[list[str]]:
    """The paragraphs of each document, none of which may be rejected."""
    assert all(isinstance(item, readers.Document) for item in items), items
    return [list(item.paragraphs) for item in items]


def reasons(items: list) -> list[str]:
    """For each item the reason of its rejection; "" for a document."""
    return [getattr(item, "reason", "") for item in items]
