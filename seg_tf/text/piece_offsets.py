"""Word pieces with their character offsets in the text."""

import re
import unicodedata

import numpy as np

from seg_tf.text import casing
from seg_tf.text.exact_tokenizer import Normalization, exact_tokenizer
from seg_tf.text.vocabulary import Vocabulary

# The tokenizer takes no halves of surrogate pairs. U+FFFD, one character as well, it
# drops, as `WordPieces` drops the halves.
_SURROGATE = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\ufffd"


class PieceOffsets:
    """Encodes text as word pieces with character offsets.

    The ids are those of `WordPieces`. Much slower, and meant for texts that answers
    are to be cut out of.

    Args:
        vocabulary: the tokens and their ids.
        normalization: changes to text before words are looked up; None infers them
            from the vocabulary (`seg_tf.text.casing`).

    Example:
        >>> from seg_tf.text.vocabulary import SPECIAL_TOKENS
        >>> pieces = PieceOffsets(Vocabulary([*SPECIAL_TOKENS, "play", "##ed", "!"]))
        >>> pieces.encode(" Playe\u0301d!")
        (array([5, 6, 7], dtype=int32), array([1, 5, 8]), array([5, 8, 9]))
    """

    def __init__(
        self, vocabulary: Vocabulary, normalization: Normalization | None = None
    ):
        if normalization is None:
            normalization = casing.choose(vocabulary)
        self.vocabulary = vocabulary
        self.normalization = normalization
        self._tokenizer = exact_tokenizer(vocabulary.tokens, normalization)

    def encode(self, text: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The word pieces of a text, without special tokens.

        Args:
            text: any string.

        Returns:
            `(ids, starts, stops)`: the int32 ids, and int64 arrays of the first
            character of each piece and of the one after its last. White space and
            characters that are dropped belong to no piece where they are between
            two, but marks that are combined with a character go with it.
        """
        encoding = self._tokenizer.encode(_SURROGATE.sub(_REPLACEMENT, text))
        ids = np.array(encoding.ids, np.int32)
        offsets = np.array(encoding.offsets, np.int64).reshape(-1, 2)
        starts, stops = offsets[:, 0].copy(), offsets[:, 1].copy()
        if not text.isascii():
            # Without accents, é in two characters is an e; the answer "café" shall
            # come back unchanged all the same.
            for piece, stop in enumerate(stops.tolist()):
                stops[piece] = _after_marks(text, stop)
        return ids, starts, stops


def _after_marks(text: str, position: int) -> int:
    """The first position from this one on that is no combining mark."""
    while position < len(text) and unicodedata.category(text[position])[0] == "M":
        position += 1
    return position
