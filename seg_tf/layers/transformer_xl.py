"""Transformer-XL's layers, with relative positions and memory."""

import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from seg_tf.layers.common import (
    ArgumentsConfig,
    Dropout,
    mark_hidden_matrix,
    recomputable,
)
from seg_tf.layers.transformer import TransformerLayer
from seg_tf.ops.relative_logits import (
    AnglesOfPart,
    ExactPositions,
    StaticPositions,
    angles,
    part_widths,
    position_vectors,
)

# Shape key: B batch, T queries, M memory length, K keys (M + T), D hidden size or width
# of a part, H heads, E head size, S runs of keys with equal indices, U distinct
# distances, P parts.

# The parts of a relative position vector and of the indices, in this order.
PARTS = ("token", "sentence", "paragraph")


@keras.saving.register_keras_serializable(package="seg_tf")
class RelativePositions(ArgumentsConfig, keras.layers.Layer):
    """Prepares the relative position vectors of Segatron's eq. 3, once for all layers.

    Token, sentence and paragraph indices continue through a whole stream. Token indices
    must be consecutive: memory that does not directly precede the first query is
    ignored. Sentence and paragraph indices are arbitrary.

    As in Transformer-XL, all pairs at the same distance share their dropout mask.

    Args:
        width: int. Width D of the position vector.
        parts: parts of the vector, some of `("token", "sentence", "paragraph")` in this
            order. `("token",)` is Transformer-XL.
        dropout: float. Dropout rate of the position vectors.
        static_shapes: bool. Whether shapes must not depend on the text, for XLA and
            JAX. This is slower and gives the same results, except that dropout of
            sentences and paragraphs is drawn per row instead of per distance.

    Call arguments:
        indices: int tensor `(B, T, 3)`: token, sentence and paragraph of each query.
        memory_indices: int tensor `(B, M, 3)`: the same for the keys in memory.
        training: bool. Whether to apply dropout.

    Returns:
        An `ExactPositions` or `StaticPositions`, and a bool mask `(B, 1, T, K)` of the
        keys that each query sees.
    """

    def __init__(
        self,
        width: int,
        parts: Sequence[str] = PARTS,
        dropout: float = 0.0,
        static_shapes: bool = False,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        parts = tuple(parts)
        if not parts or parts != tuple(part for part in PARTS if part in parts):
            raise ValueError(
                f"`parts` must be some of {PARTS}, in this order. Received: {parts}"
            )
        self.width = width
        self.parts = parts
        self.dropout = dropout
        self.static_shapes = static_shapes
        self.widths = dict(zip(parts, part_widths(width, len(parts)), strict=True))
        self._dropout = Dropout(dropout, dtype=self.dtype_policy)

    def call(self, indices: Any, memory_indices: Any, training: Any = None) -> Any:
        indices = ops.cast(indices, "int32")
        memory_indices = ops.cast(memory_indices, "int32")
        is_there_BM = _is_before(memory_indices[:, :, 0], indices[:, :1, 0])
        mask = _visible(is_there_BM, ops.shape(indices)[1])
        # Small numbers have exact angles. Absent keys are masked.
        indices_BTP = indices - indices[:, :1]
        memory_BMP = ops.where(
            is_there_BM[:, :, None], memory_indices - indices[:, :1], 0
        )
        keys_BKP = ops.concatenate([memory_BMP, indices_BTP], axis=1)
        return self._positions(indices_BTP, keys_BKP, training), mask

    def _positions(
        self, queries_BTP: Any, keys_BKP: Any, training: Any
    ) -> ExactPositions | StaticPositions:
        segment_parts = [part for part in self.parts if part != "token"]
        tokens_KD = None
        if "token" in self.parts:
            distances = ops.arange(ops.shape(keys_BKP)[1] - 1, -1, -1, dtype="int32")
            tokens_KD = self._vectors("token", distances, training)
        if not segment_parts:
            return ExactPositions(tokens_KD, (), (), None)
        if self.static_shapes:
            part_angles = [
                self._part_angles(part, queries_BTP, keys_BKP, training)
                for part in segment_parts
            ]
            return StaticPositions(tokens_KD, tuple(part_angles))
        segments_BKP = ops.stack(
            [keys_BKP[..., PARTS.index(part)] for part in segment_parts], axis=-1
        )
        runs_BSP, runs_of_keys_BSK = _runs(segments_BKP)
        num_queries = ops.shape(queries_BTP)[1]
        query_run_BTS = ops.swapaxes(runs_of_keys_BSK[:, :, -num_queries:], 1, 2)
        vectors, numbers = [], []
        for number, part in enumerate(segment_parts):
            distances_U, numbers_BTS = _distances(runs_BSP[..., number], query_run_BTS)
            vectors.append(self._vectors(part, distances_U, training))
            numbers.append(numbers_BTS)
        return ExactPositions(
            tokens_KD,
            tuple(vectors),
            tuple(numbers),
            ops.cast(runs_of_keys_BSK, self.compute_dtype),
        )

    def _part_angles(
        self, part: str, queries_BTP: Any, keys_BKP: Any, training: Any
    ) -> AnglesOfPart:
        query_angles, key_angles = (
            angles(indices[..., PARTS.index(part)], self.widths[part])
            for indices in (queries_BTP, keys_BKP)
        )
        ones_B1F = ops.ones_like(query_angles[:, :1])
        sin_mask, cos_mask = (self._dropped(ones_B1F, training) for _ in range(2))
        sin, cos = (
            ops.cast(wave(query_angles), self.compute_dtype)
            for wave in (ops.sin, ops.cos)
        )
        key = tuple(
            ops.cast(wave(key_angles), self.compute_dtype)
            for wave in (ops.cos, ops.sin)
        )
        query = (sin_mask * sin, cos_mask * cos, cos_mask * sin, sin_mask * cos)
        return AnglesOfPart(query, key)

    def _vectors(self, part: str, distances: Any, training: Any) -> Any:
        return self._dropped(position_vectors(distances, self.widths[part]), training)

    def _dropped(self, vectors: Any, training: Any) -> Any:
        vectors = ops.cast(vectors, self.compute_dtype)
        return self._dropout(vectors, training=training)


def _is_before(tokens_BM: Any, first_B1: Any) -> Any:
    """Returns a mask `(B, M)` of memory that directly precedes the first query."""
    size = ops.shape(tokens_BM)[1]
    # Differences remain correct if an int32 counter overflows.
    return ops.equal(tokens_BM - first_B1, ops.arange(-size, 0, dtype="int32"))


def _visible(is_there_BM: Any, num_queries: Any) -> Any:
    """Returns a causal mask that excludes absent memory, bool `(B, 1, T, K)`."""
    memory_B1TM = ops.repeat(is_there_BM[:, None, None, :], num_queries, axis=2)
    places_T = ops.arange(num_queries, dtype="int32")
    causal_TT = places_T[None, :] <= places_T[:, None]
    shape = (ops.shape(is_there_BM)[0], 1, num_queries, num_queries)
    causal_B1TT = ops.broadcast_to(causal_TT, shape)
    return ops.concatenate([memory_B1TM, causal_B1TT], axis=-1)


def _runs(segments_BKP: Any) -> tuple[Any, Any]:
    """Returns each run's indices `(B, S, P)` and a mask `(B, S, K)` of its keys."""
    differs = ops.not_equal(segments_BKP[:, 1:], segments_BKP[:, :-1])
    begins_BK = ops.pad(ops.any(differs, axis=-1), [[0, 0], [1, 0]])
    run_BK = ops.cumsum(ops.cast(begins_BK, "int32"), axis=1)
    runs_S = ops.arange(ops.max(run_BK, initial=0) + 1, dtype="int32")
    runs_of_keys_BSK = ops.equal(run_BK[:, None, :], runs_S[None, :, None])
    first_key_BS = ops.argmax(ops.cast(runs_of_keys_BSK, "int32"), axis=-1)
    runs_BSP = ops.take_along_axis(segments_BKP, first_key_BS[..., None], axis=1)
    return runs_BSP, runs_of_keys_BSK


def _distances(index_BS: Any, query_run_BTS: Any) -> tuple[Any, Any]:
    """Returns distinct distances `(U,)` and each query-run pair's index `(B, T, S)`."""
    query_run_BT1 = ops.argmax(ops.cast(query_run_BTS, "int32"), axis=-1)[..., None]
    index_BTS = ops.take_along_axis(index_BS[:, None, :], query_run_BT1, axis=2)
    distance_BTS = index_BTS - index_BS[:, None, :]
    # Later runs are invisible.
    later_BTS = ops.arange(ops.shape(index_BS)[1]) > query_run_BT1
    distance_BTS = ops.where(later_BTS, 0, distance_BTS)
    return ops.unique(distance_BTS, return_inverse=True)


# Far below all other logits, and finite in float16.
_MASKED = -1e4


@keras.saving.register_keras_serializable(package="seg_tf")
class SegmentRelativeAttention(ArgumentsConfig, keras.layers.Layer):
    """Relative multi-head attention with memory (Segatron, eq. 1 and 3).

    The logit of query i and key j is

        (W_q E_i + u)^T W_k E_j + (W_q E_i + v)^T W_R R_ij

    divided by the square root of the head size. `RelativePositions` prepares R_ij, with
    tokens, sentences and paragraphs for Sega-Transformer-XL and only tokens for
    Transformer-XL (Dai et al., 2019, section 3.3). Projections have no other biases.

    Args:
        num_heads: int. Number of attention heads.
        head_size: int. Size of each head, independent of the hidden size.
        dropout: float. Dropout rate of the attention weights.
        kernel_initializer: initializer of the kernels.

    Call arguments:
        hidden: float tensor `(B, T, D)`, the segment.
        memory: float tensor `(B, M, D)`, hidden states of the preceding tokens.
        positions: the positions from `RelativePositions`.
        mask: the bool mask `(B, 1, T, K)` from `RelativePositions`.
        content_bias: u, `(H, E)`. Transformer-XL shares it between layers.
        position_bias: v, `(H, E)`, also shared between layers.
        training: bool. Whether to apply dropout.

    Returns:
        Tensor `(B, T, D)` in the compute dtype.
    """

    def __init__(
        self,
        num_heads: int,
        head_size: int,
        dropout: float = 0.0,
        kernel_initializer: Any = "glorot_uniform",
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.head_size = head_size
        self.dropout = dropout
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self._dropout = Dropout(dropout, dtype=self.dtype_policy)

    def build(self, hidden_shape: Any) -> None:
        size, heads = hidden_shape[-1], (self.num_heads, self.head_size)
        self.query_kernel = self._add_kernel("query_kernel", (size, *heads))
        self.key_kernel = self._add_kernel("key_kernel", (size, *heads))
        self.value_kernel = self._add_kernel("value_kernel", (size, *heads))
        self.position_kernel = self._add_kernel("position_kernel", (size, *heads))
        self.output_kernel = self._add_kernel("output_kernel", (*heads, size), 2)

    def call(
        self,
        hidden: Any,
        memory: Any,
        positions: Any,
        mask: Any,
        content_bias: Any,
        position_bias: Any,
        training: Any = None,
    ) -> Any:
        keys_in_BKD = ops.concatenate([memory, hidden], axis=1)
        query_BHTE, key_BHKE, value_BHKE = (
            ops.einsum("bkd,dhe->bhke", states_BKD, kernel_DHE)
            for states_BKD, kernel_DHE in (
                (hidden, self.query_kernel),
                (keys_in_BKD, self.key_kernel),
                (keys_in_BKD, self.value_kernel),
            )
        )
        scale = 1 / math.sqrt(self.head_size)
        content_query, position_query = (
            scale * (query_BHTE + ops.cast(bias_HE, self.compute_dtype)[:, None, :])
            for bias_HE in (content_bias, position_bias)
        )
        logits_BHTK = positions.logits(
            content_query,
            key_BHKE,
            position_query,
            ops.cast(self.position_kernel, self.compute_dtype),
        )
        logits_BHTK = ops.where(mask, ops.cast(logits_BHTK, "float32"), _MASKED)
        weights_BHTK = ops.cast(ops.softmax(logits_BHTK), self.compute_dtype)
        weights_BHTK = self._dropout(weights_BHTK, training=training)
        output_BHTE = ops.matmul(weights_BHTK, value_BHKE)
        return ops.einsum("bhte,hed->btd", output_BHTE, self.output_kernel)

    def compute_output_shape(self, hidden_shape: Any, **other_shapes: Any) -> Any:
        return hidden_shape

    def _add_kernel(self, name: str, shape: tuple[int, ...], axes: int = 1) -> Any:
        # The same initializer would draw the same numbers at every call.
        initializer = self.kernel_initializer.clone()
        kernel = self.add_weight(name=name, shape=shape, initializer=initializer)
        mark_hidden_matrix(kernel, axes)
        return kernel


@keras.saving.register_keras_serializable(package="seg_tf")
class TransformerXLLayer(TransformerLayer):
    """Post-norm transformer layer with `SegmentRelativeAttention` (Dai et al., 2019).

    The feed-forward block uses ReLU. `dropout` is the rate after attention, and inside
    and after the feed-forward block. `head_size`, call arguments and the result are as
    for `SegmentRelativeAttention`. Other arguments are as for `TransformerLayer`, but
    kernels are initialized from a normal distribution.
    """

    initializer_class = keras.initializers.RandomNormal

    def __init__(
        self, num_heads: int, head_size: int, intermediate_size: int, **kwargs: Any
    ):
        super().__init__(intermediate_size, num_heads, **kwargs)
        self.head_size = head_size

    def build(self, hidden_shape: Any) -> None:
        size = hidden_shape[-1]
        self.attention = SegmentRelativeAttention(
            self.num_heads,
            self.head_size,
            self.attention_dropout,
            self._initializer.clone(),
            dtype=self.dtype_policy,
            name="attention",
        )
        self.attention.build(hidden_shape)
        self.attention_layer_norm = self._norm("attention_layer_norm", size)
        self.intermediate = self._dense(
            "intermediate", self.intermediate_size, size, activation="relu"
        )
        self.output_dense = self._dense("output", size, self.intermediate_size)
        self.output_layer_norm = self._norm("output_layer_norm", size)
        # Dropout is shared, because each call draws a new mask.
        self.dropout_layer = self._dropout("dropout")

    @recomputable
    def call(
        self,
        hidden: Any,
        memory: Any,
        positions: Any,
        mask: Any,
        content_bias: Any,
        position_bias: Any,
        training: Any = None,
    ) -> Any:
        attended_BTD = self.attention(
            hidden,
            memory,
            positions,
            mask,
            content_bias,
            position_bias,
            training=training,
        )
        attended_BTD = self.dropout_layer(attended_BTD, training=training)
        hidden = self.attention_layer_norm(hidden + attended_BTD)
        inner_BTI = self.intermediate(hidden)
        inner_BTI = self.dropout_layer(inner_BTI, training=training)
        output_BTD = self.output_dense(inner_BTI)
        output_BTD = self.dropout_layer(output_BTD, training=training)
        return self.output_layer_norm(hidden + output_BTD)
