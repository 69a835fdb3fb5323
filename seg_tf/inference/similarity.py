"""Correlation of cosines of sentence vectors with the judgements of people."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from seg_tf.inference.sentence_encoder import MEAN, SENT, SentenceEncoder, normalize
from seg_tf.tasks import task
from seg_tf.tasks.similarity import SimilaritySet


def evaluate_similarity(
    encoder: SentenceEncoder,
    sets: Mapping[str, SimilaritySet],
    on_progress: Callable[[int], Any] = bool,
) -> tuple[dict[str, dict[str, Any]], int]:
    """Correlates the cosines of all pairs of a set with their scores.

    Each sentence has a separate row. Its vector is the mean over its word pieces, or
    a ReAT's pooled `<SS>`.

    `on_progress` gets the number of sentences of each finished batch.

    Returns:
        For each set `spearman`, `pearson`, `num_pairs` and, if it has several parts,
        `parts` with the Spearman correlation of each; and how many sentences of all
        sets were too long for a row and cut.
    """
    pairs = [pair for similarity_set in sets.values() for pair in similarity_set.pairs]
    # A sentence that occurs in several pairs is encoded once.
    sentences = dict.fromkeys(text for pair in pairs for text in pair.texts)
    numbers = {text: number for number, text in enumerate(sentences)}
    kind = MEAN if encoder.layout.holds_spans else SENT
    vectors, num_cut = encoder.encode_rows(
        [(text,) for text in sentences], kind, on_progress
    )
    units = normalize(vectors[:, 0].astype(np.float64))

    def labels_and_cosines(part: list[Any]) -> tuple[np.ndarray, np.ndarray]:
        rows = np.array([[numbers[text] for text in pair.texts] for pair in part])
        cosines = np.einsum("nd,nd->n", units[rows[:, 0]], units[rows[:, 1]])
        return np.array([pair.label for pair in part], np.float64), cosines

    results = {}
    for name, similarity_set in sets.items():
        parts = {
            part: labels_and_cosines(pairs)
            for part, pairs in similarity_set.parts.items()
        }
        labels, cosines = map(np.concatenate, zip(*parts.values(), strict=True))
        results[name] = {
            "spearman": task.spearman(labels, cosines),
            "pearson": task.pearson(labels, cosines),
            "num_pairs": len(labels),
        }
        if len(parts) > 1:
            results[name]["parts"] = {
                part: task.spearman(*scored) for part, scored in parts.items()
            }
    return results, num_cut
