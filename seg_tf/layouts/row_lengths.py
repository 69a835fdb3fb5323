"""Lengths of rows, and how many pieces one takes."""

from collections.abc import Iterable
from typing import Any

_SHORTEST_BUCKET = 16


def longest_row(of_pretraining: int, encoder: Any, max_length: int | None) -> int:
    """The most positions of a row.

    Args:
        of_pretraining: positions of the rows of pretraining.
        encoder: of the BERT family.
        max_length: the most that is asked for; None takes the rows of pretraining.

    Raises:
        ValueError: if the model embeds fewer positions.
    """
    rows = encoder.index_tables.get("position_index")
    if max_length is None:
        return of_pretraining if rows is None else min(of_pretraining, rows)
    if rows is not None and max_length > rows:
        raise ValueError(
            f"`max_length` must be at most the positions that the model knows, {rows}. "
            f"Received: max_length={max_length}"
        )
    return max_length


def bucket_length(num_tokens: int, longest: int) -> int:
    """The row length that rows of so many tokens are padded to.

    There are few lengths, each of which is compiled once. Above the shortest, less
    than a fifth of a row is padding, and 8 % if all lengths are equally frequent.

    Args:
        num_tokens: positions that are needed, at most `longest`.
        longest: the longest row of the model.
    """
    step = max(_SHORTEST_BUCKET, (1 << (num_tokens - 1).bit_length()) // 8)
    return min(-(-num_tokens // step) * step, longest)


def pieces_beside(num_specials: int, max_length: int, num_texts: int) -> int:
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


def check_num_texts(num_texts: int, max_sentences: int) -> None:
    """Checks texts that are a sentence each.

    Raises:
        ValueError: if they are more than the model takes sentences.
    """
    if num_texts > max_sentences:
        raise ValueError(
            "`texts` must be at most as many as the model takes sentences, "
            f"{max_sentences}. Received: {num_texts} texts"
        )


def check_lengths(lengths: Iterable[int], row_length: int) -> None:
    """Checks that examples fit into rows.

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
