"""Batches of candidates to point at, as the inputs of SLM make them."""

from collections.abc import Sequence

import numpy as np


def candidate_features(
    orders: Sequence[Sequence[int] | None],
    num_candidates: int | None = None,
    is_shuffled: Sequence[bool] | None = None,
) -> dict[str, np.ndarray]:
    """Features of rows whose sentences have one word piece each, in gold order.

    Their lengths are said to differ, and each paragraph to have two of them.

    Args:
        orders: for each row the presented places of its sentences, from 1, in gold
            order; None is a row of padding.
        num_candidates: C; None is enough for the longest row alone.
        is_shuffled: which rows are; None is all.
    """
    width = num_candidates or 2 + max(len(order or ()) for order in orders)
    batch = len(orders)
    positions = np.zeros((batch, width), "int32")
    mask = np.zeros((batch, width), bool)
    gold, lengths, paragraphs = np.zeros((3, batch, width - 1), "int32")
    for row, order in enumerate(orders):
        if order is None:
            continue
        sep = len(order) + 1
        assert sorted(order) == list(range(1, sep))
        mask[row, : sep + 1] = True
        gold[row, :sep] = [*order, sep]
        lengths[row, : sep - 1] = 2 + 3 * np.arange(sep - 1) % 7
        paragraphs[row, : sep - 1] = np.arange(sep - 1) // 2
        positions[row, gold[row, :sep]] = 1 + 2 * np.arange(sep)
    return {
        "candidate_positions": positions,
        "candidate_mask": mask,
        "gold_candidates": gold,
        "gold_lengths": lengths,
        "gold_paragraphs": paragraphs,
        "is_shuffled": np.array(is_shuffled or [True] * batch),
    }


def row_length(num_candidates: int) -> int:
    """Positions of a row as above that is full."""
    return 2 * (num_candidates - 2) + 2
