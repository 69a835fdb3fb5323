"""Cuts a document's tree into windows of at most a given number of pieces."""

import dataclasses
from collections.abc import Iterator

import numpy as np

from seg_tf.data import randomness
from seg_tf.text.tree import DocumentTree


@dataclasses.dataclass(frozen=True)
class Window:
    """A window of a document.

    Attributes:
        tree: its pieces, and the sizes of its sentences and paragraphs.
        shuffled_sentence_indices: a permutation of its sentences.
    """

    tree: DocumentTree
    shuffled_sentence_indices: np.ndarray


def cut_windows(
    tree: DocumentTree,
    document_id: int,
    *,
    capacity: int,
    short_window_rate: float,
    cut_sentences: bool,
    seed: int,
) -> Iterator[Window]:
    """Cuts a document into consecutive windows; no piece is lost or repeated.

    A window takes whole sentences while they fit. A sentence that is longer than a
    window is cut, and the next window continues it at its true token index.
    With probability `short_window_rate` a window aims at a length drawn uniformly
    from 2 to `capacity` instead (BERT's trick against a mismatch with short inputs
    in fine-tuning; 0.01 in the authors' Segatron code).

    With `cut_sentences` a window takes as many pieces as it aims at, wherever that
    ends: all are full but the short ones and a document's last.

    Args:
        tree: the whole document.
        document_id: its number, which names the random draws.
        capacity: the most pieces of a window.
        short_window_rate: probability of a short window.
        cut_sentences: whether windows are filled to the last piece.
        seed: seed of the corpus.

    Yields:
        The windows in order.
    """
    sentence_ends = np.cumsum(tree.sentence_lengths)
    indices = tree.indices()
    num_pieces = len(tree.token_ids)
    draws = randomness.key(seed, randomness.SHORT_WINDOWS, document_id)
    begin, number = 0, 0
    while begin < num_pieces:
        target = _target_length(draws, number, capacity, short_window_rate)
        if cut_sentences:
            end = min(begin + target, num_pieces)
        else:
            end = _whole_sentences_end(sentence_ends, begin, target, capacity)
        window = _slice(tree, indices, sentence_ends, begin, end)
        stream = randomness.key(
            seed, randomness.SENTENCE_PERMUTATION, document_id, number
        )
        keys = randomness.uniform_integers(stream, len(window.sentence_lengths))
        yield Window(window, np.argsort(keys, kind="stable"))
        begin, number = end, number + 1


def _target_length(
    draws: int, number: int, capacity: int, short_window_rate: float
) -> int:
    chance = randomness.key(draws, number, 0) / 2**64
    if chance >= short_window_rate or capacity < 2:
        return capacity
    return 2 + randomness.key(draws, number, 1) % (capacity - 1)


def _whole_sentences_end(
    sentence_ends: np.ndarray, begin: int, target: int, capacity: int
) -> int:
    num_whole = int(np.searchsorted(sentence_ends, begin + target, side="right"))
    if num_whole and sentence_ends[num_whole - 1] > begin:
        return int(sentence_ends[num_whole - 1])
    # Not even one sentence fits the target: take it up to what a window holds.
    return min(int(sentence_ends[num_whole]), begin + capacity)


def _slice(
    tree: DocumentTree,
    indices: dict[str, np.ndarray],
    sentence_ends: np.ndarray,
    begin: int,
    end: int,
) -> DocumentTree:
    first_sentence = int(np.searchsorted(sentence_ends, begin, side="right"))
    last_sentence = int(np.searchsorted(sentence_ends, end, side="left"))
    sentence_lengths = np.array(
        tree.sentence_lengths[first_sentence : last_sentence + 1]
    )
    sentence_lengths[-1] -= sentence_ends[last_sentence] - end
    first_piece = {name: int(values[begin]) for name, values in indices.items()}
    sentence_lengths[0] -= first_piece["token_index"]
    paragraph_ends = np.cumsum(tree.paragraph_lengths)
    inner_ends = paragraph_ends[
        (paragraph_ends > first_sentence) & (paragraph_ends <= last_sentence)
    ]
    bounds = np.concatenate([[first_sentence], inner_ends, [last_sentence + 1]])
    return DocumentTree(
        tree.token_ids[begin:end],
        sentence_lengths,
        np.diff(bounds),
        (
            first_piece["paragraph_index"],
            first_piece["sentence_index"],
            first_piece["token_index"],
        ),
    )
