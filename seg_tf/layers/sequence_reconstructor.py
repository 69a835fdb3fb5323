"""SLM's decoder, which predicts the order of the sentences in a row."""

# Shape key: B batch, C candidates, S steps, D hidden size.

from typing import Any

import keras
import keras_hub
from keras import ops

from seg_tf.layers.common import ArgumentsConfig, gelu
from seg_tf.ops.attention import gather_vectors

# Logit of an excluded candidate: finite, so that rows of padding give no NaN.
_NEVER = -1e9


@keras.saving.register_keras_serializable(package="seg_tf")
class SequenceReconstructor(ArgumentsConfig, keras.layers.Layer):
    """A transformer decoder with a pointer to the next sentence (SLM, section 2.1).

    The first step reads `[CLS]`, and each later step reads the candidate selected by
    the previous one. A step attends to the candidates read so far and, by
    cross-attention, to all candidates. Its logits are inner products of its output with
    all candidates (eqs. 1 and 2). There are no position embeddings, so permuting the
    candidates permutes the logits. Candidate order must not depend on gold order,
    because `decode` breaks ties by candidate order.

    Args:
        num_layers: int. Number of decoder layers.
        num_heads, …, approximate_gelu: as for `seg_tf.models.Encoder`.
        scale_pointers: bool. Whether to divide the inner products by the square root of
            the width, as in attention but not in eq. 2.
        normalize_first: bool. Whether layers are pre-norm instead of post-norm. The
            outputs of the last layer are then not normalized.

    Call arguments:
        candidates: float tensor `(B, C, D)`: `[CLS]`, the sentences, `[SEP]`, padding.
        candidate_mask: bool tensor `(B, C)`, False at padding.
        gold_candidates: int tensor `(B, S)`, correct candidate of each step, which the
            next step reads.
        training: bool. Whether to apply dropout.

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
            # On a GPU, Keras on JAX would try cuDNN's kernel, which rejects these
            # masks, and log a traceback at every attempt.
            layer._self_attention_layer._flash_attention = False
            layer._cross_attention_layer._flash_attention = False

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
        # Eq. 2 in float32, because the products are too large for half precision.
        logits_BSC = ops.einsum(
            "bsd,bcd->bsc",
            ops.cast(hidden_BSD, "float32"),
            ops.cast(candidates, "float32") * scale,
        )
        mask_B1C = ops.cast(candidate_mask, "bool")[:, None]
        return ops.where(mask_B1C, logits_BSC, _NEVER)

    def decode(self, candidates: Any, candidate_mask: Any) -> tuple[Any, Any]:
        """Decodes an order greedily, with the most probable candidate at each step.

        Earlier choices, `[CLS]` and padding are excluded, and `[SEP]` is allowed only
        after all sentences. There are no gradients.

        Returns:
            Two tensors `(B, S)` with S = C - 1: the int32 candidate of each step
            (`[SEP]` after all sentences, then 0), and its float32 probability among the
            remaining candidates.
        """
        mask_BC = ops.cast(candidate_mask, "bool")
        batch, num_candidates = ops.shape(mask_BC)
        slots_C = ops.arange(num_candidates, dtype="int32")
        last_B = ops.sum(ops.cast(mask_BC, "int32"), axis=1) - 1
        is_sentence_BC = ops.logical_and(slots_C > 0, slots_C < last_B[:, None])

        def point(step: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
            left_BC, order_BS, probabilities_BS = state
            # Attention is causal: this step does not see later, unknown steps.
            logits_BSC = self(candidates, mask_BC, order_BS, training=False)
            sentences_BC = ops.logical_and(left_BC, is_sentence_BC)
            any_B1 = ops.any(sentences_BC, axis=1, keepdims=True)
            allowed_BC = ops.where(any_B1, sentences_BC, left_BC)
            logits_BC = ops.take(logits_BSC, step, axis=1)
            logits_BC = ops.where(allowed_BC, logits_BC, _NEVER)
            # After the last step, the result is slot 0 with probability 0.
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
