r"""Trains a WordPiece vocabulary on a corpus and writes it as a BERT `vocab.txt`.

  python -m data_pipelines.build_vocab --format=wikiextractor --input=text/ \
    --vocab_size=30522 --output=vocab.txt

The first line, id 0, is [PAD]; [UNK], [CLS], [SEP], [MASK] follow, then unused rows,
which a later model can give a meaning without another vocabulary. All the characters
of the corpus follow, up to --max_characters, then pieces, the most frequent first. The
same text gives the same file. Chinese and Japanese want --max_characters=8000: each of
their characters is a word. Words are split as `seg_tf.text.word_pieces` does.

A few megabytes of text take well under a minute, 100 MB some minutes. Next:

  python -m data_pipelines.build_records --vocab_file=vocab.txt …
"""

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from absl import flags

from data_pipelines.builds import vocabulary_files
from data_pipelines.builds.word_counts import (
    WordCounter,
    count_words,
    report_stripped,
)
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
        vocab_size: number of tokens. There are fewer if the text has not as many
            different pieces.
        lower_case: whether words are lower-cased.
        strip_accents: whether words are stripped of accents; None follows `lower_case`.
        split_ideographs: whether each Chinese character is a word.
        num_unused: number of `[unused0]`, `[unused1]`, … rows.
        max_words: distinct words to learn from, the most frequent ones.
        max_characters: distinct characters that get a piece.
    """

    vocab_size: int = 30522
    lower_case: bool = True
    strip_accents: bool | None = None
    split_ideographs: bool = True
    num_unused: int = 10
    max_words: int = 100_000
    max_characters: int = 1000

    def __post_init__(self):
        if self.vocab_size < self.num_reserved + 2:
            raise ValueError(
                f"`vocab_size` must be above the {self.num_reserved} rows that are "
                "special tokens or unused, and leave room for pieces. Received: "
                f"vocab_size={self.vocab_size}, num_unused={self.num_unused}"
            )

    @property
    def normalization(self) -> Normalization:
        """Changes to words before they are counted."""
        return Normalization(self.lower_case, self.strip_accents, self.split_ideographs)

    @property
    def num_reserved(self) -> int:
        return len(SPECIAL_TOKENS) + self.num_unused

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
    """Learns the word pieces of a corpus.

    Args:
        format: name of the reader.
        input_path: file, folder or glob.
        options: what the vocabulary depends on beside the text.
        reader_options: options of the reader.

    Raises:
        ValueError: if the input is missing or empty, or no document could be read.
    """
    # Imported late, as it brings TensorFlow: errors in flags and input come at once.
    from data_pipelines.builds import piece_learning

    counter = WordCounter(word_splitter(options.normalization), options.max_words)
    word_counts = count_words(format, input_path, counter, reader_options or {})
    report_stripped(counter, options.normalization)
    characters = len(set().union(*word_counts))
    print(
        f"{sum(word_counts.values()):,} words, {len(word_counts):,} distinct, "
        f"{characters:,} characters",
        file=sys.stderr,
    )
    tokens = piece_learning.learn_tokens(
        word_counts,
        options.vocab_size,
        options.reserved_tokens,
        max_characters=options.max_characters,
        on_try=lambda threshold, size: print(
            f"pieces that occur {threshold:,} times: a vocabulary of {size:,}",
            file=sys.stderr,
        ),
    )
    without = characters_without_piece(word_counts, tokens)
    if without.characters:
        print(
            f"{without.characters:,} rare characters get no piece: {without.share:.2%} "
            "of all words hold one and will be [UNK]. They are those beyond the "
            f"{options.max_characters:,} of --max_characters, or beyond half of the "
            "vocabulary",
            file=sys.stderr,
        )
    return Vocabulary(tuple(tokens))


class CharactersWithoutPiece(NamedTuple):
    """Number of characters that are in no token, and the share of words with one."""

    characters: int
    share: float


def characters_without_piece(
    word_counts: Mapping[str, int], tokens: Sequence[str]
) -> CharactersWithoutPiece:
    """Count what a vocabulary leaves out of the words that it was learnt from."""
    known = {token for token in tokens if len(token) == 1}
    unknown = {
        word: found for word in word_counts if (found := set(word).difference(known))
    }
    share = sum(map(word_counts.get, unknown)) / sum(word_counts.values())
    return CharactersWithoutPiece(len(set().union(*unknown.values())), share)


# --- The script -----------------------------------------------------------------


def _define_flags() -> None:
    vocabulary_files.define_flags()
    defaults = VocabularyOptions()
    flags.DEFINE_integer("vocab_size", defaults.vocab_size, "Number of tokens.")
    define_normalization_flags(
        "Lower-case and, without --nostrip_accents, strip accents (uncased). The "
        "default is that of BERT's uncased models; build_word_vocab keeps case, as "
        "word-level language models do. What is built with a vocabulary follows its "
        "rows.",
        lower_case=defaults.lower_case,
    )
    flags.DEFINE_integer(
        "num_unused",
        defaults.num_unused,
        "Number of [unusedN] rows, for tokens that later models add.",
        lower_bound=0,
    )
    flags.DEFINE_integer(
        "max_words",
        defaults.max_words,
        "Distinct words to learn from, the most frequent ones. Bounds time and memory.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "max_characters",
        defaults.max_characters,
        "Distinct characters that get a piece, the most frequent ones, at most half of "
        "the vocabulary; words with others will be [UNK]. Their share is printed.",
        lower_bound=1,
    )


if __name__ == "__main__":
    _define_flags()
    vocabulary_files.run(build_vocabulary, VocabularyOptions)
