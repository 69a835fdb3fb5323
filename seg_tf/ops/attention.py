"""Computes attention within groups, rotates vectors, and gathers or averages them."""

import math
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

# Shape key: B batch, L sequence length, T queries, K keys, H heads, E head size.


def visible_keys(
    query_group: Any, key_group: Any, num_queries: Any, window: int | None = None
) -> Any:
    """Returns a mask of the keys in each query's group and local attention window.

    Args:
        query_group: int tensor `(B, T)`, or `(B, 1)` if all queries share a group.
        key_group: int tensor `(B, K)`.
        num_queries: int or int tensor `()`. Number of queries, T.
        window: int. Width of local attention. A query sees keys at most `window // 2`
            positions away. If None, attention is global.

    Returns:
        Bool tensor `(B, T, K)`, or `(B, 1, K)` if all queries have the same mask.
    """
    sees = ops.equal(ops.expand_dims(query_group, 2), ops.expand_dims(key_group, 1))
    if window is None:
        return sees
    queries_T1 = ops.expand_dims(ops.arange(num_queries, dtype="int32"), 1)
    keys_K = ops.arange(ops.shape(key_group)[1], dtype="int32")
    is_near_TK = ops.abs(queries_T1 - keys_K) <= window // 2
    return ops.logical_and(sees, is_near_TK)


def attention_weights(
    query: Any,
    key: Any,
    query_group: Any = None,
    key_group: Any = None,
    window: int | None = None,
) -> Any:
    """Computes attention weights as in `keras.layers.MultiHeadAttention`.

    Args:
        query: tensor `(B, T, H, E)`.
        key: tensor `(B, K, H, E)`.
        query_group, key_group, window: see `visible_keys`. If `query_group` is None,
            queries see the first keys, whose number is `key_group`, an int tensor
            `(B,)`. If that is also None, all keys are visible.

    Returns:
        Tensor `(B, H, T, K)`. For a query that sees no key, all weights are equal.
    """
    if query_group is None and key_group is not None:
        query_group, key_group = _groups_of_counts(key_group, ops.shape(key)[1])
    query = query * ops.cast(1 / math.sqrt(query.shape[-1]), query.dtype)
    logits_BHTK = ops.einsum("bkhe,bthe->bhtk", key, query)
    if query_group is not None:
        num_queries = ops.shape(query)[1]
        sees_BTK = visible_keys(query_group, key_group, num_queries, window)
        sees_B1TK = ops.expand_dims(sees_BTK, 1)
        is_half = keras.backend.standardize_dtype(query.dtype) == "float16"
        logits_BHTK = ops.where(sees_B1TK, logits_BHTK, -3e4 if is_half else -1e9)
    return ops.softmax(logits_BHTK)


def fused_attention(
    query: Any,
    key: Any,
    value: Any,
    query_group: Any,
    key_group: Any,
    window: int | None = None,
) -> Any:
    """Computes attention without dropout in the backend's most memory-efficient way.

    On TensorFlow, `seg_tf.ops.tensorflow_ops.attention` recomputes the weights in
    the backward pass, one block of queries at a time. JAX uses
    `jax.nn.dot_product_attention`, which is flash attention if JAX supports the device,
    dtype and sizes, unless `keras.config.disable_flash_attention()` was called. It is
    faster with counts of keys than with groups, which become a mask.

    Args:
        query: tensor `(B, T, H, E)`.
        key, value: tensors `(B, K, H, E)`.
        query_group, key_group, window: see `attention_weights`.

    Returns:
        Tensor `(B, T, H, E)`.
    """
    is_jax = keras.backend.backend() == "jax"
    if query_group is None:
        if is_jax and window is None:
            output = _attention_by_counts(query, key, value, key_group)
            if output is not None:
                return output
        query_group, key_group = _groups_of_counts(key_group, ops.shape(key)[1])
    if not is_jax:
        from seg_tf.ops import tensorflow_ops

        return tensorflow_ops.attention(
            query, key, value, query_group, key_group, window
        )
    # cuDNN's kernel does not broadcast the mask over queries.
    query_group = ops.broadcast_to(query_group, query.shape[:2])
    return ops.dot_product_attention(
        query,
        key,
        value,
        mask=ops.expand_dims(
            visible_keys(query_group, key_group, query.shape[1], window), 1
        ),
        flash_attention=keras.config.is_flash_attention_enabled(),
    )


def _groups_of_counts(counts: Any, num_keys: Any) -> tuple[Any, Any]:
    """Returns the groups `(B, 1)` and `(B, K)` of queries that see the first keys."""
    sees_BK = ops.arange(num_keys, dtype="int32") < ops.expand_dims(counts, 1)
    return ops.ones_like(sees_BK[:, :1], "int32"), ops.cast(sees_BK, "int32")


