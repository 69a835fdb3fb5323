"""A word-piece vocabulary: the lines of a BERT `vocab.txt`, checked."""

import dataclasses
import functools
import hashlib
import os
import pathlib
import re
from collections.abc import Mapping

PAD, UNK, CLS, SEP, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
SENT, ATTENTION = "[SENT]", "[ATTN]"
SPECIAL_TOKENS = (PAD, UNK, CLS, SEP, MASK)

_WHITE_SPACE = re.compile(r"[ \t\r\f\v]")


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """Tokens in the order of their ids.

    Args:
        tokens: one string per id; a piece inside a word starts with `##`.
        checksum: SHA-256 of the file that the tokens came from; computed from the
            tokens, as that file would hold them, if not given.
        source: where the tokens came from, for error messages.

    Raises:
        ValueError: if a special token is absent, a token is blank, holds white
            space or occurs twice. The message names `source`, token and line.

    Example:
        >>> vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"])
        >>> vocabulary.size, vocabulary.mask_id, vocabulary.id_of("a")
        (6, 4, 5)
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
    def from_file(cls, path: str | os.PathLike) -> "Vocabulary":
        """Reads a `vocab.txt`: UTF-8, one token a line, the first line is id 0.

        Raises:
            OSError: if the file cannot be read.
            ValueError: if it is not the vocabulary of a BERT-like model.
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
        """The content of a `vocab.txt` with these tokens."""
        return "".join(f"{token}\n" for token in self.tokens).encode()

    @property
    def size(self) -> int:
        return len(self.tokens)

    @functools.cached_property
    def ids(self) -> Mapping[str, int]:
        """Id of each token."""
        return {token: index for index, token in enumerate(self.tokens)}

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

    @functools.cached_property
    def sent_id(self) -> int:
        """Id of `[SENT]`, SLM's token before a sentence.

        That of a row `[SENT]`, or of the first `[unused…]` row, so that a model keeps
        the vocabulary of the checkpoints that it is compared with.

        Raises:
            ValueError: if there is neither.
        """
        return self._id_or_unused(SENT)

    @functools.cached_property
    def attention_id(self) -> int:
        """Id of `[ATTN]`, ReAT's `<Attn>`: of such a row, or of the first unused one.

        Raises:
            ValueError: if there is neither.
        """
        return self._id_or_unused(ATTENTION)

    def _id_or_unused(self, wanted: str) -> int:
        for token in self.tokens:
            if token == wanted or token.startswith("[unused"):
                return self.ids.get(wanted, self.ids[token])
        raise ValueError(
            f"A vocabulary must hold {wanted} or a row [unused…] to take its place. "
            f"Received: {self.source} ({self.size} tokens). `python -m "
            "data_pipelines.build_vocab` makes such rows"
        )

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
        missing = [token for token in SPECIAL_TOKENS if token not in self.ids]
        if missing:
            raise ValueError(
                f"A vocabulary must hold {', '.join(SPECIAL_TOKENS)}. Received: "
                f"{self.source} ({self.size} tokens), which lacks {', '.join(missing)}"
            )


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
