"""The position term of relative attention logits, in an exact and in a shifted form.

Eq. 3 of Segatron wants for query i and key j the product of a vector of i,
z = W_R^T (W_q E_i + v), with R(t_i - t_j) | R(s_i - s_j) | R(p_i - p_j), the sinusoids
of three distances. There are as many such vectors as pairs, so that nothing may
compute them one by one.

Tokens are numbered without a gap, so that all pairs share as many distances as there
are keys, and every query's products with them, shifted by its place, are its logits
(Transformer-XL, appendix B). The numbers of sentences and of paragraphs stand still
and step, and a shift would be wrong. But sine and cosine of a difference are sums of
products:

    z_sin sin w(a - b) + z_cos cos w(a - b)
        = (z_sin sin wa + z_cos cos wa) cos wb + (z_cos sin wa - z_sin cos wa) sin wb

whose second factors depend on the key's indices alone, and are the same for all keys
of a sentence. So the products are made with one vector a run of equal indices, and a
product with a matrix of ones and zeros spreads them to the keys.
"""

# Shape key: B batch, T queries, K keys (those of the memory first), H heads, E head
# size, D width of a position vector, F half of the width of its parts for sentence and
# paragraph, S runs of keys with equal indices.

from collections.abc import Sequence
from typing import Any, NamedTuple

from keras import ops


class ExactPositions(NamedTuple):
    """What eq. 3 needs to know of the places of queries and keys.

    Attributes:
        token_vectors: `(K, D_token)`, R of the distances K - 1 to 0; None where the
            vector does not speak of tokens.
        query_angles: four tensors `(B, T, F)`: sine and cosine of the query's angles,
            each once with the dropout of the sines of R and once with that of its
            cosines, in the order of their use; None where the vector speaks of
            nothing but tokens.
        run_vectors: `(B, S, 2F)`, cosines, then sines of the angles of each run.
        runs_of_keys: `(B, S, K)`, 1 where a key is of a run, else 0; None where
            every key is a run of its own.
    """

    token_vectors: Any
    query_angles: tuple[Any, Any, Any, Any] | None
    run_vectors: Any
    runs_of_keys: Any

    def logits(self, query: Any, kernel: Any, segment_widths: Sequence[int]) -> Any:
        """The position term of the logits.

        Args:
            query: `(B, H, T, E)`, position bias added.
            kernel: `(D, H, E)`, W_R.
            segment_widths: widths of the parts of R that do not speak of tokens.

        Returns:
            `(B, H, T, K)`. Behind a query's own place the token term is not defined.
        """
        begin = kernel.shape[0] - sum(segment_widths)
        terms = []
        if self.token_vectors is not None:
            keys_KHE = ops.einsum("kd,dhe->khe", self.token_vectors, kernel[:begin])
            terms.append(shift(ops.einsum("bhte,khe->bhtk", query, keys_KHE)))
        if self.query_angles is not None:
            terms.append(self._segment_logits(query, kernel[begin:], segment_widths))
        return sum(terms[1:], terms[0])

    def _segment_logits(self, query: Any, kernel: Any, widths: Sequence[int]) -> Any:
        sine_kernel_FHE, cosine_kernel_FHE = _halves(kernel, widths)
        z_sin = ops.einsum("bhte,fhe->bhtf", query, sine_kernel_FHE)
        z_cos = ops.einsum("bhte,fhe->bhtf", query, cosine_kernel_FHE)
        sin_a, cos_a, sin_b, cos_b = (x[:, None] for x in self.query_angles)
        factors = ops.concatenate(
            [z_sin * sin_a + z_cos * cos_a, z_cos * sin_b - z_sin * cos_b], axis=-1
        )
        logits = _product(factors, ops.swapaxes(self.run_vectors, 1, 2))
        if self.runs_of_keys is None:
            return logits
        # Sums of one number and zeros: no rounding.
        return _product(logits, self.runs_of_keys)


class ReleasedPositions(NamedTuple):
    """What the released code of Segatron computes in place of eq. 3.

    Every key's indices are subtracted from the largest there are, not from the
    query's, and the products are shifted as if they rose by one from key to key. So a
    query gets the profile of boundaries that the row's last word sees.

    Attributes:
        vectors: `(B, K, D)`, R of the distances from the largest indices of the row.
    """

    vectors: Any

    def logits(self, query: Any, kernel: Any, segment_widths: Sequence[int]) -> Any:
        """The position term of the logits; arguments as for `ExactPositions`."""
        del segment_widths
        keys_BKHE = ops.einsum("bkd,dhe->bkhe", self.vectors, kernel)
        return shift(ops.einsum("bhte,bkhe->bhtk", query, keys_BKHE))


def shift(products: Any) -> Any:
    """Moves each query's products with distances to the keys at these distances.

    Args:
        products: `(B, H, T, K)`; the last axis is distance K - 1, …, 0.

    Returns:
        `(B, H, T, K)`: entry (i, j) is the product at distance K - T + i - j. Where
        that is negative, there is a number without meaning.
    """
    batch, heads, queries, keys = ops.shape(products)
    padded = ops.pad(products, [[0, 0], [0, 0], [0, 0], [1, 0]])
    shifted = ops.reshape(padded, (batch, heads, keys + 1, queries))
    return ops.reshape(shifted[:, :, 1:], (batch, heads, queries, keys))


def _halves(kernel: Any, widths: Sequence[int]) -> tuple[Any, Any]:
    """The rows for sines and those for cosines, of all parts."""
    sines, cosines, begin = [], [], 0
    for width in widths:
        middle, end = begin + width // 2, begin + width
        sines.append(kernel[begin:middle])
        cosines.append(kernel[middle:end])
        begin = end
    return ops.concatenate(sines, axis=0), ops.concatenate(cosines, axis=0)


def _product(left_BHTX: Any, right_BXY: Any) -> Any:
    """Product of matrices, the right one for all heads: two dimensions as one."""
    batch, heads, queries, inner = ops.shape(left_BHTX)
    rows = ops.reshape(left_BHTX, (batch, heads * queries, inner))
    product = ops.matmul(rows, right_BXY)
    return ops.reshape(product, (batch, heads, queries, ops.shape(right_BXY)[2]))
