"""ReAT: layers inside sentences, then layers that mix those of a text."""

# Shape key: B batch, L row length, N sentences of a row, H and A hidden sizes.

import math
from collections.abc import Mapping
from typing import Any

import keras
import keras_hub

from seg_tf.config import ReATConfig, configured_by
from seg_tf.layers.common import (
    feature_inputs,
    mark_hidden_matrix,
    select_features,
    with_arguments,
)
from seg_tf.layers.embeddings import IndexEmbedding, SinusoidalTable, embedding_layers
from seg_tf.layers.reat import AlphaTransformerLayer, SentenceTransformerLayer
from seg_tf.ops.gathering import gather_vectors

_FEATURES = (
    "token_ids",
    "position_index",
    "sentence_number",
    "text_number",
    "sentence_position",
    "sentence_starts",
    "sentence_mask",
)


@configured_by(ReATConfig)
@keras.saving.register_keras_serializable(package="seg_tf")
class ReAT(keras_hub.models.Backbone):
    """Long Text Encoder Representations with Attention Tokens (Kawano and Shimizu).

    A row of a batch contains the sentences of one or more texts, each `<SS> <Attn>
    words </s>` with positions from 0, in any order and with any padding:
    `sentence_number` and `text_number` group them. Token and position embeddings go
    through LayerNorm and dropout, transformer layers inside each sentence, and an
    affine layer to the width of the alpha layers. Then the embedding of the sentence's
    place in its text is added, and alpha layers follow (section II.B and figure 1).

    A text of one sentence is encoded as by BERT up to the alpha layers, in which mixing
    adds the same vector, computed from its `<Attn>`, to all of its positions.

    Args:
        vocab_size: int. Rows of the token table.
        block_length: int. Positions of a block, so the maximum length of a sentence;
            rows of the position table.
        max_sentences: int. Sentences of a text: rows of the sentence-position table.
        num_sentence_layers: int. Transformer layers inside sentences.
        num_alpha_layers: int. Alpha layers.
        hidden_size: int. Width `H` of the embeddings and the first layers.
        alpha_hidden_size: int. Width `A` of the alpha layers.
        num_heads: int. Attention heads of the first layers.
        alpha_num_heads: int. Attention heads of the alpha layers.
        intermediate_size: int. Width inside the feed-forward blocks of the first
            layers.
        alpha_intermediate_size: int. The same for the alpha layers.
        dropout: float. Rate after the embeddings and after every block.
        attention_dropout: float. Rate on the attention weights; None is `dropout`. With
            0, no layer holds the weights of all pairs
            (`seg_tf.ops.attention.fused_attention`).
        layer_norm_epsilon: float.
        initializer_range: float. Standard deviation of the truncated normal
            distribution that kernels and tables start from, except for the sinusoids of
            sentence positions.
        approximate_gelu: bool. GELU by tanh instead of erf.
        pooler: layer that `pool` applies to `<SS>`; None creates a dense layer with
            tanh. It is part of the config, so that a model that uses `pool` too is
            loaded with one pooler, as it was saved.
        recompute_layers: bool. Whether the backward pass of training recomputes each
            transformer layer: slower, in less memory, with the same results.
        dtype: dtype or dtype policy of all layers; None uses the global policy.
        name: str. Name of the model.
        trainable: bool. Whether its weights are trained; None leaves that to its parts.

    Call arguments:
        inputs: dict of int tensors `(B, L)` `token_ids`, `position_index`,
            `sentence_number`, `text_number` and `sentence_position`, int
            `sentence_starts` `(B, N)` and bool `sentence_mask` `(B, N)`. `L` is a
            multiple of `block_length`. Other entries are ignored.

    Returns:
        Tensor `(B, L, A)` in the compute dtype, undefined at padding. `pool` turns it
        into vectors of sentences.

    Raises:
        ValueError: if heads do not divide their width, or `inputs` lacks a feature.

    Example:
    >>> from keras import ops
    >>> reat = ReAT(
    ...     vocab_size=100, block_length=4, max_sentences=8, num_sentence_layers=1,
    ...     num_alpha_layers=1, hidden_size=8, alpha_hidden_size=12, num_heads=2,
    ...     alpha_num_heads=3, intermediate_size=16, alpha_intermediate_size=16,
    ... )
    >>> sequence = reat({
    ...     "token_ids": ops.array([[2, 5, 10, 3, 2, 5, 11, 3]]),
    ...     "position_index": ops.array([[0, 1, 2, 3, 0, 1, 2, 3]]),
    ...     "sentence_number": ops.array([[1, 1, 1, 1, 2, 2, 2, 2]]),
    ...     "text_number": ops.array([[1, 1, 1, 1, 1, 1, 1, 1]]),
    ...     "sentence_position": ops.array([[0, 0, 0, 0, 1, 1, 1, 1]]),
    ...     "sentence_starts": ops.array([[0, 4]]),
    ...     "sentence_mask": ops.array([[True, True]]),
    ... })
    >>> tuple(sequence.shape)
    (1, 8, 12)
    >>> tuple(reat.pool(sequence, ops.array([[0, 4]])).shape)
    (1, 2, 12)
    """

    def __init__(
        self,
        vocab_size: int,
        block_length: int,
        max_sentences: int,
        num_sentence_layers: int,
        num_alpha_layers: int,
        hidden_size: int,
        alpha_hidden_size: int,
        num_heads: int,
        alpha_num_heads: int,
        intermediate_size: int,
        alpha_intermediate_size: int,
        dropout: float = 0.1,
        attention_dropout: float | None = None,
        layer_norm_epsilon: float = 1e-12,
        initializer_range: float = 0.02,
        approximate_gelu: bool = False,
        pooler: keras.layers.Layer | None = None,
        recompute_layers: bool = False,
        dtype: Any = None,
        name: str | None = None,
        trainable: bool | None = None,
    ):
        initializer = keras.initializers.TruncatedNormal(stddev=initializer_range)
        if attention_dropout is None:
            attention_dropout = dropout
        of_layers = {
            "block_length": block_length,
            "dropout": dropout,
            "attention_dropout": attention_dropout,
            "layer_norm_epsilon": layer_norm_epsilon,
            "initializer_range": initializer_range,
            "approximate_gelu": approximate_gelu,
            "recompute": recompute_layers,
            "dtype": dtype,
        }

        # === Config ===
        self.vocab_size = vocab_size
        self.block_length = block_length
        self.max_sentences = max_sentences
        self.num_sentence_layers = num_sentence_layers
        self.num_alpha_layers = num_alpha_layers
        self.hidden_size = hidden_size
        self.alpha_hidden_size = alpha_hidden_size
        self.num_heads = num_heads
        self.alpha_num_heads = alpha_num_heads
        self.intermediate_size = intermediate_size
        self.alpha_intermediate_size = alpha_intermediate_size
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.approximate_gelu = approximate_gelu
        self.recompute_layers = recompute_layers

        # === Layers ===
        embeddings = embedding_layers(
            vocab_size,
            {"position_index": block_length},
            hidden_size,
            index_name="position_embedding",
            dropout=dropout,
            norm=keras.layers.LayerNormalization(
                epsilon=layer_norm_epsilon, dtype=dtype, name="embeddings_layer_norm"
            ),
            initializer=initializer,
            dtype=dtype,
        )
        self.token_embedding = embeddings.tokens
        self.position_embedding = embeddings.indices
        self.embeddings_layer_norm = embeddings.norm
        self.embeddings_dropout = embeddings.dropout
        self.sentence_layers = [
            SentenceTransformerLayer(
                intermediate_size, num_heads, **of_layers, name=f"sentence_layer_{i}"
            )
            for i in range(num_sentence_layers)
        ]
        self._add_text_layers(initializer, pooler, of_layers)

        # === Functional model ===
        inputs = feature_inputs(_FEATURES)
        position_index = {"position_index": inputs["position_index"]}
        hidden_BLH = embeddings(inputs["token_ids"], position_index)
        for layer in self.sentence_layers:
            hidden_BLH = layer(hidden_BLH, inputs["sentence_number"])
        hidden_BLA = self._mixed(self.affine(hidden_BLH), inputs)
        mark_hidden_matrix(self.affine.kernel)
        super().__init__(
            inputs=inputs,
            outputs=hidden_BLA,
            dtype=dtype,
            name=name,
            trainable=trainable,
        )

    def _add_text_layers(
        self,
        initializer: keras.initializers.Initializer,
        pooler: keras.layers.Layer | None,
        of_layers: Mapping[str, Any],
    ) -> None:
        """Creates the layers of width `A`, in which the sentences of a text meet."""
        dtype = of_layers["dtype"]
        self.affine = keras.layers.Dense(
            self.alpha_hidden_size,
            kernel_initializer=initializer.clone(),
            dtype=dtype,
            name="affine",
        )
        self.sentence_position_embedding = IndexEmbedding(
            {"sentence_position": self.max_sentences},
            self.alpha_hidden_size,
            # As large as what it is added to, an affine map of a LayerNorm's output.
            embeddings_initializer=SinusoidalTable(
                self.initializer_range * math.sqrt(self.hidden_size)
            ),
            dtype=dtype,
            name="sentence_position_embedding",
        )
        self.alpha_layers = [
            AlphaTransformerLayer(
                self.alpha_intermediate_size,
                self.alpha_num_heads,
                **of_layers,
                name=f"alpha_layer_{layer}",
            )
            for layer in range(self.num_alpha_layers)
        ]
        self.pooler = pooler or keras.layers.Dense(
            self.alpha_hidden_size,
            activation="tanh",
            kernel_initializer=initializer.clone(),
            dtype=dtype,
            name="pooler",
        )
        if not self.pooler.built:
            self.pooler.build((None, None, self.alpha_hidden_size))

    def _mixed(self, hidden_BLA: Any, inputs: Mapping[str, Any]) -> Any:
        """The alpha layers, on sentences that know their place in the text."""
        hidden_BLA = hidden_BLA + self.sentence_position_embedding(
            {"sentence_position": inputs["sentence_position"]}
        )
        for layer in self.alpha_layers:
            hidden_BLA = layer(
                hidden_BLA,
                inputs["sentence_number"],
                inputs["text_number"],
                inputs["sentence_starts"] + 1,
                inputs["sentence_mask"],
            )
        return hidden_BLA

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features that the model reads from a batch."""
        return _FEATURES

    def __call__(self, inputs: Mapping[str, Any], **kwargs: Any) -> Any:
        return super().__call__(select_features(inputs, self.feature_names), **kwargs)

    def pool(self, sequence_output: Any, sentence_starts: Any) -> Any:
        """Vectors of sentences `(B, N, A)`: a dense layer with tanh on their `<SS>`."""
        return self.pooler(gather_vectors(sequence_output, sentence_starts))

    def get_config(self) -> dict[str, Any]:
        # The pooler is not serialized yet: Keras does it, and marks what it meets twice
        # in a model. Of a copy made here loading would make a second pooler.
        return with_arguments(super().get_config(), self, ReAT)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "ReAT":
        pooler = config.get("pooler")
        if isinstance(pooler, keras.layers.Layer):  # another model's own
            pooler = keras.saving.serialize_keras_object(pooler)
        if pooler is not None:
            pooler = keras.saving.deserialize_keras_object(pooler)
        return super().from_config({**config, "pooler": pooler})
