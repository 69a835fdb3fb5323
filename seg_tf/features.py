"""The batch contract: name, type and shape of every feature a model may read.

Shape key: B batch, L sequence length, P predictions of masked LM, C candidates of a
pointer, S its steps, N sentences of a row.

An input pipeline emits the features that a model's config names; models and
objectives read them by these names and by no others. A feature that a later
model needs gets its line here.
"""

import dataclasses
from collections.abc import Iterable, Mapping


@dataclasses.dataclass(frozen=True)
class Feature:
    """One named tensor of a batch.

    Attributes:
        dtype: name of the element type.
        shape: names of the dimensions, the batch first.
        meaning: one line.
    """

    dtype: str
    shape: tuple[str, ...]
    meaning: str


FEATURES: Mapping[str, Feature] = {
    "token_ids": Feature("int32", ("B", "L"), "vocabulary ids, specials included"),
    "padding_mask": Feature("bool", ("B", "L"), "True at tokens, False at padding"),
    "window_number": Feature(
        "int32", ("B", "L"), "which window of a packed row, from 1; 0 at padding"
    ),
    "position_index": Feature("int32", ("B", "L"), "token index in the window"),
    "paragraph_index": Feature("int32", ("B", "L"), "paragraph in the document"),
    "sentence_index": Feature("int32", ("B", "L"), "sentence in the paragraph"),
    "token_index": Feature("int32", ("B", "L"), "word piece in the sentence"),
    "token_type": Feature("int32", ("B", "L"), "which of the given texts, from 0"),
    "sentence_id": Feature(
        "int32",
        ("B", "L"),
        "place of the sentence as presented, from 1; 0 at [CLS], one more at [SEP]",
    ),
    "candidate_positions": Feature(
        "int32", ("B", "C"), "positions of [CLS], of [SENT]s as presented, of [SEP]"
    ),
    "candidate_mask": Feature("bool", ("B", "C"), "True where there is a candidate"),
    "gold_candidates": Feature(
        "int32", ("B", "S"), "candidates to point at: sentences in gold order, [SEP]"
    ),
    "gold_lengths": Feature(
        "int32", ("B", "S"), "word pieces of each sentence in gold order; 0 after them"
    ),
    "gold_paragraphs": Feature(
        "int32", ("B", "S"), "paragraph of each sentence in gold order; 0 after them"
    ),
    "is_shuffled": Feature("bool", ("B",), "whether an order of sentences was drawn"),
    "sentence_number": Feature(
        "int32", ("B", "L"), "which sentence of the row, from 1; 0 at padding"
    ),
    "text_number": Feature(
        "int32", ("B", "L"), "which text of the row, from 1; 0 at padding"
    ),
    "sentence_position": Feature(
        "int32", ("B", "L"), "place of the sentence in its text, as presented"
    ),
    "sentence_starts": Feature(
        "int32", ("B", "N"), "positions of <SS>, each followed by <Attn>"
    ),
    "sentence_mask": Feature("bool", ("B", "N"), "True where there is a sentence"),
    "sentence_part": Feature(
        "int32", ("B", "N"), "which part of a sentence too long for one, from 0"
    ),
    "given_text": Feature(
        "int32", ("B", "N"), "given text that a sentence is a part of, from 1; 0: none"
    ),
    "can_answer": Feature("bool", ("B", "L"), "where an answer may start and end"),
    "can_hold_answer": Feature(
        "bool", ("B", "C"), "candidates whose sentence may hold the answer"
    ),
    "is_moved": Feature("bool", ("B", "N"), "whether a sentence was displaced"),
    "can_move": Feature("bool", ("B", "N"), "whether it takes part in the exchange"),
    "masked_positions": Feature("int32", ("B", "P"), "positions to predict, rising"),
    "masked_ids": Feature("int32", ("B", "P"), "the original pieces there"),
    "masked_weights": Feature(
        "float32", ("B", "P"), "1 for a prediction, 0 for padding"
    ),
    "target_ids": Feature("int32", ("B", "L"), "the word after each, to be predicted"),
    "stream_token": Feature(
        "int32", ("B", "L"), "token of the stream, counted through"
    ),
    "stream_sentence": Feature("int32", ("B", "L"), "sentence of the stream, likewise"),
    "stream_paragraph": Feature(
        "int32", ("B", "L"), "paragraph of the stream, likewise"
    ),
    "lane": Feature("int32", ("B",), "lane of the stream that this row continues"),
    "sample_number": Feature("int64", ("B",), "number of this row's sample in the run"),
}

# The features that an embedding table can be made for.
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
    """Keras tensor arguments of the named features.

    Args:
        names: feature names.
        sizes: value of each dimension letter that occurs, None for a dynamic one.

    Returns:
        `{name: (shape, dtype)}`.

    Raises:
        ValueError: if a name is not part of the contract.
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
