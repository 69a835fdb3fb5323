"""Tokens in the order of their ids: the lines of a vocabulary file, checked."""

import dataclasses
import functools
import hashlib
import os
import pathlib
import re
from collections.abc import Iterable, Mapping
from typing import Self

_WHITE_SPACE = re.compile(r"[ \t\r\f\v]")


@dataclasses.dataclass(frozen=True)
class TokenTable:
    """Base class of vocabularies: distinct tokens in the order of their ids.

    Args:
        tokens: one string per id.
        checksum: SHA-256 of the file that the tokens came from; computed from the
            tokens, as that file would hold them, if not given.
        source: where the tokens came from, for error messages.

    Raises:
        ValueError: if a token is blank, holds white space or occurs twice, or a
            special token is not where it has to be. The message names `source`,
            token and line.
    """

    tokens: tuple[str, ...]
    checksum: str = ""
    source: str = "tokens"

    def __post_init__(self):
        object.__setattr__(self, "tokens", tuple(self.tokens))
        self._check_lines()
        self._check_special_tokens()
        if not self.checksum:
            object.__setattr__(self, "checksum", _checksum(self.to_bytes()))

    @classmethod
    def from_file(cls, path: str | os.PathLike) -> Self:
        """Reads a file: UTF-8, one token a line, the first line is id 0.

        Raises:
            OSError: if the file cannot be read.
            ValueError: if it is no such vocabulary.
        """
        content = pathlib.Path(path).read_bytes()
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"A vocabulary must be UTF-8 text. Received: {path}, which is not at "
                f"byte {error.start} ({error.reason})"
            ) from error
        # Not `splitlines`: vocabularies hold pieces such as U+2028 and U+0085.
        lines = text.split("\n")
        if not lines[-1].strip():
            lines.pop()
        tokens = (line.rstrip(" \t\r") for line in lines)
        return cls(tuple(tokens), checksum=_checksum(content), source=str(path))

    def to_bytes(self) -> bytes:
        """The content of a file with these tokens."""
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
        """Ids of the tokens that are no text, by short names, for manifests."""
        return {}

    def id_of(self, token: str) -> int:
        """Id of `token`.

        Raises:
            ValueError: if the vocabulary does not hold it.
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
                    f"`ids` must lie between 0 and {self.size - 1}, the last id of "
                    f"{self.source}. Received: {token_id}"
                )
            tokens.append(self.tokens[token_id])
        return tokens

    def _check_lines(self) -> None:
        first_lines = {}
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
        """Raises a ValueError if one is not where it has to be."""


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
