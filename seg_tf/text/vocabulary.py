"""Vocabularies: the lines of a file, checked, in the order of their ids."""

import dataclasses
import functools
import hashlib
import os
import pathlib
import re
from collections.abc import Iterable, Mapping
from typing import Self

PAD, UNK, CLS, SEP, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
SENT, ATTENTION = "[SENT]", "[ATTN]"
SPECIAL_TOKENS = (PAD, UNK, CLS, SEP, MASK)
EOS, UNKNOWN_WORD = "<eos>", "<unk>"

_WHITE_SPACE = re.compile(r"[ \t\r\f\v]")


def decode_lines(content: bytes, source: str) -> tuple[str, ...]:
    """The lines of a UTF-8 file with one token a line.

    Raises:
        ValueError: if it is not UTF-8, naming `source`.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"A vocabulary must be UTF-8 text. Received: {source}, which is not at "
            f"byte {error.start} ({error.reason})"
        ) from error
    # Not `splitlines`: vocabularies contain pieces such as U+2028 and U+0085.
    lines = text.split("\n")
    if not lines[-1].strip():
        lines.pop()
    return tuple(line.rstrip(" \t\r") for line in lines)


@dataclasses.dataclass(frozen=True)
class TokenTable:
    """Base class of vocabularies: distinct tokens in the order of their ids.

    Args:
        tokens: one string per id.
        checksum: SHA-256 of the file that the tokens came from; by default the
            checksum of a file with these tokens.
        source: where the tokens came from, for error messages.

    Raises:
        ValueError: if a token is blank, contains white space or occurs twice, or a
            special token is missing. The message names `source`, token and line.
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
        """Reads a UTF-8 file with one token a line; the first line is id 0.

        Raises:
            OSError: if the file cannot be read.
            ValueError: if it is not such a vocabulary.
        """
        content = pathlib.Path(path).read_bytes()
        tokens = decode_lines(content, str(path))
        return cls(tokens, hashlib.sha256(content).hexdigest(), str(path))

    def to_bytes(self) -> bytes:
        """Content of a file with these tokens."""
        return "".join(f"{token}\n" for token in self.tokens).encode()

    @property
    def size(self) -> int:
        return len(self.tokens)

    @functools.cached_property
    def ids(self) -> Mapping[str, int]:
        """Id of each token."""
        return {token: index for index, token in enumerate(self.tokens)}

    @property
    def special_ids(self) -> Mapping[str, int]:
        """Ids of the tokens that are not text, by short names, for manifests."""
        return {}

    def id_of(self, token: str) -> int:
        """Id of `token`.

        Raises:
            ValueError: if it is not in the vocabulary.
        """
        if token not in self.ids:
            raise ValueError(
                f"`token` must be in the vocabulary {self.source} "
                f"({self.size} tokens). Received: {token!r}"
            )
        return self.ids[token]

    def tokens_of(self, ids: Iterable[int]) -> list[str]:
        """The token of each id.

        Raises:
            ValueError: if an id is not in the vocabulary.
        """
        tokens = []
        for token_id in ids:
            if not 0 <= token_id < self.size:
                raise ValueError(
                    f"`ids` must be between 0 and {self.size - 1}, the last id of "
                    f"{self.source}. Received: {token_id}"
                )
            tokens.append(self.tokens[token_id])
        return tokens

    def _check_lines(self) -> None:
        first_lines: dict[str, int] = {}
        for line_number, token in enumerate(self.tokens, start=1):
            if not token:
                raise ValueError(
                    "A vocabulary must have a token on every line. Received: "
                    f"{self.source}, whose line {line_number} is blank"
                )
            if _WHITE_SPACE.search(token):
                raise ValueError(
                    "A vocabulary must have one token a line and nothing else. "
                    f"Received: {self.source}, line {line_number}: {token[:80]!r}"
                )
            if token in first_lines:
                raise ValueError(
                    f"A vocabulary must hold a token once. Received: {self.source}, "
                    f"with {token!r} on lines {first_lines[token]} and {line_number}"
                )
            first_lines[token] = line_number

    def _check_special_tokens(self) -> None:
        """Raises a ValueError if a special token is missing or misplaced."""


