"""The decoder of SLM: points at the sentences of a row one after another."""

# Shape key: B batch, C candidates, S steps, D hidden size, H heads, K size of a head.

from typing import Any

import keras
import keras_hub
from keras import ops

from seg_tf.ops.activations import gelu

# Logit of what must not be pointed at: finite, so that rows of padding stay so.
_NEVER = -1e9


@keras.saving.register_keras_serializable(package="seg_tf")
class SequenceReconstructor(keras.layers.Layer):
    """SLM's Sequence Reconstructor: a transformer decoder that points (section 2.1).

    Step i reads the candidate that step i - 1 points at (`[CLS]` at first), attends to
    those read so far and to all candidates, and points at the next one by the inner
    product of its output with each candidate (eq. 1 and 2). The layers are post-norm.

    Nothing here knows where a candidate stands: neither the candidates nor the steps
    get a position, and permuting the candidates permutes the logits. So all that can
    give an order away is in the candidates themselves. The caller hands them over in
    an order that does not depend on the gold one.

    Args:
        num_layers: int. Decoder layers.
        num_heads: int. Attention heads, which share the width.
        intermediate_size: int. Width inside the feed-forward blocks.
        dropout: float. Rate on the attention weights and after each block of a layer.
        layer_norm_epsilon: float.
        initializer_range: float. Standard deviation of the truncated normal
            distribution that kernels start from.
        approximate_gelu: bool. GELU by tanh instead of by erf.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        candidates: float tensor `(B, C, D)`: `[CLS]`, the sentences, `[SEP]`, padding.
        candidate_mask: bool tensor `(B, C)`, False at padding.
        gold_candidates: int tensor `(B, S)`: the candidate that each step should
            point at. All but the last are read by the step after theirs.
        training: bool. Whether there is dropout.

    Returns:
        Logits, a float32 tensor `(B, S, C)`. Steps behind a row's last hold numbers
        without meaning.

    Example:
    >>> reconstructor = SequenceReconstructor(
    ...     num_layers=1, num_heads=2, intermediate_size=16
    ... )
    >>> candidates = keras.random.normal((1, 4, 8))  # [CLS], two sentences, [SEP]
    >>> mask = ops.ones((1, 4), dtype="bool")
    >>> tuple(reconstructor(candidates, mask, ops.array([[2, 1, 3]])).shape)
    (1, 3, 4)
    >>> order, probabilities = reconstructor.decode(candidates, mask)
    >>> int(order[0, 2]), tuple(probabilities.shape)
    (3, (1, 3))
    """

    def __init__(
        self,
        num_layers: int,
        num_heads: int,
        intermediate_size: int,
        dropout: float = 0.1,
        layer_norm_epsilon: float = 1e-12,
        initializer_range: float = 0.02,
        approximate_gelu: bool = False,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        if num_layers < 1:
            raise ValueError(
                f"`num_layers` must be at least 1. Received: num_layers={num_layers}"
            )
        self.num_layers = num_layers
        self.num_heads = num_heads
        self.intermediate_size = intermediate_size
        self.dropout = dropout
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.approximate_gelu = approximate_gelu
        self.decoder_layers = [
            keras_hub.layers.TransformerDecoder(
                intermediate_dim=intermediate_size,
                num_heads=num_heads,
                dropout=dropout,
                activation=gelu(approximate_gelu),
                layer_norm_epsilon=layer_norm_epsilon,
                kernel_initializer=keras.initializers.TruncatedNormal(
                    stddev=initializer_range
                ),
                dtype=self.dtype_policy,
                name=f"decoder_layer_{layer}",
            )
            for layer in range(num_layers)
        ]

    def build(
        self,
        candidates_shape: Any,
        candidate_mask_shape: Any = None,
        gold_candidates_shape: Any = None,
    ) -> None:
        hidden_size = candidates_shape[-1]
        if hidden_size % self.num_heads:
            raise ValueError(
                "`num_heads` must divide the width of `candidates`. Received: "
                f"num_heads={self.num_heads}, candidates of width {hidden_size}"
            )
        for layer in self.decoder_layers:
            layer.build((None, None, hidden_size), (None, None, hidden_size))

    def call(
        self,
        candidates: Any,
        candidate_mask: Any,
        gold_candidates: Any,
        training: bool | None = None,
    ) -> Any:
        first_B1 = ops.zeros_like(gold_candidates[:, :1])
        read_BS = ops.concatenate([first_B1, gold_candidates[:, :-1]], axis=1)
        hidden_BSD = _gather(candidates, read_BS)
        for layer in self.decoder_layers:
            hidden_BSD = layer(
                hidden_BSD,
                candidates,
                encoder_padding_mask=candidate_mask,
                training=training,
            )
        return _pointer_logits(hidden_BSD, candidates, candidate_mask)

    def decode(self, candidates: Any, candidate_mask: Any) -> tuple[Any, Any]:
        """Takes the likeliest candidate at each step and reads it at the next.

        What was pointed at before, `[CLS]` and padding are left out, and `[SEP]` may
        come only when every sentence was placed: the answer is always a permutation
        of the sentences. Nothing is differentiated.

        Args:
            candidates: as in the call.
            candidate_mask: as in the call.

        Returns:
            The order, int32 `(B, S)` with S = C - 1: the candidate of each step, the
            row's `[SEP]` behind all its sentences, then 0. And the probability of
            each among the candidates that its step still had, float32 `(B, S)`.
        """
        candidates = ops.cast(ops.stop_gradient(candidates), self.compute_dtype)
        mask_BC = ops.cast(candidate_mask, "bool")
        batch, num_candidates = ops.shape(candidates)[:2]
        slots_C = ops.arange(num_candidates, dtype="int32")
        steps_S = slots_C[:-1]
        last_B = ops.sum(ops.cast(mask_BC, "int32"), axis=1) - 1
        is_sep_BC = ops.equal(slots_C, last_B[:, None])

        def point(step: Any, state: tuple) -> tuple:
            slot_B, remaining_BC, caches, order_BS, probabilities_BS = state
            logits_BC, caches = self._step(slot_B, candidates, mask_BC, caches, step)
            sentences_BC = ops.logical_and(remaining_BC, ops.logical_not(is_sep_BC))
            any_B1 = ops.any(sentences_BC, axis=1, keepdims=True)
            allowed_BC = ops.where(any_B1, sentences_BC, remaining_BC)
            logits_BC = ops.where(allowed_BC, logits_BC, _NEVER)
            # With nothing left, slot 0 and probability 0: padding.
            slot_B = ops.cast(ops.argmax(logits_BC, axis=1), "int32")
            probability_B = ops.where(
                ops.any(allowed_BC, axis=1),
                ops.max(ops.softmax(logits_BC, axis=1), axis=1),
                0.0,
            )
            is_new_BC = ops.not_equal(slots_C, slot_B[:, None])
            here_S = ops.equal(steps_S, step)
            return (
                slot_B,
                ops.logical_and(remaining_BC, is_new_BC),
                caches,
                ops.where(here_S, slot_B[:, None], order_BS),
                ops.where(here_S, probability_B[:, None], probabilities_BS),
            )

        slot_B = ops.zeros((batch,), dtype="int32")
        caches = self._fill_caches(slot_B, candidates, mask_BC)
        state = (
            slot_B,
            ops.logical_and(mask_BC, ops.greater(slots_C, 0)),
            caches,
            ops.zeros((batch, num_candidates - 1), dtype="int32"),
            ops.zeros((batch, num_candidates - 1), dtype="float32"),
        )
        *_, order_BS, probabilities_BS = ops.fori_loop(
            0, num_candidates - 1, point, state
        )
        return order_BS, probabilities_BS

    def _fill_caches(self, slot_B: Any, candidates: Any, mask_BC: Any) -> tuple:
        """Caches of every layer: self-attention's empty, cross-attention's full."""
        batch, num_candidates, hidden_size = ops.shape(candidates)
        heads = (self.num_heads, hidden_size // self.num_heads)

        def empty(length: Any) -> Any:
            return ops.zeros((batch, 2, length, *heads), dtype=self.compute_dtype)

        caches = tuple(
            (empty(num_candidates - 1), empty(num_candidates))
            for _ in self.decoder_layers
        )
        # Keys and values of the candidates are by-products of a step, whose own
        # entry in the caches of self-attention the real first step writes anew.
        _, caches = self._step(slot_B, candidates, mask_BC, caches, 0, fill_cross=True)
        return caches

    def _step(
        self,
        slot_B: Any,
        candidates: Any,
        mask_BC: Any,
        caches: tuple,
        step: Any,
        fill_cross: bool = False,
    ) -> tuple[Any, tuple]:
        """Reads candidate `slot_B` at step `step`: its logits (B, C) and the caches."""
        hidden_B1D = _gather(candidates, slot_B[:, None])
        new_caches = []
        for layer, (self_cache, cross_cache) in zip(
            self.decoder_layers, caches, strict=True
        ):
            hidden_B1D, self_cache, cross_cache = layer(
                hidden_B1D,
                candidates,
                encoder_padding_mask=mask_BC,
                self_attention_cache=self_cache,
                self_attention_cache_update_index=step,
                cross_attention_cache=cross_cache,
                cross_attention_cache_update_index=0 if fill_cross else None,
                training=False,
            )
            new_caches.append((self_cache, cross_cache))
        logits_B1C = _pointer_logits(hidden_B1D, candidates, mask_BC)
        return logits_B1C[:, 0], tuple(new_caches)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_layers": self.num_layers,
            "num_heads": self.num_heads,
            "intermediate_size": self.intermediate_size,
            "dropout": self.dropout,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "initializer_range": self.initializer_range,
            "approximate_gelu": self.approximate_gelu,
        }


def _gather(vectors_BCD: Any, slots_BS: Any) -> Any:
    return ops.take_along_axis(vectors_BCD, slots_BS[:, :, None], axis=1)


def _pointer_logits(hidden_BSD: Any, candidates: Any, mask_BC: Any) -> Any:
    """Inner products (eq. 2), which are unscaled: too large for half precision."""
    logits_BSC = ops.einsum(
        "bsd,bcd->bsc",
        ops.cast(hidden_BSD, "float32"),
        ops.cast(candidates, "float32"),
    )
    return ops.where(ops.cast(mask_BC, "bool")[:, None], logits_BSC, _NEVER)
