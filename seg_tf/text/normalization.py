"""Normalizes text and splits it into words with Hugging Face's tokenizer.

The tokens of a vocabulary show which normalization it needs. Lowercase text never
matches tokens with capital letters, and text without accents never matches accented
tokens. Such tokens are rare in uncased vocabularies but exceed 10% of cased ones.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import tokenizers
from absl import flags

from seg_tf.text.vocabulary import UNK, TokenTable

CONTINUATION = "##"
MAX_CHARACTERS_PER_WORD = 100  # Longer words are unknown.
# Maximum fraction of tokens that normalization changes in a vocabulary built with it.
_MAX_UNCASED_SHARE = 0.01

# Unpaired surrogates have no UTF-8 form. They are dropped, like U+FFFD, which other
# software substitutes for them.
_SURROGATE = re.compile("[\ud800-\udfff]")
# `[UNK]`, `[unused1]`, `<eos>`: text never yields these tokens.
_SPECIAL = re.compile(r"\[.+\]|<.+>")


@dataclasses.dataclass(frozen=True)
class Normalization:
    """Settings for normalizing text before its words are looked up in a vocabulary.

    Attributes:
        lower_case: bool. Whether text is lowercased.
        strip_accents: bool. Whether combining marks are stripped, including vowel signs
            of Indic scripts. If None, same as `lower_case`, as in BERT.
        split_ideographs: bool. Whether each Chinese character is a separate word.
    """

    lower_case: bool
    strip_accents: bool | None = None
    split_ideographs: bool = True

    def __post_init__(self):
        if self.strip_accents is None:
            object.__setattr__(self, "strip_accents", self.lower_case)

    @classmethod
    def from_described(cls, described: Mapping[str, Any]) -> Self:
        """Creates a normalization from a dict with the entries of `described`."""
        return cls(
            described["lower_case"],
            described.get("strip_accents"),
            described.get("split_ideographs", True),
        )

    def described(self) -> dict[str, bool]:
        """Returns a dict of `lower_case` and all settings that differ from BERT's."""
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
    """Creates Hugging Face's BERT tokenizer. A token's id is its index in `tokens`."""
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(
            {token: index for index, token in enumerate(tokens)},
            unk_token=UNK,
            continuing_subword_prefix=CONTINUATION,
            max_input_chars_per_word=MAX_CHARACTERS_PER_WORD,
        )
    )
    tokenizer.normalizer = exact_normalizer(normalization)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    return tokenizer


def exact_normalizer(
    normalization: Normalization, *, letters_only: bool = False
) -> tokenizers.normalizers.Normalizer:
    """Returns the normalizer that `exact_tokenizer` applies before it splits text.

    If `letters_only`, it only lowercases and strips combining marks, as configured.
    """
    return tokenizers.normalizers.BertNormalizer(
        clean_text=not letters_only,
        handle_chinese_chars=normalization.split_ideographs and not letters_only,
        strip_accents=normalization.strip_accents,
        lowercase=normalization.lower_case,
    )


def word_splitter(normalization: Normalization) -> Callable[[str], list[str]]:
    """Returns a function that normalizes text and splits it into words as in BERT."""
    normalize = exact_normalizer(normalization).normalize_str
    split = tokenizers.pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    return lambda text: [word for word, _ in split(normalize(drop_surrogates(text)))]


def white_space_splitter(normalization: Normalization) -> Callable[[str], list[str]]:
    """Returns a function that normalizes only letters and splits only at whitespace."""
    if not normalization.lower_case and not normalization.strip_accents:
        return lambda text: drop_surrogates(text).split()
    normalize = exact_normalizer(normalization, letters_only=True).normalize_str
    return lambda text: normalize(drop_surrogates(text)).split()


def drop_surrogates(text: str, replacement: str = "") -> str:
    """Replaces unpaired surrogates, which `tokenizers` rejects, with `replacement`."""
    return _SURROGATE.sub(replacement, text)


def check_texts(texts: Sequence[str]) -> None:
    """Raises a ValueError if `texts` is a single `str` or `bytes`."""
    if isinstance(texts, str | bytes):
        raise ValueError(
            "`texts` must be a sequence of strings. Received: one "
            f"{type(texts).__name__}, {texts[:40]!r}"
        )


def inferred_normalization(vocabulary: TokenTable) -> Normalization:
    """Infers the normalization of the text that a vocabulary was built from."""
    # Exclude special and unused tokens.
    rows = [token for token in vocabulary.tokens if not _SPECIAL.fullmatch(token)]

    def num_changed(normalization: Normalization) -> int:
        normalize = exact_normalizer(normalization, letters_only=True).normalize_str
        return sum(normalize(token) != token for token in rows)

    is_uncased = num_changed(UNCASED) <= _MAX_UNCASED_SHARE * len(rows)
    # Tokens without case, as in an Indic vocabulary, are no evidence.
    num_with_case = sum(token.upper() != token.lower() for token in rows)
    num_capitals = num_changed(Normalization(True, strip_accents=False))
    is_lower = num_with_case > 0 and num_capitals <= _MAX_UNCASED_SHARE * num_with_case
    split = exact_normalizer(UNCASED).normalize_str
    num_ideographs = sum(
        len(split(token.removeprefix(CONTINUATION)).split()) > 1
        for token in rows
        if not token.isascii()
    )
    return Normalization(
        lower_case=is_uncased or is_lower,
        strip_accents=is_uncased,
        split_ideographs=num_ideographs <= _MAX_UNCASED_SHARE * len(rows),
    )


def choose_normalization(
    vocabulary: TokenTable,
    lower_case: bool | None = None,
    strip_accents: bool | None = None,
    split_ideographs: bool | None = None,
) -> Normalization:
    """Returns the normalization for a vocabulary, inferring settings that are None.

    If `lower_case` is given, `strip_accents` defaults to the same value.
    """
    inferred = inferred_normalization(vocabulary)
    if split_ideographs is None:
        split_ideographs = inferred.split_ideographs
    if lower_case is None:
        lower_case = inferred.lower_case
        if strip_accents is None:
            strip_accents = inferred.strip_accents
    return Normalization(lower_case, strip_accents, split_ideographs)


def define_normalization_flags(lower_case_help: str) -> None:
    """Defines `--lower_case`, `--strip_accents` and `--split_ideographs`."""
    flags.DEFINE_bool("lower_case", None, lower_case_help)
    flags.DEFINE_bool(
        "strip_accents",
        None,
        "Strip combining marks: accents, but also vowel signs of Indic scripts, "
        "voicing marks of kana, and points of Hebrew and Arabic. Default: same as "
        "--lower_case if given, otherwise inferred from the vocabulary.",
    )
    flags.DEFINE_bool(
        "split_ideographs",
        None,
        "Make each Chinese character a word. Default: inferred from the vocabulary.",
    )
