"""Computes sentence ordering metrics as `(sum, weight)`.

The functions share these arguments:

* `order`, `gold`: int tensors `(B, S)`. The first `num_sentences` positions of a row
  are permutations of the same sentence ids. Later positions are ignored.
* `num_sentences`: int tensor `(B,)`. Number of sentences in each row, N.
* `weights`: float tensor `(B,)`. Rows with weight 0 are ignored.
* `num_places`: int. Number of positions, S.

Metrics return two float32 scalars. Compare each metric with its `…_chance`, the score
of a random guess (0 for `kendall_tau`), and with `longest_first`, which ignores text.
"""

# Shape key: B batch, S positions of an order.

from typing import Any

from keras import ops


def position_accuracy(
    order: Any, gold: Any, num_sentences: Any, weights: Any
) -> tuple[Any, Any]:
    """Computes the fraction of positions with the correct sentence."""
    return _over_places(_hits(order, gold, num_sentences), num_sentences, weights)


def position_chance(num_sentences: Any, weights: Any) -> tuple[Any, Any]:
    """Computes the expected `position_accuracy` of random orders, one hit per row."""
    return _over_places(ops.ones_like(weights), num_sentences, weights)


def perfect_match(
    order: Any, gold: Any, num_sentences: Any, weights: Any
) -> tuple[Any, Any]:
    """Computes the fraction of rows whose order is entirely correct."""
    hits_B = _hits(order, gold, num_sentences)
    return _over_rows(ops.equal(hits_B, ops.cast(num_sentences, "float32")), weights)


def perfect_match_chance(
    num_sentences: Any, weights: Any, num_places: int
) -> tuple[Any, Any]:
    """Computes the expected `perfect_match` of a random order, 1 / N! per row."""
    factors_BS = _inverse_choices(num_sentences, num_places, beyond=1.0)
    return _over_rows(ops.prod(factors_BS, axis=1), weights)


def pointer_chance(
    num_sentences: Any, weights: Any, num_places: int
) -> tuple[Any, Any]:
    """Computes the expected accuracy of guessing each next sentence at random.

    At step i, from 0, the accuracy is 1 / (N - i). Averages over all steps of all rows.
    """
    chances_BS = _inverse_choices(num_sentences, num_places, beyond=0.0)
    return _over_places(ops.sum(chances_BS, axis=1), num_sentences, weights)


def longest_first(gold: Any, lengths: Any, num_sentences: Any) -> Any:
    """Sorts sentence ids by decreasing length, then by id. Returns int32 `(B, S)`.

    `lengths`, int `(B, S)`, has the length of each sentence in `gold`.
    """
    ranking_BS = ops.argsort(-_length_keys(gold, lengths, num_sentences), axis=1)
    return ops.take_along_axis(ops.cast(gold, "int32"), ranking_BS, axis=1)


def pointer_longest_first(
    gold: Any, lengths: Any, num_sentences: Any, weights: Any
) -> tuple[Any, Any]:
    """Computes the accuracy of always choosing the longest remaining sentence."""
    num_places = ops.shape(gold)[1]
    keys_BS = _length_keys(gold, lengths, num_sentences)
    places_S = ops.arange(num_places, dtype="int32")
    is_longer_BSS = ops.logical_and(
        ops.greater(keys_BS[:, None, :], keys_BS[:, :, None]),
        ops.greater(places_S[None, :], places_S[:, None]),
    )
    hits_BS = ops.logical_and(
        ops.logical_not(ops.any(is_longer_BSS, axis=2)),
        is_place(num_sentences, num_places),
    )
    hits_B = ops.sum(ops.cast(hits_BS, "float32"), axis=1)
    return _over_places(hits_B, num_sentences, weights)


