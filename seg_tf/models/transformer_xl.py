"""Transformer-XL and Sega-Transformer-XL, decoders with memory of earlier segments."""

# Shape key: B batch, T segment length, M memory length, N layers, D hidden size.

from collections.abc import Mapping, Sequence
from typing import Any

import keras
from keras import ops

from seg_tf.config import TransformerXLConfig, configured_by
from seg_tf.layers.adaptive import AdaptiveEmbedding
from seg_tf.layers.common import ArgumentsConfig, Dropout, select_features
from seg_tf.layers.transformer_xl import PARTS, RelativePositions, TransformerXLLayer

_INDICES = tuple(f"stream_{part}" for part in PARTS)
_MEMORY = ("memory_hidden", "memory_indices")
# Token index of empty memory, which is masked.
_NOWHERE = -(2**31)


@configured_by(TransformerXLConfig)
@keras.saving.register_keras_serializable(package="seg_tf")
class TransformerXL(ArgumentsConfig, keras.Model):
    """The decoder of a language model, with memory and relative positions.

    `position_parts` defines the model (Segatron, section 2.1). `("token",)` defines
    Transformer-XL (Dai et al., 2019), and the default defines Sega-Transformer-XL.

    The memory is both an input and an output. It contains the inputs of every layer at
    the last `memory_length` tokens, and the tokens' indices in the stream. Memory that
    does not directly precede the segment is ignored. Gradients do not flow into it.

    Args:
        vocab_size: int. Number of words.
        position_parts: one or more of "token", "sentence", "paragraph", in this order.
        num_layers: int. Number of layers `N`.
        hidden_size: int. Width `D`.
        num_heads: int. Number of attention heads.
        head_size: int. Size of each attention head.
        intermediate_size: int. Width inside the feed-forward blocks.
        memory_length: int. Length `M` of the memory. Weights do not depend on it.
        dropout: float. Dropout rate of the embeddings, the position vectors, the layers
            and the output.
        attention_dropout: float. Dropout rate of the attention weights.
        cutoffs, embedding_size, tail_divisor, projection_range: as for
            `seg_tf.layers.AdaptiveEmbedding`.
        layer_norm_epsilon: float. Epsilon of LayerNorm.
        initializer_range: float. Standard deviation of the normal distribution that
            initializes the weights.
        static_shapes: bool. Whether shapes must not depend on the text, for XLA and
            JAX. This is slower.
        recompute_layers, dtype: as for `seg_tf.models.Encoder`.

    Call arguments:
        inputs: dict of int tensors `(B, T)` `token_ids`, `stream_token`,
            `stream_sentence` and `stream_paragraph`, and optionally the memory that the
            previous call returned: `memory_hidden` `(B, N, M, D)` and `memory_indices`
            `(B, M, 3)`. By default, memory is empty. Other entries are ignored.

    Returns:
        The output `(B, T, D)`, and a dict of the memory for the next segment.
    """

    def __init__(
        self,
        vocab_size: int,
        position_parts: Sequence[str] = PARTS,
        num_layers: int = 16,
        hidden_size: int = 410,
        num_heads: int = 10,
        head_size: int = 41,
        intermediate_size: int = 2100,
        memory_length: int = 150,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        cutoffs: Sequence[int] = (),
        embedding_size: int = 410,
        tail_divisor: int = 1,
        layer_norm_epsilon: float = 1e-5,
        initializer_range: float = 0.02,
        projection_range: float = 0.01,
        static_shapes: bool = False,
        recompute_layers: bool = False,
        dtype: Any = None,
        **kwargs: Any,
    ):
        super().__init__(dtype=dtype, **kwargs)
        self.vocab_size = vocab_size
        self.position_parts = tuple(position_parts)
        self.num_layers = num_layers
        self.hidden_size = hidden_size
        self.num_heads = num_heads
        self.head_size = head_size
        self.intermediate_size = intermediate_size
        self.memory_length = memory_length
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.cutoffs = tuple(cutoffs)
        self.embedding_size = embedding_size
        self.tail_divisor = tail_divisor
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.projection_range = projection_range
        self.static_shapes = static_shapes
        self.recompute_layers = recompute_layers
        self.token_embedding = AdaptiveEmbedding(
            vocab_size,
            hidden_size,
            embedding_size,
            self.cutoffs,
            tail_divisor,
            initializer_range=initializer_range,
            projection_range=projection_range,
            dtype=self.dtype_policy,
            name="token_embedding",
        )
        self.relative_positions = RelativePositions(
            hidden_size,
            self.position_parts,
            dropout,
            static_shapes,
            dtype=self.dtype_policy,
            name="relative_positions",
        )
        self.dropout_layer = Dropout(dropout, dtype=self.dtype_policy, name="dropout")
        self.transformer_layers = [
            TransformerXLLayer(
                num_heads,
                head_size,
                intermediate_size,
                dropout=dropout,
                attention_dropout=attention_dropout,
                layer_norm_epsilon=layer_norm_epsilon,
                initializer_range=initializer_range,
                recompute=recompute_layers,
                dtype=self.dtype_policy,
                name=f"transformer_layer_{number}",
            )
            for number in range(num_layers)
        ]
        self.build()

    def build(self, input_shape: Any = None) -> None:
        """Creates all weights, which do not depend on the input shape."""
        self.token_embedding.build()
        for layer in self.transformer_layers:
            layer.build((None, None, self.hidden_size))
        shape = (self.num_heads, self.head_size)
        self.content_bias = self.add_weight(
            name="content_bias", shape=shape, initializer=self._initializer()
        )
        self.position_bias = self.add_weight(
            name="position_bias", shape=shape, initializer=self._initializer()
        )
        self.built = True

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features that the model reads from a batch."""
        return ("token_ids", *_INDICES)

    def initial_memory(self, num_rows: Any) -> dict[str, Any]:
        """Returns empty `memory_hidden` and `memory_indices` for `num_rows` rows."""
        size = self.memory_length
        hidden = (num_rows, self.num_layers, size, self.hidden_size)
        indices = (num_rows, size, len(_INDICES))
        return {
            "memory_hidden": ops.zeros(hidden, dtype=self.compute_dtype),
            "memory_indices": ops.full(indices, _NOWHERE, dtype="int32"),
        }

    def call(
        self, inputs: Mapping[str, Any], training: Any = None
    ) -> tuple[Any, dict[str, Any]]:
        if not any(name in inputs for name in _MEMORY):
            select_features(inputs, self.feature_names)
            memory = self.initial_memory(ops.shape(inputs["token_ids"])[0])
            inputs = {**inputs, **memory}
        inputs = select_features(inputs, (*self.feature_names, *_MEMORY))
        memory_hidden_BNMD, memory_indices_BM3 = (inputs[name] for name in _MEMORY)
        indices_BT3 = ops.stack(
            [ops.cast(inputs[name], "int32") for name in _INDICES], axis=-1
        )
        positions, mask = self.relative_positions(
            indices_BT3, memory_indices_BM3, training=training
        )
        hidden_BTD = self.token_embedding(inputs["token_ids"])
        hidden_BTD = self.dropout_layer(hidden_BTD, training=training)
        layer_inputs = []
        for number, layer in enumerate(self.transformer_layers):
            layer_inputs.append(hidden_BTD)
            hidden_BTD = layer(
                hidden_BTD,
                memory_hidden_BNMD[:, number],
                positions,
                mask,
                self.content_bias,
                self.position_bias,
                training=training,
            )
        hidden_BTD = self.dropout_layer(hidden_BTD, training=training)
        memory = {
            "memory_hidden": self._newest(
                memory_hidden_BNMD, ops.stack(layer_inputs, axis=1), axis=2
            ),
            "memory_indices": self._newest(memory_indices_BM3, indices_BT3, axis=1),
        }
        return hidden_BTD, memory

    def _newest(self, memory: Any, added: Any, axis: int) -> Any:
        """Appends `added` to `memory` along an axis, and returns the last M entries."""
        if not self.memory_length:
            return memory
        both = ops.concatenate([memory, ops.cast(added, memory.dtype)], axis=axis)
        length = ops.shape(both)[axis]
        newest = ops.arange(length - self.memory_length, length, dtype="int32")
        return ops.stop_gradient(ops.take(both, newest, axis=axis))

    def _initializer(self) -> keras.initializers.Initializer:
        return keras.initializers.RandomNormal(stddev=self.initializer_range)
