"""Where the benchmarks find real text unless told otherwise."""

import os
import pathlib

_REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
SAMPLE_DATA = pathlib.Path(
    os.environ.get("SEG_TF_DATA", _REPOSITORY.parent / "shared" / "data")
)
WIKIPEDIA = SAMPLE_DATA / "enwiki_wikiextractor_2015" / "text" / "AA"
BOOKS = SAMPLE_DATA / "classic_books_md"
VOCABULARY = SAMPLE_DATA / "bert_vocab" / "bert-base-uncased-vocab.txt"
