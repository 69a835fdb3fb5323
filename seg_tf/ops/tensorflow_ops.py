"""Attention, losses and gradient checkpointing for TensorFlow.

TensorFlow keeps all activations for the backward pass and has no fused attention. JAX
has `jax.checkpoint` and `jax.nn.dot_product_attention`. Some of TensorFlow's own
operations are slow on CPUs.
"""

# Shape key: B batch, T queries, K keys, H heads, E head size, S queries per block.

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

# Attention weights of a block per row and head. Very long sequences have more.
_MOST_WEIGHTS = 2**19
_FEWEST_QUERIES = 64
# Logit of an invisible key.
_UNSEEN = -1e9


def attention(
    query: tf.Tensor,
    key: tf.Tensor,
    value: tf.Tensor,
    query_group: tf.Tensor,
    key_group: tf.Tensor,
    window: int | None = None,
) -> tf.Tensor:
    """Computes attention one block of queries at a time.

    The backward pass recomputes the weights, so memory grows with T + K instead of
    T * K (Rabe and Staats, 2021; Dao et al., 2022, appendix B). Arguments and result
    are as for `seg_tf.ops.attention.fused_attention`. If a query sees no key, its
    output and gradient are undefined.
    """

    @tf.custom_gradient
    def compute(
        query: tf.Tensor, key: tf.Tensor, value: tf.Tensor
    ) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, ...]]]:
        return _attention(query, key, value, query_group, key_group, window)

    return compute(query, key, value)


def _attention(
    query: tf.Tensor,
    key: tf.Tensor,
    value: tf.Tensor,
    query_group: tf.Tensor,
    key_group: tf.Tensor,
    window: int | None,
) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, ...]]]:
    scale = 1 / math.sqrt(query.shape[-1])
    blocks = _QueryBlocks(_length(query), _length(key), query.dtype)
    query_BHTE = blocks.pad(query * scale)
    key_BHKE, value_BHKE = _swapped(key), _swapped(value)
    # Shaped as `pad` and `cut` expect.
    group_B1T1 = query_group[:, None, :, None]
    is_one_group = query_group.shape[1] == 1
    if not is_one_group:
        # In a graph, the axis may turn out to have size 1.
        group_BT = tf.broadcast_to(query_group, tf.shape(query)[:2])
        group_B1T1 = blocks.pad(group_BT[:, :, None, None])

    if window is not None:
        places_11T1 = blocks.pad(tf.range(_length(query))[None, :, None, None])
        places_K = tf.range(_length(key))

    def weights(number: Any, query_BHSE: tf.Tensor) -> tf.Tensor:
        group_B1S1 = group_B1T1 if is_one_group else blocks.cut(group_B1T1, number)
        sees_B1SK = tf.equal(group_B1S1, key_group[:, None, None, :])
        if window is not None:
            distance_11SK = tf.abs(blocks.cut(places_11T1, number) - places_K)
            sees_B1SK &= distance_11SK <= window // 2
        logits_BHSK = tf.matmul(query_BHSE, key_BHKE, transpose_b=True)
        logits_BHSK = tf.where(sees_B1SK, tf.cast(logits_BHSK, tf.float32), _UNSEEN)
        return tf.nn.softmax(logits_BHSK)

    def forward(number: Any) -> tuple[tf.Tensor]:
        weights_BHSK = weights(number, blocks.cut(query_BHTE, number))
        return (tf.matmul(tf.cast(weights_BHSK, value.dtype), value_BHKE),)

    (output,) = blocks.each(forward)

    def backward(upstream: tf.Tensor) -> tuple[tf.Tensor, ...]:
        upstream_BHTE = blocks.pad(upstream)
        # For each query, the mean of its weights' gradients, weighted by them.
        products = tf.cast(upstream, tf.float32) * tf.cast(output, tf.float32)
        mean_BHT1 = blocks.pad(tf.reduce_sum(products, axis=-1, keepdims=True))

        def gradients(
            number: Any, d_key: tf.Tensor, d_value: tf.Tensor
        ) -> tuple[tf.Tensor, ...]:
            query_BHSE = blocks.cut(query_BHTE, number)
            upstream_BHSE = blocks.cut(upstream_BHTE, number)
            mean_BHS1 = blocks.cut(mean_BHT1, number)
            weights_BHSK = weights(number, query_BHSE)
            d_weights = tf.matmul(upstream_BHSE, value_BHKE, transpose_b=True)
            d_logits = weights_BHSK * (tf.cast(d_weights, tf.float32) - mean_BHS1)
            d_logits = tf.cast(d_logits, query.dtype)
            return (
                scale * tf.matmul(d_logits, key_BHKE),
                d_key + _transposed_product(d_logits, query_BHSE),
                d_value + _transposed_product(weights_BHSK, upstream_BHSE),
            )

        zeros = tf.zeros(tf.shape(key_BHKE), tf.float32)
        d_query, d_key, d_value = blocks.each(gradients, zeros, zeros)
        return (
            d_query,
            _swapped(tf.cast(d_key, query.dtype)),
            _swapped(tf.cast(d_value, query.dtype)),
        )

    return output, backward


