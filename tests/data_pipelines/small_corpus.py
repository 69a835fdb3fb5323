"""Small corpora, options that build them in a moment, and interrupted builds."""

import contextlib
import json
import pathlib
import random
import shutil
from collections.abc import Iterator

import pytest

from data_pipelines.builds.documents import DocumentOptions, build_documents
from data_pipelines.builds.windows import WindowOptions, build_windows
from seg_tf.text.vocabulary import SPECIAL_TOKENS

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.!?"
WORDS = "the a man woman ship sailed came saw went home away now then 1842 Mr. Dr."
NUM_DOCUMENTS = 120
WINDOW_OPTIONS = WindowOptions(window_length=32)
CUT_SENTENCES = WindowOptions(window_length=32, cut_sentences=True)


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


# --- Interruptions ----------------------------------------------------------------


@contextlib.contextmanager
def interrupted(maker: type, slice_number: int) -> Iterator[None]:
    """Expects an interruption when a maker in this process makes one slice."""
    make = maker.make

    def make_until(self, payload, folder):
        if payload.number == slice_number:
            raise KeyboardInterrupt
        return make(self, payload, folder)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(maker, "make", make_until)
        with pytest.raises(KeyboardInterrupt):
            yield


@contextlib.contextmanager
def noted(maker: type) -> Iterator[list[int]]:
    """Yields a list that receives the numbers of the slices that makers make."""
    original, numbers = maker.make, []

    def make(self, payload, folder):
        numbers.append(payload.number)
        return original(self, payload, folder)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(maker, "make", make)
        yield numbers


# --- A corpus of random paragraphs ------------------------------------------------


def random_document_line(generator):
    """A document of some random paragraphs, as a line of JSON."""

    def paragraph():
        sentences = []
        for _ in range(generator.randint(1, 6)):
            words = [
                generator.choice(WORDS.split()) for _ in range(generator.randint(1, 12))
            ]
            sentences.append(" ".join(words).capitalize() + generator.choice(".!?"))
        return " ".join(sentences)

    paragraphs = [paragraph() for _ in range(generator.randint(1, 5))]
    return json.dumps({"text": "\n".join(paragraphs)})


def write_random(folder):
    """Writes a folder of JSON lines, some of them bad, and a vocabulary."""
    text = folder / "text"
    text.mkdir()
    generator = random.Random(0)
    lines = [random_document_line(generator) for _ in range(NUM_DOCUMENTS)]
    lines.insert(7, "{broken")
    lines.insert(50, json.dumps({"text": "\x01\x02"}))
    for number, begin in enumerate(range(0, len(lines), 30)):
        part = "\n".join(lines[begin : begin + 30]) + "\n"
        (text / f"part-{number}.jsonl").write_text(part)
    write_vocabulary(folder, "the", "man", "ship")
    return folder


def document_options(corpus, **overrides):
    """Options of a build of `write_random`'s corpus."""
    settings = {"validation_fraction": 0.1, "slice_megabytes": 0.003, **overrides}
    return options_of(corpus / "text", corpus / "vocab.txt", **settings)


def build(corpus, output_dir, window_options=WINDOW_OPTIONS, **arguments):
    """Builds documents and windows of `write_random`'s corpus."""
    common = {
        name: arguments.pop(name)
        for name in ("num_workers", "engine", "overwrite")
        if name in arguments
    }
    documents_dir = output_dir / "documents"
    build_documents(document_options(corpus, **arguments), documents_dir, **common)
    build_windows(window_options, documents_dir, output_dir, **common)


def command(corpus, output_dir, *more):
    """The command that builds the same."""
    return [
        "build-records",
        "--format=json_lines",
        f"--input={corpus / 'text'}",
        f"--vocab_file={corpus / 'vocab.txt'}",
        f"--output_dir={output_dir}",
        "--validation_fraction=0.1",
        "--slice_megabytes=0.003",
        "--window_length=32",
        *more,
    ]


def copy_of(built, tmp_path):
    return shutil.copytree(built, tmp_path / "records")
