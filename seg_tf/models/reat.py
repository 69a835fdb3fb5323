"""ReAT, an encoder with layers within sentences and across the sentences of a text."""

# Shape key: B batch, L row length, N sentences per row, H and A hidden sizes.

import math
from collections.abc import Mapping
from typing import Any

import keras
import keras_hub

from seg_tf.config import ReATConfig, configured_by
from seg_tf.layers.common import (
    ArgumentsConfig,
    feature_inputs,
    mark_hidden_matrix,
    select_features,
)
from seg_tf.layers.embeddings import IndexEmbedding, SinusoidalTable, embedding_layers
from seg_tf.layers.reat import AlphaTransformerLayer, SentenceTransformerLayer
from seg_tf.ops.attention import gather_vectors

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
class ReAT(ArgumentsConfig, keras_hub.models.Backbone):
    """Long Text Encoder Representations with Attention Tokens (Kawano and Shimizu).

    A row of a batch contains the sentences of one or more texts, in any order and with
    any padding. `sentence_number` and `text_number` group the positions. A sentence is
    `<SS> <Attn> words </s>`, with positions from 0. Token and position embeddings pass
    through LayerNorm, dropout, transformer layers within each sentence, and a dense
    layer. Then the embedding of the sentence's position in its text is added, and alpha
    layers follow (section II.B and figure 1).

    Args:
        vocab_size: int. Number of rows in the token table.
        block_length: int. Length of a block, which is the maximum length of a sentence
            and the number of rows in the position table.
        max_sentences: int. Maximum number of sentences in a text.
        num_sentence_layers: int. Number of transformer layers within sentences.
        num_alpha_layers: int. Number of alpha layers.
        hidden_size: int. Width `H` of the embeddings and the sentence layers.
        alpha_hidden_size: int. Width `A` of the alpha layers.
        num_heads: int. Number of attention heads in the sentence layers.
        alpha_num_heads: int. Number of attention heads in the alpha layers.
        intermediate_size: int. Feed-forward width in the sentence layers.
        alpha_intermediate_size: int. Feed-forward width in the alpha layers.
        pooler: layer that `pool` applies to `<SS>`. If None, a dense layer with tanh is
            created. The config contains the pooler, so that a saved model that calls
            `pool` is loaded with a single pooler.
        dropout, …, dtype, name, trainable: as for `seg_tf.models.Encoder`.

    Call arguments:
        inputs: dict of int tensors `(B, L)` `token_ids`, `position_index`,
            `sentence_number`, `text_number` and `sentence_position`, int
            `sentence_starts` `(B, N)`, positions of `<SS>`, and bool `sentence_mask`
            `(B, N)`, False at empty slots. `block_length` must divide `L`. Other
            entries are ignored.

    Returns:
        Tensor `(B, L, A)` in the compute dtype, undefined at padding. `pool` converts
        it to sentence vectors.
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
        layer_arguments = {
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
                intermediate_size,
                num_heads,
                **layer_arguments,
                name=f"sentence_layer_{number}",
            )
            for number in range(num_sentence_layers)
        ]
        self.affine = keras.layers.Dense(
            alpha_hidden_size,
            kernel_initializer=initializer.clone(),
            dtype=dtype,
            name="affine",
        )
        self.sentence_position_embedding = IndexEmbedding(
            {"sentence_position": max_sentences},
            alpha_hidden_size,
            # The scale of the dense layer's output, to which it is added.
            embeddings_initializer=SinusoidalTable(
                initializer_range * math.sqrt(hidden_size)
            ),
            dtype=dtype,
            name="sentence_position_embedding",
        )
        self.alpha_layers = [
            AlphaTransformerLayer(
                alpha_intermediate_size,
                alpha_num_heads,
                **layer_arguments,
                name=f"alpha_layer_{number}",
            )
            for number in range(num_alpha_layers)
        ]
        self.pooler = pooler or keras.layers.Dense(
            alpha_hidden_size,
            activation="tanh",
            kernel_initializer=initializer.clone(),
            dtype=dtype,
            name="pooler",
        )
        if not self.pooler.built:
            self.pooler.build((None, None, alpha_hidden_size))

        # === Functional model ===
        inputs = feature_inputs(_FEATURES)
        position_index = {"position_index": inputs["position_index"]}
        hidden_BLH = embeddings(inputs["token_ids"], position_index)
        for layer in self.sentence_layers:
            hidden_BLH = layer(hidden_BLH, inputs["sentence_number"])
        hidden_BLA = self.affine(hidden_BLH)
        mark_hidden_matrix(self.affine.kernel)
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
        super().__init__(
            inputs=inputs,
            outputs=hidden_BLA,
            dtype=dtype,
            name=name,
            trainable=trainable,
        )

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features that the model reads from a batch."""
        return _FEATURES

    def __call__(self, inputs: Mapping[str, Any], **kwargs: Any) -> Any:
        return super().__call__(select_features(inputs, self.feature_names), **kwargs)

    def pool(self, sequence_output: Any, sentence_starts: Any) -> Any:
        """Returns sentence vectors `(B, N, A)`, the pooled outputs at `<SS>`."""
        return self.pooler(gather_vectors(sequence_output, sentence_starts))
