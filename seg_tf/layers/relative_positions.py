"""Positions of queries and keys in a stream, prepared for relative attention."""

# Shape key: B batch, T queries, M memory, K keys (M + T), D width of a part, S runs of
# keys with equal indices, U distances that occur, P parts.

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from seg_tf.layers.constructor_arguments import with_arguments
from seg_tf.layers.dropout import Dropout
from seg_tf.ops import sinusoids
from seg_tf.ops.relative_logits import (
    AnglesOfPart,
    ExactPositions,
    ReleasedPositions,
    StaticPositions,
)

# The parts of a relative position vector, in the order of it and of the indices.
PARTS = ("token", "sentence", "paragraph")


@keras.saving.register_keras_serializable(package="seg_tf")
class RelativePositions(keras.layers.Layer):
    """Prepares the relative position vectors of Segatron's eq. 3, once for all layers.

    Distances are those of counters over a whole stream. Tokens are numbered without
    a gap; a key of the memory that is not where the number of the first query
    puts it is taken for absent, so that a memory of another place, or of none, does no
    harm. Sentences and paragraphs may have any numbers.

    Dropout of position vectors drops numbers of R at each distance, for all pairs that
    have it, as Transformer-XL does.

    Args:
        width: int. D, width of the position vector.
        parts: which of `("token", "sentence", "paragraph")` the vector speaks of, in
            this order. Tokens alone make Transformer-XL.
        form: `"eq3"`, or `"released"` for what the authors' code computes.
        dropout: float.
        static_shapes: bool. Whether no shape depends on the text, as XLA and JAX need.
            Slower, and the same otherwise, but that dropout of sentence and paragraph
            is drawn for every row, not for every distance.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        indices: int tensor `(B, T, 3)`: token, sentence and paragraph of the queries.
        memory_indices: int tensor `(B, M, 3)`: those of the keys before them.

    Returns:
        The positions, and a bool tensor `(B, 1, T, K)`: which query sees which key.

    Raises:
        ValueError: if `parts` or `form` is none of the above.
    """

    def __init__(
        self,
        width: int,
        parts: Sequence[str] = PARTS,
        form: str = "eq3",
        dropout: float = 0.0,
        static_shapes: bool = False,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        parts = tuple(parts)
        if not parts or parts != tuple(part for part in PARTS if part in parts):
            raise ValueError(
                f"`parts` must be some of {PARTS}, in this order. Received: {parts}"
            )
        if form not in ("eq3", "released"):
            raise ValueError(
                f"`form` must be 'eq3' or 'released'. Received: form={form!r}"
            )
        self.width = width
        self.parts = parts
        self.form = form
        self.dropout = dropout
        self.static_shapes = static_shapes
        self.widths = dict(
            zip(parts, sinusoids.part_widths(width, len(parts)), strict=True)
        )
        self._dropout = Dropout(dropout, dtype=self.dtype_policy)

    def call(self, indices: Any, memory_indices: Any, training: Any = None) -> Any:
        indices = ops.cast(indices, "int32")
        memory_indices = ops.cast(memory_indices, "int32")
        is_there_BM = _is_before(memory_indices[:, :, 0], indices[:, :1, 0])
        mask = _visible(is_there_BM, ops.shape(indices)[1])
        # Small numbers have exact angles: those of absent keys do not matter.
        indices_BTP = indices - indices[:, :1]
        memory_BMP = ops.where(
            is_there_BM[:, :, None], memory_indices - indices[:, :1], 0
        )
        keys_BKP = ops.concatenate([memory_BMP, indices_BTP], axis=1)
        if self.form == "released":
            return self._released(keys_BKP, training), mask
        return self._exact(indices_BTP, keys_BKP, training), mask

    def _exact(
        self, queries_BTP: Any, keys_BKP: Any, training: Any
    ) -> ExactPositions | StaticPositions:
        tokens_KD = None
        if "token" in self.parts:
            distances = ops.arange(ops.shape(keys_BKP)[1] - 1, -1, -1, dtype="int32")
            tokens_KD = self._vectors("token", distances, training)
        if not self._segment_parts:
            return ExactPositions(tokens_KD, (), (), None)
        if self.static_shapes:
            return self._static(tokens_KD, queries_BTP, keys_BKP, training)
        runs_BSP, runs_of_keys_BSK = _runs(self._segments(keys_BKP))
        num_queries = ops.shape(queries_BTP)[1]
        own_run_BTS = ops.swapaxes(runs_of_keys_BSK[:, :, -num_queries:], 1, 2)
        vectors, numbers = [], []
        for number, part in enumerate(self._segment_parts):
            distances_U, numbers_BTS = _distances(runs_BSP[..., number], own_run_BTS)
            vectors.append(self._vectors(part, distances_U, training))
            numbers.append(numbers_BTS)
        return ExactPositions(
            tokens_KD,
            tuple(vectors),
            tuple(numbers),
            ops.cast(runs_of_keys_BSK, self.compute_dtype),
        )

    def _static(
        self, tokens_KD: Any, queries_BTP: Any, keys_BKP: Any, training: Any
    ) -> StaticPositions:
        angles = [
            self._angles_of_part(part, queries_BTP, keys_BKP, training)
            for part in self._segment_parts
        ]
        return StaticPositions(tokens_KD, tuple(angles))

    def _angles_of_part(
        self, part: str, queries_BTP: Any, keys_BKP: Any, training: Any
    ) -> AnglesOfPart:
        query_angles, key_angles = (
            sinusoids.angles(indices[..., PARTS.index(part)], self.widths[part])
            for indices in (queries_BTP, keys_BKP)
        )
        ones_B1F = ops.ones_like(query_angles[:, :1])
        kept_sin, kept_cos = (self._dropped(ones_B1F, training) for _ in range(2))
        sin, cos, key_cos, key_sin = (
            ops.cast(one, self.compute_dtype)
            for one in (
                ops.sin(query_angles),
                ops.cos(query_angles),
                ops.cos(key_angles),
                ops.sin(key_angles),
            )
        )
        query = (kept_sin * sin, kept_cos * cos, kept_cos * sin, kept_sin * cos)
        return AnglesOfPart(query, (key_cos, key_sin))

    def _released(self, keys_BKP: Any, training: Any) -> ReleasedPositions:
        distances_BKP = ops.max(keys_BKP, axis=1, keepdims=True) - keys_BKP
        vectors = [
            self._vectors(part, distances_BKP[..., PARTS.index(part)], training)
            for part in self.parts
        ]
        return ReleasedPositions(ops.concatenate(vectors, axis=-1))

    @property
    def _segment_parts(self) -> list[str]:
        return [part for part in self.parts if part != "token"]

    def _segments(self, indices: Any) -> Any:
        """The indices that the vector speaks of, tokens left out."""
        numbers = [PARTS.index(part) for part in self._segment_parts]
        return ops.stack([indices[..., number] for number in numbers], axis=-1)

    def _vectors(self, part: str, distances: Any, training: Any) -> Any:
        vectors = sinusoids.position_vectors(distances, self.widths[part])
        return self._dropped(vectors, training)

    def _dropped(self, vectors: Any, training: Any) -> Any:
        vectors = ops.cast(vectors, self.compute_dtype)
        return self._dropout(vectors, training=training)

    def get_config(self) -> dict[str, Any]:
        return with_arguments(super().get_config(), self, RelativePositions)


def _is_before(tokens_BM: Any, first_B1: Any) -> Any:
    """Mask of the memory's tokens that directly precede the first query."""
    size = ops.shape(tokens_BM)[1]
    # In int32 a counter may run over: differences stay what they are.
    return ops.equal(tokens_BM - first_B1, ops.arange(-size, 0, dtype="int32"))


def _visible(is_there_BM: Any, num_queries: Any) -> Any:
    """Nothing after a query, and nothing absent: bool (B, 1, T, K)."""
    memory_B1TM = ops.repeat(is_there_BM[:, None, None, :], num_queries, axis=2)
    places_T = ops.arange(num_queries, dtype="int32")
    causal_TT = places_T[None, :] <= places_T[:, None]
    shape = (ops.shape(is_there_BM)[0], 1, num_queries, num_queries)
    causal_B1TT = ops.broadcast_to(causal_TT, shape)
    return ops.concatenate([memory_B1TM, causal_B1TT], axis=-1)


def _runs(segments_BKP: Any) -> tuple[Any, Any]:
    """Runs of keys with equal indices of the segments.

    Returns:
        Indices of each run, `(B, S, P)`, and which keys are of it, bool `(B, S, K)`.
        Rows with fewer runs than others end with runs without keys.
    """
    differs = ops.not_equal(segments_BKP[:, 1:], segments_BKP[:, :-1])
    begins_BK = ops.pad(ops.any(differs, axis=-1), [[0, 0], [1, 0]])
    run_BK = ops.cumsum(ops.cast(begins_BK, "int32"), axis=1)
    runs_S = ops.arange(ops.max(run_BK, initial=0) + 1, dtype="int32")
    runs_of_keys_BSK = ops.equal(run_BK[:, None, :], runs_S[None, :, None])
    first_key_BS = ops.argmax(ops.cast(runs_of_keys_BSK, "int32"), axis=-1)
    runs_BSP = ops.take_along_axis(segments_BKP, first_key_BS[..., None], axis=1)
    return runs_BSP, runs_of_keys_BSK


def _distances(index_BS: Any, own_run_BTS: Any) -> tuple[Any, Any]:
    """The distances that occur between queries and runs.

    Args:
        index_BS: index of each run.
        own_run_BTS: bool, which run a query is in.

    Returns:
        Each distance once, `(U,)`, and which of them a query has to a run, int
        `(B, T, S)`.
    """
    own_run_BT1 = ops.argmax(ops.cast(own_run_BTS, "int32"), axis=-1)[..., None]
    index_BTS = ops.take_along_axis(index_BS[:, None, :], own_run_BT1, axis=2)
    distance_BTS = index_BTS - index_BS[:, None, :]
    # To later keys there is none: their runs are not seen.
    later_BTS = ops.arange(ops.shape(index_BS)[1]) > own_run_BT1
    distance_BTS = ops.where(later_BTS, 0, distance_BTS)
    return ops.unique(distance_BTS, return_inverse=True)
