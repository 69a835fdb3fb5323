"""Encodes text as word-piece ids, and decodes ids, as BERT checkpoints expect.

Ids are identical to the output of Hugging Face's tokenizer, the exact tokenizer
(`seg_tf.text.normalization.exact_tokenizer`). TensorFlow Text's kernels, which are over
ten times as fast, encode nearly all text. They treat some characters, such as ß,
differently, and limit the bytes of a word. Text with such characters (listed by
`tools/find_differing_characters.py`) or long words is encoded by the exact tokenizer.
"""

import functools
import importlib.resources
import itertools
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_text

from seg_tf.text.normalization import (
    CONTINUATION,
    MAX_CHARACTERS_PER_WORD,
    Normalization,
    check_texts,
    choose_normalization,
    drop_surrogates,
    exact_tokenizer,
)
from seg_tf.text.vocabulary import UNK, Vocabulary

# Concatenated ids of texts, and the number of ids of each text.
Encoded = tuple[np.ndarray, np.ndarray]

# Upper bound for the longest word in any script.
MAX_BYTES_PER_WORD = 4 * MAX_CHARACTERS_PER_WORD
# A character decomposes into at most 4, so words up to this length stay within the
# limit.
LONGEST_SAFE_WORD = MAX_CHARACTERS_PER_WORD // 4

# Characters before and after which both tokenizers end a word. The list need not be
# complete. Missing characters make words seem longer, which is safe.
WORD_BREAKS = (
    *((0x09, 0x0A), (0x0D, 0x0D), (0x20, 0x2F), (0x3A, 0x40), (0x5B, 0x60)),
    *((0x7B, 0x7E), (0xA0, 0xA1), (0xAB, 0xAB), (0xBB, 0xBB), (0x2010, 0x2027)),
    *((0x3000, 0x3002), (0x3400, 0x4DB5), (0x4E00, 0x9FD5)),
)
# Python strings may contain unpaired surrogates, which UTF-8 cannot represent.
_SURROGATES = (0xD800, 0xDFFF)
_ORDINARY, _BREAK, _DIFFERING = range(3)

# Larger batches are split, which limits memory and is not slower.
_MAX_CHARACTERS_AT_ONCE = 1 << 19

# Dropped from text, except tab, line feed and carriage return.
_ASCII_CONTROLS = bytes({*range(0x20), 0x7F} - {0x09, 0x0A, 0x0D})
_DROP_ASCII_CONTROLS = dict.fromkeys(_ASCII_CONTROLS)
_UNMATCHABLE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")

# Ways to encode a text.
_ASCII, _UNICODE, _EXACT = range(3)


