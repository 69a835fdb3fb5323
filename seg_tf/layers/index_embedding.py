"""The sum of the learned vectors that an embedding layer adds to its tokens."""

# Shape key: B batch, L sequence length, R rows of a table, D hidden size.

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from seg_tf.layers.constructor_arguments import with_arguments


@keras.saving.register_keras_serializable(package="seg_tf")
class IndexEmbedding(keras.layers.Layer):
    """Sums one learned vector for every index feature that has a table.

    With `position_index` alone this is BERT's position embedding; with
    `paragraph_index`, `sentence_index` and `token_index` it is SegaBERT's
    (Segatron, section 3.2). Which features there are is the caller's choice.

    The sum is taken in the dtype of the tables and rounded to the compute dtype
    once.

    Args:
        tables: mapping of feature name to the rows of its table.
        hidden_size: int. Width `D` of the output.
        embeddings_initializer: initializer of every table.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        features: dict of int tensors `(B, L)`, each below its table's rows. Only
            those named in `tables` are read.

    Returns:
        Tensor `(B, L, D)` in the layer's compute dtype.

    Raises:
        ValueError: if `tables` is empty or holds a table without rows, or if
            `features` lacks one of them.

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
        # The tables are summed as they are stored; indices need no casting.
        super().__init__(autocast=False, **kwargs)
        if not tables or min(tables.values()) < 1:
            raise ValueError(
                "`tables` must name at least one feature and give each at least "
                f"one row. Received: tables={dict(tables)}"
            )
        # Weights are saved in the order of the tables, which must not depend on how
        # somebody happened to write them down.
        self.tables = dict(sorted(tables.items()))
        self.hidden_size = hidden_size
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)

    def build(self, features_shape: Any = None) -> None:
        self.embeddings = {
            name: self.add_weight(
                name=name,
                shape=(rows, self.hidden_size),
                # One initializer draws the same numbers at every call.
                initializer=self.embeddings_initializer.clone(),
                autocast=False,
            )
            for name, rows in self.tables.items()
        }

    def call(self, features: Mapping[str, Any]) -> Any:
        missing = self.tables.keys() - features.keys()
        if missing:
            raise ValueError(
                f"`features` must hold {sorted(self.tables)}, one for each table. "
                f"It lacks: {sorted(missing)}"
            )
        sum_BLD = None
        for name, table in self.embeddings.items():
            # The gradient of gathering from a variable is a list of rows, some
            # twice, whose squares Keras' Adam sums where it has to square the
            # sum. After a reshape it is an ordinary tensor, which for tables of
            # this size is also the faster form.
            table_RD = ops.reshape(table, (self.tables[name], self.hidden_size))
            vectors_BLD = ops.take(table_RD, features[name], axis=0)
            sum_BLD = vectors_BLD if sum_BLD is None else sum_BLD + vectors_BLD
        return ops.cast(sum_BLD, self.compute_dtype)

    def compute_output_shape(
        self, features_shape: Mapping[str, Any]
    ) -> tuple[Any, ...]:
        batch_and_length = next(iter(features_shape.values()))
        return (*batch_and_length, self.hidden_size)

    def get_config(self) -> dict[str, Any]:
        return with_arguments(super().get_config(), self, IndexEmbedding)
