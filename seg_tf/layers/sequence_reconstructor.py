"""SLM's decoder, which points at the sentences of a row one after another."""

# Shape key: B batch, C candidates, S steps, D hidden size.

from typing import Any

import keras
import keras_hub
from keras import ops

from seg_tf.layers.common import ArgumentsConfig, gelu
from seg_tf.ops.attention import gather_vectors

# Logit of a forbidden candidate: finite, so that rows of padding have no NaN.
_NEVER = -1e9


@keras.saving.register_keras_serializable(package="seg_tf")
class SequenceReconstructor(ArgumentsConfig, keras.layers.Layer):
    """SLM's Sequence Reconstructor: a transformer decoder that points (section 2.1).

    Step i reads the candidate that step i - 1 points at (`[CLS]` at first), attends to
    those read so far and to all candidates, and points at the next one by the inner
    product of its output with each candidate (eq. 1 and 2).

    Neither candidates nor steps have positions: permuting the candidates permutes the
    logits. The caller passes them in an order that does not depend on the gold order.

    Args:
        num_layers: int. Decoder layers.
        num_heads, …, approximate_gelu: as for `seg_tf.models.Encoder`.
        scale_pointers: bool. Whether the inner products are divided by the root of the
            width, as in attention. Eq. 2 does not.
        normalize_first: bool. Whether layers are pre-norm instead of post-norm; the
            outputs of the last layer are then not normalised.

    Call arguments:
        candidates: float tensor `(B, C, D)`: `[CLS]`, the sentences, `[SEP]`, padding.
        candidate_mask: bool tensor `(B, C)`, False at padding.
        gold_candidates: int tensor `(B, S)`: the candidate that each step should point
            at. The next step reads it.
        training: bool. Whether there is dropout.

    Returns:
        Logits, a float32 tensor `(B, S, C)`, undefined after a row's last step.

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
        scale_pointers: bool = False,
        normalize_first: bool = False,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.num_layers = num_layers
        self.num_heads = num_heads
        self.intermediate_size = intermediate_size
        self.dropout = dropout
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.approximate_gelu = approximate_gelu
        self.scale_pointers = scale_pointers
        self.normalize_first = normalize_first
        self.decoder_layers = [
            keras_hub.layers.TransformerDecoder(
                intermediate_dim=intermediate_size,
                num_heads=num_heads,
                dropout=dropout,
                activation=gelu(approximate_gelu),
                layer_norm_epsilon=layer_norm_epsilon,
                normalize_first=normalize_first,
                kernel_initializer=keras.initializers.TruncatedNormal(
                    stddev=initializer_range
                ),
                dtype=self.dtype_policy,
                name=f"decoder_layer_{layer}",
            )
            for layer in range(num_layers)
        ]

    def build(self, candidates_shape: Any) -> None:
        hidden_size = candidates_shape[-1]
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
        hidden_BSD = gather_vectors(candidates, read_BS)
        for layer in self.decoder_layers:
            hidden_BSD = layer(
                hidden_BSD,
                candidates,
                encoder_padding_mask=candidate_mask,
                training=training,
            )
        scale = hidden_BSD.shape[-1] ** -0.5 if self.scale_pointers else 1.0
        # Eq. 2, whose products are too large for half precision.
        logits_BSC = ops.einsum(
            "bsd,bcd->bsc",
            ops.cast(hidden_BSD, "float32"),
            ops.cast(candidates, "float32") * scale,
        )
        mask_B1C = ops.cast(candidate_mask, "bool")[:, None]
        return ops.where(mask_B1C, logits_BSC, _NEVER)

    def decode(self, candidates: Any, candidate_mask: Any) -> tuple[Any, Any]:
        """Points at the likeliest candidate at each step, and reads it at the next.

        Earlier choices, `[CLS]` and padding are excluded, and `[SEP]` is allowed only
        after every sentence. There are no gradients.

        Returns:
            The order, int32 `(B, S)` with S = C - 1: the candidate of each step,
            `[SEP]` after all sentences, then 0. And the probability of each among the
            remaining candidates, float32 `(B, S)`.
        """
        mask_BC = ops.cast(candidate_mask, "bool")
        batch, num_candidates = ops.shape(mask_BC)
        slots_C = ops.arange(num_candidates, dtype="int32")
        last_B = ops.sum(ops.cast(mask_BC, "int32"), axis=1) - 1
        is_sentence_BC = ops.logical_and(slots_C > 0, slots_C < last_B[:, None])

        def point(step: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
            left_BC, order_BS, probabilities_BS = state
            # Attention is causal: this step does not see the unknown later ones.
            logits_BSC = self(candidates, mask_BC, order_BS, training=False)
            sentences_BC = ops.logical_and(left_BC, is_sentence_BC)
            any_B1 = ops.any(sentences_BC, axis=1, keepdims=True)
            allowed_BC = ops.where(any_B1, sentences_BC, left_BC)
            logits_BC = ops.take(logits_BSC, step, axis=1)
            logits_BC = ops.where(allowed_BC, logits_BC, _NEVER)
            # Slot 0 with probability 0 after the last step.
            slot_B1 = ops.argmax(logits_BC, axis=1, keepdims=True)
            slot_B1 = ops.cast(slot_B1, "int32")
            probability_B1 = ops.where(
                ops.any(allowed_BC, axis=1, keepdims=True),
                ops.max(ops.softmax(logits_BC, axis=1), axis=1, keepdims=True),
                0.0,
            )
            is_now_S = ops.equal(slots_C[:-1], step)
            return (
                ops.logical_and(left_BC, ops.not_equal(slots_C, slot_B1)),
                ops.where(is_now_S, slot_B1, order_BS),
                ops.where(is_now_S, probability_B1, probabilities_BS),
            )

        num_steps = num_candidates - 1
        state = (
            ops.logical_and(mask_BC, slots_C > 0),
            ops.zeros((batch, num_steps), dtype="int32"),
            ops.zeros((batch, num_steps), dtype="float32"),
        )
        _, order_BS, probabilities_BS = ops.fori_loop(0, num_steps, point, state)
        return order_BS, ops.stop_gradient(probabilities_BS)
