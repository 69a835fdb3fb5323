"""Small corpora of JSON lines or text, and options that build them in a moment."""

import json
import pathlib

from data_pipelines.builds.document_options import DocumentOptions

_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.!?"
PIECES = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *(*_LETTERS, *(f"##{letter}" for letter in _LETTERS)),
]


def write_vocabulary(folder: pathlib.Path) -> pathlib.Path:
    """Writes word pieces of single letters; returns the file."""
    path = folder / "vocab.txt"
    path.write_text("".join(f"{piece}\n" for piece in PIECES))
    return path


def document_line(number: int) -> str:
    """A line of JSON lines: a short document that no other repeats."""
    return json.dumps({"text": f"Document {number} came.\nIt went away."}) + "\n"


def options_of(
    text: pathlib.Path, vocabulary: pathlib.Path, **overrides
) -> DocumentOptions:
    """Options of a build of the folder `text`, in slices of a few documents."""
    settings = {
        "format": "json_lines",
        "input": str(text),
        "vocab_file": str(vocabulary),
        "slice_megabytes": 0.001,
    }
    return DocumentOptions(**{**settings, **overrides})
