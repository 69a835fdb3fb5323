"""Segatron's relative attention as the loops that its equations are, in float64."""

import numpy as np

from tests.numpy_reference import softmax

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
    for part, part_width in zip(parts, part_widths(width, parts), strict=True):
        number = PARTS.index(part)
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
