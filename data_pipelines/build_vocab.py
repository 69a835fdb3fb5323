r"""Builds the vocabulary of a corpus: BERT word pieces (`vocab.txt`) or whole words.

  seg-tf build-vocab --format=wikiextractor --input=text/ \
    --vocab_size=30522 --output=vocab.txt
  seg-tf build-vocab --format=wikitext --input=wiki.train.tokens \
    --tokenizer=whitespace --min_count=1 --output=words.txt

Word pieces: the first line, id 0, is [PAD]. [UNK], [CLS], [SEP] and [MASK] follow, then
ten unused rows, which can later be assigned to new tokens. After these come at most
--max_characters characters, then longer pieces, most frequent first. Texts in Chinese
or Japanese contain thousands of characters: use --max_characters=8000.

Words (--tokenizer=words or whitespace): the first line is <eos>, the end of a
paragraph. Words follow in order of decreasing frequency, as an adaptive softmax
requires; ties are sorted by word. <unk> replaces words outside the vocabulary. It is
ranked by its frequency if the text contains it, as in WikiText, and otherwise second.

The same text always gives the same file. A few megabytes of text take well under a
minute, 100 MB a few minutes.
"""

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from absl import flags

from data_pipelines import command_flags
from data_pipelines.builds.vocabularies import WordCounts, count_words, learn_pieces
from seg_tf import command_line, files
from seg_tf.config.base import check_choice
from seg_tf.text.encoding import SPLITTERS, TOKENIZERS, WORD_PIECES
from seg_tf.text.normalization import (
    Normalization,
    define_normalization_flags,
    word_splitter,
)
from seg_tf.text.vocabulary import (
    EOS,
    SPECIAL_TOKENS,
    UNKNOWN_WORD,
    TokenTable,
    Vocabulary,
    WordVocabulary,
)

_MAX_WORDS = 1_000_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class VocabularyOptions:
    """Options of a vocabulary: kind of tokens, size and casing.

    Attributes:
        tokenizer: "word_pieces", "words" or "whitespace", see `encoding.TOKENIZERS`.
        vocab_size: maximum number of tokens. The vocabulary is smaller if the text has
            fewer distinct tokens. Default: 30,522 for word pieces, no limit for words.
        min_count: minimum number of occurrences of a word. Only for whole words, which
            need this or `vocab_size`.
        lower_case: whether to lowercase words. By default, word pieces are lowercased,
            as in BERT's uncased models, and whole words keep their case.
        strip_accents: whether to strip accents. If None, follows `lower_case`.
        split_ideographs: whether each Chinese character is a word. Default: True.
        max_characters: maximum number of distinct characters in word pieces, at most
            half of the vocabulary. Words with rarer characters become `[UNK]`.
    """

    tokenizer: str = WORD_PIECES
    vocab_size: int | None = None
    min_count: int | None = None
    lower_case: bool | None = None
    strip_accents: bool | None = None
    split_ideographs: bool | None = None
    max_characters: int = 1000

    def __post_init__(self):
        check_choice("tokenizer", self.tokenizer, TOKENIZERS)
        for name, default in (
            ("vocab_size", 30_522 if self.has_pieces else None),
            ("lower_case", self.has_pieces),
            ("split_ideographs", True),
        ):
            if getattr(self, name) is None:
                object.__setattr__(self, name, default)
        size, min_count = self.vocab_size, self.min_count
        if (size is None and min_count is None) or (self.has_pieces and min_count):
            raise ValueError(
                "`vocab_size`, or for whole words `min_count`, must limit the number "
                "of tokens (min_count=1 keeps all words). Received: "
                f"vocab_size={size}, min_count={min_count}, tokenizer={self.tokenizer}"
            )
        num_reserved = len(self.reserved_tokens)
        least = num_reserved + (2 if self.has_pieces else 1)
        if size is not None and size < least:
            raise ValueError(
                f"`vocab_size` must leave room for text next to {num_reserved} "
                f"reserved rows. Received: vocab_size={size}"
            )

    @property
    def has_pieces(self) -> bool:
        """True for word pieces, False for whole words."""
        return self.tokenizer == WORD_PIECES

    @property
    def reserved_tokens(self) -> list[str]:
        """Special and unused tokens, which are always in the vocabulary."""
        if not self.has_pieces:
            return [EOS, UNKNOWN_WORD]
        # Rows to which later models can assign tokens.
        return [*SPECIAL_TOKENS, *(f"[unused{i}]" for i in range(10))]


