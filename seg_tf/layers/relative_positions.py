"""Where queries and keys stand in a stream, made ready for relative attention."""

# Shape key: B batch, T queries, M memory, K keys (M + T), S runs, P parts, F half of
# the width of the parts for sentence and paragraph.

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from seg_tf.ops import sinusoids
from seg_tf.ops.relative_logits import ExactPositions, ReleasedPositions

# The parts of a relative position vector, as they stand in it and in the indices.
PARTS = ("token", "sentence", "paragraph")
# So many runs are added at once, so that few shapes occur.
_RUNS_ROUNDED_TO = 8


@keras.saving.register_keras_serializable(package="seg_tf")
class RelativePositions(keras.layers.Layer):
    """Prepares the relative position vectors of Segatron's eq. 3, once for all layers.

    Distances are those of counters over a whole stream. Tokens are numbered without
    a gap; a key of the memory that does not stand where the number of the first query
    puts it is taken for absent, so that a memory of another place, or of none, does no
    harm. Sentences and paragraphs may have any numbers.

    Dropout of position vectors drops numbers of R. Those of the token part are drawn
    for every distance, as Transformer-XL does; those of sentence and paragraph for
    every row of the batch, since the exact form never holds a vector for a distance.

    Args:
        width: int. D, width of the position vector.
        parts: which of `("token", "sentence", "paragraph")` the vector speaks of, in
            this order. Tokens alone make Transformer-XL.
        form: `"eq3"`, or `"released"` for what the authors' code computes.
        dropout: float.
        static_shapes: bool. Whether every key is a run of its own, for XLA and JAX,
            whose shapes must not hang on the text. Slower, and the same otherwise.
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
        self._dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy)

    @property
    def segment_widths(self) -> tuple[int, ...]:
        """Widths of the parts for sentence and paragraph, of those there are."""
        return tuple(self.widths[part] for part in self.parts if part != "token")

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

    def _exact(self, queries_BTP: Any, keys_BKP: Any, training: Any) -> ExactPositions:
        tokens_KD = None
        if "token" in self.parts:
            distances = ops.arange(ops.shape(keys_BKP)[1] - 1, -1, -1, dtype="int32")
            vectors = sinusoids.position_vectors([distances], [self.widths["token"]])
            tokens_KD = self._dropped(vectors, training)
        if not self.segment_widths:
            return ExactPositions(tokens_KD, None, None, None)
        runs_BSP, runs_of_keys_BSK = keys_BKP, None
        if not self.static_shapes:
            runs_BSP, runs_of_keys_BSK = _runs(self._segments(keys_BKP), keys_BKP)
            runs_of_keys_BSK = ops.cast(runs_of_keys_BSK, self.compute_dtype)
        run_angles = self._angles(runs_BSP)
        run_vectors = ops.concatenate([ops.cos(run_angles), ops.sin(run_angles)], -1)
        return ExactPositions(
            tokens_KD,
            self._query_angles(self._angles(queries_BTP), training),
            ops.cast(run_vectors, self.compute_dtype),
            runs_of_keys_BSK,
        )

    def _query_angles(self, angles_BTF: Any, training: Any) -> tuple[Any, ...]:
        sin, cos = ops.sin(angles_BTF), ops.cos(angles_BTF)
        ones_BF = ops.ones_like(angles_BTF[:, :1])
        kept_sin, kept_cos = (self._dropped(ones_BF, training) for _ in range(2))
        sin, cos = (ops.cast(one, self.compute_dtype) for one in (sin, cos))
        return kept_sin * sin, kept_cos * cos, kept_cos * sin, kept_sin * cos

    def _released(self, keys_BKP: Any, training: Any) -> ReleasedPositions:
        distances_BKP = ops.max(keys_BKP, axis=1, keepdims=True) - keys_BKP
        vectors = sinusoids.position_vectors(
            [distances_BKP[..., PARTS.index(part)] for part in self.parts],
            list(self.widths.values()),
        )
        return ReleasedPositions(self._dropped(vectors, training))

    def _segments(self, indices: Any) -> Any:
        """The indices that the vector speaks of, tokens left out."""
        numbers = [PARTS.index(part) for part in self.parts if part != "token"]
        return ops.stack([indices[..., number] for number in numbers], axis=-1)

    def _angles(self, indices: Any) -> Any:
        segments = self._segments(indices)
        positions = [segments[..., n] for n in range(len(self.segment_widths))]
        return sinusoids.angles(positions, self.segment_widths)

    def _dropped(self, vectors: Any, training: Any) -> Any:
        vectors = ops.cast(vectors, self.compute_dtype)
        return self._dropout(vectors, training=training)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "width": self.width,
            "parts": self.parts,
            "form": self.form,
            "dropout": self.dropout,
            "static_shapes": self.static_shapes,
        }


def _is_before(tokens_BM: Any, first_B1: Any) -> Any:
    """Which of the memory's tokens stand in the places just before the first query."""
    size = ops.shape(tokens_BM)[1]
    # In int32 a counter may run over: differences stay what they are.
    return ops.equal(tokens_BM - first_B1, ops.arange(-size, 0, dtype="int32"))


def _visible(is_there_BM: Any, num_queries: Any) -> Any:
    """Nothing behind a query, and nothing absent: bool (B, 1, T, K)."""
    memory_B1TM = ops.repeat(is_there_BM[:, None, None, :], num_queries, axis=2)
    places_T = ops.arange(num_queries, dtype="int32")
    causal_TT = places_T[None, :] <= places_T[:, None]
    shape = (ops.shape(is_there_BM)[0], 1, num_queries, num_queries)
    causal_B1TT = ops.broadcast_to(causal_TT, shape)
    return ops.concatenate([memory_B1TM, causal_B1TT], axis=-1)


def _runs(segments_BKP: Any, keys_BKP: Any) -> tuple[Any, Any]:
    """Runs of keys with equal indices of the segments.

    Returns:
        Indices of each run, `(B, S, P)`, and which keys are of it, bool `(B, S, K)`.
    """
    differs = ops.not_equal(segments_BKP[:, 1:], segments_BKP[:, :-1])
    begins_BK = ops.pad(ops.any(differs, axis=-1), [[0, 0], [1, 0]])
    run_BK = ops.cumsum(ops.cast(begins_BK, "int32"), axis=1)
    num_runs = ops.max(run_BK) + _RUNS_ROUNDED_TO
    num_runs = num_runs // _RUNS_ROUNDED_TO * _RUNS_ROUNDED_TO
    runs_S = ops.arange(num_runs, dtype="int32")
    runs_of_keys_BSK = ops.equal(run_BK[:, None, :], runs_S[None, :, None])
    first_key_BS = ops.argmax(ops.cast(runs_of_keys_BSK, "int32"), axis=-1)
    return ops.take_along_axis(keys_BKP, first_key_BS[..., None], axis=1), (
        runs_of_keys_BSK
    )
