"""Vectors of a corpus: exact, in shards that survive a kill."""

import shutil

import numpy as np
import pytest

from seg_tf import files
from seg_tf.inference import corpus as corpus_module
from seg_tf.inference import texts
from seg_tf.inference.corpus import CorpusVectors
from seg_tf.inference.sentence_encoder import SentenceEncoder
from seg_tf.inference.texts import Sentence
from tests import command_calls
from tests.counting_bar import CountingBar
from tests.inference.test_sentence_encoder import vector_alone
from tests.inference.tiny_slm import SPLITTER, sentence

pytestmark = pytest.mark.slow

SHARD_SENTENCES = 12


def write_corpus(folder, num_documents=8, seed=0):
    """Documents of some paragraphs, in two files; returns the sentences of each."""
    generator = np.random.default_rng(seed)
    folder.mkdir(exist_ok=True)
    for name in ("one.txt", "two.txt"):
        with open(folder / name, "w") as file:
            for _ in range(num_documents // 2):
                for _ in range(generator.integers(1, 4)):
                    paragraph = [
                        sentence(generator, int(generator.integers(1, 14)))
                        for _ in range(generator.integers(1, 5))
                    ]
                    file.write(" ".join(paragraph) + "\n")
                file.write("\n")
    return texts.list_files([str(folder)])


def read(sources):
    for name, path in sources.items():
        documents = path.read_text(encoding="utf-8").split("\n\n")
        lines = [document.split("\n") for document in documents]
        yield from texts.split_documents(lines, name, SPLITTER)


def make(folder, sources, pretrained, reports=None, read=read, **settings):
    settings = {
        "context_sentences": 1,
        "limit": None,
        "vectors": None,
        "shard_sentences": SHARD_SENTENCES,
        **settings,
    }
    bars = []

    def progress(total):
        bars.append(CountingBar(total))
        return bars[0]

    corpus = corpus_module.encode_corpus(
        folder,
        lambda: read(sources),
        SentenceEncoder(pretrained),
        corpus_module.describe(
            sources, pretrained.weights_checksum, "of words", settings
        ),
        progress,
        (reports if reports is not None else []).append,
    )
    if bars:
        assert bars[0].done == bars[0].total == corpus.manifest["num_sentences"]
    return corpus


@pytest.fixture(scope="module")
def corpus(pretrained, tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    return make(folder / "index", write_corpus(folder / "text"), pretrained)


def all_vectors(corpus):
    return np.concatenate(list(corpus.vectors()))


def test_vectors_are_those_of_each_row_alone(corpus, pretrained):
    sources = write_corpus(corpus.folder.parent / "text")
    sentences = list(read(sources))
    assert corpus.manifest["num_sentences"] == len(sentences) > 2 * SHARD_SENTENCES
    found = all_vectors(corpus)
    assert found.dtype == np.float32
    kept = corpus.sentences(range(len(sentences)))
    starts = 0
    for number, one in enumerate(sentences):
        # The sentence before it, whichever shard that is in, but of no other document.
        before = sentences[number - 1] if number else None
        same = before and (before.file, before.document) == (one.file, one.document)
        in_context = [before, one] if same else [one]
        starts += not same
        assert kept[number] == in_context
        np.testing.assert_allclose(
            found[number], vector_alone(pretrained, in_context), atol=2e-5
        )
    assert starts == 8


@pytest.mark.parametrize("count", [1, 7, 10_000])
def test_nearest_vectors_equal_brute_force_with_ties(tmp_path, count):
    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(60, 16)).astype("f4")
    vectors[41] = vectors[17]  # in another shard; the earlier sentence comes first
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    description = {"settings": {"shard_sentences": 25}}
    corpus = corpus_module.start(tmp_path, description, 60)
    for number in range(3):
        some = vectors[number * 25 :][:25]
        corpus.write_shard(number, some, [[Sentence("It.", "")] for _ in some])
    queries = np.concatenate([vectors[::-7], vectors[17:18]])
    exact = queries.astype("f8") @ vectors.T.astype("f8")
    for cosines, found in zip(exact, corpus.nearest(queries, count), strict=True):
        expected = np.argsort(-cosines, kind="stable")[:count]
        assert [number for number, _ in found] == expected.tolist()
        np.testing.assert_allclose(
            [cosine for _, cosine in found], cosines[expected], atol=1e-6
        )
    if count > 1:
        assert [number for number, _ in found[:2]] == [17, 41]


def test_only_missing_shards_are_made_again(corpus, pretrained, tmp_path):
    folder = tmp_path / "index"
    shutil.copytree(corpus.folder, folder)
    sources = texts.list_files([str(corpus.folder.parent / "text")])
    shutil.rmtree(folder / "shard-00001")
    (folder / ".aside-shard-00001").mkdir()  # what a killed job leaves
    stamps = {path: path.stat().st_mtime_ns for path in folder.glob("shard-*/*")}
    with pytest.raises(ValueError, match=r"lacks 1 of \d shards"):
        CorpusVectors(folder).check_complete()
    again = make(folder, sources, pretrained)
    again.check_complete()
    np.testing.assert_array_equal(all_vectors(again), all_vectors(corpus))
    assert (
        stamps.items()
        <= {path: path.stat().st_mtime_ns for path in folder.glob("shard-*/*")}.items()
    )
    assert not list(folder.glob(".aside-*"))


def test_other_vectors_are_refused_and_the_difference_named(
    corpus, pretrained, tmp_path
):
    sources = texts.list_files([str(corpus.folder.parent / "text")])
    with pytest.raises(
        ValueError, match=r"settings\.context_sentences: 1 there, 2 now"
    ):
        make(corpus.folder, sources, pretrained, context_sentences=2)
    with pytest.raises(ValueError, match=r"settings\.limit: None there, 9 now"):
        make(corpus.folder, sources, pretrained, limit=9)
    other = write_corpus(tmp_path / "text", seed=1)
    with pytest.raises(ValueError, match=r"corpus\.one\.txt\.sha256: \w+ there"):
        make(corpus.folder, other, pretrained)
    with pytest.raises(ValueError, match=r"corpus\.two\.txt\.bytes: \d+ there, absent"):
        make(corpus.folder, {"one.txt": sources["one.txt"]}, pretrained)


def test_limit_takes_the_first_sentences(corpus, pretrained, tmp_path):
    sources = texts.list_files([str(corpus.folder.parent / "text")])
    some = make(tmp_path, sources, pretrained, limit=20)
    np.testing.assert_allclose(all_vectors(some), all_vectors(corpus)[:20], atol=2e-5)


AGAIN = "Encode the corpus again: give --corpus and another --index_dir"


def test_folders_without_a_manifest_or_of_another_version_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"has no manifest\.json.*--corpus"):
        CorpusVectors(tmp_path)
    for version in (2, 7):  # 2 had lines in place of paragraphs
        files.write_json(tmp_path / "manifest.json", {"format_version": version})
        expected = f"json: expected the format version 3, found {version}. {AGAIN}"
        with pytest.raises(ValueError, match=expected):
            CorpusVectors(tmp_path)


