"""Default paths of real text for the benchmarks, and records built from it."""

import os
import pathlib
import subprocess
import sys

_REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
SAMPLE_DATA = pathlib.Path(
    os.environ.get("SEG_TF_DATA", _REPOSITORY.parent / "shared" / "data")
)
WIKIPEDIA = SAMPLE_DATA / "enwiki_wikiextractor_2015" / "text" / "AA"
BOOKS = SAMPLE_DATA / "classic_books_md"
# The vocabulary of the included models, of 8,192 word pieces.
SMALL_VOCABULARY = _REPOSITORY / "seg_tf/presets/bert_mini_en/vocab.txt"
VOCABULARY = SAMPLE_DATA / "bert_vocab" / "bert-base-uncased-vocab.txt"


def build_wikipedia_windows(output_dir: pathlib.Path, window_length: int = 512) -> None:
    """Builds window records of a tenth of the Wikipedia sample."""
    from data_pipelines.builds.documents import DocumentOptions, build_documents
    from data_pipelines.builds.windows import WindowOptions, build_windows

    options = DocumentOptions(
        format="wikiextractor",
        input=str(WIKIPEDIA / "wiki_0*"),
        vocab_file=str(VOCABULARY),
    )
    build_documents(options, output_dir / "documents")
    windows = WindowOptions(window_length=window_length)
    build_windows(windows, output_dir / "documents", output_dir)


def write_text(folder: pathlib.Path) -> None:
    """Writes the Wikipedia and book text as JSON lines, unless the files exist."""
    sources = {"wiki": ("wikiextractor", WIKIPEDIA), "books": ("markdown", BOOKS)}
    folder.mkdir(parents=True, exist_ok=True)
    for name, (reader, source) in sources.items():
        path = folder / f"{name}.jsonl"
        if not path.exists():
            arguments = (f"--format={reader}", f"--input={source}", f"--output={path}")
            subprocess.run(
                [sys.executable, "-m", "seg_tf", "readers", *arguments], check=True
            )
