"""Similarity of sentences by the cosine of vectors that no task has trained.

Shape key: E pairs, D width.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from seg_tf.finetuning.probing.frozen_encoder import FrozenEncoder
from seg_tf.tasks import metrics
from seg_tf.tasks.similarity import SimilaritySet


def cosines(vectors: np.ndarray) -> np.ndarray:
    """Cosine of the two vectors of each pair; 0 where one has no length.

    Args:
        vectors: float array `(E, 2, D)`.

    Returns:
        float64 array `(E,)`.
    """
    first, second = np.moveaxis(vectors.astype(np.float64), 1, 0)
    products = (first * second).sum(axis=1)
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return products / np.where(lengths > 0, lengths, 1)


def evaluate(
    encoder: FrozenEncoder,
    sets: Mapping[str, SimilaritySet],
    on_progress: Callable[[int], Any] = bool,
) -> tuple[dict[str, dict[str, Any]], int]:
    """Correlation of cosines with the scores of people, over all pairs of a set.

    Args:
        encoder: made with `mean`, each text alone, two texts an example.
        sets: at least one, with pairs, by name.
        on_progress: called with the number of sentences of each batch.

    Returns:
        For each set `spearman`, `pearson`, `num_pairs` and, if it has several parts,
        `parts` with the Spearman correlation of each; and how many sentences, of all
        sets, were too long for a row and cut.
    """
    pairs = [pair.texts for one in sets.values() for pair in one.pairs]
    # A sentence that several pairs have is encoded once.
    number_of = {
        row: number for number, row in enumerate(dict.fromkeys(encoder.rows_of(pairs)))
    }
    vectors, num_cut = encoder.encode(list(number_of), on_progress)
    results = {}
    for name, one in sets.items():
        parts = {
            part: _scored(of_part, vectors, number_of)
            for part, of_part in one.parts.items()
        }
        labels, predictions = map(np.concatenate, zip(*parts.values(), strict=True))
        results[name] = {
            "spearman": metrics.spearman(labels, predictions),
            "pearson": metrics.pearson(labels, predictions),
            "num_pairs": len(labels),
        }
        if len(parts) > 1:
            results[name]["parts"] = {
                part: metrics.spearman(*scored) for part, scored in parts.items()
            }
    return results, num_cut


def _scored(
    pairs: list[Any], vectors: np.ndarray, number_of: Mapping[tuple[str], int]
) -> tuple[np.ndarray, np.ndarray]:
    """Scores of people, and cosines."""
    numbers = [[number_of[(text,)] for text in pair.texts] for pair in pairs]
    labels = np.array([pair.label for pair in pairs], np.float64)
    return labels, cosines(vectors[:, 0][numbers])
