"""Defines the name, dtype and shape of every batch feature (the batch contract).

Shape key: B batch, L sequence length, P masked LM predictions, C pointer candidates,
S pointer steps, N sentences in a row.

Input pipelines emit the features that a config names. Models and objectives read them
by name. New features must be added here. Numbers that start at 1 are 0 at padding.
"""

import dataclasses
from collections.abc import Iterable, Mapping


@dataclasses.dataclass(frozen=True)
class Feature:
    """Specification of a batch tensor. `shape` has one letter for each dimension."""

    dtype: str
    shape: tuple[str, ...]
    meaning: str


FEATURES: Mapping[str, Feature] = {
    "token_ids": Feature("int32", ("B", "L"), "token ids, including special tokens"),
    "padding_mask": Feature("bool", ("B", "L"), "True at tokens, False at padding"),
    "window_number": Feature("int32", ("B", "L"), "window of a packed row, from 1"),
    "position_index": Feature("int32", ("B", "L"), "token index in the window"),
    "paragraph_index": Feature("int32", ("B", "L"), "paragraph in the document"),
    "sentence_index": Feature("int32", ("B", "L"), "sentence in the paragraph"),
    "token_index": Feature("int32", ("B", "L"), "word piece in the sentence"),
    "token_type": Feature("int32", ("B", "L"), "number of the input text, from 0"),
    # 0 at [CLS], one more than the last sentence at [SEP].
    "sentence_id": Feature("int32", ("B", "L"), "position as presented, from 1"),
    "candidate_positions": Feature("int32", ("B", "C"), "[CLS], [SENT]s and [SEP]"),
    "candidate_mask": Feature("bool", ("B", "C"), "True at candidates"),
    # Sentences in gold order, then [SEP].
    "gold_candidates": Feature("int32", ("B", "S"), "candidates to point at"),
    "gold_lengths": Feature("int32", ("B", "S"), "word pieces in gold order, then 0"),
    "gold_paragraphs": Feature("int32", ("B", "S"), "paragraphs in gold order, then 0"),
    "is_shuffled": Feature("bool", ("B",), "whether a sentence order was drawn"),
    "sentence_number": Feature("int32", ("B", "L"), "sentence of the row, from 1"),
    "text_number": Feature("int32", ("B", "L"), "text of the row, from 1"),
    "sentence_position": Feature("int32", ("B", "L"), "sentence position as presented"),
    "sentence_starts": Feature("int32", ("B", "N"), "positions of <SS>"),
    "sentence_mask": Feature("bool", ("B", "N"), "True at sentences"),
    "sentence_part": Feature("int32", ("B", "N"), "part of a long sentence, from 0"),
    "given_text": Feature("int32", ("B", "N"), "input text of a sentence, from 1"),
    "can_answer": Feature("bool", ("B", "L"), "where an answer may start and end"),
    "can_hold_answer": Feature(
        "bool", ("B", "C"), "candidates that may contain an answer"
    ),
    "is_moved": Feature("bool", ("B", "N"), "whether the sentence was moved"),
    "can_move": Feature("bool", ("B", "N"), "whether the sentence may be moved"),
    "masked_positions": Feature("int32", ("B", "P"), "ascending prediction positions"),
    "masked_ids": Feature("int32", ("B", "P"), "original ids at these positions"),
    "masked_weights": Feature("float32", ("B", "P"), "1 at predictions, 0 at padding"),
    "target_ids": Feature("int32", ("B", "L"), "id of the next word"),
    "stream_token": Feature("int32", ("B", "L"), "token index in the stream"),
    "stream_sentence": Feature("int32", ("B", "L"), "sentence index in the stream"),
    "stream_paragraph": Feature("int32", ("B", "L"), "paragraph index in the stream"),
    "lane": Feature("int32", ("B",), "lane of the stream that this row continues"),
    "sample_number": Feature("int64", ("B",), "sample number of this row in the run"),
}

# Features that may have an embedding table.
INDEX_FEATURES = (
    "position_index",
    "paragraph_index",
    "sentence_index",
    "token_index",
    "sentence_id",
)


def tensor_specs(
    names: Iterable[str], sizes: Mapping[str, int | None]
) -> dict[str, tuple[tuple[int | None, ...], str]]:
    """Returns a dict that maps each of `names` to the feature's shape and dtype.

    Args:
        names: keys of `FEATURES`. Any other name raises ValueError.
        sizes: maps each dimension letter to its size, or to None if it is dynamic.
    """
    specs = {}
    for name in names:
        if name not in FEATURES:
            raise ValueError(
                f"`names` must be features of the batch contract "
                f"({', '.join(FEATURES)}). Received: {name!r}"
            )
        feature = FEATURES[name]
        specs[name] = (tuple(sizes[letter] for letter in feature.shape), feature.dtype)
    return specs
