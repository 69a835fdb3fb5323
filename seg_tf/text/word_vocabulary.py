"""A vocabulary of whole words, the most frequent first."""

import dataclasses
from collections.abc import Mapping

from seg_tf.text.token_table import TokenTable

EOS, UNK = "<eos>", "<unk>"


@dataclasses.dataclass(frozen=True)
class WordVocabulary(TokenTable):
    """Words in the order of their ids, which is that of falling frequency.

    An adaptive softmax relies on the order. `<eos>`, the end of a paragraph, is id 0;
    `<unk>`, any word that is no part of the vocabulary, may have any other.

    Raises:
        ValueError: as of every `TokenTable`, and if `<eos>` is not the first token or
            `<unk>` is absent.

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
        return self.ids[UNK]

    @property
    def special_ids(self) -> Mapping[str, int]:
        """Ids of the tokens that are no text, by short names, for manifests."""
        return {"unk": self.unk_id, "eos": self.eos_id}

    def _check_special_tokens(self) -> None:
        hint = "`python -m data_pipelines.build_word_vocab` makes such vocabularies"
        if self.tokens[:1] != (EOS,):
            found = repr(self.tokens[0]) if self.tokens else "nothing"
            raise ValueError(
                f"A vocabulary of words must have {EOS} on line 1. Received: "
                f"{self.source}, with {found} there. {hint}"
            )
        if UNK not in self.ids:
            raise ValueError(
                f"A vocabulary of words must hold {UNK}. Received: {self.source} "
                f"({self.size} tokens), which lacks it. {hint}"
            )
