"""The two implementations of BERT's word pieces that `WordPieces` chooses between.

`tokenizers` (Hugging Face) defines the ids. tensorflow_text's kernels are more than
ten times faster and differ from it in known cases (see `tokenizer_differences`).
Neither is given special tokens, so that a literal `[MASK]` in text is text.
"""

import re
from collections.abc import Callable, Sequence

import tensorflow as tf
import tensorflow_text
import tokenizers

UNKNOWN = "[UNK]"
CONTINUATION = "##"
MAX_CHARACTERS_PER_WORD = 100  # A longer word is unknown.

_MAX_BYTES_PER_CHARACTER = 4
# Halves of surrogate pairs have no UTF-8 form. They are dropped, as is U+FFFD, which
# other software puts in their place.
_SURROGATE = re.compile("[\ud800-\udfff]")
_UNMATCHABLE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")


def exact_normalizer(lower_case: bool) -> tokenizers.normalizers.Normalizer:
    """What the exact tokenizer does to characters before it splits words."""
    return tokenizers.normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=True,
        strip_accents=lower_case,
        lowercase=lower_case,
    )


def exact_tokenizer(tokens: Sequence[str], lower_case: bool) -> tokenizers.Tokenizer:
    """The tokenizer whose ids are right by definition."""
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(
            {token: index for index, token in enumerate(tokens)},
            unk_token=UNKNOWN,
            continuing_subword_prefix=CONTINUATION,
            max_input_chars_per_word=MAX_CHARACTERS_PER_WORD,
        )
    )
    tokenizer.normalizer = exact_normalizer(lower_case)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    return tokenizer


def word_splitter(lower_case: bool) -> Callable[[str], list[str]]:
    """A function from a text to the words that the exact tokenizer cuts in pieces."""
    normalize = exact_normalizer(lower_case).normalize_str
    split = tokenizers.pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    return lambda text: [word for word, _ in split(normalize(drop_surrogates(text)))]


def drop_surrogates(text: str) -> str:
    """`text` as `tokenizers` accepts it."""
    return _SURROGATE.sub("", text)


def fast_ascii_tokenizer(
    tokens: Sequence[str],
) -> tensorflow_text.FastWordpieceTokenizer:
    """Exact for ASCII text without control characters, lower-cased by the caller."""
    return tensorflow_text.FastWordpieceTokenizer(
        _without_unmatchable(tokens),
        max_bytes_per_word=MAX_CHARACTERS_PER_WORD,
        token_out_type=tf.int32,
        unknown_token=UNKNOWN,
        suffix_indicator=CONTINUATION,
    )


def fast_unicode_tokenizer(
    tokens: Sequence[str], lower_case: bool
) -> tensorflow_text.FastBertTokenizer:
    """Exact for texts without the differences that `TokenizerDifferences` finds.

    The limit on words is in bytes here; it is set such that it never acts on a word
    within the limit on characters.
    """
    return tensorflow_text.FastBertTokenizer(
        _without_unmatchable(tokens),
        max_bytes_per_word=MAX_CHARACTERS_PER_WORD * _MAX_BYTES_PER_CHARACTER,
        token_out_type=tf.int32,
        unknown_token=UNKNOWN,
        suffix_indicator=CONTINUATION,
        lower_case_nfd_strip_accents=lower_case,
    )


def _without_unmatchable(tokens: Sequence[str]) -> list[str]:
    """Puts stand-ins for tokens with white space or control characters.

    They match no word, but the fast matcher would match white space across words,
    and cannot be built with some control characters.
    """
    return [
        f"[unmatchable-{index}]" if _UNMATCHABLE.search(token) else token
        for index, token in enumerate(tokens)
    ]
