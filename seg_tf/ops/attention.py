"""Attention among positions of equal groups, rotary positions, gathered vectors."""

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
    """Attention mask: a query sees the keys of its group, within a window.

    Args:
        query_group: int tensor `(B, T)`, or `(B, 1)` if all queries have the same.
        key_group: int tensor `(B, K)`.
        num_queries: T.
        window: width of local attention: a query sees keys at most `window // 2`
            positions away. None is global attention.

    Returns:
        Bool tensor `(B, T, K)`, or `(B, 1, K)` if it is the same for all queries.
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
    """Softmax over the keys that a query sees, as `keras.layers.MultiHeadAttention`.

    Args:
        query: tensor `(B, T, H, E)`.
        key: tensor `(B, K, H, E)`.
        query_group, key_group, window: as for `visible_keys`; None makes all keys
            visible.

    Returns:
        Tensor `(B, H, T, K)`. A query that sees no key has equal weights.
    """
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
    """Attention without dropout, in the backend's most memory-efficient form.

    On TensorFlow that is `seg_tf.ops.tensorflow_gradients.attention`, which recomputes
    the weights in the backward pass, a block of queries at a time. On JAX it is
    `jax.nn.dot_product_attention`: flash attention where JAX supports the device, dtype
    and sizes, unless `keras.config.disable_flash_attention()` was called.

    Args:
        query: tensor `(B, T, H, E)`.
        key, value: tensors `(B, K, H, E)`.
        query_group, key_group, window: as for `visible_keys`.

    Returns:
        Tensor `(B, T, H, E)`.
    """
    if keras.backend.backend() == "tensorflow":
        from seg_tf.ops import tensorflow_gradients

        return tensorflow_gradients.attention(
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


def rotary_sizes(head_size: int, shares: Mapping[str, float]) -> dict[str, int]:
    """Dimensions of a head that each index rotates.

    Shares are relative to their sum; sizes are sorted by name, even, and sum to E.

    Example:
    >>> rotary_sizes(64, {"position_index": 2, "token_index": 1, "sentence_index": 1})
    {'position_index': 32, 'sentence_index': 16, 'token_index': 16}
    """
    total = sum(shares.values())
    sizes = {}
    for name, share in sorted(shares.items()):
        size = head_size * share / total if share > 0 else 0.0
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
    """Cosines and sines of the angles by which queries and keys are rotated.

    An index m with d dimensions of a head rotates pair j by `m * base**(-2j/d)` (Su et
    al., 2021, section 3.2.2). Each index rotates its own pairs, so the product of a
    query and a key depends on their distance in every index. Token and sentence are the
    two levels of BiPE (He et al., 2024, arXiv:2401.16421).

    Returns:
        Float32 tensor `(B, L, E)`: the cosines of the E/2 pairs, then the sines.
    """
    angles = []
    for name, size in sizes.items():
        frequencies = base ** (-np.arange(0, size, 2) / size)
        index_BL1 = ops.expand_dims(ops.cast(indices[name], "float32"), -1)
        angles.append(index_BL1 * frequencies.astype("float32"))
    angles_BLF = ops.concatenate(angles, axis=-1)
    return ops.concatenate([ops.cos(angles_BLF), ops.sin(angles_BLF)], axis=-1)


def rotate(vectors: Any, rotation: Any) -> Any:
    """Rotates queries or keys `(B, L, H, E)`: pair j is dimensions j and j + E/2."""
    cosine, sine = ops.split(ops.expand_dims(rotation, 2), 2, axis=-1)
    first, second = ops.split(vectors, 2, axis=-1)
    return ops.concatenate(
        [first * cosine - second * sine, second * cosine + first * sine], axis=-1
    )


# Shape key: B batch, L sequence length, D hidden size, P positions, N numbers.


def gather_vectors(sequence: Any, positions: Any) -> Any:
    """The vectors `(B, P, D)` of a sequence `(B, L, D)` at int positions `(B, P)`."""
    return ops.take_along_axis(sequence, ops.expand_dims(positions, 2), axis=1)


def mean_vectors(sequence: Any, numbers: Any, count: Any) -> tuple[Any, Any]:
    """Means over the vectors of each number from 1 on.

    Args:
        sequence: tensor `(B, L, D)`.
        numbers: int tensor `(B, L)`; vectors with 0 do not count.
        count: int, or int tensor `()`: the highest number, N.

    Returns:
        Tensor `(B, N, D)` of the dtype of `sequence`, 0 for a number without a vector,
        and the mask of numbers with one, bool `(B, N)`.
    """
    numbers_N1 = ops.expand_dims(ops.arange(1, 1 + count, dtype="int32"), 1)
    belongs_BNL = ops.equal(ops.expand_dims(numbers, 1), numbers_N1)
    belongs_BNL = ops.cast(belongs_BNL, sequence.dtype)
    counts_BN = ops.sum(belongs_BNL, axis=2)
    sums_BND = ops.matmul(belongs_BNL, sequence)
    counts_BN1 = ops.expand_dims(ops.maximum(counts_BN, 1), 2)
    return sums_BND / counts_BN1, counts_BN > 0
