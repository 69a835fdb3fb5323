"""A word-piece vocabulary: the lines of a BERT `vocab.txt`, checked."""

import dataclasses
import functools
from collections.abc import Mapping

from seg_tf.text.token_table import TokenTable

PAD, UNK, CLS, SEP, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
SENT, ATTENTION = "[SENT]", "[ATTN]"
SPECIAL_TOKENS = (PAD, UNK, CLS, SEP, MASK)


@dataclasses.dataclass(frozen=True)
class Vocabulary(TokenTable):
    """Word pieces in the order of their ids; one inside a word starts with `##`.

    Raises:
        ValueError: as of every `TokenTable`, and if a special token is absent.

    Example:
        >>> vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"])
        >>> vocabulary.size, vocabulary.mask_id, vocabulary.id_of("a")
        (6, 4, 5)
    """

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
        """Id of ReAT's `<Attn>`: the row `[ATTN]`, or the first unused one.

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
    def special_ids(self) -> Mapping[str, int]:
        """Ids of the tokens that are no text, by short names, for manifests."""
        return {
            "pad": self.pad_id,
            "unk": self.unk_id,
            "cls": self.cls_id,
            "sep": self.sep_id,
            "mask": self.mask_id,
        }

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
