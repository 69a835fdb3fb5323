"""Batches of texts as rows of sentences, laid out by hand."""

from collections.abc import Sequence

import numpy as np

SS, ATTENTION, END = 2, 5, 3
# A text is its sentences, a sentence the ids of its words.
Text = Sequence[Sequence[int]]


def text_rows(
    rows: Sequence[Sequence[Text]],
    *,
    block_length: int,
    num_blocks: int,
    num_sentences: int,
    share_blocks: bool = True,
) -> dict[str, np.ndarray]:
    """Features of rows of texts.

    Args:
        rows: the texts of each row.
        block_length: no sentence reaches over a multiple of it.
        num_blocks: blocks of a row.
        num_sentences: slots for sentences of a row.
        share_blocks: whether sentences share blocks; else each has one to itself, as
            in a padded array of sentences × positions.
    """
    batch, length = len(rows), num_blocks * block_length
    per_position = {
        name: np.zeros((batch, length), "int32")
        for name in (
            "token_ids",
            "position_index",
            "sentence_number",
            "text_number",
            "sentence_position",
        )
    }
    starts = np.zeros((batch, num_sentences), "int32")
    mask = np.zeros((batch, num_sentences), bool)
    for row, texts in enumerate(rows):
        begin, number = 0, 0
        for text_number, text in enumerate(texts, start=1):
            for place, words in enumerate(text):
                tokens = [SS, ATTENTION, *words, END]
                left = block_length - begin % block_length
                if len(tokens) > left or not share_blocks:
                    begin += left % block_length
                span = slice(begin, begin + len(tokens))
                per_position["token_ids"][row, span] = tokens
                per_position["position_index"][row, span] = np.arange(len(tokens))
                per_position["sentence_number"][row, span] = number + 1
                per_position["text_number"][row, span] = text_number
                per_position["sentence_position"][row, span] = place
                starts[row, number], mask[row, number] = begin, True
                assert span.stop <= length
                begin, number = span.stop, number + 1
    return {
        **per_position,
        "padding_mask": per_position["sentence_number"] > 0,
        "sentence_starts": starts,
        "sentence_mask": mask,
    }


def some_rows(batch: int, num_blocks: int) -> list[list[Text]]:
    """Rows of texts for blocks of 10 positions, two sentences each, no two rows alike.

    Every sentence has 1 or 2 words; texts have 1 to 3 sentences.
    """
    rows = []
    for row in range(batch):
        texts, left = [], 2 * num_blocks - row % 2
        while left:
            size = min(left, 1 + (row + len(texts)) % 3)
            texts.append(
                [
                    [
                        6 + (row + left + place + word) % 7
                        for word in range(1 + place % 2)
                    ]
                    for place in range(size)
                ]
            )
            left -= size
        rows.append(texts)
    return rows
