"""Adaptive embeddings and softmax, which are narrower and cheaper for rare words."""

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
from keras import ops

from seg_tf.layers.common import ArgumentsConfig
from seg_tf.ops.losses import cross_entropy, pad_vocabulary

# Shape key: B batch, L sequence length, N positions, M positions with targets in a
# tail, D hidden size, V words of a part, E width of their vectors, T tails.


class Part(NamedTuple):
    """Words `begin` to `end - 1` by frequency rank, with vectors of one width."""

    begin: int
    end: int
    width: int


@keras.saving.register_keras_serializable(package="seg_tf")
class AdaptiveEmbedding(ArgumentsConfig, keras.layers.Layer):
    """Embeds words that are numbered by decreasing frequency.

    The cutoffs divide the words into a head of frequent words and tails of rarer words.
    Part i has vectors of width `embedding_size // tail_divisor**i` and a matrix that
    projects them to the hidden size (Baevski and Auli, 2019, section 3). If
    `tail_divisor` is 1, there is a single table, which is projected only if its width
    differs from the hidden size. Vectors are multiplied by the square root of the
    hidden size, as in Transformer-XL. `AdaptiveSoftmax` shares the vectors.

    Args:
        vocab_size: int. Number of words.
        hidden_size: int. Width `D` of the output.
        embedding_size: int. Width of the head's vectors.
        cutoffs: sequence of int. Id of each tail's first word, in increasing order.
        tail_divisor: int. Factor by which each part is narrower than the previous part.
        initializer_range: float. Initial standard deviation of the tables.
        projection_range: float. Initial standard deviation of the projections.

    Call arguments:
        token_ids: int tensor `(B, L)`, each below `vocab_size`.

    Returns:
        Tensor `(B, L, D)` in the layer's compute dtype.

    Example:
    >>> embedding = AdaptiveEmbedding(
    ...     vocab_size=100, hidden_size=8, embedding_size=8, cutoffs=(10, 40),
    ...     tail_divisor=2,
    ... )
    >>> [tuple(part) for part in embedding.parts]
    [(0, 10, 8), (10, 40, 4), (40, 100, 2)]
    >>> tuple(embedding(ops.array([[0, 11, 99]])).shape)
    (1, 3, 8)
    """

    def __init__(
        self,
        vocab_size: int,
        hidden_size: int,
        embedding_size: int,
        cutoffs: Sequence[int] = (),
        tail_divisor: int = 1,
        initializer_range: float = 0.02,
        projection_range: float = 0.01,
        **kwargs: Any,
    ):
        # Rows are looked up in the tables' dtype and then cast.
        super().__init__(autocast=False, **kwargs)
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.embedding_size = embedding_size
        self.cutoffs = tuple(cutoffs)
        self.tail_divisor = tail_divisor
        self.initializer_range = initializer_range
        self.projection_range = projection_range
        self._check_arguments()
        self.parts = [
            Part(begin, end, embedding_size // tail_divisor**number)
            for number, (begin, end) in enumerate(
                itertools.pairwise((0, *self.cutoffs, vocab_size))
            )
        ]

    @property
    def is_projected(self) -> bool:
        return self.tail_divisor != 1 or self.embedding_size != self.hidden_size

    def build(self, token_ids_shape: Any = None) -> None:
        is_one_table = self.tail_divisor == 1
        whole = Part(0, self.vocab_size, self.embedding_size)
        self._tables, self._projections = [], []
        for number, part in enumerate([whole] if is_one_table else self.parts):
            ending = "" if is_one_table else f"_{number}"
            table = self.add_weight(
                name=f"table{ending}",
                shape=(part.end - part.begin, part.width),
                initializer=keras.initializers.RandomNormal(
                    stddev=self.initializer_range
                ),
                autocast=False,
            )
            self._tables.append(table)
            if self.is_projected:
                self._projections.append(
                    self.add_projection(self, f"projection{ending}", part.width)
                )

    def add_projection(
        self, layer: keras.layers.Layer, name: str, width: int
    ) -> keras.Variable:
        """Adds a projection matrix `(width, D)` to a layer and returns it."""
        return layer.add_weight(
            name=name,
            shape=(width, self.hidden_size),
            initializer=keras.initializers.RandomNormal(stddev=self.projection_range),
            autocast=False,
        )

    def call(self, token_ids: Any) -> Any:
        if self.tail_divisor == 1:
            sum_BLD = self._vectors(0, token_ids)
        else:
            # Every part is looked up at every position, so that shapes do not depend on
            # the words. The projections of tails are narrow and cheap.
            sum_BLD = 0
            for number, part in enumerate(self.parts):
                rows_BL = ops.clip(token_ids - part.begin, 0, part.end - part.begin - 1)
                is_in_part_BL = ops.logical_and(
                    token_ids >= part.begin, token_ids < part.end
                )
                sum_BLD += self._vectors(number, rows_BL, is_in_part_BL[:, :, None])
        return ops.cast(sum_BLD, self.compute_dtype)

    def compute_output_shape(self, token_ids_shape: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*token_ids_shape, self.hidden_size)

    def part_tables(self) -> list[Any]:
        """Returns the word vectors `(V, E)` of each part in the compute dtype."""
        if self.tail_divisor == 1:
            tables = split_rows(self._tables[0], self.cutoffs)
        else:
            tables = self._tables
        return [ops.cast(table_VE, self.compute_dtype) for table_VE in tables]

    def part_projections(self) -> list[Any]:
        """Returns a list of each part's projection `(E, D)`, None if not projected."""
        if not self.is_projected:
            return [None] * len(self.parts)
        return [
            ops.cast(matrix_ED, self.compute_dtype) for matrix_ED in self._projections
        ] * (len(self.parts) if self.tail_divisor == 1 else 1)

    def _vectors(self, number: int, rows_BL: Any, is_in_part_BL1: Any = None) -> Any:
        """Looks up, projects and scales rows of a table. Masked positions give 0."""
        table_VE = self._tables[number]
        # See `IndexEmbedding` for the reshape.
        vectors_BLE = ops.take(ops.reshape(table_VE, table_VE.shape), rows_BL, axis=0)
        if is_in_part_BL1 is not None:
            vectors_BLE = ops.where(is_in_part_BL1, vectors_BLE, 0)
        if self.is_projected:
            projection_ED = ops.cast(self._projections[number], self.compute_dtype)
            vectors_BLE = ops.cast(vectors_BLE, self.compute_dtype)
            vectors_BLE = ops.matmul(vectors_BLE, projection_ED)
        return vectors_BLE * math.sqrt(self.hidden_size)

    def _check_arguments(self) -> None:
        limits = (0, *self.cutoffs, self.vocab_size)
        if any(begin >= end for begin, end in itertools.pairwise(limits)):
            raise ValueError(
                "`cutoffs` must rise, from above 0 to below `vocab_size`. Received: "
                f"cutoffs={self.cutoffs}, vocab_size={self.vocab_size}"
            )
        num_tails = len(self.cutoffs)
        if self.tail_divisor < 1 or self.embedding_size < self.tail_divisor**num_tails:
            raise ValueError(
                "`tail_divisor` must be at least 1 and leave the vectors of all tails "
                f"a width. Received: tail_divisor={self.tail_divisor}, "
                f"embedding_size={self.embedding_size}, {num_tails} tails"
            )


def split_rows(table: Any, cutoffs: Sequence[int]) -> list[Any]:
    """Splits the rows of a table at the cutoffs into a list of tensors."""
    # The gradient of a split is a single concatenation. Each slice would have a
    # gradient as large as the table.
    if not cutoffs:
        return [ops.convert_to_tensor(table)]
    return list(ops.split(table, list(cutoffs), axis=0))


@keras.saving.register_keras_serializable(package="seg_tf")
class AdaptiveSoftmax(ArgumentsConfig, keras.layers.Layer):
    """Computes the loss of target words with an adaptive softmax (Grave et al., 2017).

    The head is a softmax over its words and the tails, each of which has a vector. A
    tail is a softmax over its words:

        P(w) = P(w | head)                       for a word of the head
        P(w) = P(tail | head) * P(w | tail)      for a word of a tail

    Therefore a tail is computed only at its own targets. The word vectors and the
    projections of tails are shared with the embedding. The head has a separate
    projection, as in Transformer-XL, unless the embedding has none. Matrix products are
    computed in the compute dtype, and softmaxes in float32.

    Args:
        embedding: `AdaptiveEmbedding` that defines the words, parts and vectors.
        static_shapes: bool. Whether to compute every tail at every position, for XLA
            and JAX. Results are the same, at the cost of a softmax over all words.
        vocab_multiple: int. Pads the number of words in each part to a multiple of this
            value, for faster GPU kernels. Results do not change.

    Call arguments:
        hidden: float tensor `(…, D)`.
        targets: int tensor `(…)`, each below the embedding's `vocab_size`.
        weights: float or bool tensor `(…)`, factors of the losses, or None. Unless
            `static_shapes` is True, tails skip positions with weight 0.

    Returns:
        float32 tensor `(…)`: the weighted negative log probability of each target.

    Example:
    >>> embedding = AdaptiveEmbedding(
    ...     vocab_size=100, hidden_size=8, embedding_size=8, cutoffs=(10, 40)
    ... )
    >>> softmax = AdaptiveSoftmax(embedding)
    >>> hidden = ops.zeros((2, 3, 8))
    >>> tuple(softmax(hidden, ops.array([[0, 11, 99], [5, 6, 7]])).shape)
    (2, 3)
    >>> tuple(softmax.log_probabilities(hidden).shape)
    (2, 3, 100)
    """

    def __init__(
        self,
        embedding: AdaptiveEmbedding,
        static_shapes: bool = False,
        vocab_multiple: int = 1,
        **kwargs: Any,
    ):
        # Losses and weights stay in float32. Matrices are cast in `call`.
        super().__init__(autocast=False, **kwargs)
        self.embedding = embedding
        self.static_shapes = static_shapes
        self.vocab_multiple = vocab_multiple

    def build(self, hidden_shape: Any = None) -> None:
        embedding = self.embedding
        if not embedding.built:
            embedding.build()
        head, *tails = embedding.parts
        self._projection = None
        if embedding.is_projected:
            self._projection = embedding.add_projection(self, "projection", head.width)

        def zeros(name: str, *shape: int) -> keras.Variable:
            return self.add_weight(
                name=name, shape=shape, initializer="zeros", autocast=False
            )

        self._bias = zeros("bias", embedding.vocab_size)
        if tails:
            self._cluster_vectors = zeros("cluster_vectors", len(tails), head.width)
            self._cluster_bias = zeros("cluster_bias", len(tails))

    def call(self, hidden: Any, targets: Any, weights: Any = None) -> Any:
        hidden_ND = self._flatten(hidden)
        targets_N = ops.reshape(targets, (-1,))
        weights_N = None
        if weights is not None:
            weights_N = ops.reshape(ops.cast(weights, "float32"), (-1,))
        head, *tails = (
            (projection, *pad_vocabulary(table, bias, self.vocab_multiple))
            for projection, table, bias in self._output_layers()
        )
        losses_N = cross_entropy(self._columns(targets_N), _logits(hidden_ND, *head))
        for part, layer in zip(self.embedding.parts[1:], tails, strict=True):
            is_in_tail_N = ops.logical_and(
                targets_N >= part.begin, targets_N < part.end
            )
            if weights_N is not None:
                is_in_tail_N = ops.logical_and(is_in_tail_N, weights_N != 0)
            words_N = ops.clip(targets_N - part.begin, 0, part.end - part.begin - 1)
            if self.static_shapes:
                tail_losses_N = cross_entropy(words_N, _logits(hidden_ND, *layer))
                losses_N += ops.where(is_in_tail_N, tail_losses_N, 0)
            else:
                (positions_M,) = ops.nonzero(is_in_tail_N)
                hidden_MD = ops.take(hidden_ND, positions_M, axis=0)
                words_M = ops.take(words_N, positions_M, axis=0)
                losses_M = cross_entropy(words_M, _logits(hidden_MD, *layer))
                losses_N += ops.scatter(
                    positions_M[:, None], losses_M, ops.shape(words_N)
                )
        if weights_N is not None:
            losses_N *= weights_N
        return ops.reshape(losses_N, ops.shape(targets))

    def compute_output_spec(
        self, hidden: Any, targets: Any, weights: Any = None
    ) -> keras.KerasTensor:
        return keras.KerasTensor(targets.shape, "float32")

    def log_probabilities(self, hidden: Any) -> Any:
        """Returns log probabilities of all words, float32 `(…, vocab_size)`."""
        hidden_ND = self._flatten(hidden)
        head, *tails = (
            ops.log_softmax(_logits(hidden_ND, *layer))
            for layer in self._output_layers()
        )
        num_words = self.embedding.parts[0].end
        parts = [head[:, :num_words]]
        for number, tail_NV in enumerate(tails, start=num_words):
            parts.append(head[:, number, None] + tail_NV)
        all_NV = ops.concatenate(parts, axis=1)
        return ops.reshape(all_NV, (*ops.shape(hidden)[:-1], self.embedding.vocab_size))

    def _flatten(self, hidden: Any) -> Any:
        size = self.embedding.hidden_size
        return ops.reshape(ops.cast(hidden, self.compute_dtype), (-1, size))

    def _output_layers(self) -> list[tuple[Any, Any, Any]]:
        """Returns the projection, vectors and bias of the head and of each tail."""
        tables = self.embedding.part_tables()
        projections = self.embedding.part_projections()
        biases = split_rows(ops.cast(self._bias, "float32"), self.embedding.cutoffs)
        if self._projection is not None:
            projections[0] = ops.cast(self._projection, self.compute_dtype)
        if len(tables) > 1:
            vectors_TE = ops.cast(self._cluster_vectors, self.compute_dtype)
            bias_T = ops.cast(self._cluster_bias, "float32")
            tables[0] = ops.concatenate([tables[0], vectors_TE], axis=0)
            biases[0] = ops.concatenate([biases[0], bias_T], axis=0)
        return list(zip(projections, tables, biases, strict=True))

    def _columns(self, targets_N: Any) -> Any:
        """Returns the index of each target's word or tail in the logits of the head."""
        head, *tails = self.embedding.parts
        columns_N = ops.minimum(targets_N, head.end)
        for tail in tails[1:]:
            columns_N += ops.cast(targets_N >= tail.begin, columns_N.dtype)
        return columns_N


def _logits(hidden_ND: Any, projection_ED: Any, vectors_VE: Any, bias_V: Any) -> Any:
    """Returns float32 logits `(N, V)`. Products are in the dtype of the arguments."""
    if projection_ED is not None:
        hidden_ND = ops.matmul(hidden_ND, ops.transpose(projection_ED))
    logits_NV = ops.matmul(hidden_ND, ops.transpose(vectors_VE))
    return ops.cast(logits_NV, "float32") + bias_V