def test_a_manifest_with_a_flipped_bit_is_refused(corpus, tmp_path):
    text = (corpus.folder / "manifest.json").read_text()
    # Without the checksum, sentences would be taken from the wrong place.
    changed = text.replace('"shard_sentences": 12', '"shard_sentences": 13')
    (tmp_path / "manifest.json").write_text(changed)
    expected = rf"json: expected the checksum \w{{64}}, found \w{{64}}\. {AGAIN}"
    with pytest.raises(ValueError, match=expected):
        CorpusVectors(tmp_path)


@pytest.mark.parametrize("name", ["vectors.npy", "sentences.jsonl"])
def test_a_flipped_bit_of_a_shard_is_found_when_it_is_read(
    corpus, pretrained, tmp_path, name
):
    folder = tmp_path / "index"
    shutil.copytree(corpus.folder, folder)
    path, original = (one / "shard-00001" / name for one in (folder, corpus.folder))
    content = bytearray(original.read_bytes())
    content[-9] ^= 1
    path.write_bytes(content)
    damaged = CorpusVectors(folder)
    with pytest.raises(ValueError, match="expected the checksum") as error:
        all_vectors(damaged), damaged.sentences([0, SHARD_SENTENCES])
    assert str(error.value) == (
        f"{path}: expected the checksum {files.checksum(original)}, found "
        f"{files.checksum(path)}. Remove {path.parent} and give the same --corpus again"
    )
    shutil.rmtree(path.parent)
    make(folder, texts.list_files([str(corpus.folder.parent / "text")]), pretrained)
    assert path.read_bytes() == original.read_bytes()


