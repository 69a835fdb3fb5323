"""Computes the relative attention logits of Segatron's equation 3 exactly.

For query i and key j, eq. 3 has a product of W_q E_i + v with W_R R_ij, where R_ij
concatenates the sinusoids of three distances, R(t_i - t_j) | R(s_i - s_j) |
R(p_i - p_j). Every pair has such a vector, but only a few distinct distances occur.

Token indices are consecutive, so a query's products with all K distances, shifted by
the query's position, are its logits (Transformer-XL, appendix B). Sentence and
paragraph indices are constant over runs of keys. So each query is multiplied by one
vector per distinct distance, the products are gathered for each run, and a matrix
product with ones and zeros copies the products to the keys of their run.
"""

import math
from typing import Any, NamedTuple

from keras import ops

# Shape key: B batch, T queries, K keys (memory first), H heads, E head size, D width of
# a position vector, S runs of keys with equal indices, U distances that occur, F half
# the width of a part.

_LONGEST_WAVE = 10_000.0


def part_widths(width: int, num_parts: int) -> list[int]:
    """Splits the width of a position vector among its parts (Segatron, eq. 3).

    All widths are even, and all but the last are equal: 410 is split into 136, 136 and
    138. Raises ValueError if `width` is odd or too small for `num_parts` parts.
    """
    share = width // num_parts
    share += share % 2
    last = width - share * (num_parts - 1)
    if width % 2 or last < 2:
        raise ValueError(
            "`width` must be even and leave two numbers for every part. Received: "
            f"width={width}, num_parts={num_parts}"
        )
    return [share] * (num_parts - 1) + [last]


