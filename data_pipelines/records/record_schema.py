"""Schema of a record: the names of its features, and the widths of its numbers.

Processes that only plan and count need this without TensorFlow, which takes seconds to
import.
"""

TOKEN_IDS = "token_ids"
SENTENCE_LENGTHS = "sentence_lengths"
PARAGRAPH_LENGTHS = "paragraph_lengths"
FIRST_INDEX = "first_index"
SHUFFLED_SENTENCE_INDICES = "shuffled_sentence_indices"
DOCUMENT_ID = "document_id"

OFFSETS_SUFFIX = ".offsets"
"""Of the file beside a shard that says where its records begin."""
OFFSET_BYTES = 8

NUMBER_LISTS = (
    TOKEN_IDS,
    SENTENCE_LENGTHS,
    PARAGRAPH_LENGTHS,
    SHUFFLED_SENTENCE_INDICES,
)


def number_widths(vocab_size: int, longest_list: int | None) -> dict[str, str]:
    """The narrowest type of each number list that holds every possible value.

    Args:
        vocab_size: number of word pieces.
        longest_list: the most pieces a record can have; None if unbounded.

    Returns:
        `{list name: "uint16" or "uint32"}`, for the manifest.
    """
    ids = _narrowest(vocab_size - 1)
    lengths = "uint32" if longest_list is None else _narrowest(longest_list)
    return {name: ids if name == TOKEN_IDS else lengths for name in NUMBER_LISTS}


def _narrowest(largest: int) -> str:
    return "uint16" if largest < 1 << 16 else "uint32"
