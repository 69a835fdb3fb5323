r"""Trains a WordPiece vocabulary on a corpus and writes it as a BERT `vocab.txt`.

  seg-tf build-vocab --format=wikiextractor --input=text/ \
    --vocab_size=30522 --output=vocab.txt

The first line, id 0, is [PAD]; [UNK], [CLS], [SEP], [MASK] follow, then unused rows,
which later models can use without changing the vocabulary. All characters of the corpus
follow, up to --max_characters, then pieces, the most frequent first. The same text
gives the same file. For Chinese and Japanese, use --max_characters=8000: each character
is a word. Words are split as in `seg_tf.text.word_pieces`.

A few megabytes of text take well under a minute, 100 MB some minutes. Next:

  seg-tf build-records --vocab_file=vocab.txt …
"""

import dataclasses
import sys
from collections.abc import Mapping
from typing import Any

from data_pipelines import command_flags
from data_pipelines.builds.vocabularies import count_words, learn_pieces
from seg_tf.text.normalization import (
    Normalization,
    define_normalization_flags,
    word_splitter,
)
from seg_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary


@dataclasses.dataclass(frozen=True, kw_only=True)
class VocabularyOptions:
    """Options of a WordPiece vocabulary: size, casing and limits of learning.

    Attributes:
        vocab_size: number of tokens. There are fewer if the text has fewer different
            pieces.
        lower_case: whether words are lower-cased.
        strip_accents: whether accents are stripped; None follows `lower_case`.
        split_ideographs: whether each Chinese character is a word.
        num_unused: number of `[unused0]`, `[unused1]`, … rows, for tokens that later
            models add.
        max_words: distinct words to learn from, the most frequent ones. Bounds time
            and memory.
        max_characters: distinct characters that get a piece, the most frequent ones,
            at most half of the vocabulary; words with others will be `[UNK]`.
    """

    vocab_size: int = 30522
    lower_case: bool = True
    strip_accents: bool | None = None
    split_ideographs: bool = True
    num_unused: int = 10
    max_words: int = 100_000
    max_characters: int = 1000

    def __post_init__(self):
        if self.vocab_size < len(self.reserved_tokens) + 2:
            raise ValueError(
                f"`vocab_size` must be above the {len(self.reserved_tokens)} rows for "
                "special tokens and unused ones, and leave room for pieces. Received: "
                f"vocab_size={self.vocab_size}, num_unused={self.num_unused}"
            )

    @property
    def reserved_tokens(self) -> list[str]:
        """The first rows."""
        return [*SPECIAL_TOKENS, *(f"[unused{i}]" for i in range(self.num_unused))]


def build_vocabulary(
    format: str,
    input_path: str,
    options: VocabularyOptions,
    reader_options: Mapping[str, Any] | None = None,
) -> Vocabulary:
    """Learns the word pieces of a corpus; reports what it leaves out on stderr.

    Args:
        format, input_path, reader_options: as for `count_words`.
        options: options of the vocabulary.
    """
    normalization = Normalization(
        options.lower_case, options.strip_accents, options.split_ideographs
    )
    counts = count_words(
        format,
        input_path,
        reader_options or {},
        word_splitter(normalization),
        options.max_words,
    )
    tokens = learn_pieces(
        counts.words,
        options.vocab_size,
        options.reserved_tokens,
        max_characters=options.max_characters,
    )
    characters = set().union(*counts.words)
    print(
        f"{counts.num_words:,} words, {len(counts.words):,} distinct; "
        f"{len(characters):,} characters; "
        f"{len(characters.difference(tokens)):,} rare ones get no piece "
        "(--max_characters, or half of the vocabulary): words with them will be [UNK]",
        file=sys.stderr,
    )
    return Vocabulary(tuple(tokens))


if __name__ == "__main__":
    command_flags.define_vocabulary_flags()
    names = ("vocab_size", "num_unused", "max_words", "max_characters")
    command_flags.define_option_flags(VocabularyOptions, *names)
    define_normalization_flags(
        "Lower-case and, without --nostrip_accents, strip accents (uncased). The "
        "default is that of BERT's uncased models; build_word_vocab keeps case, as "
        "word-level language models do. Builds follow the rows of their vocabulary.",
        lower_case=VocabularyOptions.lower_case,
    )
    command_flags.run_vocabulary(build_vocabulary, VocabularyOptions)