def angles(positions: Any, width: int) -> Any:
    """Returns the sinusoids' angles at positions `(...)`, float32 `(..., width / 2)`.

    The angular frequencies are 1 / 10000^(2i / width) for i = 0 … width / 2 - 1
    (Segatron, eq. 2). Keep positions small, because the angles are rounded to float32.
    """
    frequencies = [math.pow(_LONGEST_WAVE, -2 * i / width) for i in range(width // 2)]
    positions = ops.cast(positions, "float32")
    return positions[..., None] * ops.convert_to_tensor(frequencies, "float32")


def position_vectors(positions: Any, width: int) -> Any:
    """Returns eq. 2's R at `positions`, float32 `(..., width)`: sines, then cosines."""
    angle = angles(positions, width)
    return ops.concatenate([ops.sin(angle), ops.cos(angle)], axis=-1)


class ExactPositions(NamedTuple):
    """Positions of queries and keys in the form that eq. 3 needs.

    Attributes:
        token_vectors: tensor `(K, D_token)`. R of the distances K - 1 to 0, or None if
            R has no token part.
        segment_vectors: a tensor `(U_part, D_part)` for each of the sentence and
            paragraph parts that R has. R of each distance that occurs.
        distances_to_runs: an int tensor `(B, T, S)` for each of these parts. Index in U
            of the distance between a query and a run.
        runs_of_keys: tensor `(B, S, K)`, 1 for the keys of a run, or None without runs.
    """

    token_vectors: Any
    segment_vectors: tuple[Any, ...]
    distances_to_runs: tuple[Any, ...]
    runs_of_keys: Any

    def logits(
        self, content_query: Any, key: Any, position_query: Any, kernel: Any
    ) -> Any:
        """Computes the logits `(B, H, T, K)` from content and position.

        Queries are `(B, H, T, E)` and include their biases. `key` is `(B, H, K, E)`.
        `kernel`, `(D, H, E)`, is W_R. Logits of keys after a query are undefined.
        """
        begin, token_terms, to_runs = 0, [], []
        if self.token_vectors is not None:
            begin = self.token_vectors.shape[-1]
            token_terms.append(
                _token_logits(position_query, kernel[:begin], self.token_vectors)
            )
        for vectors_UD, numbers_BTS in zip(
            self.segment_vectors, self.distances_to_runs, strict=True
        ):
            end = begin + vectors_UD.shape[-1]
            vectors_UHE = ops.einsum("ud,dhe->uhe", vectors_UD, kernel[begin:end])
            products_BTUH = ops.einsum("bhte,uhe->btuh", position_query, vectors_UHE)
            to_runs.append(_chosen(products_BTUH, numbers_BTS))
            begin = end
        if to_runs:
            to_runs_BHTS = sum(to_runs[1:], to_runs[0])
            # A single product copies them to their keys and adds the content logits, so
            # that no other array as large as the logits is needed.
            content_query = ops.concatenate([content_query, to_runs_BHTS], axis=-1)
            runs_BKS = ops.swapaxes(self.runs_of_keys, 1, 2)
            shape = (*ops.shape(key)[:3], ops.shape(runs_BKS)[2])
            runs_BHKS = ops.broadcast_to(runs_BKS[:, None], shape)
            key = ops.concatenate([key, runs_BHKS], axis=-1)
        return sum(token_terms, _content_logits(content_query, key))


class AnglesOfPart(NamedTuple):
    """Sines and cosines of one part of R, in the notation of `StaticPositions`.

    Attributes:
        query: sin wa and cos wa for the term with cos wb, then sin wa and cos wa for
            the term with sin wb, each `(B, T, F)` and after dropout.
        key: cos wb and sin wb, each `(B, K, F)`.
    """

    query: tuple[Any, Any, Any, Any]
    key: tuple[Any, Any]


class StaticPositions(NamedTuple):
    """Variant of `ExactPositions` with shapes that do not depend on the text.

    The sine and cosine of a difference are sums of products

        z_sin sin w(a - b) + z_cos cos w(a - b)
            =   (z_sin sin wa + z_cos cos wa) cos wb
              + (z_cos sin wa - z_sin cos wa) sin wb

    with z = W_R^T (W_q E_i + v). Each factor depends on one query or one key.
    `segment_angles` has an `AnglesOfPart` for each sentence or paragraph part of R.
    """

    token_vectors: Any
    segment_angles: tuple[AnglesOfPart, ...]

    def logits(
        self, content_query: Any, key: Any, position_query: Any, kernel: Any
    ) -> Any:
        """Computes the logits `(B, H, T, K)`, as `ExactPositions.logits` does."""
        begin, logits = 0, _content_logits(content_query, key)
        if self.token_vectors is not None:
            begin = self.token_vectors.shape[-1]
            logits += _token_logits(position_query, kernel[:begin], self.token_vectors)
        for angles in self.segment_angles:
            half = angles.key[0].shape[-1]
            middle, end = begin + half, begin + 2 * half
            z_sin = ops.einsum("bhte,fhe->bhtf", position_query, kernel[begin:middle])
            z_cos = ops.einsum("bhte,fhe->bhtf", position_query, kernel[middle:end])
            sin_a, cos_a, sin_b, cos_b = (table[:, None] for table in angles.query)
            key_cos, key_sin = (ops.swapaxes(table, 1, 2) for table in angles.key)
            logits += _product(z_sin * sin_a + z_cos * cos_a, key_cos)
            logits += _product(z_cos * sin_b - z_sin * cos_b, key_sin)
            begin = end
        return logits


def _content_logits(query_BHTE: Any, key_BHKE: Any) -> Any:
    return ops.matmul(query_BHTE, ops.swapaxes(key_BHKE, 2, 3))


def _token_logits(query: Any, kernel: Any, vectors: Any) -> Any:
    vectors_KHE = ops.einsum("kd,dhe->khe", vectors, kernel)
    return shift(ops.einsum("bhte,khe->bhtk", query, vectors_KHE))


def shift(products: Any) -> Any:
    """Moves each query's products with the distances K - 1, …, 0 to their keys.

    Entry (i, j) of `(B, H, T, K)` becomes the product at distance K - T + i - j. It is
    undefined where that distance is negative.
    """
    batch, heads, queries, keys = ops.shape(products)
    padded = ops.pad(products, [[0, 0], [0, 0], [0, 0], [1, 0]])
    shifted = ops.reshape(padded, (batch, heads, keys + 1, queries))
    return ops.reshape(shifted[:, :, 1:], (batch, heads, queries, keys))


def _chosen(products_BTUH: Any, numbers_BTS: Any) -> Any:
    """Gathers the products at the given distances for all heads, `(B, H, T, S)`."""
    batch, queries, distances, heads = ops.shape(products_BTUH)
    rows = ops.reshape(products_BTUH, (batch * queries * distances, heads))
    first_rows = distances * ops.arange(batch * queries, dtype="int32")
    numbers_BTS = ops.cast(numbers_BTS, "int32")
    numbers_BTS += ops.reshape(first_rows, (batch, queries, 1))
    return ops.transpose(ops.take(rows, numbers_BTS, axis=0), (0, 3, 1, 2))


def _product(left_BHTX: Any, right_BXY: Any) -> Any:
    """Multiplies `(B, H, T, X)` by `(B, X, Y)`, with heads and queries as one axis."""
    batch, heads, queries, inner = ops.shape(left_BHTX)
    rows = ops.reshape(left_BHTX, (batch, heads * queries, inner))
    product = ops.matmul(rows, right_BXY)
    return ops.reshape(product, (batch, heads, queries, ops.shape(right_BXY)[2]))