class WordPieces:
    """Encodes text as word pieces, and decodes pieces.

    Ids are identical to the output of Hugging Face's `tokenizers`, except for special
    tokens in the text: a literal `[MASK]` becomes `[`, `mask`, `]`.

    Args:
        vocabulary: `Vocabulary`. The tokens and their ids.
        normalization: `Normalization`. If None, it is inferred from the vocabulary.

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
        self.vocabulary = vocabulary
        self.normalization = normalization or choose_normalization(vocabulary)
        self._fast = FastTokenizer(vocabulary.tokens, self.normalization)
        self._exact = exact_tokenizer(vocabulary.tokens, self.normalization)
        self._differences = TokenizerDifferences(self.normalization)

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Encodes texts as word-piece ids, without adding special tokens.

        Each call has an overhead of about a millisecond, so pass thousands of texts.
        Raises a `ValueError` if `texts` is a single string.

        Returns:
            `(ids, lengths)`: concatenated int32 ids, and int64 numbers of ids per text.
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
        """Returns a bool mask of the texts that require the exact tokenizer."""
        return self._ways(texts) == _EXACT

    def decode(self, ids: Iterable[int]) -> str:
        """Decodes ids to words, joined by spaces. Raises ValueError for invalid ids."""
        words: list[str] = []
        for token in self.vocabulary.tokens_of(ids):
            if words and token.startswith(CONTINUATION):
                words[-1] += token.removeprefix(CONTINUATION)
            else:
                words.append(token)
        return " ".join(words)

    def _ways(self, texts: Sequence[str]) -> np.ndarray:
        """Returns the fastest way to encode each text exactly, such as `_ASCII`."""
        is_ascii = _map_to_array(str.isascii, texts, bool)
        ways = np.where(is_ascii, _ASCII, _UNICODE)
        if not is_ascii.all():
            not_ascii = list(itertools.compress(texts, (~is_ascii).tolist()))
            differ = self._differences.may_occur(not_ascii)
            ways[~is_ascii] = np.where(differ, _EXACT, _UNICODE)
        return ways

    def _encode_by(self, ways: np.ndarray, texts: Sequence[str]) -> Encoded:
        """Encodes each text with the encoder that its entry in `ways` selects."""
        encoders = {
            _ASCII: self._fast.encode_ascii,
            _UNICODE: self._fast.encode_unicode,
            _EXACT: self._encode_exactly,
        }
        present = np.flatnonzero(np.bincount(ways, minlength=len(encoders)))
        if len(present) <= 1:
            return encoders[present[0] if len(present) else _ASCII](texts)
        lengths = np.empty(len(texts), np.int64)
        ids_by_way = {}
        for way in present:
            is_chosen = ways == way
            chosen_texts = list(itertools.compress(texts, is_chosen.tolist()))
            ids_by_way[way], lengths[is_chosen] = encoders[way](chosen_texts)
        way_of_ids = np.repeat(ways.astype(np.uint8), lengths)
        ids = np.empty(len(way_of_ids), np.int32)
        for way, way_ids in ids_by_way.items():
            ids[way_of_ids == way] = way_ids
        return ids, lengths

    def _encode_exactly(self, texts: Sequence[str]) -> Encoded:
        # A batch would start threads, which do not survive a fork.
        rows = [self._exact.encode(drop_surrogates(text)).ids for text in texts]
        ids = np.concatenate([np.asarray(row, np.int32) for row in rows])
        return ids, _map_to_array(len, rows, np.int64)


def _split_some(
    texts: Sequence[str], chosen: np.ndarray
) -> tuple[list[str], np.ndarray]:
    """Splits chosen texts at spaces. Returns all parts, and each text's part count."""
    units: list[str] = []
    num_units = np.ones(len(texts), np.int64)
    begin = 0
    for position in np.flatnonzero(chosen):
        parts = texts[position].split(" ")
        units += texts[begin:position]
        units += parts
        num_units[position] = len(parts)
        begin = position + 1
    return units + list(texts[begin:]), num_units