def kendall_tau(
    order: Any, gold: Any, num_sentences: Any, weights: Any, groups: Any = None
) -> tuple[Any, Any]:
    """Computes the mean over rows of Kendall's tau between `order` and `gold`.

    If `groups` is given, int `(B, S)`, for example the paragraph of each sentence in
    `gold`, only pairs within a group count. Rows without pairs are ignored.
    """
    is_place_BS = is_place(num_sentences, ops.shape(order)[1])
    order, gold = ops.cast(order, "int32"), ops.cast(gold, "int32")
    places_S = ops.arange(ops.shape(gold)[1], dtype="int32")
    same_BSS = ops.logical_and(
        ops.equal(order[:, :, None], gold[:, None, :]), is_place_BS[:, None, :]
    )
    gold_place_BS = ops.sum(ops.cast(same_BSS, "int32") * places_S, axis=2)
    # 1 if the later of two positions has the later sentence, otherwise -1.
    signs_BSS = ops.sign(gold_place_BS[:, None, :] - gold_place_BS[:, :, None])
    is_pair_BSS = ops.logical_and(
        ops.less(places_S[:, None], places_S[None, :]), is_place_BS[:, None, :]
    )
    if groups is not None:
        groups_BS = ops.take_along_axis(groups, gold_place_BS, axis=1)
        is_pair_BSS = ops.logical_and(
            is_pair_BSS, ops.equal(groups_BS[:, :, None], groups_BS[:, None, :])
        )
    is_pair_BSS = ops.cast(is_pair_BSS, "float32")
    pairs_B = ops.sum(is_pair_BSS, axis=(1, 2))
    signs_B = ops.sum(ops.cast(signs_BSS, "float32") * is_pair_BSS, axis=(1, 2))
    weights_B = ops.where(pairs_B > 0, ops.cast(weights, "float32"), 0)
    return _over_rows(signs_B / ops.maximum(pairs_B, 1), weights_B)


def is_place(num_sentences: Any, num_places: Any) -> Any:
    """Returns a bool mask `(B, S)` of the first N positions of each row."""
    places_S = ops.arange(num_places, dtype="int32")
    return ops.less(places_S, ops.cast(num_sentences, "int32")[:, None])


def _over_rows(values_B: Any, weights: Any) -> tuple[Any, Any]:
    weights_B = ops.cast(weights, "float32")
    return ops.sum(ops.cast(values_B, "float32") * weights_B), ops.sum(weights_B)


def _over_places(values_B: Any, num_sentences: Any, weights: Any) -> tuple[Any, Any]:
    weights_B = ops.cast(weights, "float32")
    places_B = ops.cast(num_sentences, "float32") * weights_B
    return _over_rows(values_B, weights_B)[0], ops.sum(places_B)


def _length_keys(gold: Any, lengths: Any, num_sentences: Any) -> Any:
    """Returns int32 sort keys `(B, S)`, larger for longer sentences, -1 at padding."""
    num_places = ops.shape(gold)[1]
    keys_BS = ops.cast(lengths, "int32") * (num_places + 1)
    keys_BS += num_places - ops.cast(gold, "int32")
    return ops.where(is_place(num_sentences, num_places), keys_BS, -1)


def _hits(order: Any, gold: Any, num_sentences: Any) -> Any:
    """Counts the positions with the correct sentence in each row, float32 `(B,)`."""
    hits_BS = ops.logical_and(
        ops.equal(ops.cast(order, "int32"), ops.cast(gold, "int32")),
        is_place(num_sentences, ops.shape(order)[1]),
    )
    return ops.sum(ops.cast(hits_BS, "float32"), axis=1)


def _inverse_choices(num_sentences: Any, num_places: int, beyond: float) -> Any:
    """Returns float32 `(B, S)`: 1 / (N - i) at positions i < N, `beyond` elsewhere."""
    places_S = ops.arange(num_places, dtype="float32")
    left_BS = ops.cast(num_sentences, "float32")[:, None] - places_S
    return ops.where(left_BS > 0, 1 / ops.maximum(left_BS, 1), beyond)