def _attention_by_counts(query: Any, key: Any, value: Any, counts: Any) -> Any:
    """Computes attention to the first keys with cuDNN, or returns None if it cannot."""
    import jax

    if (
        jax.default_backend() != "gpu"
        or keras.config.is_flash_attention_enabled() is False
    ):
        return None
    try:
        return jax.nn.dot_product_attention(
            query,
            key,
            value,
            # The kernel must not divide by the sum of no weights.
            key_value_seq_lengths=ops.cast(ops.maximum(counts, 1), "int32"),
            implementation="cudnn",
        )
    except (NotImplementedError, RuntimeError, ValueError):  # not this device or dtype
        return None


def rotary_sizes(head_size: int, shares: Mapping[str, float]) -> dict[str, int]:
    """Divides a head's `head_size` dimensions among the indices that rotate them.

    Sizes are proportional to `shares`. Raises ValueError if one is not even, or is 0.

    Example:
    >>> rotary_sizes(64, {"position_index": 2, "token_index": 1, "sentence_index": 1})
    {'position_index': 32, 'sentence_index': 16, 'token_index': 16}
    """
    total = sum(shares.values())
    sizes = {}
    for name, share in sorted(shares.items()):
        size = round(head_size * share / total, 6) if share > 0 else 0.0
        if size < 2 or size % 2:
            raise ValueError(
                "`rotary_shares` must give every index an even number of a head's "
                f"{head_size} dimensions. Received: rotary_shares={dict(shares)}: "
                f"{name!r} has {size:g}"
            )
        sizes[name] = int(size)
    return sizes


def rotations(
    indices: Mapping[str, Any], sizes: Mapping[str, int], base: float = 10_000.0
) -> Any:
    """Computes the cosines and sines of the angles that rotate queries and keys.

    `indices` are int tensors `(B, L)`. An index m that rotates d dimensions of a head
    (see `sizes`) rotates their pair j by `m * base**(-2j/d)` (Su et al., 2021, section
    3.2.2). Indices rotate different pairs, so the product of a query and a key depends
    on their distance in every index. Token and sentence index are BiPE's two levels (He
    et al., 2024, arXiv:2401.16421).

    Returns:
        Float32 tensor `(B, L, E)` with the cosines of E/2 pairs, then their sines.
    """
    angles = []
    for name, size in sizes.items():
        frequencies = base ** (-np.arange(0, size, 2) / size)
        index_BL1 = ops.expand_dims(ops.cast(indices[name], "float32"), -1)
        angles.append(index_BL1 * frequencies.astype("float32"))
    angles_BLF = ops.concatenate(angles, axis=-1)
    return ops.concatenate([ops.cos(angles_BLF), ops.sin(angles_BLF)], axis=-1)


def rotate(vectors: Any, rotation: Any) -> Any:
    """Rotates pairs (j, j + E/2) of vectors `(B, L, H, E)`. See `rotations`."""
    cosine, sine = ops.split(ops.expand_dims(rotation, 2), 2, axis=-1)
    first, second = ops.split(vectors, 2, axis=-1)
    return ops.concatenate(
        [first * cosine - second * sine, second * cosine + first * sine], axis=-1
    )


# Shape key: B batch, L sequence length, D hidden size, P positions, N groups.


def gather_vectors(sequence: Any, positions: Any) -> Any:
    """Gathers vectors `(B, P, D)` of a sequence `(B, L, D)` at positions `(B, P)`."""
    return ops.take_along_axis(sequence, ops.expand_dims(positions, 2), axis=1)


def mean_vectors(sequence: Any, numbers: Any, count: Any) -> tuple[Any, Any]:
    """Averages the vectors of each group.

    Args:
        sequence: tensor `(B, L, D)`.
        numbers: int tensor `(B, L)`. Group of each vector, 1 to N, or 0 to ignore it.
        count: int or int tensor `()`. Number of groups, N.

    Returns:
        The means `(B, N, D)` with the dtype of `sequence`, 0 for empty groups, and a
        bool mask `(B, N)`, False for empty groups.
    """
    numbers_N1 = ops.expand_dims(ops.arange(1, 1 + count, dtype="int32"), 1)
    belongs_BNL = ops.equal(ops.expand_dims(numbers, 1), numbers_N1)
    belongs_BNL = ops.cast(belongs_BNL, sequence.dtype)
    counts_BN = ops.sum(belongs_BNL, axis=2)
    sums_BND = ops.matmul(belongs_BNL, sequence)
    counts_BN1 = ops.expand_dims(ops.maximum(counts_BN, 1), 2)
    return sums_BND / counts_BN1, counts_BN > 0
