"""The word-piece tokenizer whose ids are right by definition: Hugging Face's.

It is given no special tokens, so that a literal `[MASK]` in text is text.
"""

import re
from collections.abc import Callable, Sequence

import tokenizers

UNKNOWN = "[UNK]"
CONTINUATION = "##"
MAX_CHARACTERS_PER_WORD = 100  # A longer word is unknown.

# Halves of surrogate pairs have no UTF-8 form. They are dropped, as is U+FFFD, which
# other software puts in their place.
_SURROGATE = re.compile("[\ud800-\udfff]")


def exact_tokenizer(tokens: Sequence[str], lower_case: bool) -> tokenizers.Tokenizer:
    """The tokenizer for `tokens`, whose ids are their positions."""
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


def exact_normalizer(lower_case: bool) -> tokenizers.normalizers.Normalizer:
    """Normalizer that the tokenizer applies before it splits words."""
    return tokenizers.normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=True,
        strip_accents=lower_case,
        lowercase=lower_case,
    )


def letter_normalizer(lower_case: bool) -> tokenizers.normalizers.Normalizer:
    """`exact_normalizer` for text whose characters stay what and where they are."""
    return tokenizers.normalizers.BertNormalizer(
        clean_text=False,
        handle_chinese_chars=False,
        strip_accents=lower_case,
        lowercase=lower_case,
    )


def word_splitter(lower_case: bool) -> Callable[[str], list[str]]:
    """A function from a text to the words that the tokenizer cuts into pieces."""
    normalize = exact_normalizer(lower_case).normalize_str
    split = tokenizers.pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    return lambda text: [word for word, _ in split(normalize(drop_surrogates(text)))]


def drop_surrogates(text: str) -> str:
    """`text` as `tokenizers` accepts it."""
    return _SURROGATE.sub("", text)


def check_texts(texts: Sequence[str]) -> None:
    """Raises a ValueError if `texts` is a single string."""
    if isinstance(texts, str | bytes):
        raise ValueError(
            "`texts` must be a sequence of strings. Received: one "
            f"{type(texts).__name__}, {texts[:40]!r}"
        )