class _QueryBlocks:
    """Splits queries into blocks of equal size. The last block is padded.

    Static sizes are ints, as XLA requires. Dynamic sizes are tensors.
    """

    def __init__(self, num_queries: Any, num_keys: Any, dtype: tf.DType):
        if isinstance(num_keys, int):
            most_queries = max(_FEWEST_QUERIES, _MOST_WEIGHTS // num_keys)
        else:
            most_queries = tf.maximum(_FEWEST_QUERIES, _MOST_WEIGHTS // num_keys)
        self._num_queries, self._dtype = num_queries, dtype
        # ONNX truncates quotients, so they must not be negative.
        self._number = (num_queries + most_queries - 1) // most_queries
        self._size = (num_queries + self._number - 1) // self._number

    def pad(self, queries_BTHE: tf.Tensor) -> tf.Tensor:
        """Transposes queries to `(B, H, T, E)` and pads them to whole blocks."""
        padding = self._number * self._size - self._num_queries
        return tf.pad(_swapped(queries_BTHE), [[0, 0], [0, 0], [0, padding], [0, 0]])

    def cut(self, queries_BHTE: tf.Tensor, number: Any) -> tf.Tensor:
        """Returns the queries of block `number`, `(B, H, S, E)`."""
        begin = number * self._size
        return tf.slice(queries_BHTE, [0, 0, begin, 0], [-1, -1, self._size, -1])

    def each(
        self, function: Callable[..., tuple[tf.Tensor, ...]], *sums: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        """Calls a function for each block in order.

        The function maps a block's number and the current sums to an output
        `(B, H, S, E)` and new sums. Returns all outputs `(B, T, H, E)` and final sums.
        """
        if isinstance(self._number, int) and self._number == 1:
            output_BHTE, *new_sums = function(0, *sums)
            return _swapped(output_BHTE), *new_sums

        def next_block(
            number: tf.Tensor, outputs: tf.TensorArray, *sums: tf.Tensor
        ) -> tuple[Any, ...]:
            output_BHSE, *new_sums = function(number, *sums)
            return number + 1, outputs.write(number, output_BHSE), *new_sums

        _, outputs, *new_sums = tf.while_loop(
            lambda number, *_: number < self._number,
            next_block,
            (0, tf.TensorArray(self._dtype, self._number), *sums),
            # Two blocks in parallel would need twice the memory.
            parallel_iterations=1,
        )
        outputs_NBHSE = outputs.stack()
        _, batch, heads, _, head_size = tf.unstack(tf.shape(outputs_NBHSE))
        shape = (batch, self._number * self._size, heads, head_size)
        output = tf.reshape(tf.transpose(outputs_NBHSE, [1, 0, 3, 2, 4]), shape)
        return output[:, : self._num_queries], *new_sums


def _length(sequence: tf.Tensor) -> Any:
    """Returns the size of axis 1, an int if it is static, otherwise a tensor."""
    return tf.shape(sequence)[1] if sequence.shape[1] is None else sequence.shape[1]


def _swapped(tensor: tf.Tensor) -> tf.Tensor:
    """Transposes `(B, T, H, E)` to `(B, H, T, E)`, or back."""
    return tf.transpose(tensor, [0, 2, 1, 3])


def _transposed_product(left_BHSK: tf.Tensor, right_BHSE: tf.Tensor) -> tf.Tensor:
    """Computes the float32 product `(B, H, K, E)` over the queries of a block."""
    left_BHSK = tf.cast(left_BHSK, right_BHSE.dtype)
    return tf.cast(tf.matmul(left_BHSK, right_BHSE, transpose_a=True), tf.float32)


def recomputed(
    function: Callable[..., tuple[tf.Tensor, list[tf.Tensor]]],
    weights: Sequence[tf.Tensor],
    tensors: Sequence[tf.Tensor],
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """Calls `function(weights, tensors)` with gradient checkpointing.

    Returns the function's results: the output to differentiate and a list of other
    tensors. It must not read variables. The backward pass calls it again. Unlike
    `tf.recompute_grad`, this does not copy weights or change integer inputs.
    """
    other_results: list[tf.Tensor] = []
    num_weights = len(weights)

    @tf.custom_gradient
    def forward(*inputs: tf.Tensor) -> tuple[tf.Tensor, Callable[..., Any]]:
        output, other_results[:] = function(inputs[:num_weights], inputs[num_weights:])
        are_floats = [value.dtype.is_floating for value in inputs]

        def backward(upstream: tf.Tensor) -> list[tf.Tensor | None]:
            # A 0 that depends on `upstream`, which no compiler can prove to be 0.
            # Otherwise TensorFlow and XLA would merge the recomputation with the
            # forward pass and keep its values.
            first = tf.reduce_sum(tf.reshape(upstream, [-1])[:1])
            zero = tf.where(tf.math.is_nan(first), first, tf.zeros_like(first))
            again = list(inputs)
            for number in range(num_weights, len(inputs)):
                if are_floats[number]:
                    again[number] += tf.cast(zero, again[number].dtype)
            sources = list(itertools.compress(again, are_floats))
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(sources)
                output, _ = function(again[:num_weights], again[num_weights:])
            gradients = iter(tape.gradient(output, sources, upstream))
            return [next(gradients) if is_float else None for is_float in are_floats]

        return output, backward

    # Variables are read here, because the function must not read them.
    inputs = [tf.convert_to_tensor(value) for value in (*weights, *tensors)]
    return forward(*inputs), other_results


@tf.custom_gradient
def gelu(inputs: tf.Tensor) -> tuple[tf.Tensor, Callable[..., tf.Tensor]]:
    """Computes exact GELU by `erf`, in float32. TensorFlow's `erfc` is slow on CPUs."""

    def wide_and_cdf() -> tuple[tf.Tensor, tf.Tensor]:
        wide = tf.cast(inputs, tf.float32)
        return wide, 0.5 + 0.5 * tf.math.erf(math.sqrt(0.5) * wide)

    def backward(upstream: tf.Tensor) -> tf.Tensor:
        wide, cdf = wide_and_cdf()
        slope = cdf + wide * tf.exp(-0.5 * wide**2) / math.sqrt(2 * math.pi)
        return tf.cast(tf.cast(upstream, tf.float32) * slope, inputs.dtype)

    wide, cdf = wide_and_cdf()
    return tf.cast(wide * cdf, inputs.dtype), backward


@tf.custom_gradient
def cross_entropy(
    labels: tf.Tensor, logits: tf.Tensor
) -> tuple[tf.Tensor, Callable[..., Any]]:
    """Computes cross entropies `(...)` of int labels from float32 logits `(..., V)`.

    On CPUs, TensorFlow's own operation is slow, above all if it must be deterministic.
    """
    weights = tf.nn.softmax(logits)
    # The largest weight is exp(0) / sum.
    log_sums = tf.reduce_max(logits, -1) - tf.math.log(tf.reduce_max(weights, -1))

    def backward(upstream: tf.Tensor) -> tuple[None, tf.Tensor]:
        is_label = tf.one_hot(labels, tf.shape(weights)[-1])
        return None, (weights - is_label) * upstream[..., tf.newaxis]

    label_logits = tf.gather(logits, labels, axis=-1, batch_dims=len(labels.shape))
    return log_sums - label_logits, backward


# Keras's own orders -0.0 before 0.0, which takes longer than the search.
argmax = functools.partial(tf.argmax, axis=-1, output_type=tf.int32)