@dataclasses.dataclass(frozen=True)
class Vocabulary(TokenTable):
    """Word pieces in the order of their ids; one inside a word starts with `##`.

    Raises:
        ValueError: as for every `TokenTable`, and if a special token is missing.

    Example:
        >>> vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"])
        >>> vocabulary.size, vocabulary.mask_id, vocabulary.id_of("a")
        (6, 4, 5)
    """

    @functools.cached_property
    def sent_id(self) -> int:
        """Id of `[SENT]`, SLM's token before a sentence.

        Without such a row, it is the first `[unused…]` row, so that a model keeps the
        vocabulary of the checkpoints it is compared with. A ValueError is raised if
        there is neither.
        """
        return self._id_or_unused(SENT)

    @functools.cached_property
    def attention_id(self) -> int:
        """Id of ReAT's `<Attn>`: the row `[ATTN]`, or the first unused one."""
        return self._id_or_unused(ATTENTION)

    def _id_or_unused(self, name: str) -> int:
        for token in self.tokens:
            if token == name or token.startswith("[unused"):
                return self.ids.get(name, self.ids[token])
        raise ValueError(
            f"A vocabulary must hold {name} or a row [unused…] to take its place. "
            f"Received: {self.source} ({self.size} tokens). `python -m "
            "data_pipelines.build_vocab` makes such rows"
        )

    @property
    def special_ids(self) -> Mapping[str, int]:
        """Ids of the tokens that are not text, by short names, for manifests."""
        return {token.strip("[]").lower(): self.ids[token] for token in SPECIAL_TOKENS}

    @property
    def pad_id(self) -> int:
        return self.ids[PAD]

    @property
    def unk_id(self) -> int:
        return self.ids[UNK]

    @property
    def cls_id(self) -> int:
        return self.ids[CLS]

    @property
    def sep_id(self) -> int:
        return self.ids[SEP]

    @property
    def mask_id(self) -> int:
        return self.ids[MASK]

    def _check_special_tokens(self) -> None:
        missing = [token for token in SPECIAL_TOKENS if token not in self.ids]
        if missing:
            raise ValueError(
                f"A vocabulary must hold {', '.join(SPECIAL_TOKENS)}. Received: "
                f"{self.source} ({self.size} tokens), which lacks {', '.join(missing)}"
            )


@dataclasses.dataclass(frozen=True)
class WordVocabulary(TokenTable):
    """Whole words in the order of falling frequency, which adaptive softmax relies on.

    `<eos>`, the end of a paragraph, is id 0. `<unk>` may have any other id.

    Raises:
        ValueError: as for every `TokenTable`, and if `<eos>` is not the first token or
            `<unk>` is missing.

    Example:
        >>> vocabulary = WordVocabulary(["<eos>", "the", "<unk>", "Dog"])
        >>> vocabulary.size, vocabulary.unk_id, vocabulary.id_of("Dog")
        (4, 2, 3)
    """

    @property
    def eos_id(self) -> int:
        return self.ids[EOS]

    @property
    def unk_id(self) -> int:
        return self.ids[UNKNOWN_WORD]

    @property
    def special_ids(self) -> Mapping[str, int]:
        """Ids of the tokens that are not text, by short names, for manifests."""
        return {"unk": self.unk_id, "eos": self.eos_id}

    def _check_special_tokens(self) -> None:
        hint = "`python -m data_pipelines.build_word_vocab` makes such vocabularies"
        if self.tokens[:1] != (EOS,):
            first = repr(self.tokens[0]) if self.tokens else "nothing"
            raise ValueError(
                f"A vocabulary of words must have {EOS} on line 1. Received: "
                f"{self.source}, with {first} there. {hint}"
            )
        if UNKNOWN_WORD not in self.ids:
            raise ValueError(
                f"A vocabulary of words must hold {UNKNOWN_WORD}. Received: "
                f"{self.source} ({self.size} tokens), which lacks it. {hint}"
            )
