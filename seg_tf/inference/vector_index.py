"""An index of vectors that finds the nearest ones: faiss, beside the vectors."""

import pathlib
import re
from collections.abc import Iterator

import faiss
import numpy as np

from seg_tf import files
from seg_tf.inference.corpus_vectors import CorpusVectors

# Of so many vectors, about, cells or codes are learnt: all of them are in memory then.
_TRAINING_VECTORS = 2**18


def check(factory: str, parameters: str, dimension: int) -> None:
    """Checks what can be checked of an index before there are vectors.

    Args:
        factory: as for `VectorIndex`.
        parameters: likewise.
        dimension: length of the vectors.

    Raises:
        ValueError: if faiss takes exception to one of them.
    """
    _set_parameters(_empty(dimension, factory), factory, parameters)


class VectorIndex:
    """Nearest neighbours by inner product, which of vectors of length 1 is the cosine.

    Made from the shards of a folder and kept in it, so that the next search only reads
    it. Of several processes that want the same index, one makes it; the others wait.

    Args:
        corpus: complete vectors of a corpus.
        factory: what faiss shall build: `Flat` compares with every vector and is
            exact; `IVF1024,Flat` looks into some of 1,024 cells, `HNSW32` walks a
            graph, and any other string of faiss's index factory does what faiss says.
        parameters: search parameters as faiss spells them: `nprobe=16`; empty takes
            faiss's own.

    Raises:
        OSError: if the index cannot be written.
        ValueError: if faiss takes exception to `factory` or `parameters`, or the index
            that is kept is damaged.
    """

    def __init__(self, corpus: CorpusVectors, factory: str, parameters: str = ""):
        path = corpus.folder / f"index-{re.sub(r'[^A-Za-z0-9.-]', '_', factory)}.faiss"
        if not path.is_file():
            with files.locked(corpus.folder):
                # Another process may have made it while this one waited.
                if not path.is_file():
                    _write(_build(corpus, factory), path)
        self._index = _read(path, corpus.manifest["num_sentences"])
        _set_parameters(self._index, factory, parameters)

    def search(
        self, vectors: np.ndarray, count: int
    ) -> Iterator[list[tuple[int, float]]]:
        """The nearest neighbours of each vector.

        Args:
            vectors: float32 array `(number of vectors, D)`, of length 1.
            count: how many neighbours are wanted.

        Yields:
            For each vector `(number of the neighbour, cosine)`, the nearest first. An
            index that is not exact may find fewer.
        """
        cosines, numbers = self._index.search(vectors, min(count, self._index.ntotal))
        for of_vector in zip(numbers, cosines, strict=True):
            yield [
                (int(number), float(cosine))
                for number, cosine in zip(*of_vector, strict=True)
                if number >= 0
            ]


def _build(corpus: CorpusVectors, factory: str) -> faiss.Index:
    index = _empty(next(corpus.vectors()).shape[1], factory)
    if not index.is_trained:
        sample = _sample(corpus)
        try:
            index.train(sample)
        except RuntimeError as error:
            raise ValueError(
                "`--index` must have no more cells, nor codes, than there are vectors "
                f"to learn them from. Received: {factory!r}, which had {len(sample):,} "
                f"of {corpus.manifest['num_sentences']:,} vectors: {_reason(error)}"
            ) from error
    for vectors in corpus.vectors():
        index.add(np.ascontiguousarray(vectors))
    return index


def _empty(dimension: int, factory: str) -> faiss.Index:
    try:
        return faiss.index_factory(dimension, factory, faiss.METRIC_INNER_PRODUCT)
    except RuntimeError as error:
        raise ValueError(
            "`--index` must be a string that faiss's index factory takes, for vectors "
            f"of length {dimension}. Received: {factory!r}: {_reason(error)}"
        ) from error


def _set_parameters(index: faiss.Index, factory: str, parameters: str) -> None:
    if not parameters:
        return
    try:
        faiss.ParameterSpace().set_index_parameters(index, parameters)
    except RuntimeError as error:
        raise ValueError(
            f"`--search_parameters` must be parameters of the index {factory}. "
            f"Received: {parameters!r}: {_reason(error)}"
        ) from error


def _sample(corpus: CorpusVectors) -> np.ndarray:
    """Vectors from all over the corpus, to learn cells or codes from."""
    every = -(-corpus.manifest["num_sentences"] // _TRAINING_VECTORS)
    return np.concatenate([vectors[::every] for vectors in corpus.vectors()])


def _write(index: faiss.Index, path: pathlib.Path) -> None:
    # Through a file of Python's. Of one that faiss opens it says nothing when the last
    # bytes find no room on the disk.
    with files.written_aside(path) as aside, open(aside, "wb") as file:
        faiss.write_index(index, faiss.PyCallbackIOWriter(file.write))


def _read(path: pathlib.Path, num_vectors: int) -> faiss.Index:
    try:
        index = faiss.read_index(str(path))
    except RuntimeError as error:
        raise ValueError(
            f"{path}: not a whole index: {_reason(error)}. Remove the file to have the "
            "index built again"
        ) from error
    if index.ntotal != num_vectors:
        raise ValueError(
            f"{path}: expected an index of {num_vectors:,} vectors, found one of "
            f"{index.ntotal:,}. Remove the file to have the index built again"
        )
    return index


def _reason(error: RuntimeError) -> str:
    """What faiss says, without the place in its own source."""
    return re.sub(r"^Error in .*?\.(cpp|h):\d+: (Error: )?", "", str(error)).strip()
