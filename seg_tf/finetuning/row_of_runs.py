"""Rows put together from runs of tokens whose indices go on by one.

Shape key: B rows, L row length.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """Tokens that stand together in one sentence.

    Attributes:
        token_ids: ids, in order.
        first_token: token index of the first.
        others: the indices that all of them share.
    """

    token_ids: Sequence[int] | np.ndarray
    first_token: int
    others: Mapping[str, int]


def lay_out_runs(
    rows: Sequence[Sequence[Run]], row_length: int, pad_id: int, caps: Mapping[str, int]
) -> dict[str, np.ndarray]:
    """The features of rows of runs.

    Args:
        rows: the runs of each row, which have to fit.
        row_length: L.
        pad_id: id of the padding.
        caps: rows of each table; which indices are wanted.

    Returns:
        `token_ids`, `padding_mask` and the indices that `caps` names, each `(B, L)`,
        below its cap and 0 at padding.

    Raises:
        ValueError: if a row is longer than L.
    """
    runs = [run for row in rows for run in row]
    lengths = np.array([len(run.token_ids) for run in runs])
    row_of_run = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    tokens_of_row = np.bincount(row_of_run, lengths, minlength=len(rows)).astype(int)
    if tokens_of_row.max() > row_length:
        raise ValueError(
            f"`rows` must have at most {row_length} positions. Received: a row of "
            f"{tokens_of_row.max()}"
        )
    position = _counts(tokens_of_row)
    at = (np.repeat(row_of_run, lengths), position)
    firsts = np.array([run.first_token for run in runs])
    indices = {
        "position_index": position,
        "token_index": np.repeat(firsts, lengths) + _counts(lengths),
    }
    for name in caps.keys() - indices.keys():
        shared = np.array([run.others[name] for run in runs])
        indices[name] = np.repeat(shared, lengths)

    token_ids = np.full((len(rows), row_length), pad_id, np.int32)
    token_ids[at] = np.concatenate([run.token_ids for run in runs])
    features = {
        "token_ids": token_ids,
        "padding_mask": np.arange(row_length) < tokens_of_row[:, np.newaxis],
    }
    for name, cap in caps.items():
        features[name] = np.zeros((len(rows), row_length), np.int32)
        features[name][at] = np.minimum(indices[name], cap - 1)
    return features


def _counts(lengths: np.ndarray) -> np.ndarray:
    """0, 1, … for each length in turn."""
    begins = np.cumsum(lengths) - lengths
    return np.arange(lengths.sum()) - np.repeat(begins, lengths)