def test_corpus_without_sentences_is_refused(pretrained, tmp_path):
    (tmp_path / "empty.txt").write_text("\n \n")
    sources = texts.list_files([str(tmp_path / "empty.txt")])
    with pytest.raises(ValueError, match=r"Received: empty\.txt, with none"):
        make(tmp_path / "index", sources, pretrained)


def test_cut_sentences_are_reported(pretrained, tmp_path):
    generator = np.random.default_rng(0)
    (tmp_path / "long.txt").write_text(f"{sentence(generator, 100)} W1 w2.")
    sources = texts.list_files([str(tmp_path / "long.txt")])
    reports = []
    make(tmp_path / "index", sources, pretrained, reports)
    assert reports == ["Sentences longer than a row, which were cut: 1"]


# Stops for good when all of the second shard is written and only its name is missing.
STOPPED = """
import pathlib, sys
from seg_tf import files
from seg_tf.checkpoints.pretrained import load_pretrained
from tests.inference import test_corpus as tests
run_dir, folder, text = sys.argv[1:]
publish = files._publish
def publish_or_stop(aside, path):
    if path.name == "shard-00001":
        print("stopped", flush=True)
        sys.stdin.read()
    publish(aside, path)
files._publish = publish_or_stop
sources = tests.texts.list_files([text])
tests.make(pathlib.Path(folder), sources, load_pretrained(run_dir))
"""


def test_killed_job_ends_with_the_same_vectors(corpus, run_dir, pretrained, tmp_path):
    text = corpus.folder.parent / "text"
    folder = tmp_path / "index"
    process = command_calls.python("-c", STOPPED, run_dir, folder, text)
    assert process.stdout.readline() == "stopped\n"
    process.kill()
    process.communicate()
    assert [path.name for path in folder.glob("shard-*")] == ["shard-00000"]
    assert list(folder.glob(".aside-*/shard-00001/*"))
    again = make(folder, texts.list_files([str(text)]), pretrained)
    np.testing.assert_array_equal(all_vectors(again), all_vectors(corpus))
    numbers = range(corpus.manifest["num_sentences"])
    assert again.sentences(numbers) == corpus.sentences(numbers)


def test_corpus_that_changes_meanwhile_is_refused(pretrained, tmp_path):
    sources = write_corpus(tmp_path / "text")
    calls = []

    def shorter_the_second_time(sources):
        calls.append(1)
        sentences = list(read(sources))
        return iter(sentences[: -1 if len(calls) > 1 else None])

    with pytest.raises(ValueError, match="`--corpus` must not change while"):
        make(tmp_path / "index", sources, pretrained, read=shorter_the_second_time)


def test_folder_in_use_is_refused(pretrained, tmp_path):
    sources = write_corpus(tmp_path / "text")
    with (
        files.locked(tmp_path),
        pytest.raises(ValueError, match="another process writes now"),
    ):
        make(tmp_path, sources, pretrained)
