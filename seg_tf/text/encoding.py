"""Creates text encoders. TensorFlow is imported only for word pieces."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from seg_tf.config.base import check_choice
from seg_tf.text.normalization import (
    Normalization,
    check_texts,
    choose_normalization,
    white_space_splitter,
    word_splitter,
)
from seg_tf.text.punkt import CachedFunction
from seg_tf.text.vocabulary import EOS, TokenTable, Vocabulary, WordVocabulary

if TYPE_CHECKING:
    from seg_tf.text.punkt import Splitter
    from seg_tf.text.word_pieces import WordPieces

WORD_PIECES, WORDS, WHITESPACE = "word_pieces", "words", "whitespace"

TOKENIZERS = {
    WORD_PIECES: "BERT's word pieces.",
    WORDS: "whole words, split at whitespace and punctuation.",
    WHITESPACE: "whole words of text that is already tokenized, such as WikiText.",
}

# Create word splitters from a normalization. Neither splitter looks across spaces.
SPLITTERS: dict[str, Callable[[Normalization], Callable[[str], list[str]]]] = {
    WORDS: word_splitter,
    WHITESPACE: white_space_splitter,
}

# Files in records folders and checkpoints.
VOCABULARY_FILE = "vocab.txt"
SENTENCE_PARAMETERS_FILE = "sentence_parameters.json"

# Maximum number of strings between spaces whose words are cached.
_MAX_CHUNKS = 1 << 20


@dataclasses.dataclass(frozen=True)
class TextPreparation:
    """Vocabulary, normalization and sentence splitter that turn text into records.

    `vocabulary` and `sentence_parameters` are the contents of files. As in a manifest,
    `sentence_splitter` contains the name and checksum of the sentence parameters.
    """

    vocabulary: bytes = dataclasses.field(repr=False)
    normalization: Normalization
    sentence_splitter: Mapping[str, Any]
    tokenizer: str = WORD_PIECES
    sentence_parameters: bytes | None = dataclasses.field(default=None, repr=False)

    def files(self) -> dict[str, bytes]:
        """Returns the vocabulary and any sentence parameters, as bytes by file name."""
        files = {VOCABULARY_FILE: self.vocabulary}
        if self.sentence_parameters is not None:
            files[SENTENCE_PARAMETERS_FILE] = self.sentence_parameters
        return files

    def described(self) -> dict[str, Any]:
        return {
            "tokenizer": self.tokenizer,
            **self.normalization.described(),
            "sentence_splitter": dict(self.sentence_splitter),
        }


class Words:
    """Encodes text as ids of whole words, and decodes ids.

    Unknown words and a literal `<eos>`, the end of paragraphs, become `<unk>`. With
    `splitting` "whitespace", a literal `<unk>` remains `<unk>`, as in WikiText.

    Args:
        vocabulary: `WordVocabulary`. The words and their ids.
        splitting: str. "words" splits like BERT, "whitespace" only at whitespace.
        normalization: `Normalization`. If None, it is inferred from the vocabulary.

    Example:
        >>> words = Words(WordVocabulary(["<eos>", "<unk>", "play", "!"]))
        >>> words.encode(["play!", "", "now play"])
        (array([2, 3, 1, 2], dtype=int32), array([2, 0, 2]))
        >>> words.decode([2, 3, 0])
        'play ! <eos>'
    """

    def __init__(
        self,
        vocabulary: WordVocabulary,
        splitting: str = WORDS,
        normalization: Normalization | None = None,
    ):
        self.vocabulary = vocabulary
        self.normalization = normalization or choose_normalization(vocabulary)
        self._split = SPLITTERS[splitting](self.normalization)
        self._ids = {**vocabulary.ids, EOS: vocabulary.unk_id}
        self._chunks = CachedFunction(self._encode_chunk, _MAX_CHUNKS)

    def encode(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Encodes texts as word ids. See `WordPieces.encode` for results and errors."""
        check_texts(texts)
        ids, lengths = [], []
        for text in texts:
            begin = len(ids)
            chunks = map(self._chunks.__getitem__, text.split(" "))
            ids += itertools.chain.from_iterable(chunks)
            lengths.append(len(ids) - begin)
        return np.array(ids, np.int32), np.array(lengths, np.int64)

    def decode(self, ids: Iterable[int]) -> str:
        """Decodes ids to words, joined by spaces. Raises ValueError for invalid ids."""
        return " ".join(self.vocabulary.tokens_of(ids))

    def _encode_chunk(self, chunk: str) -> tuple[int, ...]:
        unknown = self.vocabulary.unk_id
        return tuple(self._ids.get(word, unknown) for word in self._split(chunk))


def read_vocabulary(tokenizer: str, path: str | os.PathLike) -> TokenTable:
    """Reads a `Vocabulary` for "word_pieces", a `WordVocabulary` for other tokenizers.

    Raises a ValueError if `tokenizer` is not in `TOKENIZERS` or the file is invalid.
    """
    check_choice("tokenizer", tokenizer, TOKENIZERS)
    table = Vocabulary if tokenizer == WORD_PIECES else WordVocabulary
    return table.from_file(path)


def text_encoder(
    tokenizer: str, vocabulary: TokenTable, normalization: Normalization | None = None
) -> WordPieces | Words:
    """Creates `WordPieces` or `Words`. Raises ValueError if `tokenizer` is unknown."""
    check_choice("tokenizer", tokenizer, TOKENIZERS)
    if tokenizer != WORD_PIECES:
        return Words(vocabulary, tokenizer, normalization)
    from seg_tf.text.word_pieces import WordPieces

    return WordPieces(vocabulary, normalization)


def sentence_splitter(tokenizer: str, splitter: Splitter) -> Callable[[str], list[str]]:
    """Returns a function that splits a paragraph into sentences.

    With the tokenizer "whitespace", it never splits inside a word, such as `@.@`.
    Raises a ValueError if `tokenizer` is not a key of `TOKENIZERS`.
    """
    check_choice("tokenizer", tokenizer, TOKENIZERS)
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
