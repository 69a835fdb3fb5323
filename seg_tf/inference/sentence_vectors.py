"""Vectors of sentences in the context of the sentences before them.

Shape key: B rows, D hidden size.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.inference import rows
from seg_tf.inference.example_vectors import ExampleVectors
from seg_tf.inference.texts import Sentence
from seg_tf.layouts.rows import Example, num_pieces

_PIECES_PER_BATCH = 8_192
# Of 4,000 sentences of Wikipedia, books or C4, means over pieces stay below 0.82, and
# [SENT] vectors whose neighbours are unrelated begin at 0.98 (the included models).
_MAX_MEAN_COSINE = 0.95
# Fewer sentences may well be alike.
_MIN_VECTORS = 10


class SentenceVectors:
    """Encodes sentences together with the sentences before them (SLM, section 5.3).

    Vectors are those of `ExampleVectors`, of length 1, so that inner products are
    cosines. Of a sentence that does not fit into a row the beginning counts, and
    sentences before it are left out, the farthest first, until the others fit.

    Args:
        pretrained: an encoder of texts.
        context_sentences: the most sentences before the one whose vector is taken.
        vectors: "sent" or "mean", as for `ExampleVectors`.
        pieces_per_batch: about how many word pieces are encoded at once.

    Attributes:
        vectors: "sent" or "mean".

    Raises:
        ValueError: if the checkpoint is of no encoder of texts, its rows take fewer
            sentences, or it has no such vectors.
    """

    def __init__(
        self,
        pretrained: Pretrained,
        context_sentences: int,
        vectors: str | None = None,
        pieces_per_batch: int = _PIECES_PER_BATCH,
    ):
        self._vectors = ExampleVectors(pretrained, vectors)
        self._layout = self._vectors.layout
        self.vectors = self._vectors.vectors
        most = self._layout.text_capacity.num_sentences
        if context_sentences < 0 or (most is not None and context_sentences >= most):
            limit = (
                ""
                if most is None
                else f" and at most {most - 1}, since the model takes {most} sentences "
                "at once"
            )
            raise ValueError(
                f"`context_sentences` must be at least 0{limit}. Received: "
                f"context_sentences={context_sentences}"
            )
        self._pieces_per_batch = pieces_per_batch
        self._word_pieces = pretrained.text_encoder()

    def encode(
        self,
        in_context: Sequence[Sequence[Sentence]],
        on_progress: Callable[[int], Any] = bool,
    ) -> tuple[np.ndarray, int]:
        """Vectors of sentences.

        Args:
            in_context: at least one sentence, each last, after those before it.
            on_progress: called with the number of sentences of each batch.

        Returns:
            float32 array `(number of sentences, D)`, and how many sentences were cut.
        """
        # Neighbours share sentences, each of which is spelled once.
        unique = {id(one): one for group in in_context for one in group}
        ids, lengths = self._word_pieces.encode([one.text for one in unique.values()])
        spelled = np.split(ids, np.cumsum(lengths)[:-1])
        pieces = dict(zip(unique, spelled, strict=True))
        longest = self._layout.capacity(1)
        examples, num_cut = [], 0
        for group in in_context:
            of_group = [pieces[id(one)] for one in group]
            num_cut += len(of_group[-1]) > longest
            of_group[-1] = of_group[-1][:longest]
            examples.append(self._as_many_as_fit(group, of_group))
        vectors = None
        for numbers in self._batches(examples):
            some = [examples[one] for one in numbers]
            counts = [len(one) for one in some]
            computed = self._vectors(some)[np.arange(len(some)), np.array(counts) - 1]
            if vectors is None:
                vectors = np.zeros((len(examples), computed.shape[1]), np.float32)
            vectors[numbers] = of_length_one(computed)
            on_progress(len(numbers))
        return vectors, num_cut

    def _as_many_as_fit(
        self, group: Sequence[Sentence], pieces: Sequence[np.ndarray]
    ) -> Example:
        """The row of a sentence and as much of its context as it takes."""
        for first in range(len(group) - 1):
            example = rows.make_row(group[first:], pieces[first:])
            if self._layout.fits(example):
                return example
        return rows.make_row(group[-1:], pieces[-1:])

    def _batches(self, examples: Sequence[Example]) -> list[list[int]]:
        """Numbers of examples, those of about one length together."""
        lengths = [num_pieces(one) for one in examples]
        batches: list[list[int]] = [[]]
        for number in np.argsort(lengths, kind="stable").tolist():
            size = (len(batches[-1]) + 1) * max(lengths[number], 1)
            if batches[-1] and size > self._pieces_per_batch:
                batches.append([])
            batches[-1].append(number)
        return batches


def of_length_one(vectors: np.ndarray) -> np.ndarray:
    """Vectors `(B, D)`, normalised; one without a length stays 0."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)


def mean_cosine(vectors: Iterable[np.ndarray]) -> float | None:
    """Mean cosine of two different vectors, over all pairs.

    Args:
        vectors: float arrays `(N, D)`, all together the vectors of a corpus, each of
            length 1.

    Returns:
        The mean, or None if there are fewer than 10 vectors.
    """
    count, total, squares = 0, np.zeros(()), 0.0
    for some in vectors:
        count += len(some)
        total = total + np.sum(some, axis=0, dtype=np.float64)
        squares += float(np.vdot(some, some))
    if count < _MIN_VECTORS:
        return None
    # The squared length of the sum counts each vector with itself and each pair twice.
    return (float(total @ total) - squares) / (count * (count - 1))


def cosine_warning(mean: float | None) -> str | None:
    """A warning if cosines hardly distinguish the vectors of a corpus, else None.

    If all vectors point in nearly the same direction, the nearest is hardly nearer
    than any other, and often unrelated.

    Args:
        mean: what `mean_cosine` returned.
    """
    if mean is None or mean < _MAX_MEAN_COSINE:
        return None
    return (
        f"Any two of these vectors have a cosine of {mean:.4f} on average. Their "
        "cosines hardly distinguish one text from another, and the nearest may well be "
        'unrelated. Choose the vectors "mean", or another model'
    )
