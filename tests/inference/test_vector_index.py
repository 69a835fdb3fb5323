"""An index of vectors: exact, built once, whole or not at all."""

import resource
import threading

import faiss
import numpy as np
import pytest

from seg_tf import files
from seg_tf.inference import corpus_vectors, vector_index
from seg_tf.inference.corpus_vectors import CorpusVectors
from seg_tf.inference.texts import Sentence
from seg_tf.inference.vector_index import VectorIndex

NUM_SENTENCES = 60
SHARD_SENTENCES = 25
DIMENSION = 16


@pytest.fixture
def corpus(tmp_path):
    """Vectors of a corpus in shards, without an index."""
    files.write_json(
        tmp_path / corpus_vectors.MANIFEST_FILE,
        {
            "format_version": corpus_vectors.FORMAT_VERSION,
            "settings": {"shard_sentences": SHARD_SENTENCES},
            "num_sentences": NUM_SENTENCES,
        },
    )
    vectors = unit_vectors(NUM_SENTENCES, seed=0)
    made = CorpusVectors(tmp_path)
    for number in range(made.num_shards):
        some = vectors[number * SHARD_SENTENCES :][:SHARD_SENTENCES]
        texts = [[Sentence("It.", "")] for _ in some]
        corpus_vectors.write_shard(made.shard(number), some, texts)
    return made


def unit_vectors(count, seed):
    vectors = np.random.default_rng(seed).normal(size=(count, DIMENSION))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype("f4")


def all_vectors(corpus):
    return np.concatenate(list(corpus.vectors()))


def index_files(corpus):
    return sorted(path.name for path in corpus.folder.glob("*index*"))


@pytest.mark.parametrize("count", [1, 7, 10_000])
def test_neighbours_equal_brute_force(corpus, count):
    vectors = all_vectors(corpus)
    queries = np.concatenate([unit_vectors(5, seed=1), vectors[17:18]])
    index = VectorIndex(corpus, "Flat")
    cosines = queries.astype("f8") @ vectors.T.astype("f8")
    for query, found in enumerate(index.search(queries, count)):
        order = np.argsort(-cosines[query], kind="stable")[:count]
        np.testing.assert_allclose(
            [cosine for _, cosine in found], cosines[query][order], atol=1e-6
        )
        assert len({number for number, _ in found}) == len(order)
        for number, cosine in found:
            assert cosine == pytest.approx(cosines[query][number], abs=1e-6)
    nearest = next(index.search(vectors[17:18], 1))[0]
    assert nearest == (17, pytest.approx(1.0, abs=1e-6))


def test_every_kind_of_index_is_kept_and_read_again(corpus, monkeypatch):
    queries = all_vectors(corpus)[3:4]
    exact = next(VectorIndex(corpus, "Flat").search(queries, 5))
    # All cells looked into is exact again.
    cells = VectorIndex(corpus, "IVF4,Flat", "nprobe=4")
    assert next(cells.search(queries, 5)) == exact
    assert next(VectorIndex(corpus, "HNSW8").search(queries, 1))[0] == exact[0]
    assert index_files(corpus) == [
        "index-Flat.faiss",
        "index-HNSW8.faiss",
        "index-IVF4_Flat.faiss",
    ]
    monkeypatch.setattr("faiss.index_factory", None)
    again = VectorIndex(corpus, "IVF4,Flat", "nprobe=4")
    assert next(again.search(queries, 5)) == exact


@pytest.mark.parametrize(
    "factory, parameters, expected",
    [
        ("Flatter", "", r"`--index` must be.*Received: 'Flatter': \w"),
        ("PQ5", "", "`--index` must be.*of length 16.*Received: 'PQ5': .*multiple"),
        ("Flat", "nprobe=4", "`--search_parameters` must be.*'nprobe=4'"),
    ],
)
def test_what_faiss_does_not_take_is_named(corpus, factory, parameters, expected):
    with pytest.raises(ValueError, match=expected):
        vector_index.check(factory, parameters, DIMENSION)
    with pytest.raises(ValueError, match=expected):
        VectorIndex(corpus, factory, parameters)


def test_more_cells_than_vectors_to_learn_from_are_refused(corpus, monkeypatch):
    with pytest.raises(ValueError, match="'IVF61,Flat', which had 60 of 60 vectors"):
        VectorIndex(corpus, "IVF61,Flat")
    # Vectors enough, but not in memory at once: every third of each shard is.
    monkeypatch.setattr(vector_index, "_TRAINING_VECTORS", 20)
    with pytest.raises(ValueError, match=r"no more cells.* which had 22 of 60 vectors"):
        VectorIndex(corpus, "IVF30,Flat")
    VectorIndex(corpus, "IVF20,Flat")
    assert index_files(corpus) == ["index-IVF20_Flat.faiss"]


def test_one_of_several_that_want_an_index_builds_it(corpus, monkeypatch):
    built = []
    arrived = threading.Semaphore(0)
    build, locked = vector_index._build, files.locked

    def counted_build(*arguments):
        built.append(arguments)
        return build(*arguments)

    def announced_lock(*arguments):
        arrived.release()
        return locked(*arguments)

    found = []
    # Read before: Python 3.11 may fail when several threads parse the heads of arrays.
    query = all_vectors(corpus)[3:4]

    def use():
        index = VectorIndex(corpus, "HNSW8")
        found.append(next(index.search(query, 1))[0][0])

    threads = [threading.Thread(target=use) for _ in range(3)]
    monkeypatch.setattr(vector_index, "_build", counted_build)
    with locked(corpus.folder):
        monkeypatch.setattr(files, "locked", announced_lock)
        for thread in threads:
            thread.start()
        # All of them have seen that there is no index, and wait for the folder.
        assert all(arrived.acquire(timeout=60) for _ in threads)
        assert not built
    for thread in threads:
        thread.join()
    assert found == [3, 3, 3]
    assert len(built) == 1
    assert index_files(corpus) == ["index-HNSW8.faiss"]


@pytest.mark.parametrize("room", [0, 1_000], ids=["none", "too little"])
def test_full_disk_leaves_no_index(corpus, room):
    # What a disk refuses, a limit of the size of files does too. So small an index is
    # written by the last flush.
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            VectorIndex(corpus, "Flat")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert index_files(corpus) == []
    VectorIndex(corpus, "Flat")


@pytest.mark.parametrize(
    "damage",
    [lambda content: b"", lambda content: content[:-5], lambda content: b"x" * 99],
    ids=["empty", "cut", "other"],
)
def test_damaged_index_is_named(corpus, damage):
    VectorIndex(corpus, "Flat")
    path = corpus.folder / "index-Flat.faiss"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"index-Flat\.faiss: not a .*Remove the file"):
        VectorIndex(corpus, "Flat")
    path.unlink()
    VectorIndex(corpus, "Flat")


def test_index_of_other_vectors_is_refused(corpus):
    index = faiss.index_factory(DIMENSION, "Flat", faiss.METRIC_INNER_PRODUCT)
    index.add(all_vectors(corpus)[:-1])
    faiss.write_index(index, str(corpus.folder / "index-Flat.faiss"))
    with pytest.raises(ValueError, match=r"of 60 vectors, found one of 59.*Remove"):
        VectorIndex(corpus, "Flat")
