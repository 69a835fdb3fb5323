"""A corpus of random paragraphs, and builds of it."""

import json
import pathlib
import random
import shutil

import pytest

from data_pipelines import build_windows
from data_pipelines.builds import document_build
from data_pipelines.builds.window_building import WindowMaker, WindowOptions
from tests.data_pipelines import small_corpus

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
TEXT = "the a man woman ship sailed came saw went home away now then 1842 Mr. Dr."
WORDS = TEXT.split()
NUM_DOCUMENTS = 120
WINDOW_OPTIONS = WindowOptions(window_length=32)
CUT_SENTENCES = WindowOptions(window_length=32, cut_sentences=True)


def random_paragraph(generator):
    sentences = []
    for _ in range(generator.randint(1, 6)):
        words = [generator.choice(WORDS) for _ in range(generator.randint(1, 12))]
        sentences.append(" ".join(words).capitalize() + generator.choice(".!?"))
    return " ".join(sentences)


def write(folder):
    """Writes a folder of JSON lines, some of them bad, and a vocabulary."""
    text = folder / "text"
    text.mkdir()
    generator = random.Random(0)
    lines = [document_line(generator) for _ in range(NUM_DOCUMENTS)]
    lines.insert(7, "{broken")
    lines.insert(50, json.dumps({"text": "\x01\x02"}))
    for number, begin in enumerate(range(0, len(lines), 30)):
        part = "\n".join(lines[begin : begin + 30]) + "\n"
        (text / f"part-{number}.jsonl").write_text(part)
    small_corpus.write_vocabulary(folder, "the", "man", "ship")
    return folder


def document_line(generator):
    """A document of some random paragraphs, as a line of JSON."""
    paragraphs = [random_paragraph(generator) for _ in range(generator.randint(1, 5))]
    return json.dumps({"text": "\n".join(paragraphs)})


def document_options(corpus, **overrides):
    settings = {"validation_fraction": 0.1, "slice_megabytes": 0.003, **overrides}
    return small_corpus.options_of(corpus / "text", corpus / "vocab.txt", **settings)


def build(
    corpus, output_dir, num_workers=1, window_options=WINDOW_OPTIONS, **overrides
):
    document_build.build_documents(
        document_options(corpus, **overrides),
        output_dir / "documents",
        num_workers=num_workers,
    )
    build_windows.build_windows(
        window_options,
        output_dir / "documents",
        output_dir,
        num_workers=num_workers,
    )


def command(corpus, output_dir, *more):
    return [
        "data_pipelines.build_records",
        "--format=json_lines",
        f"--input={corpus / 'text'}",
        f"--vocab_file={corpus / 'vocab.txt'}",
        f"--output_dir={output_dir}",
        "--validation_fraction=0.1",
        "--slice_megabytes=0.003",
        "--window_length=32",
        *more,
    ]


def build_three_slices_of_windows(corpus, output_dir, **options):
    make = WindowMaker.make
    made = []

    def interrupted(self, pair, folder):
        if len(made) == 3:
            raise KeyboardInterrupt
        made.append(pair.number)
        return make(self, pair, folder)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WindowMaker, "make", interrupted)
        with pytest.raises(KeyboardInterrupt):
            build(corpus, output_dir, **options)


def copy_of(built, tmp_path):
    folder = tmp_path / "records"
    shutil.copytree(built, folder)
    return folder
