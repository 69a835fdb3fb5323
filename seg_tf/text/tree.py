"""Represents documents as trees of paragraphs, sentences and word pieces."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np


@dataclasses.dataclass(frozen=True, eq=False)
class DocumentTree:
    """A document, or a window of one, as word pieces and the sizes of its parts.

    For example, paragraphs [[7, 8], [9]] and [[5]], which are lists of sentences, have
    token_ids [7, 8, 9, 5], sentence_lengths [2, 1, 1] and paragraph_lengths [2, 1].
    Raises a ValueError if the lengths do not have the sums below.

    Attributes:
        token_ids: int array `(n,)`. Vocabulary ids without special tokens.
        sentence_lengths: int array `(s,)`. Pieces per sentence, with sum n.
        paragraph_lengths: int array `(p,)`. Sentences per paragraph, with sum s.
        first_index: tuple of int. Paragraph, sentence and token index that the first
            piece of a window has in the whole document.
    """

    token_ids: np.ndarray
    sentence_lengths: np.ndarray
    paragraph_lengths: np.ndarray
    first_index: tuple[int, int, int] = (0, 0, 0)

    def __post_init__(self):
        sums = np.sum(self.sentence_lengths), np.sum(self.paragraph_lengths)
        sizes = len(self.token_ids), len(self.sentence_lengths)
        if sums != sizes:
            raise ValueError(
                "`sentence_lengths` and `paragraph_lengths` must sum to the pieces and "
                f"sentences, {sizes}. Received: {sums}"
            )

    @property
    def paragraph_of_sentence(self) -> np.ndarray:
        """Number of each sentence's paragraph in this tree, from 0, int64 `(s,)`."""
        return np.repeat(np.arange(len(self.paragraph_lengths)), self.paragraph_lengths)

    def indices(self) -> dict[str, np.ndarray]:
        """Returns `paragraph_index`, `sentence_index` and `token_index` of every piece.

        The sentence index restarts in each paragraph, and the token index in each
        sentence (Segatron, section 3.2). Each value of the dict is an int array `(n,)`.
        """
        first_paragraph, first_sentence, first_token = self.first_index
        sentences = _restarting_counts(self.paragraph_lengths, first_sentence)
        paragraphs = first_paragraph + self.paragraph_of_sentence
        return {
            "paragraph_index": np.repeat(paragraphs, self.sentence_lengths),
            "sentence_index": np.repeat(sentences, self.sentence_lengths),
            "token_index": _restarting_counts(self.sentence_lengths, first_token),
        }

    def with_paragraph_ends(self, token_id: int) -> "DocumentTree":
        """Returns a copy with `token_id` appended to each paragraph's last sentence.

        With `token_id` 0, [[7, 8], [9]] and [[5]] become [[7, 8], [9, 0]] and [[5, 0]].
        """
        last_sentences = np.cumsum(self.paragraph_lengths) - 1
        ends = np.cumsum(self.sentence_lengths)[last_sentences]
        sentence_lengths = self.sentence_lengths.copy()
        sentence_lengths[last_sentences] += 1
        return dataclasses.replace(
            self,
            token_ids=np.insert(self.token_ids, ends, token_id),
            sentence_lengths=sentence_lengths,
        )


class TreeBuilder:
    """Converts the paragraphs of documents to trees.

    `split_sentences` splits a paragraph into sentences. `encode` returns the piece ids
    of sentences as one concatenated array, and the number of ids of each sentence.
    """

    def __init__(
        self,
        split_sentences: Callable[[str], Sequence[str]],
        encode: Callable[[Sequence[str]], tuple[np.ndarray, np.ndarray]],
    ):
        self._split_sentences = split_sentences
        self._encode = encode

    def build(self, documents: Sequence[Sequence[str]]) -> list[DocumentTree]:
        """Builds one tree for each document, which is a sequence of paragraphs.

        Leaves out sentences without word pieces, such as control characters, and then
        paragraphs without sentences. A tree may be empty.
        """
        sentences, sentences_in_paragraph = [], []
        for paragraphs in documents:
            for paragraph in paragraphs:
                split = self._split_sentences(paragraph)
                sentences_in_paragraph.append(len(split))
                sentences.extend(split)
        token_ids, pieces_in_sentence = self._encode(sentences)
        # Counts before each paragraph and sentence, with one entry for the end.
        sentences_before = np.append(0, np.cumsum(sentences_in_paragraph, dtype=int))
        nonempty_before = np.append(0, np.cumsum(pieces_in_sentence > 0))
        pieces_before = np.append(0, np.cumsum(pieces_in_sentence))
        nonempty_in_paragraph = np.diff(nonempty_before[sentences_before])
        trees, first = [], 0
        for paragraphs in documents:
            last = first + len(paragraphs)
            begin, end = sentences_before[first], sentences_before[last]
            sentence_lengths = pieces_in_sentence[begin:end]
            paragraph_lengths = nonempty_in_paragraph[first:last]
            trees.append(
                DocumentTree(
                    token_ids[pieces_before[begin] : pieces_before[end]],
                    sentence_lengths[sentence_lengths > 0],
                    paragraph_lengths[paragraph_lengths > 0],
                )
            )
            first = last
        return trees


def _restarting_counts(lengths: np.ndarray, first: int) -> np.ndarray:
    """Counts 0, 1, … in each run of `lengths`, but from `first` in the first run."""
    counts = np.arange(int(np.sum(lengths)))
    counts -= np.repeat(np.append(0, np.cumsum(lengths))[:-1], lengths)
    if len(lengths):
        counts[: lengths[0]] += first
    return counts
