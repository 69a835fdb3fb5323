"""The models' mathematics once more, in plain NumPy and float64.

Written from the papers, for reading: loops where a loop is the definition, no
batching tricks. `weights` maps the end of a Keras weight's path to its value.
"""

# Shape key: B batch, L sequence length, M length of what is attended to, D hidden size,
# H heads, K size of a head, P predictions, V vocabulary, N sentences of a row.

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


def set_random_weights(layer, scale=0.3, seed=3):
    """Weights large enough for every one of them to matter."""
    generator = np.random.default_rng(seed)
    for weight in layer.trainable_weights:
        offset = 1.0 if weight.path.endswith(("gamma", "scale")) else 0.0
        weight.assign(offset + scale * generator.normal(size=weight.shape))
    return layer


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


def rms_norm(weights: Weights, inputs: np.ndarray, epsilon: float):
    mean_square = (inputs**2).mean(axis=-1, keepdims=True)
    return inputs / np.sqrt(mean_square + epsilon) * weights["scale"]


def rotated(vectors_LK, indices: Mapping[str, np.ndarray], sizes: Mapping[str, int]):
    """Su et al., 2021: each pair of a head's numbers turned, as a complex number is."""
    half = vectors_LK.shape[1] // 2
    outputs, pair = vectors_LK.copy(), 0
    for name, size in sorted(sizes.items()):
        for number in range(size // 2):
            for place, index in enumerate(indices[name]):
                turned = complex(*vectors_LK[place, [pair, pair + half]])
                turned *= np.exp(1j * index * 10_000 ** (-2 * number / size))
                outputs[place, [pair, pair + half]] = turned.real, turned.imag
            pair += 1
    return outputs


def gelu(inputs: np.ndarray, approximate: bool):
    """Hendrycks and Gimpel, 2016: x Φ(x), or their tanh approximation of it."""
    if approximate:
        inner = math.sqrt(2 / math.pi) * (inputs + 0.044715 * inputs**3)
        return 0.5 * inputs * (1 + np.tanh(inner))
    return 0.5 * inputs * (1 + np.vectorize(math.erf)(inputs / math.sqrt(2)))


def dense(weights: Weights, inputs: np.ndarray):
    return inputs @ weights["kernel"] + weights.get("bias", 0.0)


def attention_weights(
    weights: Weights, inputs, memory, visible, features=None, rotary_sizes=None
):
    """Vaswani et al., 2017, equation 1 up to the values: (B, H, L, M)."""
    _, num_heads, head_size = weights["query/kernel"].shape
    no_bias = np.zeros((num_heads, head_size))
    found = np.zeros((len(inputs), num_heads, inputs.shape[1], memory.shape[1]))
    for row, head in np.ndindex(*found.shape[:2]):
        query_LK, key_MK = (
            vectors[row] @ weights[f"{name}/kernel"][:, head]
            + weights.get(f"{name}/bias", no_bias)[head]
            for name, vectors in (("query", inputs), ("key", memory))
        )
        if rotary_sizes:
            indices = {name: features[name][row] for name in rotary_sizes}
            query_LK = rotated(query_LK, indices, rotary_sizes)
            key_MK = rotated(key_MK, indices, rotary_sizes)
        scores_LM = query_LK @ key_MK.T / math.sqrt(head_size)
        scores_LM[~visible[row]] = -np.inf
        found[row, head] = softmax(scores_LM)
    return found


def attention(weights: Weights, inputs, memory, visible, *rotary):
    """Vaswani et al., 2017, section 3.2, one sequence and one head at a time."""
    outputs = np.zeros_like(inputs)
    weights_BHLM = attention_weights(weights, inputs, memory, visible, *rotary)
    for row, head in np.ndindex(*weights_BHLM.shape[:2]):
        value_MK = memory[row] @ weights["value/kernel"][:, head]
        if "value/bias" in weights:
            value_MK = value_MK + weights["value/bias"][head]
        outputs[row] += (weights_BHLM[row, head] @ value_MK) @ weights[
            "attention_output/kernel"
        ][head]
    return outputs + weights.get("attention_output/bias", 0.0)


def softmax(scores: np.ndarray):
    largest = scores.max(axis=-1, keepdims=True)
    if not np.isfinite(largest).all():  # a query that sees nothing: any numbers do
        scores = np.where(np.isfinite(largest), scores, 0.0)
        largest = scores.max(axis=-1, keepdims=True)
    exponents = np.exp(scores - largest)
    return exponents / exponents.sum(axis=-1, keepdims=True)


def visible_positions(features: Mapping[str, np.ndarray]):
    """Attention mask of positions that may see each other: (B, L, L)."""
    is_token = np.asarray(features["padding_mask"]).astype(bool)
    if "window_number" not in features:
        return np.repeat(is_token[:, None], is_token.shape[1], axis=1)
    # Padding sees padding.
    number = np.where(is_token, features["window_number"], -1)
    return number[:, :, None] == number[:, None, :]


def transformer_layer(weights, inputs, visible, epsilon, approximate_gelu, *rotary):
    """Post-norm: LayerNorm(x + block(x)), attention first, then feed-forward."""
    attended = attention(
        part(weights, "self_attention_layer"), inputs, inputs, visible, *rotary
    )
    hidden = layer_norm(
        part(weights, "self_attention_layer_norm"), inputs + attended, epsilon
    )
    return feed_forward(weights, hidden, epsilon, approximate_gelu)


def feed_forward(weights, hidden, epsilon, approximate_gelu):
    """The second half of a layer."""
    inner = gelu(
        dense(part(weights, "feedforward_intermediate_dense"), hidden), approximate_gelu
    )
    outputs = dense(part(weights, "feedforward_output_dense"), inner)
    return layer_norm(
        part(weights, "feedforward_layer_norm"), hidden + outputs, epsilon
    )


def modern_layer(weights, inputs, visible, epsilon, approximate_gelu, *rotary):
    """Pre-norm: x + block(RMSNorm(x)), gated if the first matrix is twice as wide."""
    normed = rms_norm(part(weights, "attention_norm"), inputs, epsilon)
    hidden = inputs + attention(
        part(weights, "attention"), normed, normed, visible, *rotary
    )
    normed = rms_norm(part(weights, "feedforward_norm"), hidden, epsilon)
    inner = dense(part(weights, "feedforward_intermediate"), normed)
    output = part(weights, "feedforward_output")
    size = len(output["kernel"])
    if inner.shape[-1] == size:
        inner = np.maximum(inner, 0) ** 2
    else:
        inner = gelu(inner[..., :size], approximate_gelu) * inner[..., size:]
    return hidden + dense(output, inner)


def near(length: int, window: int):
    """Which positions local attention lets see each other: (L, L)."""
    sees = np.zeros((length, length), bool)
    for query, key in np.ndindex(*sees.shape):
        sees[query, key] = abs(query - key) <= window // 2
    return sees


def encoder(
    weights: Weights,
    features: Mapping[str, np.ndarray],
    *,
    num_layers: int,
    epsilon: float,
    approximate_gelu: bool,
    rotary_sizes: Mapping[str, int] | None = None,
    trunk: str = "bert",
    local_window: int | None = None,
    global_every: int = 3,
    has_final_norm: bool = True,
):
    """The whole encoder without dropout: (B, L, D)."""
    token_ids = np.asarray(features["token_ids"])
    indices = {"token_type": np.zeros_like(token_ids), **features}
    hidden = weights["token_embedding/embeddings"][token_ids]
    hidden = hidden + index_embedding(part(weights, "index_embedding"), indices)
    norm = layer_norm if trunk == "bert" else rms_norm
    hidden = norm(part(weights, "embeddings_layer_norm"), hidden, epsilon)
    visible = visible_positions(features)
    for layer in range(num_layers):
        is_local = local_window is not None and layer % global_every != 0
        hidden = (transformer_layer if trunk == "bert" else modern_layer)(
            part(weights, f"transformer_layer_{layer}"),
            hidden,
            visible & near(token_ids.shape[1], local_window) if is_local else visible,
            epsilon,
            approximate_gelu,
            features,
            rotary_sizes,
        )
    if trunk == "modern" and has_final_norm:
        hidden = norm(part(weights, "final_norm"), hidden, epsilon)
    return hidden


def masked_lm_logits(
    weights: Weights, token_table, sequence, positions, *, epsilon, approximate_gelu
):
    """Devlin et al., 2018: dense, GELU, LayerNorm, tied projection: (B, P, V)."""
    hidden = np.stack([row[at] for row, at in zip(sequence, positions, strict=True)])
    if part(weights, "intermediate_dense"):
        hidden = gelu(
            dense(part(weights, "intermediate_dense"), hidden), approximate_gelu
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


def decoder_layer(
    weights, inputs, memory, epsilon, approximate_gelu, normalize_first=False
):
    """Vaswani et al., 2017, section 3.1, one sequence (S, D) over a memory (M, D)."""

    def residual(name, hidden, block):
        norm = part(weights, f"{name}_layer_norm")
        if normalize_first:
            return hidden + block(layer_norm(norm, hidden, epsilon))
        return layer_norm(norm, hidden + block(hidden), epsilon)

    def attend(name, queries, keys, visible):
        return attention(part(weights, name), queries[None], keys[None], visible[None])[
            0
        ]

    def feedforward(hidden):
        inner = dense(part(weights, "feedforward_intermediate_dense"), hidden)
        output = part(weights, "feedforward_output_dense")
        return dense(output, gelu(inner, approximate_gelu))

    causal = np.tri(len(inputs), dtype=bool)
    everything = np.ones((len(inputs), len(memory)), bool)
    first, second = "self_attention", "cross_attention"
    hidden = residual(first, inputs, lambda x: attend(first, x, x, causal))
    hidden = residual(second, hidden, lambda x: attend(second, x, memory, everything))
    return residual("feedforward", hidden, feedforward)


def pointer_logits(
    weights: Weights,
    candidates,
    read,
    *,
    num_layers,
    epsilon,
    approximate_gelu,
    normalize_first=False,
):
    """SLM, eq. 1 and 2, for one row without padding.

    Args:
        weights: of a Sequence Reconstructor.
        candidates: `(N + 2, D)`: [CLS], the sentences as presented, [SEP].
        read: the candidates read so far, [CLS] first.
    """
    candidates = np.asarray(candidates, "float64")
    hidden = candidates[list(read)]
    for layer in range(num_layers):
        hidden = decoder_layer(
            part(weights, f"decoder_layer_{layer}"),
            hidden,
            candidates,
            epsilon,
            approximate_gelu,
            normalize_first,
        )
    return hidden @ candidates.T


def decoded_order(weights: Weights, candidates, **sizes):
    """The greedy order of one row without padding, [SEP] last, and probabilities."""
    sep = len(candidates) - 1
    left, order, probabilities = list(range(1, sep)), [], []
    for _ in range(sep):
        allowed = left or [sep]
        scores = pointer_logits(weights, candidates, [0, *order], **sizes)[-1]
        chances = softmax(scores[allowed])
        order.append(allowed[chances.argmax()])
        probabilities.append(chances.max())
        left = [slot for slot in left if slot != order[-1]]
    return order, probabilities


def kendall_tau(order, gold, groups=None) -> float | None:
    """Pairs in the right order less those in the wrong one, over all pairs.

    Args:
        order: names of the sentences in the order found.
        gold: names of the sentences in gold order.
        groups: group of each sentence of `gold`; pairs of different groups are left
            out. None is one group. Without any pair there is no tau.
    """
    gold = list(gold)
    groups = dict(zip(gold, groups or [0] * len(gold), strict=True))
    pairs = [
        (a, b)
        for i, a in enumerate(order)
        for b in order[i + 1 :]
        if groups[a] == groups[b]
    ]
    signs = [1 if gold.index(a) < gold.index(b) else -1 for a, b in pairs]
    return sum(signs) / len(pairs) if pairs else None


def longest_first(gold, lengths) -> list:
    """Names of sentences, the longest first, of equal ones the smaller name."""
    length_of = dict(zip(gold, lengths, strict=True))
    return sorted(gold, key=lambda name: (-length_of[name], name))


def sentence_unshuffling(weights: Weights, sequence, features, **sizes):
    """SLM, eq. 3, and the metrics of the objective, row by row."""
    loss = np.zeros(2)
    metrics = {name: np.zeros(2) for name in UNSHUFFLING_METRICS}
    for row, mask in enumerate(features["candidate_mask"]):
        num_steps = int(mask.sum()) - 1
        if num_steps < 1:
            continue
        num_sentences = num_steps - 1
        candidates = sequence[row][features["candidate_positions"][row][mask]]
        gold = features["gold_candidates"][row][:num_steps].tolist()
        logits = pointer_logits(weights, candidates, [0, *gold[:-1]], **sizes)
        chances = softmax(logits)[np.arange(num_steps), gold]
        loss += [-np.log(chances).mean(), 1]
        if num_sentences < 2 or not features["is_shuffled"][row]:
            continue
        places = range(num_sentences)
        order, _ = decoded_order(weights, candidates, **sizes)
        lengths = features["gold_lengths"][row][:num_sentences].tolist()
        paragraphs = features["gold_paragraphs"][row][:num_sentences].tolist()
        order, gold = order[:-1], gold[:-1]
        pointer_hits = sum(logits[place].argmax() == gold[place] for place in places)
        longest_hits = sum(
            longest_first(gold[place:], lengths[place:])[0] == gold[place]
            for place in places
        )
        pointers = {
            "pointer_accuracy": pointer_hits,
            "pointer_chance": sum(1 / (1 + place) for place in places),
            "pointer_longest_first": longest_hits,
            "position_chance": 1,
        }
        orders = {"perfect_match_chance": 1 / math.factorial(num_sentences)}
        for found, suffix, accuracy in (
            (order, "", "_accuracy"),
            (longest_first(gold, lengths), "_longest_first", "_longest_first"),
        ):
            hits = sum(found[place] == gold[place] for place in places)
            pointers[f"position{accuracy}"] = hits
            orders[f"perfect_match{suffix}"] = hits == num_sentences
            orders[f"kendall_tau{suffix}"] = kendall_tau(found, gold)
            inside = kendall_tau(found, gold, paragraphs)
            if inside is not None:
                orders[f"kendall_tau_in_paragraphs{suffix}"] = inside
        for name, value in pointers.items():
            metrics[name] += [value, num_sentences]
        for name, value in orders.items():
            metrics[name] += [value, 1]
    return tuple(loss), {name: tuple(pair) for name, pair in metrics.items()}


UNSHUFFLING_METRICS = (
    "pointer_accuracy",
    "pointer_chance",
    "pointer_longest_first",
    "position_accuracy",
    "position_chance",
    "position_longest_first",
    "perfect_match",
    "perfect_match_chance",
    "perfect_match_longest_first",
    "kendall_tau",
    "kendall_tau_longest_first",
    "kendall_tau_in_paragraphs",
    "kendall_tau_in_paragraphs_longest_first",
)
