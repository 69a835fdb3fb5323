"""Text to word-piece ids and back, by the rules that BERT checkpoints expect."""

import itertools
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import tensorflow as tf

from seg_tf.text import word_piece_backends
from seg_tf.text.tokenizer_differences import TokenizerDifferences, map_to_array
from seg_tf.text.vocabulary import Vocabulary

# Ids, one text after the other, and the number of them for each text.
Encoded = tuple[np.ndarray, np.ndarray]

# More text than this is encoded in turns: bounds the memory.
_MAX_CHARACTERS_AT_ONCE = 1 << 20

# Dropped from text; tab, line feed and carriage return are white space.
_ASCII_CONTROLS = bytes({*range(0x20), 0x7F} - {0x09, 0x0A, 0x0D})
_DROP_ASCII_CONTROLS = dict.fromkeys(_ASCII_CONTROLS)


class WordPieces:
    """Encodes text as word pieces, and shows pieces as text.

    Words are split at white space and around punctuation marks and ideographs, then
    into the longest pieces that the vocabulary holds, from left to right; a word
    without such a split is `[UNK]`. The ids are those of Hugging Face's `tokenizers`,
    except that special tokens never come out of text: a literal `[MASK]` is `[`,
    `mask`, `]`.

    ASCII text takes the fast tokenizer as it is, other text takes it where no
    difference may occur; of the rest, only the words in question take the exact one.

    Args:
        vocabulary: the tokens and their ids.
        lower_case: whether text is lower-cased and stripped of accents first, as the
            vocabulary of an uncased model expects.

    Example:
        >>> from seg_tf.text.vocabulary import SPECIAL_TOKENS
        >>> pieces = WordPieces(Vocabulary([*SPECIAL_TOKENS, "play", "##ing", "!"]))
        >>> pieces.encode(["Playing!", "", "Play"])
        (array([5, 6, 7, 5], dtype=int32), array([3, 0, 1]))
        >>> pieces.decode([5, 6, 7])
        'playing !'
    """

    def __init__(self, vocabulary: Vocabulary, lower_case: bool = True):
        self.vocabulary = vocabulary
        self.lower_case = lower_case
        tokens = vocabulary.tokens
        self._ascii = word_piece_backends.fast_ascii_tokenizer(tokens)
        self._unicode = word_piece_backends.fast_unicode_tokenizer(tokens, lower_case)
        self._exact = word_piece_backends.exact_tokenizer(tokens, lower_case)
        self._differences = TokenizerDifferences(lower_case)

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
        if isinstance(texts, str | bytes):
            raise ValueError(
                "`texts` must be a sequence of strings. Received: one "
                f"{type(texts).__name__}, {texts[:40]!r}"
            )
        num_characters = sum(map(len, texts))
        if num_characters > _MAX_CHARACTERS_AT_ONCE and len(texts) > 1:
            half = len(texts) // 2
            ids, lengths = zip(
                self.encode(texts[:half]), self.encode(texts[half:]), strict=True
            )
            return np.concatenate(ids), np.concatenate(lengths)
        return self._encode_each_way(texts, self._encode_by_word)

    def takes_exact_way(self, texts: Sequence[str]) -> np.ndarray:
        """A bool array, True for each text of which `encode` sends words that way."""
        exact = ~map_to_array(str.isascii, texts, bool)
        positions = np.flatnonzero(exact)
        exact[positions] = self._differences.may_occur([texts[i] for i in positions])
        return exact

    def decode(self, ids: Iterable[int]) -> str:
        """The words that the pieces form, with spaces between them, for people.

        Raises:
            ValueError: if an id is not in the vocabulary.
        """
        tokens = self.vocabulary.tokens
        words = []
        for token_id in ids:
            if not 0 <= token_id < len(tokens):
                raise ValueError(
                    f"`ids` must lie between 0 and {len(tokens) - 1}, the last id of "
                    f"{self.vocabulary.source}. Received: {token_id}"
                )
            token = tokens[token_id]
            if words and token.startswith(word_piece_backends.CONTINUATION):
                words[-1] += token.removeprefix(word_piece_backends.CONTINUATION)
            else:
                words.append(token)
        return " ".join(words)

    def _encode_each_way(
        self, texts: Sequence[str], encode_rest: Callable[[Sequence[str]], Encoded]
    ) -> Encoded:
        """Encodes fast what can be, and the rest with `encode_rest`."""
        is_ascii = map_to_array(str.isascii, texts, bool)
        if is_ascii.all():
            return self._encode_ascii(texts)
        exact = self.takes_exact_way(texts)
        groups = []
        for chosen, encode in (
            (is_ascii, self._encode_ascii),
            (~is_ascii & ~exact, self._encode_unicode),
            (exact, encode_rest),
        ):
            positions = np.flatnonzero(chosen)
            if len(positions):
                groups.append((positions, *encode([texts[i] for i in positions])))
        return _in_order(groups)

    def _encode_by_word(self, texts: Sequence[str]) -> Encoded:
        """Encodes what stands between spaces, which nothing in a text reaches across.

        In most texts with a difference it may occur in a single word.
        """
        words = [text.split(" ") for text in texts]
        ids, lengths = self._encode_each_way(
            list(itertools.chain(*words)), self._encode_exactly
        )
        num_words = map_to_array(len, words, np.int64)
        return ids, np.add.reduceat(lengths, np.cumsum(num_words) - num_words)

    def _encode_ascii(self, texts: Sequence[str]) -> Encoded:
        # One string of all texts is faster than many; offsets tell them apart again.
        joined = "\n".join(texts).encode("ascii")
        if len(joined.translate(None, _ASCII_CONTROLS)) < len(joined):
            texts = [text.translate(_DROP_ASCII_CONTROLS) for text in texts]
            joined = "\n".join(texts).encode("ascii")
        if self.lower_case:
            joined = joined.lower()
        ids, starts, _ = self._ascii.tokenize_with_offsets([joined])
        text_ends = np.cumsum(map_to_array(len, texts, np.int64) + 1)
        ends = np.searchsorted(starts.values.numpy(), text_ends)
        return ids.values.numpy(), np.diff(ends, prepend=0)

    def _encode_unicode(self, texts: Sequence[str]) -> Encoded:
        ids = self._unicode.tokenize(tf.constant(texts))
        return ids.values.numpy(), ids.row_lengths().numpy()

    def _encode_exactly(self, texts: Sequence[str]) -> Encoded:
        # One by one: a batch would start threads, which do not survive a fork.
        rows = [
            self._exact.encode(word_piece_backends.drop_surrogates(text)).ids
            for text in texts
        ]
        ids = np.concatenate([np.asarray(row, np.int32) for row in rows])
        return ids, map_to_array(len, rows, np.int64)


def _in_order(groups: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> Encoded:
    """Puts texts that were encoded in groups back into the order of the call.

    Args:
        groups: for each group the positions of its texts in the call, their ids and
            their lengths.
    """
    positions, ids, lengths = map(np.concatenate, zip(*groups, strict=True))
    starts = np.cumsum(lengths) - lengths
    order = np.argsort(positions)
    lengths, starts = lengths[order], starts[order]
    new_starts = np.cumsum(lengths) - lengths
    source = np.repeat(starts - new_starts, lengths) + np.arange(len(ids))
    return ids[source], lengths
