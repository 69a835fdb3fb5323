"""Small corpora of JSON lines or text, and options that build them in a moment."""

import json
import pathlib

from data_pipelines.builds.document_options import DocumentOptions
from seg_tf.text.vocabulary import SPECIAL_TOKENS

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.!?"


def write_vocabulary(
    folder: pathlib.Path, *words: str, letters: str = LETTERS
) -> pathlib.Path:
    """Writes word pieces, words and single letters; returns the file."""
    path = folder / "vocab.txt"
    pieces = [*SPECIAL_TOKENS, *words, *letters, *(f"##{one}" for one in letters)]
    path.write_text("".join(f"{piece}\n" for piece in pieces))
    return path


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    """Every file below a folder and its bytes."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


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