def build_vocabulary(
    format: str,
    input_path: str,
    options: VocabularyOptions,
    reader_options: Mapping[str, Any] | None = None,
) -> TokenTable:
    """Builds a `Vocabulary` of word pieces or a `WordVocabulary` from a corpus.

    Prints statistics to stderr. For other arguments and errors, see `count_words`.
    Raises ValueError if no whole word occurs `options.min_count` times.
    """
    split = SPLITTERS.get(options.tokenizer, word_splitter)(
        Normalization(
            options.lower_case, options.strip_accents, options.split_ideographs
        )
    )
    # Limits time and memory.
    max_words = max(_MAX_WORDS, options.vocab_size or 0)
    if options.has_pieces:
        max_words = 100_000
    counts = count_words(format, input_path, reader_options or {}, split, max_words)
    return (_word_pieces if options.has_pieces else _words)(counts, options)


def _word_pieces(counts: WordCounts, options: VocabularyOptions) -> Vocabulary:
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


def _words(counted: WordCounts, options: VocabularyOptions) -> WordVocabulary:
    counts, num_words = counted.words, counted.num_words
    # The tokenizer maps a literal <eos> in text to <unk>.
    counts.pop(EOS, None)
    literal_unknown = counts.pop(UNKNOWN_WORD, 0)
    min_count = options.min_count or 1
    words = {word: count for word, count in counts.items() if count >= min_count}
    if options.vocab_size is not None:
        words = dict(list(words.items())[: options.vocab_size - 2])
    if not words:
        raise ValueError(
            f"No word of the text occurs min_count={min_count} times: "
            f"{num_words:,} words, {len(counts):,} distinct"
        )
    num_unknown = num_words - sum(words.values())
    ordered, rank = list(words), 0
    if literal_unknown:
        place = (-num_unknown, UNKNOWN_WORD)
        rank = sum((-count, word) < place for word, count in words.items())
    tokens = [EOS, *ordered[:rank], UNKNOWN_WORD, *ordered[rank:]]
    num_tokens = num_words + counted.num_texts
    print(
        f"{num_tokens:,} tokens: {num_words:,} words, {len(counts):,} of them "
        f"distinct, and {counted.num_texts:,} {EOS}. {num_unknown:,} tokens "
        f"({num_unknown / num_tokens:.2%}) are {UNKNOWN_WORD}",
        file=sys.stderr,
    )
    if counted.has_forgotten:
        print(
            f"More than {_MAX_WORDS:,} distinct words: the rarest were dropped, and "
            "counts of rare words may be too low. A larger --vocab_size keeps more",
            file=sys.stderr,
        )
    return WordVocabulary(tuple(tokens))


def define_flags() -> None:
    command_flags.define_text_flags()
    flags.DEFINE_string("output", None, "The vocabulary to write.", required=True)
    flags.DEFINE_bool("overwrite", False, "Replace an existing --output.")
    command_flags.define_tokenizer_flag()
    names = ("vocab_size", "min_count", "max_characters")
    command_flags.define_option_flags(VocabularyOptions, *names)
    define_normalization_flags(
        "Lowercase text and, without --nostrip_accents, strip accents. Default: "
        "true for word pieces, as in BERT's uncased models, false for words, as in "
        "word-level language models. Builds infer the casing from the vocabulary."
    )


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    output = command_line.local_path(values.output, "output", "file")
    if output.exists() and not values.overwrite:
        raise ValueError(
            f"--output must not exist: {output}. Choose another name, or use "
            "--overwrite to replace it"
        )
    # Check this before reading the text, which may take hours.
    output.parent.mkdir(parents=True, exist_ok=True)
    command_line.file_path(values.output, "output")
    vocabulary = build_vocabulary(
        values.format,
        values.input,
        command_flags.options_from_flags(VocabularyOptions),
        command_flags.reader_options(),
    )
    files.write_bytes(output, vocabulary.to_bytes())
    print(
        f"{vocabulary.size:,} tokens in {output} (sha256 {vocabulary.checksum[:12]}…)"
    )
