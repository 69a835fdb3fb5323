"""Text to ids of whole words and back."""

import itertools
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from seg_tf.text import casing
from seg_tf.text.cached_function import CachedFunction
from seg_tf.text.exact_tokenizer import (
    Normalization,
    check_texts,
    drop_surrogates,
    letter_normalizer,
    word_splitter,
)
from seg_tf.text.word_vocabulary import EOS, WordVocabulary

# Distinct strings between spaces whose words are cached.
_MAX_CHUNKS = 1 << 20


def white_space_splitter(normalization: Normalization) -> Callable[[str], list[str]]:
    """Returns a function that splits text at white space and nowhere else.

    Args:
        normalization: changes to the words; ideographs are never split.
    """
    if not normalization.lower_case and not normalization.strip_accents:
        return lambda text: drop_surrogates(text).split()
    normalize = letter_normalizer(normalization).normalize_str
    return lambda text: normalize(drop_surrogates(text)).split()


# How the words of a text are found, given its normalization. Neither looks across a
# space.
SPLITTERS: dict[str, Callable[[Normalization], Callable[[str], list[str]]]] = {
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
        normalization: changes to text before words are looked up; None infers them
            from the vocabulary (`seg_tf.text.casing`).

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
        normalization: Normalization | None = None,
    ):
        if splitting not in SPLITTERS:
            raise ValueError(
                f"`splitting` must be one of {', '.join(SPLITTERS)}. "
                f"Received: {splitting!r}"
            )
        if normalization is None:
            normalization = casing.choose(vocabulary)
        self.vocabulary = vocabulary
        self.normalization = normalization
        self._split = SPLITTERS[splitting](normalization)
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