class PieceOffsets:
    """Encodes text like `WordPieces`, but also returns offsets and is much slower."""

    def __init__(
        self, vocabulary: Vocabulary, normalization: Normalization | None = None
    ):
        self.vocabulary = vocabulary
        self.normalization = normalization or choose_normalization(vocabulary)
        self._tokenizer = exact_tokenizer(vocabulary.tokens, self.normalization)

    def encode(self, text: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns int32 ids, and int64 start and stop characters of the pieces, `(n,)`.

        Combining marks after a piece belong to it, even if normalization strips them.
        """
        # U+FFFD has the same length, and the tokenizer drops it.
        encoding = self._tokenizer.encode(drop_surrogates(text, "\ufffd"))
        ids = np.array(encoding.ids, np.int32)
        offsets = np.array(encoding.offsets, np.int64).reshape(-1, 2)
        starts, stops = offsets[:, 0].copy(), offsets[:, 1].copy()
        if not text.isascii():
            # Include combining marks that normalization stripped, so that an answer
            # such as "café" is returned unchanged.
            for piece, stop in enumerate(stops.tolist()):
                while stop < len(text) and unicodedata.category(text[stop])[0] == "M":
                    stop += 1
                stops[piece] = stop
        return ids, starts, stops


class FastTokenizer:
    """Encodes texts with TensorFlow Text. Callers must check `TokenizerDifferences`."""

    def __init__(self, tokens: Sequence[str], normalization: Normalization):
        tokens = tuple(tokens)
        self._lower_case = normalization.lower_case
        # The kernel does both or neither. Python lowercases if accents are kept.
        kernel_strips = normalization.lower_case and normalization.strip_accents
        self._lower_first = normalization.lower_case and not kernel_strips
        self._normalizer = tensorflow_text.FastBertNormalizer(kernel_strips)
        self._ascii = word_piece_kernel(tokens, MAX_CHARACTERS_PER_WORD)
        self._unicode = word_piece_kernel(tokens, MAX_BYTES_PER_WORD)

    def encode_ascii(self, texts: Sequence[str]) -> Encoded:
        """Encodes ASCII texts as `(ids, lengths)`, like the exact tokenizer."""
        joined = "\n".join(texts).encode("ascii")
        if len(joined.translate(None, _ASCII_CONTROLS)) < len(joined):
            texts = [text.translate(_DROP_ASCII_CONTROLS) for text in texts]
            joined = "\n".join(texts).encode("ascii")
        if self._lower_case:
            joined = joined.lower()
        return _encode_joined(self._ascii, joined, _map_to_array(len, texts, np.int64))

    def encode_unicode(self, texts: Sequence[str]) -> Encoded:
        """Encodes texts. Ids are exact if `TokenizerDifferences.may_occur` is False."""
        if not texts:
            return self.encode_ascii(texts)
        if self._lower_first:
            texts = [text.lower() for text in texts]
        normalized = self._normalizer.normalize(tf.constant(texts)).numpy().tolist()
        num_bytes = _map_to_array(len, normalized, np.int64)
        return _encode_joined(self._unicode, b"\n".join(normalized), num_bytes)


def _encode_joined(
    tokenizer: tensorflow_text.FastWordpieceTokenizer,
    joined: bytes,
    num_bytes: np.ndarray,
) -> Encoded:
    """Encodes texts of `num_bytes` bytes each, joined with one-byte separators."""
    ids, starts, _ = tokenizer.tokenize_with_offsets([joined])
    ends = np.searchsorted(starts.values.numpy(), np.cumsum(num_bytes + 1))
    return ids.values.numpy(), np.diff(ends, prepend=0)


# Building the kernel takes 0.2 seconds for 30,000 tokens, and processes often create
# several text encoders.
@functools.lru_cache(maxsize=8)
def word_piece_kernel(
    tokens: tuple[str, ...], max_bytes_per_word: int, splits_words: bool = True
) -> tensorflow_text.FastWordpieceTokenizer:
    """Builds a tokenizer for texts or, if `splits_words` is False, for single words."""
    # Tokens with whitespace or control characters match no word, but the kernel would
    # match whitespace across words, and fails to build with some control characters.
    tokens = [
        f"[unmatchable-{index}]" if _UNMATCHABLE.search(token) else token
        for index, token in enumerate(tokens)
    ]
    with tf.init_scope():  # it may outlive the graph in which it is first used
        return tensorflow_text.FastWordpieceTokenizer(
            tokens,
            suffix_indicator=CONTINUATION,
            max_bytes_per_word=max_bytes_per_word,
            token_out_type=tf.int32,
            unknown_token=UNK,
            no_pretokenization=not splits_words,
        )


class TokenizerDifferences:
    """Finds texts for which `FastTokenizer` and the exact tokenizer may differ."""

    def __init__(self, normalization: Normalization):
        self._kinds = np.full(0x110000, _ORDINARY, np.uint8)
        for first, last in WORD_BREAKS:
            self._kinds[first : last + 1] = _BREAK
        for first, last in (*differing_characters(normalization), _SURROGATES):
            self._kinds[first : last + 1] = _DIFFERING

    def may_occur(self, texts: Sequence[str]) -> np.ndarray:
        """Returns a bool mask of texts with differing characters or long words."""
        joined = "\n".join(texts)
        encoded = joined.encode("utf-32-le", "surrogatepass")
        kinds = self._kinds[np.frombuffer(encoded, np.uint32)]
        run_ends = np.append(np.flatnonzero(kinds == _BREAK), len(joined))
        run_lengths = np.diff(run_ends, prepend=-1) - 1
        in_long_words = run_ends[run_lengths > LONGEST_SAFE_WORD] - 1
        positions = np.append(np.flatnonzero(kinds == _DIFFERING), in_long_words)
        text_ends = np.cumsum(_map_to_array(len, texts, np.int64) + 1)
        differences = np.zeros(len(texts), bool)
        differences[np.searchsorted(text_ends, positions, side="right")] = True
        return differences


def differing_characters(normalization: Normalization) -> list[tuple[int, int]]:
    """Returns (first, last) code points of ranges that need the exact tokenizer."""
    path = importlib.resources.files("seg_tf.text") / "data/differing_characters.json"
    tables = json.loads(path.read_bytes())
    ranges = tables[f"{normalization.lower_case},{normalization.strip_accents}"]
    if not normalization.split_ideographs:
        ranges += tables["ideographs"]
    bounds = (entry.split("-") for line in ranges for entry in line.split())
    return [(int(bound[0], 16), int(bound[-1], 16)) for bound in bounds]


def _map_to_array(function: Callable, values: Sequence, dtype: type) -> np.ndarray:
    return np.fromiter(map(function, values), dtype, len(values))
