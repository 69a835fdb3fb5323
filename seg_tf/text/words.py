"""Text to ids of whole words and back."""

import itertools
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from seg_tf.text import casing
from seg_tf.text.cached_function import CachedFunction
from seg_tf.text.exact_tokenizer import (
    check_texts,
    drop_surrogates,
    letter_normalizer,
    word_splitter,
)
from seg_tf.text.word_vocabulary import EOS, WordVocabulary

# Distinct strings between spaces whose words are cached.
_MAX_CHUNKS = 1 << 20


def white_space_splitter(lower_case: bool) -> Callable[[str], list[str]]:
    """Returns a function that splits text at white space, words unchanged.

    Args:
        lower_case: whether words are lower-cased and stripped of accents after all.
    """
    if not lower_case:
        return lambda text: drop_surrogates(text).split()
    normalize = letter_normalizer(lower_case).normalize_str
    return lambda text: normalize(drop_surrogates(text)).split()


# How the words of a text are found, given whether it is lower-cased. Neither looks
# across a space.
SPLITTERS: dict[str, Callable[[bool], Callable[[str], list[str]]]] = {
    "words": word_splitter,
    "whitespace": white_space_splitter,
}


class Words:
    """Encodes text as ids of whole words, and shows ids as text.

    What the vocabulary does not hold is `<unk>`. So is a literal `<eos>` in text: it
    marks the ends of paragraphs, which text cannot say. A literal `<unk>` between
    white space is `<unk>`, as WikiText has it.

    Args:
        vocabulary: the words and their ids.
        splitting: "words" splits at white space and around punctuation marks and
            ideographs, as BERT does; "whitespace" takes the strings between white
            space, for text that is tokenised already.
        lower_case: whether text is lower-cased and stripped of accents first; None
            does so if the vocabulary is uncased.

    Raises:
        ValueError: if `splitting` is neither.

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
        splitting: str = "words",
        lower_case: bool | None = None,
    ):
        if splitting not in SPLITTERS:
            raise ValueError(
                f"`splitting` must be one of {', '.join(SPLITTERS)}. "
                f"Received: {splitting!r}"
            )
        if lower_case is None:
            lower_case = casing.choose(vocabulary)
        self.vocabulary = vocabulary
        self.lower_case = lower_case
        self._split = SPLITTERS[splitting](lower_case)
        self._ids = {**vocabulary.ids, EOS: vocabulary.unk_id}
        self._chunks = CachedFunction(self._encode_chunk, _MAX_CHUNKS)

    def encode(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Word ids of many texts.

        Args:
            texts: any strings; one without words gives no ids.

        Returns:
            `(ids, lengths)`: an int32 array of the ids of all texts, one text after
            the other, and an int64 array of the number of ids of each text.

        Raises:
            ValueError: if `texts` is a single string.
        """
        check_texts(texts)
        ids, lengths = [], []
        for text in texts:
            begin = len(ids)
            chunks = map(self._chunks.__getitem__, text.split(" "))
            ids += itertools.chain.from_iterable(chunks)
            lengths.append(len(ids) - begin)
        return np.array(ids, np.int32), np.array(lengths, np.int64)

    def decode(self, ids: Iterable[int]) -> str:
        """The words with spaces between them, for people.

        Raises:
            ValueError: if an id is not in the vocabulary.
        """
        return " ".join(self.vocabulary.tokens_of(ids))

    def _encode_chunk(self, chunk: str) -> tuple[int, ...]:
        """Ids of the words in a string without spaces."""
        unknown = self.vocabulary.unk_id
        return tuple(self._ids.get(word, unknown) for word in self._split(chunk))
