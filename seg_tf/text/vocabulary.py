"""Vocabularies, read from files with one token per line in the order of ids."""

import dataclasses
import functools
import hashlib
import os
import pathlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Self

PAD, UNK, CLS, SEP, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
SENT, ATTENTION = "[SENT]", "[ATTN]"
SPECIAL_TOKENS = (PAD, UNK, CLS, SEP, MASK)
EOS, UNKNOWN_WORD = "<eos>", "<unk>"

_WHITE_SPACE = re.compile(r"[ \t\r\f\v]")


def decode_lines(content: bytes, source: str) -> tuple[str, ...]:
    """Decodes tokens, one per line. Raises a ValueError if `content` is not UTF-8."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"A vocabulary must be UTF-8 text. Received: {source}, which is invalid at "
            f"byte {error.start} ({error.reason})"
        ) from error
    # `splitlines` would split at tokens such as U+2028 and U+0085.
    lines = text.split("\n")
    if not lines[-1].strip():
        lines.pop()
    return tuple(line.rstrip(" \t\r") for line in lines)


@dataclasses.dataclass(frozen=True)
class TokenTable:
    """Base class of vocabularies, which map ids to distinct tokens.

    Raises a ValueError for invalid tokens, and for missing or misplaced special tokens.

    Args:
        tokens: tuple of str. One token per id, nonempty and without whitespace.
        checksum: str. SHA-256 of the vocabulary file. If empty, that of `to_bytes()`.
        source: str. Origin of the tokens, for error messages.
    """

    tokens: tuple[str, ...]
    checksum: str = ""
    source: str = "tokens"

    def __post_init__(self):
        object.__setattr__(self, "tokens", tuple(self.tokens))
        self._check_lines()
        self._check_special_tokens()
        if not self.checksum:
            checksum = hashlib.sha256(self.to_bytes()).hexdigest()
            object.__setattr__(self, "checksum", checksum)

    @classmethod
    def from_file(cls, path: str | os.PathLike) -> Self:
        """Reads a file with one token per line. Raises ValueError if it is invalid."""
        content = pathlib.Path(path).read_bytes()
        tokens = decode_lines(content, str(path))
        return cls(tokens, hashlib.sha256(content).hexdigest(), str(path))

    def to_bytes(self) -> bytes:
        """Returns the content of a file with these tokens."""
        return "".join(f"{token}\n" for token in self.tokens).encode()

    @property
    def size(self) -> int:
        return len(self.tokens)

    @functools.cached_property
    def ids(self) -> Mapping[str, int]:
        """Mapping from each token to its id."""
        return {token: index for index, token in enumerate(self.tokens)}

    @property
    def special_ids(self) -> Mapping[str, int]:
        """Ids of special tokens by short name, such as "mask" for `[MASK]`."""
        return {}

    def id_of(self, token: str) -> int:
        """Returns the id of a token. Raises a ValueError if it is unknown."""
        if token not in self.ids:
            raise ValueError(
                f"`token` must be in the vocabulary {self.source} "
                f"({self.size} tokens). Received: {token!r}"
            )
        return self.ids[token]

    def tokens_of(self, ids: Iterable[int]) -> list[str]:
        """Returns the token of each id. Raises ValueError for ids out of range."""
        ids = list(ids)
        for token_id in ids:
            if not 0 <= token_id < self.size:
                raise ValueError(
                    f"`ids` must be between 0 and {self.size - 1}, the last id of "
                    f"{self.source}. Received: {token_id}"
                )
        return [self.tokens[token_id] for token_id in ids]

    def _check_lines(self) -> None:
        seen: set[str] = set()
        for line_number, token in enumerate(self.tokens, start=1):
            if not token or _WHITE_SPACE.search(token) or token in seen:
                raise ValueError(
                    "A vocabulary must have one token per line, without whitespace, "
                    f"each only once. Received: {self.source}, line {line_number}: "
                    f"{token[:80]!r}"
                )
            seen.add(token)

    def _check_special_tokens(self) -> None:
        """Raises a ValueError if a special token is missing or misplaced."""


def _id_property(token: str) -> Any:
    return property(lambda table: table.ids[token])


@dataclasses.dataclass(frozen=True)
class Vocabulary(TokenTable):
    """Vocabulary of word pieces. Pieces that continue a word start with `##`.

    Raises a ValueError if one of `SPECIAL_TOKENS` is missing. So do `sent_id` and
    `attention_id` if their token and unused tokens (`[unused…]`) are missing.

    Example:
        >>> vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"])
        >>> vocabulary.size, vocabulary.mask_id, vocabulary.id_of("a")
        (6, 4, 5)
    """

    @functools.cached_property
    def sent_id(self) -> int:
        """Id of SLM's `[SENT]` or, if that is missing, of the first unused token."""
        return self._id_or_unused(SENT)

    @functools.cached_property
    def attention_id(self) -> int:
        """Id of ReAT's `[ATTN]` or, if that is missing, of the first unused token."""
        return self._id_or_unused(ATTENTION)

    def _id_or_unused(self, name: str) -> int:
        for token in self.tokens:
            if token == name or token.startswith("[unused"):
                return self.ids.get(name, self.ids[token])
        raise ValueError(
            f"A vocabulary must hold {name} or a row [unused…] to take its place. "
            f"Received: {self.source} ({self.size} tokens). "
            "`seg-tf build-vocab` makes such rows"
        )

    @property
    def special_ids(self) -> Mapping[str, int]:
        return {token.strip("[]").lower(): self.ids[token] for token in SPECIAL_TOKENS}

    pad_id = _id_property(PAD)
    unk_id = _id_property(UNK)
    cls_id = _id_property(CLS)
    sep_id = _id_property(SEP)
    mask_id = _id_property(MASK)

    def _check_special_tokens(self) -> None:
        missing = [token for token in SPECIAL_TOKENS if token not in self.ids]
        if missing:
            raise ValueError(
                f"A vocabulary must hold {', '.join(SPECIAL_TOKENS)}. Received: "
                f"{self.source} ({self.size} tokens), which lacks {', '.join(missing)}"
            )


@dataclasses.dataclass(frozen=True)
class WordVocabulary(TokenTable):
    """Vocabulary of whole words, by decreasing frequency for adaptive softmax.

    `<eos>`, the end of a paragraph, must have id 0, and `<unk>` any other id, or a
    ValueError is raised. The order of the words is not checked.

    Example:
        >>> vocabulary = WordVocabulary(["<eos>", "the", "<unk>", "Dog"])
        >>> vocabulary.size, vocabulary.unk_id, vocabulary.id_of("Dog")
        (4, 2, 3)
    """

    eos_id = _id_property(EOS)
    unk_id = _id_property(UNKNOWN_WORD)

    @property
    def special_ids(self) -> Mapping[str, int]:
        return {"unk": self.unk_id, "eos": self.eos_id}

    def _check_special_tokens(self) -> None:
        if self.tokens[:1] != (EOS,) or UNKNOWN_WORD not in self.ids:
            raise ValueError(
                f"A vocabulary of words must have {EOS} on line 1, and {UNKNOWN_WORD}, "
                "as from `seg-tf build-vocab --tokenizer=words`. Received: "
                f"{self.source} ({self.size} tokens)"
            )
