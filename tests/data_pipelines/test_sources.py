"""Records and vocabularies from every source: the same text, the same result."""

import json

import pytest

from data_pipelines import readers
from data_pipelines.build_vocab import VocabularyOptions, build_vocabulary
from data_pipelines.builds.documents import build_documents
from data_pipelines.builds.makers import SliceMaker
from data_pipelines.readers import streams
from tests.data_pipelines.failing_files import FailingFileSystem
from tests.data_pipelines.small_corpus import contents, options_of, write_vocabulary

TEXTS = [
    f"The mill number {number} turns. It is old.\nMiller {number % 7} works there."
    for number in range(300)
]
PIECES = ("the", "mill", "number", "turns", ".", "it", "is", "old", "works", "there")
WORDS = VocabularyOptions(tokenizer="words", min_count=2)


@pytest.fixture
def vocab_file(tmp_path):
    return write_vocabulary(tmp_path, *PIECES, letters="")


def write_json_lines(path):
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))


def build(folder, input_path, vocab_file, **options):
    options = options_of(input_path, vocab_file, slice_megabytes=0.005, **options)
    return build_documents(options, folder)


def test_a_build_resumes_after_a_lost_connection(
    tmp_path, failing, vocab_file, monkeypatch
):
    path, url = tmp_path / "c.jsonl", "failing://c.jsonl"
    write_json_lines(path)
    failing.pipe("/c.jsonl", path.read_bytes())
    assert path.stat().st_size > 20_000
    build(tmp_path / "whole", path, vocab_file)
    make, resumed = SliceMaker.make, tmp_path / "resumed"

    def make_and_lose_connection(*arguments):
        monkeypatch.setattr(FailingFileSystem, "error", TimeoutError("no answer"))
        return make(*arguments)

    monkeypatch.setattr(SliceMaker, "make", make_and_lose_connection)
    with pytest.raises(streams.UnreachableError, match=r"c\.jsonl.*no answer"):
        build(resumed, url, vocab_file)
    assert not (resumed / "manifest.json").exists()
    finished = {path: path.stat().st_mtime_ns for path in resumed.glob("*.tfrecord")}
    assert finished
    monkeypatch.setattr(SliceMaker, "make", make)
    monkeypatch.setattr(FailingFileSystem, "error", None)
    build(resumed, url, vocab_file)
    assert contents(resumed) == contents(tmp_path / "whole")
    assert all(path.stat().st_mtime_ns == time for path, time in finished.items())


def test_several_inputs_are_read_in_sequence(tmp_path, vocab_file):
    """As a folder with the files of all; each is validated on its share."""
    together, names = tmp_path / "together", ("wiki", "books,old")
    together.mkdir()
    for number, name in enumerate(names):
        (tmp_path / name).mkdir()
        write_json_lines(tmp_path / name / "a.jsonl")
        write_json_lines(together / f"{number}.jsonl")
    options = {"validation_fraction": 0.02}
    whole = build(tmp_path / "whole", together, vocab_file, **options)
    several = f"{tmp_path}/wiki, {tmp_path}/books*"
    manifest = build(tmp_path / "several", several, vocab_file, **options)
    assert manifest.splits == whole.splits
    # Every fiftieth document is held out, of 300 in each input.
    assert manifest.count("documents", "validation") == 12
    tokens, expected = (
        build_vocabulary("json_lines", inputs, WORDS).tokens
        for inputs in (several, str(together))
    )
    assert tokens == expected
    reader = readers.get_reader("json_lines")
    # A folder with a comma in its name is one input.
    assert list(reader.sources(tmp_path / "books,old")) == ["a.jsonl"]
    passed_over = {}
    (tmp_path / "wiki/notes.md").touch()
    sources = ["wiki/a.jsonl", "books*/books,old/a.jsonl"]
    assert list(reader.sources(several, passed_over)) == sources
    assert passed_over == {"other_name": ["wiki/notes.md"]}
    documents = [*reader.read_input(several)]
    assert [document.source for document in documents[299:301]] == sources
