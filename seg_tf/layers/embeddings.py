"""Layers that embed word pieces and their indices."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import keras
import keras_hub
from keras import ops

from seg_tf.layers.common import ArgumentsConfig, Dropout, select_features
from seg_tf.ops import relative_logits

# Shape key: B batch, L sequence length, R rows of a table, D hidden size.


@keras.saving.register_keras_serializable(package="seg_tf")
class IndexEmbedding(ArgumentsConfig, keras.layers.Layer):
    """Sums the learned embeddings of several index features.

    With `position_index` only, this is BERT's position embedding. With
    `paragraph_index`, `sentence_index` and `token_index`, it is SegaBERT's embedding
    (Segatron, section 3.2). The sum is computed in the dtype of the tables and then
    cast to the compute dtype.

    Args:
        tables: dict that maps each feature name to the number of rows in its table.
        hidden_size: int. Width `D` of the output.
        embeddings_initializer: initializer of the tables.

    Call arguments:
        features: dict of int tensors `(B, L)`, each below the number of rows in its
            table. Features without a table are ignored.

    Returns:
        Tensor `(B, L, D)` in the layer's compute dtype.

    Example:
    >>> embedding = IndexEmbedding({"paragraph_index": 50, "token_index": 256}, 8)
    >>> index = ops.array([[0, 1, 2]])
    >>> tuple(embedding({"paragraph_index": index, "token_index": index}).shape)
    (1, 3, 8)
    """

    def __init__(
        self,
        tables: Mapping[str, int],
        hidden_size: int,
        embeddings_initializer: Any = "uniform",
        **kwargs: Any,
    ):
        # Tables are summed in their own dtype. Indices need no cast.
        super().__init__(autocast=False, **kwargs)
        # Weights are saved in this order.
        self.tables = dict(sorted(tables.items()))
        self.hidden_size = hidden_size
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)

    def build(self, features_shape: Any = None) -> None:
        self.embeddings = {
            name: self.add_weight(
                name=name,
                shape=(rows, self.hidden_size),
                # The same initializer would draw the same numbers at every call.
                initializer=self.embeddings_initializer.clone(),
                autocast=False,
            )
            for name, rows in self.tables.items()
        }

    def call(self, features: Mapping[str, Any]) -> Any:
        features = select_features(features, self.tables)
        sum_BLD = None
        for name, table in self.embeddings.items():
            # Gathering from a variable has a sparse gradient. If a row occurs twice in
            # it, Keras's Adam sums the squares instead of squaring the sum. After a
            # reshape, the gradient is a dense tensor, which is also faster.
            table_RD = ops.reshape(table, (self.tables[name], self.hidden_size))
            vectors_BLD = ops.take(table_RD, features[name], axis=0)
            sum_BLD = vectors_BLD if sum_BLD is None else sum_BLD + vectors_BLD
        return ops.cast(sum_BLD, self.compute_dtype)

    def compute_output_shape(
        self, features_shape: Mapping[str, Any]
    ) -> tuple[Any, ...]:
        return (*features_shape[next(iter(self.tables))], self.hidden_size)


@keras.saving.register_keras_serializable(package="seg_tf")
class SinusoidalTable(keras.initializers.Initializer):
    """Initializer that sets row k to the sinusoids of position k.

    See Vaswani et al., 2017, section 3.5. `stddev` is the entries' root mean square.
    """

    def __init__(self, stddev: float):
        self.stddev = stddev

    def __call__(self, shape: tuple[int, int], dtype: Any = None) -> Any:
        rows, width = shape
        # If the width is odd, the last pair of sine and cosine is truncated.
        vectors = relative_logits.position_vectors(ops.arange(rows), width + width % 2)
        # The mean square of a sine is 1/2.
        return ops.cast(math.sqrt(2) * self.stddev * vectors[:, :width], dtype)

    def get_config(self) -> dict[str, Any]:
        return {"stddev": self.stddev}


class EmbeddingLayers(NamedTuple):
    """Layers that embed tokens and indices, then apply a norm and dropout, as in BERT.

    `indices` is None if only tokens are embedded.
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
    """Creates `EmbeddingLayers`, without `indices` if `index_tables` is empty.

    Raises ValueError if `vocab_size` is None or less than 1.
    """
    if vocab_size is None or vocab_size < 1:
        raise ValueError(
            "`vocab_size` must be at least 1. A config without it uses the records' "
            f"size. Received: vocab_size={vocab_size}"
        )
    tokens = keras_hub.layers.ReversibleEmbedding(
        vocab_size,
        hidden_size,
        embeddings_initializer=initializer.clone(),
        dtype=dtype,
        name="token_embedding",
    )
    # By default, the logits would be in float32 even under a half-precision policy.
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
