"""How long rows may be, and how many pieces go into one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seg_tf.checkpoints.pretrained import Pretrained


def longest_row(pretrained: Pretrained, max_length: int | None) -> int:
    """The most positions of a row.

    Args:
        pretrained: a model of the BERT family.
        max_length: what is wanted; None takes the rows of pretraining.

    Raises:
        ValueError: if the model embeds fewer positions.
    """
    of_pretraining = pretrained.config.inputs.row_length
    rows = pretrained.encoder.index_tables.get("position_index")
    if max_length is None:
        return of_pretraining if rows is None else min(of_pretraining, rows)
    if rows is not None and max_length > rows:
        raise ValueError(
            f"`max_length` must be at most the positions that the model knows, {rows}. "
            f"Received: max_length={max_length}"
        )
    return max_length


def room_beside(num_specials: int, max_length: int, num_texts: int) -> int:
    """Positions of a row beside its special tokens.

    Raises:
        ValueError: if the special tokens do not fit.
    """
    if max_length < num_specials:
        raise ValueError(
            f"`max_length` must be at least {num_specials}, the special tokens of "
            f"{num_texts} texts. Received: max_length={max_length}"
        )
    return max_length - num_specials


def check_lengths(lengths: Iterable[int], row_length: int) -> None:
    """Checks that rows have capacity for examples.

    Args:
        lengths: positions that each example takes.
        row_length: positions of a row.

    Raises:
        ValueError: if an example takes more.
    """
    longest = max(lengths)
    if longest > row_length:
        raise ValueError(
            f"`rows` must have at most {row_length} positions. Received: a row of "
            f"{longest}"
        )
