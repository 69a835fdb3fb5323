"""Embeddings of word pieces and their indices, as in BERT."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import keras
import keras_hub

from seg_tf.layers.dropout import Dropout
from seg_tf.layers.index_embedding import IndexEmbedding


class EmbeddingLayers(NamedTuple):
    """Layers that sum the embeddings of tokens and indices, as in BERT.

    `indices` is None where nothing but tokens is embedded.
    """

    tokens: keras_hub.layers.ReversibleEmbedding
    indices: IndexEmbedding | None
    norm: keras.layers.Layer
    dropout: Dropout

    def __call__(self, token_ids: Any, indices: Mapping[str, Any]) -> Any:
        hidden = self.tokens(token_ids)
        if self.indices is not None:
            hidden = hidden + self.indices(indices)
        return self.dropout(self.norm(hidden))


def embedding_layers(
    vocab_size: int | None,
    index_tables: Mapping[str, int],
    hidden_size: int,
    *,
    index_name: str,
    dropout: float,
    norm: keras.layers.Layer,
    initializer: keras.initializers.Initializer,
    dtype: Any,
) -> EmbeddingLayers:
    """The layers that embed word pieces and their indices.

    Raises:
        ValueError: if `vocab_size` is none.
    """
    if vocab_size is None or vocab_size < 1:
        raise ValueError(
            "`vocab_size` must be at least 1; where a config leaves it to the "
            f"records, pass theirs. Received: vocab_size={vocab_size}"
        )
    tokens = keras_hub.layers.ReversibleEmbedding(
        vocab_size,
        hidden_size,
        embeddings_initializer=initializer.clone(),
        dtype=dtype,
        name="token_embedding",
    )
    # Unset, a half-precision policy would compute the logits in float32.
    tokens.reverse_dtype = tokens.compute_dtype
    indices = index_tables and IndexEmbedding(
        index_tables,
        hidden_size,
        embeddings_initializer=initializer.clone(),
        dtype=dtype,
        name=index_name,
    )
    dropout_layer = Dropout(dropout, dtype=dtype, name="embeddings_dropout")
    return EmbeddingLayers(tokens, indices or None, norm, dropout_layer)
