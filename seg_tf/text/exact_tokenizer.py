"""The word-piece tokenizer whose ids are right by definition: Hugging Face's.

It is given no special tokens, so that a literal `[MASK]` in text is text.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import tokenizers

UNKNOWN = "[UNK]"
CONTINUATION = "##"
MAX_CHARACTERS_PER_WORD = 100  # A longer word is unknown.

# Halves of surrogate pairs have no UTF-8 form. They are dropped, as is U+FFFD, which
# other software puts in their place.
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclasses.dataclass(frozen=True)
class Normalization:
    """Changes to text before its words are looked up in a vocabulary.

    Attributes:
        lower_case: whether text is lower-cased.
        strip_accents: whether characters are decomposed and lose their combining
            marks: accents, but also vowel signs of Indic scripts and voicing marks of
            kana. None follows `lower_case`, as in BERT.
        split_ideographs: whether each Chinese character is a word.

    Example:
        >>> Normalization(lower_case=True, strip_accents=False).described()
        {'lower_case': True, 'strip_accents': False}
    """

    lower_case: bool
    strip_accents: bool | None = None
    split_ideographs: bool = True

    def __post_init__(self):
        if self.strip_accents is None:
            object.__setattr__(self, "strip_accents", self.lower_case)

    @classmethod
    def from_described(cls, described: Mapping[str, Any]) -> Self:
        """The normalization that a manifest or a checkpoint describes.

        Args:
            described: a mapping with the entries of `described`, among others.
        """
        return cls(
            described["lower_case"],
            described.get("strip_accents"),
            described.get("split_ideographs", True),
        )

    def described(self) -> dict[str, bool]:
        """`lower_case`, and the other settings only if they differ from BERT's."""
        described = {"lower_case": self.lower_case}
        if self.strip_accents != self.lower_case:
            described["strip_accents"] = self.strip_accents
        if not self.split_ideographs:
            described["split_ideographs"] = False
        return described

    def __str__(self) -> str:
        case = "lower-cased" if self.lower_case else "cased"
        accents = "without accents" if self.strip_accents else "with accents"
        ideographs = "" if self.split_ideographs else ", ideographs not split"
        return f"{case}, {accents}{ideographs}"


UNCASED, CASED = Normalization(lower_case=True), Normalization(lower_case=False)


def exact_tokenizer(
    tokens: Sequence[str], normalization: Normalization
) -> tokenizers.Tokenizer:
    """The tokenizer for `tokens`, whose ids are their positions."""
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(
            {token: index for index, token in enumerate(tokens)},
            unk_token=UNKNOWN,
            continuing_subword_prefix=CONTINUATION,
            max_input_chars_per_word=MAX_CHARACTERS_PER_WORD,
        )
    )
    tokenizer.normalizer = exact_normalizer(normalization)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    return tokenizer


def exact_normalizer(
    normalization: Normalization,
) -> tokenizers.normalizers.Normalizer:
    """Normalizer that the tokenizer applies before it splits words."""
    return tokenizers.normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=normalization.split_ideographs,
        strip_accents=normalization.strip_accents,
        lowercase=normalization.lower_case,
    )


def letter_normalizer(
    normalization: Normalization,
) -> tokenizers.normalizers.Normalizer:
    """`exact_normalizer` for text whose characters stay what and where they are."""
    return tokenizers.normalizers.BertNormalizer(
        clean_text=False,
        handle_chinese_chars=False,
        strip_accents=normalization.strip_accents,
        lowercase=normalization.lower_case,
    )


def word_splitter(normalization: Normalization) -> Callable[[str], list[str]]:
    """A function from a text to the words that the tokenizer cuts into pieces."""
    normalize = exact_normalizer(normalization).normalize_str
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
