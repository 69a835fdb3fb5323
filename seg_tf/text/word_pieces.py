"""Text to word-piece ids and back, by the rules that BERT checkpoints expect."""

import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from seg_tf.text import casing
from seg_tf.text.exact_tokenizer import (
    CONTINUATION,
    Normalization,
    check_texts,
    drop_surrogates,
    exact_tokenizer,
)
from seg_tf.text.fast_tokenizer import Encoded, FastTokenizer, map_to_array
from seg_tf.text.tokenizer_differences import TokenizerDifferences
from seg_tf.text.vocabulary import Vocabulary

# More text than this is encoded in turns: bounds the memory, and is no slower.
_MAX_CHARACTERS_AT_ONCE = 1 << 19

_ASCII, _UNICODE, _EXACT = range(3)


class WordPieces:
    """Encodes text as word pieces, and shows pieces as text.

    Words are split at white space and around punctuation marks and ideographs, then
    into the longest pieces that the vocabulary holds, from left to right; a word
    that cannot be split so is `[UNK]`. The ids are those of Hugging Face's
    `tokenizers`, except that text never yields special tokens: a literal `[MASK]` is
    `[`, `mask`, `]`.

    ASCII text takes the fast tokenizer as it is, other text takes it where no
    difference may occur; of the rest, only the words in question take the exact one.

    Args:
        vocabulary: the tokens and their ids.
        normalization: changes to text before words are looked up; None infers them
            from the vocabulary (`seg_tf.text.casing`).

    Example:
        >>> from seg_tf.text.vocabulary import SPECIAL_TOKENS
        >>> pieces = WordPieces(Vocabulary([*SPECIAL_TOKENS, "play", "##ing", "!"]))
        >>> pieces.encode(["Playing!", "", "Play"])
        (array([5, 6, 7, 5], dtype=int32), array([3, 0, 1]))
        >>> pieces.decode([5, 6, 7])
        'playing !'
    """

    def __init__(
        self, vocabulary: Vocabulary, normalization: Normalization | None = None
    ):
        if normalization is None:
            normalization = casing.choose(vocabulary)
        self.vocabulary = vocabulary
        self.normalization = normalization
        self._fast = FastTokenizer(vocabulary.tokens, normalization)
        self._exact = exact_tokenizer(vocabulary.tokens, normalization)
        self._differences = TokenizerDifferences(normalization)

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Word-piece ids of many texts, without special tokens.

        A call has a fixed cost of about a millisecond: give it thousands of sentences.

        Args:
            texts: any strings; one without words gives no ids.

        Returns:
            `(ids, lengths)`: an int32 array of the ids of all texts, one text after
            the other, and an int64 array of the number of ids of each text.

        Raises:
            ValueError: if `texts` is a single string.
        """
        check_texts(texts)
        if len(texts) > 1 and sum(map(len, texts)) > _MAX_CHARACTERS_AT_ONCE:
            half = len(texts) // 2
            ids, lengths = zip(
                self.encode(texts[:half]), self.encode(texts[half:]), strict=True
            )
            return np.concatenate(ids), np.concatenate(lengths)
        ways = self._ways(texts)
        if not (ways == _EXACT).any():
            return self._encode_by(ways, texts)
        units, num_units = _split_some(texts, ways == _EXACT)
        ids, lengths = self._encode_by(self._ways(units), units)
        return ids, np.add.reduceat(lengths, np.cumsum(num_units) - num_units)

    def takes_exact_way(self, texts: Sequence[str]) -> np.ndarray:
        """A bool array, True for each text that has words encoded the exact way."""
        return self._ways(texts) == _EXACT

    def decode(self, ids: Iterable[int]) -> str:
        """The words that the pieces form, with spaces between them, for people.

        Raises:
            ValueError: if an id is not in the vocabulary.
        """
        words = []
        for token in self.vocabulary.tokens_of(ids):
            if words and token.startswith(CONTINUATION):
                words[-1] += token.removeprefix(CONTINUATION)
            else:
                words.append(token)
        return " ".join(words)

    def _ways(self, texts: Sequence[str]) -> np.ndarray:
        """Chooses the fastest exact tokenizer for each text."""
        is_ascii = map_to_array(str.isascii, texts, bool)
        ways = np.where(is_ascii, _ASCII, _UNICODE)
        if not is_ascii.all():
            others = list(itertools.compress(texts, (~is_ascii).tolist()))
            differ = self._differences.may_occur(others)
            ways[~is_ascii] = np.where(differ, _EXACT, _UNICODE)
        return ways

    def _encode_by(self, ways: np.ndarray, texts: Sequence[str]) -> Encoded:
        """Encodes each text in its way."""
        encoders = {
            _ASCII: self._fast.encode_ascii,
            _UNICODE: self._fast.encode_unicode,
            _EXACT: self._encode_exactly,
        }
        present = np.flatnonzero(np.bincount(ways, minlength=len(encoders)))
        if len(present) <= 1:
            return encoders[present[0] if len(present) else _ASCII](texts)
        encoded = {}
        lengths = np.empty(len(texts), np.int64)
        for way in present:
            chosen = ways == way
            its_texts = list(itertools.compress(texts, chosen.tolist()))
            encoded[way], lengths[chosen] = encoders[way](its_texts)
        way_of_ids = np.repeat(ways.astype(np.uint8), lengths)
        ids = np.empty(len(way_of_ids), np.int32)
        for way, its_ids in encoded.items():
            ids[way_of_ids == way] = its_ids
        return ids, lengths

    def _encode_exactly(self, texts: Sequence[str]) -> Encoded:
        # One by one: a batch would start threads, which do not survive a fork.
        rows = [self._exact.encode(drop_surrogates(text)).ids for text in texts]
        ids = np.concatenate([np.asarray(row, np.int32) for row in rows])
        return ids, map_to_array(len, rows, np.int64)


def _split_some(
    texts: Sequence[str], chosen: np.ndarray
) -> tuple[list[str], np.ndarray]:
    """Splits the chosen texts at spaces, which neither tokenizer reaches across.

    In most texts with a difference it may occur in a single word.

    Returns:
        The other texts and the parts of these, in order, and the number from each.
    """
    units = []
    num_units = np.ones(len(texts), np.int64)
    begin = 0
    for position in np.flatnonzero(chosen):
        parts = texts[position].split(" ")
        units += texts[begin:position]
        units += parts
        num_units[position] = len(parts)
        begin = position + 1
    return units + list(texts[begin:]), num_units
