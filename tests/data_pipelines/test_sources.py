"""Records and vocabularies from every source: the same text, the same result."""

import bz2
import json

import pyarrow as pa
import pyarrow.parquet
import pytest

from data_pipelines import build_vocab, build_word_vocab, readers
from data_pipelines.builds import document_build
from data_pipelines.builds.document_options import DocumentOptions
from data_pipelines.readers import raw_files
from data_pipelines.readers.base import PassedOver
from seg_tf.data.manifest import Manifest
from tests.data_pipelines.failing_files import FailingFileSystem

TEXTS = [
    f"The mill number {number} turns. It is old.\nMiller {number % 7} works there."
    for number in range(300)
]
PIECES = ("the", "mill", "number", "turns", ".", "it", "is", "old", "works", "there")


@pytest.fixture
def vocab_file(tmp_path):
    path = tmp_path / "vocab.txt"
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    path.write_text("\n".join((*special, *PIECES)) + "\n")
    return path


def write_json_lines(path):
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))


def write_parquet(path):
    pa.parquet.write_table(pa.table({"text": TEXTS}), path, row_group_size=50)


def write_mediawiki(path):
    pages = "".join(
        f"<page><title/><ns>0</ns><id>{number}</id><revision><text>"
        + text.replace("\n", "\n\n").replace("mill", "[[Mill|mill]]{{sfn|X}}")
        + "</text></revision></page>\n"
        for number, text in enumerate(TEXTS)
    )
    data = f"<mediawiki>\n{pages}</mediawiki>".encode()
    path.write_bytes(bz2.compress(data[:5000]) + bz2.compress(data[5000:]))


WRITERS = {
    "json_lines": write_json_lines,
    "mediawiki": write_mediawiki,
    "parquet": write_parquet,
}


@pytest.mark.parametrize("format", ["mediawiki", "parquet"])
def test_vocabularies_are_the_same_from_every_source(tmp_path, memory, format):
    sources = {}
    for name in ("json_lines", format):
        path = tmp_path / f"corpus.{name}"
        WRITERS[name](path)
        sources[name] = str(path)
    memory.pipe("/corpus", path.read_bytes())
    pieces = build_vocab.VocabularyOptions(vocab_size=60)
    words = build_word_vocab.WordVocabularyOptions(tokenizer="words", min_count=2)
    remote = "memory://corpus"
    expected, *others = (
        build_word_vocab.build_word_vocabulary(name, path, words).tokens
        for name, path in (*sources.items(), (format, remote))
    )
    assert others == [expected, expected]
    assert "mill" in expected
    expected, *others = (
        build_vocab.build_vocabulary(name, path, pieces).tokens
        for name, path in (("json_lines", sources["json_lines"]), (format, remote))
    )
    assert others == [expected]


def build(folder, input_path, vocab_file, **options):
    options = DocumentOptions(
        input=str(input_path),
        vocab_file=str(vocab_file),
        slice_megabytes=0.005,
        **options,
    )
    document_build.build_documents(options, folder)
    return Manifest.load(folder)


def test_remote_build_is_that_of_the_same_local_files(tmp_path, memory, vocab_file):
    write_mediawiki(tmp_path / "a.xml.bz2")
    write_mediawiki(tmp_path / "b.xml.bz2")
    for name in ("a.xml.bz2", "b.xml.bz2"):
        memory.pipe(f"/dumps/{name}", (tmp_path / name).read_bytes())
    manifests = [
        build(tmp_path / folder, path, vocab_file, format="mediawiki")
        for folder, path in (
            ("local", f"{tmp_path}/*.bz2"),
            ("remote", "memory://dumps"),
            ("glob", "memory://dumps/*.xml.bz2"),
        )
    ]
    assert manifests[0].count("documents") == 2 * len(TEXTS)
    assert len(manifests[0].splits["train"]) > 4
    assert manifests[1] == manifests[2] == manifests[0]
    split = build(
        tmp_path / "split",
        "memory://dumps/a.xml.bz2",
        vocab_file,
        format="mediawiki",
        validation_input="memory://dumps/b.xml.bz2",
    )
    assert split.count("documents", "validation") == len(TEXTS)
    with pytest.raises(ValueError, match="must hold no file that `input` holds"):
        build(
            tmp_path / "same",
            "memory://dumps",
            vocab_file,
            format="mediawiki",
            validation_input="memory://dumps/b.xml.bz2",
        )


