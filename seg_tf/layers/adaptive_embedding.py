"""Word vectors that are narrower for rare words."""

# Shape key: B batch, L sequence length, D hidden size, V words of a part, E width of
# their vectors.

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
from keras import ops

from seg_tf.layers.constructor_arguments import with_arguments


class Part(NamedTuple):
    """Words of neighbouring ranks, whose vectors have one width.

    Attributes:
        begin: int. The first word.
        end: int. The word after the last.
        width: int. `E`.
    """

    begin: int
    end: int
    width: int


@keras.saving.register_keras_serializable(package="seg_tf")
class AdaptiveEmbedding(keras.layers.Layer):
    """Vectors of words that are numbered by falling frequency.

    The cutoffs part the words into a head of frequent ones and tails of rarer ones.
    Part i has vectors of width `embedding_size // tail_divisor**i` and a matrix that
    projects them to the hidden size (Baevski and Auli, 2019, section 3). With a
    `tail_divisor` of 1 there is one table for all, which is projected only where its
    width is not the hidden size. Vectors come out times the square root of the hidden
    size, as in Transformer-XL.

    `AdaptiveSoftmax` predicts words with the same vectors.

    Args:
        vocab_size: int. Number of words.
        hidden_size: int. Width `D` of the output.
        embedding_size: int. Width of the vectors of the head.
        cutoffs: sequence of int. The first word of each tail, rising; may be empty.
        tail_divisor: int. How many times narrower each part is than that before it.
        initializer_range: float. Standard deviation of the tables at the start.
        projection_range: float. That of the projections.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        token_ids: int tensor `(B, L)`, each below `vocab_size`.

    Returns:
        Tensor `(B, L, D)` in the layer's compute dtype.

    Raises:
        ValueError: if the cutoffs do not rise from above 0 to below `vocab_size`, or
            a part would have vectors of no width.

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
        # Rows are picked from the tables as they are stored, and cast then.
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
        """Tells if vectors are projected to the hidden size."""
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
                projection = self.add_projection(
                    self, f"projection{ending}", part.width
                )
                self._projections.append(projection)

    def add_projection(
        self, layer: keras.layers.Layer, name: str, width: int
    ) -> keras.Variable:
        """Gives a layer, this or another, a matrix `(E, D)` as this one starts with."""
        return layer.add_weight(
            name=name,
            shape=(width, self.hidden_size),
            initializer=keras.initializers.RandomNormal(stddev=self.projection_range),
            autocast=False,
        )

    def call(self, token_ids: Any) -> Any:
        if self.tail_divisor == 1:
            vectors_BLD = self._vectors(0, token_ids)
        else:
            vectors_BLD = self._vectors_of_parts(token_ids)
        return ops.cast(vectors_BLD, self.compute_dtype)

    def compute_output_shape(self, token_ids_shape: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*token_ids_shape, self.hidden_size)

    def part_tables(self) -> list[Any]:
        """The vectors `(V, E)` of each part's words, in the compute dtype."""
        if self.tail_divisor == 1:
            tables = split_rows(self._tables[0], self.cutoffs)
        else:
            tables = self._tables
        return [ops.cast(table_VE, self.compute_dtype) for table_VE in tables]

    def part_projections(self) -> list[Any]:
        """The matrix `(E, D)` of each part in the compute dtype, or None of each."""
        if not self.is_projected:
            return [None] * len(self.parts)
        projections = [ops.cast(one, self.compute_dtype) for one in self._projections]
        if self.tail_divisor == 1:
            return projections * len(self.parts)
        return projections

    def get_config(self) -> dict[str, Any]:
        return with_arguments(super().get_config(), self, AdaptiveEmbedding)

    def _vectors_of_parts(self, token_ids: Any) -> Any:
        """Every part's vectors at every position, those of other parts' words 0.

        The shapes do not depend on the words, and the projections of the tails, being
        narrow, cost less than finding out where they are needed.
        """
        sum_BLD = 0
        for number, part in enumerate(self.parts):
            last = part.end - part.begin - 1
            rows_BL = ops.clip(token_ids - part.begin, 0, last)
            is_in_part_BL = ops.logical_and(
                token_ids >= part.begin, token_ids < part.end
            )
            sum_BLD += self._vectors(number, rows_BL, is_in_part_BL[:, :, None])
        return sum_BLD

    def _vectors(self, number: int, rows_BL: Any, is_in_part_BL1: Any = None) -> Any:
        """Rows of a table, 0 where they are not asked for, projected and scaled."""
        table_VE = self._tables[number]
        # After the reshape, the gradient is an ordinary tensor, not a list of rows
        # of which some occur twice (`IndexEmbedding` says what becomes of these).
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
    """The rows before, between and after the cutoffs.

    The gradient of a split is one concatenation; that of slices would be as many
    arrays of the table's size as there are slices, to be summed.
    """
    if not cutoffs:
        return [ops.convert_to_tensor(table)]
    return list(ops.split(table, list(cutoffs), axis=0))
