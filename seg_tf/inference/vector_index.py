"""An index of vectors that finds the nearest ones: faiss, beside the vectors."""

import re
from collections.abc import Iterator

import faiss
import numpy as np

from seg_tf import files
from seg_tf.inference.corpus_vectors import CorpusVectors

# More than this faiss itself leaves out, of what it is given to learn centroids from.
_TRAINING_VECTORS = 2**18


class VectorIndex:
    """Nearest neighbours by inner product, which of vectors of length 1 is the cosine.

    Made from the shards of a folder and kept in it, so that the next search only reads
    it.

    Args:
        corpus: complete vectors of a corpus.
        factory: what faiss shall build: `Flat` compares with every vector and is
            exact; `IVF1024,Flat` looks into some of 1,024 cells, `HNSW32` walks a
            graph, and any other string of faiss's index factory does what faiss says.
        parameters: search parameters as faiss spells them: `nprobe=16`; empty takes
            faiss's own.

    Raises:
        ValueError: if faiss takes exception to `factory` or `parameters`.
    """

    def __init__(self, corpus: CorpusVectors, factory: str, parameters: str = ""):
        path = corpus.folder / f"index-{re.sub(r'[^A-Za-z0-9.-]', '_', factory)}.faiss"
        if path.is_file():
            self._index = faiss.read_index(str(path))
        else:
            self._index = _build(corpus, factory)
            with files.written_aside(path) as aside:
                faiss.write_index(self._index, str(aside))
        if parameters:
            try:
                faiss.ParameterSpace().set_index_parameters(self._index, parameters)
            except RuntimeError as error:
                raise ValueError(
                    f"`--search_parameters` must be parameters of the index {factory}. "
                    f"Received: {parameters!r}: {_reason(error)}"
                ) from error

    def search(self, vectors: np.ndarray, count: int) -> Iterator[list]:
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
    shards = corpus.vectors()
    dimension = next(shards).shape[1]
    try:
        index = faiss.index_factory(dimension, factory, faiss.METRIC_INNER_PRODUCT)
        if not index.is_trained:
            index.train(_sample(corpus))
    except RuntimeError as error:
        raise ValueError(
            "`--index` must be a string that faiss's index factory takes, and learn "
            f"from no more vectors than there are. Received: {factory!r}, "
            f"{corpus.manifest['num_sentences']} vectors: {_reason(error)}"
        ) from error
    for vectors in corpus.vectors():
        index.add(np.ascontiguousarray(vectors))
    return index


def _sample(corpus: CorpusVectors) -> np.ndarray:
    """Vectors from all over the corpus, to learn cells or codes from."""
    every = -(-corpus.manifest["num_sentences"] // _TRAINING_VECTORS)
    return np.concatenate([vectors[::every] for vectors in corpus.vectors()])


def _reason(error: RuntimeError) -> str:
    """What faiss says, without the place in its own source."""
    return str(error).rpartition("Error: ")[2].strip()
