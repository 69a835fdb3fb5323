"""The models' mathematics once more, in plain NumPy and float64.

Written from the papers, for reading: loops where a loop is the definition, no
batching tricks. `weights` maps the end of a Keras weight's path to its value.
"""

# Shape key: B batch, L sequence length, D hidden size, H heads, K size of a head,
# P predictions, V vocabulary.

import math
from collections.abc import Mapping

import numpy as np

Weights = Mapping[str, np.ndarray]


def named_weights(layer) -> dict[str, np.ndarray]:
    """Every weight of a Keras layer, by its path below the layer's own name."""
    weights = {}
    for weight in layer.weights:
        above, _, below = f"/{weight.path}".partition(f"/{layer.name}/")
        weights[below or above[1:]] = np.asarray(weight, dtype="float64")
    return weights


def part(weights: Weights, prefix: str) -> dict[str, np.ndarray]:
    """The weights below `prefix`, by the rest of their paths."""
    return {
        path.removeprefix(f"{prefix}/"): value
        for path, value in weights.items()
        if path.startswith(f"{prefix}/")
    }


def index_embedding(weights: Weights, features: Mapping[str, np.ndarray]):
    """Sum of the rows that the indices name: (B, L, D)."""
    total = 0.0
    for name, table in weights.items():
        index = np.asarray(features[name])
        vectors = np.zeros((*index.shape, table.shape[1]))
        for where in np.ndindex(*index.shape):
            vectors[where] = table[index[where]]
        total = total + vectors
    return total


def layer_norm(weights: Weights, inputs: np.ndarray, epsilon: float):
    mean = inputs.mean(axis=-1, keepdims=True)
    variance = ((inputs - mean) ** 2).mean(axis=-1, keepdims=True)
    return (inputs - mean) / np.sqrt(variance + epsilon) * weights["gamma"] + weights[
        "beta"
    ]


def gelu(inputs: np.ndarray, approximate: bool):
    """Hendrycks and Gimpel, 2016: x Φ(x), or their tanh approximation of it."""
    if approximate:
        inner = math.sqrt(2 / math.pi) * (inputs + 0.044715 * inputs**3)
        return 0.5 * inputs * (1 + np.tanh(inner))
    return 0.5 * inputs * (1 + np.vectorize(math.erf)(inputs / math.sqrt(2)))


def dense(weights: Weights, inputs: np.ndarray):
    return inputs @ weights["kernel"] + weights["bias"]


def self_attention(weights: Weights, inputs: np.ndarray, visible: np.ndarray):
    """Vaswani et al., 2017, section 3.2, one sequence and one head at a time."""
    outputs = np.zeros_like(inputs)
    num_heads, head_size = weights["query/bias"].shape
    for row, (sequence_LD, visible_LL) in enumerate(zip(inputs, visible, strict=True)):
        for head in range(num_heads):
            query_LK, key_LK, value_LK = (
                sequence_LD @ weights[f"{name}/kernel"][:, head]
                + weights[f"{name}/bias"][head]
                for name in ("query", "key", "value")
            )
            scores_LL = query_LK @ key_LK.T / math.sqrt(head_size)
            scores_LL[~visible_LL] = -np.inf
            exponents_LL = np.exp(scores_LL - scores_LL.max(axis=-1, keepdims=True))
            attention_LL = exponents_LL / exponents_LL.sum(axis=-1, keepdims=True)
            outputs[row] += (attention_LL @ value_LK) @ weights[
                "attention_output/kernel"
            ][head]
    return outputs + weights["attention_output/bias"]


def visible_positions(features: Mapping[str, np.ndarray]):
    """Which position may look at which: (B, L, L)."""
    padding_mask = np.asarray(features["padding_mask"]).astype(bool)
    batch, length = padding_mask.shape
    visible = np.zeros((batch, length, length), bool)
    for row, query, key in np.ndindex(*visible.shape):
        if "window_number" not in features:
            visible[row, query, key] = padding_mask[row, key]
        elif padding_mask[row, query] and padding_mask[row, key]:
            number = features["window_number"][row]
            visible[row, query, key] = number[query] == number[key]
        else:  # padding, which looks at padding
            visible[row, query, key] = not (
                padding_mask[row, query] or padding_mask[row, key]
            )
    return visible


def transformer_layer(weights, inputs, visible, epsilon, approximate_gelu):
    """Post-norm: LayerNorm(x + block(x)), attention first, then feed-forward."""
    attention = self_attention(part(weights, "self_attention_layer"), inputs, visible)
    hidden = layer_norm(
        part(weights, "self_attention_layer_norm"), inputs + attention, epsilon
    )
    inner = gelu(
        dense(part(weights, "feedforward_intermediate_dense"), hidden), approximate_gelu
    )
    outputs = dense(part(weights, "feedforward_output_dense"), inner)
    return layer_norm(
        part(weights, "feedforward_layer_norm"), hidden + outputs, epsilon
    )


def encoder(
    weights: Weights,
    features: Mapping[str, np.ndarray],
    *,
    num_layers: int,
    epsilon: float,
    approximate_gelu: bool,
):
    """The whole encoder without dropout: (B, L, D)."""
    token_ids = np.asarray(features["token_ids"])
    indices = {**features, "token_type": np.zeros_like(token_ids)}
    hidden = weights["token_embedding/embeddings"][token_ids]
    hidden = hidden + index_embedding(part(weights, "index_embedding"), indices)
    hidden = layer_norm(part(weights, "embeddings_layer_norm"), hidden, epsilon)
    visible = visible_positions(features)
    for layer in range(num_layers):
        hidden = transformer_layer(
            part(weights, f"transformer_layer_{layer}"),
            hidden,
            visible,
            epsilon,
            approximate_gelu,
        )
    return hidden


def masked_lm_logits(
    weights: Weights, token_table, sequence, positions, *, epsilon, approximate_gelu
):
    """Devlin et al., 2018: dense, GELU, LayerNorm, tied projection: (B, P, V)."""
    gathered = np.stack([row[at] for row, at in zip(sequence, positions, strict=True)])
    hidden = gelu(
        dense(part(weights, "intermediate_dense"), gathered), approximate_gelu
    )
    hidden = layer_norm(part(weights, "intermediate_layer_norm"), hidden, epsilon)
    return hidden @ token_table.T + weights["output_bias"]


def cross_entropy(logits, labels, weights) -> float:
    """Weighted sum of −log softmax at the labels."""
    total = 0.0
    for where in np.ndindex(*labels.shape):
        scores = np.asarray(logits[where], dtype="float64")
        largest = scores.max()
        log_sum = largest + math.log(np.exp(scores - largest).sum())
        total += weights[where] * (log_sum - scores[labels[where]])
    return total


def hits(logits, labels, weights) -> float:
    """Weighted number of labels with the largest logit."""
    return float(np.sum(weights * (np.argmax(logits, axis=-1) == labels)))
