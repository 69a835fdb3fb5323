"""The ways from text to ids: what each needs, by the name that manifests hold.

Nothing here imports TensorFlow until word pieces are encoded.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from seg_tf.text.exact_tokenizer import Normalization
from seg_tf.text.token_table import TokenTable
from seg_tf.text.vocabulary import Vocabulary
from seg_tf.text.word_vocabulary import WordVocabulary

if TYPE_CHECKING:
    from seg_tf.text.sentence_parameters import Splitter

WORD_PIECES, WORDS, WHITESPACE = "word_pieces", "words", "whitespace"

TOKENIZERS = {
    WORD_PIECES: "BERT's word pieces.",
    WORDS: "whole words, split at white space and punctuation.",
    WHITESPACE: "whole words of text that is tokenised already, such as WikiText.",
}


class TextEncoder(Protocol):
    """Common interface of `WordPieces` and `Words`."""

    vocabulary: TokenTable
    normalization: Normalization

    def encode(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Ids of all texts, one after the other, and the number of each."""

    def decode(self, ids: Iterable[int]) -> str:
        """Ids as text, for people."""


def read_vocabulary(tokenizer: str, path: str | os.PathLike) -> TokenTable:
    """The vocabulary that a file holds.

    Args:
        tokenizer: one of `TOKENIZERS`.
        path: a file with a token a line.

    Raises:
        OSError: if it cannot be read.
        ValueError: if there is no such tokenizer, or the vocabulary is not for it.
    """
    check_tokenizer(tokenizer)
    if not os.path.isfile(path):
        found = "a folder" if os.path.isdir(path) else "not there"
        raise FileNotFoundError(
            "A vocabulary must be a file with a token a line. Received: "
            f"{os.fspath(path)!r}, which is {found}"
        )
    kind = Vocabulary if tokenizer == WORD_PIECES else WordVocabulary
    return kind.from_file(path)


def text_encoder(
    tokenizer: str, vocabulary: TokenTable, normalization: Normalization | None = None
) -> TextEncoder:
    """Makes the encoder of a tokenizer: texts to ids and back.

    Args:
        tokenizer: one of `TOKENIZERS`.
        vocabulary: as `read_vocabulary` returns it.
        normalization: changes to text before words are looked up; None infers them
            from the vocabulary (`seg_tf.text.casing`).

    Raises:
        ValueError: if there is no such tokenizer.
    """
    check_tokenizer(tokenizer)
    if tokenizer == WORD_PIECES:
        from seg_tf.text.word_pieces import WordPieces

        return WordPieces(vocabulary, normalization)
    from seg_tf.text.words import Words

    return Words(vocabulary, tokenizer, normalization)


def sentence_splitter(tokenizer: str, splitter: Splitter) -> Callable[[str], list[str]]:
    """A function from a paragraph to its sentences, which never cut a word in two.

    Punkt ends a sentence inside WikiText's `@.@`, the point of a decimal number. Of
    text that is split at punctuation no word reaches across an end.

    Args:
        tokenizer: one of `TOKENIZERS`.
        splitter: what finds the sentences.
    """
    check_tokenizer(tokenizer)
    if tokenizer != WHITESPACE:
        return splitter.split

    def split(paragraph: str) -> list[str]:
        joined = []
        for start, stop in splitter.spans(paragraph):
            if joined and joined[-1][1] == start:
                start = joined.pop()[0]
            joined.append((start, stop))
        return [paragraph[start:stop] for start, stop in joined]

    return split


def check_tokenizer(tokenizer: str) -> None:
    """Raises a ValueError if there is no such tokenizer."""
    if tokenizer not in TOKENIZERS:
        raise ValueError(
            f"`tokenizer` must be one of {', '.join(TOKENIZERS)}. "
            f"Received: {tokenizer!r}"
        )