def test_build_that_loses_the_connection_goes_on_later(
    tmp_path, failing, vocab_file, monkeypatch
):
    write_json_lines(tmp_path / "c.jsonl")
    data = (tmp_path / "c.jsonl").read_bytes()
    assert len(data) > 20_000
    failing.pipe("/c.jsonl", data)
    whole = build(
        tmp_path / "whole", tmp_path / "c.jsonl", vocab_file, format="json_lines"
    )
    monkeypatch.setattr(FailingFileSystem, "error", TimeoutError("no answer"))
    resumed = tmp_path / "resumed"
    url = "failing://c.jsonl"
    with pytest.raises(raw_files.UnreachableError, match=r"c\.jsonl.*no answer"):
        build(resumed, url, vocab_file, format="json_lines")
    assert not (resumed / "manifest.json").exists()
    finished = {
        path.name: path.stat().st_mtime_ns for path in resumed.glob("*.tfrecord")
    }
    assert finished
    monkeypatch.setattr(FailingFileSystem, "error", None)
    assert build(resumed, url, vocab_file, format="json_lines") == whole
    for name, time in finished.items():
        assert (resumed / name).stat().st_mtime_ns == time
        assert (resumed / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_strict_build_leaves_out_redirects(tmp_path, vocab_file):
    write_mediawiki(tmp_path / "a.xml.bz2")
    data = bz2.decompress((tmp_path / "a.xml.bz2").read_bytes()).decode()
    redirect = (
        "<page><title>R</title><ns>0</ns><id>999</id><redirect title='X'/></page>"
    )
    (tmp_path / "r.xml").write_text(
        data.replace("</mediawiki>", redirect + "</mediawiki>")
    )
    options = {"format": "mediawiki", "strict": True}
    manifest = build(tmp_path / "out", tmp_path / "r.xml", vocab_file, **options)
    assert manifest.rejected == {"redirect": 1}
    # A Wikipedia has more of them than articles: they are counted, and not listed.
    assert not (tmp_path / "out" / document_build.REJECTED_FILE).read_text()
    assert "redirect" in readers.LEFT_OUT_REASONS


def test_several_inputs_are_read_one_after_the_other(tmp_path, vocab_file):
    """As a folder with the files of all, and each of them is validated on its share."""
    together, names = tmp_path / "together", ("wiki", "books,old")
    together.mkdir()
    for number, name in enumerate(names):
        (tmp_path / name).mkdir()
        write_json_lines(tmp_path / name / "a.jsonl")
        write_json_lines(together / f"{number}.jsonl")
    options = {"format": "json_lines", "validation_fraction": 0.02}
    whole = build(tmp_path / "whole", together, vocab_file, **options)
    several = f"{tmp_path}/wiki, {tmp_path}/books*"
    manifest = build(tmp_path / "several", several, vocab_file, **options)
    assert manifest.splits == whole.splits
    # Every fiftieth document is held out, of 300 in each input.
    assert manifest.count("documents", "validation") == 12
    reader = readers.get_reader("json_lines")
    assert list(reader.sources(several)) == ["wiki/a.jsonl", "books*/books,old/a.jsonl"]
    # A folder with a comma in its name is one input.
    assert list(reader.sources(tmp_path / "books,old")) == ["a.jsonl"]
    words = build_word_vocab.WordVocabularyOptions(tokenizer="words", min_count=2)
    tokens = [
        build_word_vocab.build_word_vocabulary("json_lines", given, words).tokens
        for given in (str(together), several)
    ]
    assert tokens[0] == tokens[1]
    passed_over = PassedOver()
    (tmp_path / "wiki/notes.md").touch()
    documents = [*reader.read_input(several)]
    reader.sources(several, passed_over)
    assert [document.source for document in documents[299:301]] == [
        "wiki/a.jsonl",
        "books*/books,old/a.jsonl",
    ]
    assert passed_over.names == {"other_name": ["wiki/notes.md"]}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("{0}/a.jsonl,{0}", "must contain each file once.*a.jsonl.*both .*and"),
        ("{0},", "must each name a file, a folder or a glob. Received: .*,'"),
        ("{0},{0}/none", "must exist. Received: .*none"),
    ],
)
def test_inputs_that_are_none_are_refused(tmp_path, given, message):
    write_json_lines(tmp_path / "a.jsonl")
    reader = readers.get_reader("json_lines")
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        reader.sources(given.format(tmp_path))
