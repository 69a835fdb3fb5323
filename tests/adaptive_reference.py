"""Word vectors and softmax in head and tails once more, word by word, in float64.

`weights` maps the name of a Keras weight to its value.
"""

# Shape key: B batch, L sequence length, D hidden size, V words, E width of a part.

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tests import numpy_reference

Weights = Mapping[str, np.ndarray]


def softmax_weights(layer) -> dict[str, np.ndarray]:
    """Weights of an `AdaptiveSoftmax`, the tied ones below `embedding/`."""
    tied = {id(weight) for weight in layer.embedding.weights}
    weights = {}
    for weight in layer.weights:
        name = weight.path.rpartition("/")[-1]
        prefix = "embedding/" if id(weight) in tied else ""
        weights[prefix + name] = np.asarray(weight, "float64")
    return weights


def part_of(word: int, cutoffs: Sequence[int]) -> int:
    """The part that a word is in: 0 for the head."""
    return sum(word >= cutoff for cutoff in cutoffs)


def word_vector(weights: Weights, word: int, cutoffs: Sequence[int]) -> np.ndarray:
    """A word's own vector `(E,)`."""
    if "table" in weights:
        return weights["table"][word]
    number = part_of(word, cutoffs)
    return weights[f"table_{number}"][word - (0, *cutoffs)[number]]


def projection(weights: Weights, number: int, width: int) -> np.ndarray:
    """The matrix `(E, D)` of a part; the identity where there is none."""
    shared = weights.get("projection", np.eye(width))
    return weights.get(f"projection_{number}", shared)


def embedding(
    weights: Weights, token_ids: np.ndarray, *, hidden_size: int, cutoffs: Sequence[int]
) -> np.ndarray:
    """Baevski and Auli, 2019, section 3, times Transformer-XL's factor: (B, L, D)."""
    vectors = np.zeros((*token_ids.shape, hidden_size))
    for where in np.ndindex(*token_ids.shape):
        word = int(token_ids[where])
        vector = word_vector(weights, word, cutoffs)
        matrix = projection(weights, part_of(word, cutoffs), len(vector))
        vectors[where] = math.sqrt(hidden_size) * (vector @ matrix)
    return vectors


def log_probabilities(
    weights: Weights, hidden: np.ndarray, *, vocab_size: int, cutoffs: Sequence[int]
) -> np.ndarray:
    """Log probability of every word: (…, V).

    Grave et al., 2017: a softmax over the head's words and the tails, one over the
    words of each tail. With no cutoffs it is a softmax.
    """
    own = numpy_reference.part(weights, "embedding")
    outputs = np.zeros((*hidden.shape[:-1], vocab_size))
    for where in np.ndindex(*hidden.shape[:-1]):
        scores = []
        for word in range(vocab_size):
            number = part_of(word, cutoffs)
            vector = word_vector(own, word, cutoffs)
            # All projections are the embedding's, but that of the head.
            matrix = projection(own if number else weights, number, len(vector))
            scores.append(vector @ matrix @ hidden[where] + weights["bias"][word])
        cluster_scores = []
        for number, vector in enumerate(weights.get("cluster_vectors", [])):
            matrix = projection(weights, 0, len(vector))
            bias = weights["cluster_bias"][number]
            cluster_scores.append(vector @ matrix @ hidden[where] + bias)
        limits = (*cutoffs, vocab_size)
        head = np.array([*scores[: limits[0]], *cluster_scores])
        head_logs = np.log(numpy_reference.softmax(head))
        outputs[where][: limits[0]] = head_logs[: limits[0]]
        for number in range(len(cutoffs)):
            begin, end = limits[number], limits[number + 1]
            tail_logs = np.log(numpy_reference.softmax(np.array(scores[begin:end])))
            outputs[where][begin:end] = head_logs[limits[0] + number] + tail_logs
    return outputs


def losses(log_probabilities: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Negative log probability of each target."""
    values = np.zeros(targets.shape)
    for where in np.ndindex(*targets.shape):
        values[where] = -log_probabilities[where][targets[where]]
    return values
