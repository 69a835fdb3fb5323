"""Attention among positions of equal groups: a sentence, a window, all that is text."""

# Shape key: B batch, T queries, K keys, H heads, E head size.

import math
from typing import Any

import keras
from keras import ops


def visible_keys(
    query_group: Any, key_group: Any, num_queries: Any, window: int | None = None
) -> Any:
    """Attention mask: keys of the group of a query, and near it.

    Args:
        query_group: int tensor `(B, T)`, or `(B, 1)` where all queries have the same.
        key_group: int tensor `(B, K)`.
        num_queries: T.
        window: width of local attention: a query sees keys at most `window // 2`
            positions away. None is global attention.

    Returns:
        Bool tensor `(B, T, K)`, or `(B, 1, K)` where neither differs among queries.
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
        query_group: as for `visible_keys`; None lets all see all.
        key_group: likewise.
        window: likewise.

    Returns:
        Tensor `(B, H, T, K)`. A query that sees no key has the same weight for all.
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
    """Attention without dropout, in the form of the backend that takes least memory.

    On TensorFlow it is our own, which computes the weights again in the backward pass,
    for some queries at a time. On JAX it is `jax.nn.dot_product_attention`, a flash
    attention where JAX has one for the device, the dtype and the sizes, unless
    `keras.config.disable_flash_attention()` was called.

    Args:
        query: tensor `(B, T, H, E)`.
        key: tensor `(B, K, H, E)`.
        value: tensor `(B, K, H, E)`.
        query_group: as for `visible_keys`.
        key_group: likewise.
        window: likewise.

    Returns:
        Tensor `(B, T, H, E)`.
    """
    if keras.backend.backend() == "tensorflow":
        from seg_tf.ops import tensorflow_gradients

        return tensorflow_gradients.attention(
            query, key, value, query_group, key_group, window
        )
    # cuDNN's kernel takes no mask that is the same for all queries, unless it is said
    # for each.
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
