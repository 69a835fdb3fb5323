"""Segatron's relative attention as the loops that its equations are, in float64."""

import numpy as np

from tests import adaptive_reference
from tests.numpy_reference import dense, layer_norm, part, softmax

PARTS = ("token", "sentence", "paragraph")


def sinusoid(position, width):
    """R of eq. 2: sines, then cosines."""
    angles = position / 10_000 ** (2 * np.arange(width // 2) / width)
    return np.concatenate([np.sin(angles), np.cos(angles)])


def part_widths(width, parts):
    share = width // len(parts)
    share += share % 2
    return [share] * (len(parts) - 1) + [width - share * (len(parts) - 1)]


def position_vector(query_index, key_index, width, parts):
    """R_ij of eq. 3; an index is (token, sentence, paragraph)."""
    vectors = []
    for name, part_width in zip(parts, part_widths(width, parts), strict=True):
        number = PARTS.index(name)
        distance = int(query_index[number]) - int(key_index[number])
        vectors.append(sinusoid(distance, part_width))
    return np.concatenate(vectors)


def logits(weights, hidden, memory, indices, memory_indices, biases, parts):
    """Logits of one row, pair by pair, head by head; NaN where a key is not seen.

    Args:
        weights: kernels of the attention by name.
        hidden: (T, D).
        memory: (M, D).
        indices: (T, 3).
        memory_indices: (M, 3).
        biases: u and v, (H, E).
        parts: which distances R speaks of.
    """
    content_bias, position_bias = biases
    keys = np.concatenate([memory, hidden])
    key_indices = np.concatenate([memory_indices, indices])
    width, num_heads, head_size = weights["query_kernel"].shape
    found = np.full((num_heads, len(hidden), len(keys)), np.nan)
    for head in range(num_heads):
        query_kernel, key_kernel, position_kernel = (
            weights[f"{name}_kernel"][:, head] for name in ("query", "key", "position")
        )
        for i in range(len(hidden)):
            query = hidden[i] @ query_kernel
            for j in range(len(memory) + i + 1):
                place = int(indices[0][0]) - len(memory) + j
                if j < len(memory) and int(memory_indices[j][0]) != place:
                    continue
                vector = position_vector(indices[i], key_indices[j], width, parts)
                found[head, i, j] = (
                    (query + content_bias[head]) @ (keys[j] @ key_kernel)
                    + (query + position_bias[head]) @ (vector @ position_kernel)
                ) / np.sqrt(head_size)
    return found


def attention(weights, hidden, memory, *rest):
    """Output of one row, (T, D); arguments as for `logits`."""
    found = logits(weights, hidden, memory, *rest)
    keys = np.concatenate([memory, hidden])
    output = np.zeros_like(hidden)
    for head, of_head in enumerate(found):
        values = keys @ weights["value_kernel"][:, head]
        for i, row in enumerate(of_head):
            seen = ~np.isnan(row)
            share = softmax(row[seen])
            output[i] += share @ values[seen] @ weights["output_kernel"][head]
    return output


def layer(weights, hidden, memory, *rest, epsilon):
    """A layer of Transformer-XL on one row; `rest` as for `logits`."""
    attended = attention(part(weights, "attention"), hidden, memory, *rest)
    hidden = layer_norm(
        part(weights, "attention_layer_norm"), hidden + attended, epsilon
    )
    inner = np.maximum(dense(part(weights, "intermediate"), hidden), 0)
    output = dense(part(weights, "output"), inner)
    return layer_norm(part(weights, "output_layer_norm"), hidden + output, epsilon)


def transformer_xl(weights, inputs, *, num_layers, parts, cutoffs, epsilon):
    """Output and next memory of a whole model: (B, T, D) and (B, N, M, D)."""
    biases = (weights["content_bias"], weights["position_bias"])
    hidden_size = inputs["memory_hidden"].shape[-1]
    indices = np.stack([inputs[f"stream_{one}"] for one in PARTS], axis=-1)
    outputs, memories = [], []
    for row, hidden in enumerate(
        adaptive_reference.embedding(
            part(weights, "token_embedding"),
            inputs["token_ids"],
            hidden_size=hidden_size,
            cutoffs=cutoffs,
        )
    ):
        next_memory = []
        for number in range(num_layers):
            memory = inputs["memory_hidden"][row, number]
            both = np.concatenate([memory, hidden])
            next_memory.append(both[len(both) - len(memory) :])
            hidden = layer(
                part(weights, f"transformer_layer_{number}"),
                hidden,
                memory,
                indices[row],
                inputs["memory_indices"][row],
                biases,
                parts,
                epsilon=epsilon,
            )
        outputs.append(hidden)
        memories.append(next_memory)
    return np.array(outputs), np.array(memories)
