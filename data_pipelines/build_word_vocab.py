r"""Counts the words of a corpus and writes them as a vocabulary, frequent ones first.

  seg-tf build-word-vocab --format=wikiextractor --input=text/ \
    --tokenizer=words --vocab_size=32768 --output=words.txt
  seg-tf build-word-vocab --format=wikitext \
    --input=wiki.train.tokens --tokenizer=whitespace --min_count=1 --output=words.txt

The first line, id 0, is <eos>, the end of a paragraph. Words follow by falling
frequency, as an adaptive softmax requires; ties are sorted by word. <unk>, any other
word, is placed by its frequency if the text contains it (as WikiText does), else right
after <eos>. The same text gives the same file. Next:

  seg-tf build-documents --tokenizer=words --vocab_file=words.txt …
"""

import dataclasses
import sys
from collections.abc import Mapping
from typing import Any

from absl import flags

from data_pipelines import command_flags
from data_pipelines.builds.vocabularies import count_words
from seg_tf.text.encoding import SPLITTERS
from seg_tf.text.normalization import Normalization, define_normalization_flags
from seg_tf.text.vocabulary import EOS, UNKNOWN_WORD, WordVocabulary


@dataclasses.dataclass(frozen=True, kw_only=True)
class WordVocabularyOptions:
    """Options of a word vocabulary: tokenizer, size and limits of counting.

    Attributes:
        tokenizer: "words" or "whitespace".
        vocab_size: maximum number of tokens, including `<eos>` and `<unk>`; None for
            no limit.
        min_count: minimum number of occurrences of a word.
        lower_case: whether words are lower-cased.
        strip_accents: whether accents are stripped; None follows `lower_case`.
        split_ideographs: whether each Chinese character is a word, for the tokenizer
            "words".
        max_words: approximate number of distinct words in memory while counting.
    """

    tokenizer: str
    vocab_size: int | None = None
    min_count: int | None = None
    lower_case: bool = False
    strip_accents: bool | None = None
    split_ideographs: bool = True
    max_words: int = 1_000_000

    def __post_init__(self):
        if self.vocab_size is None and self.min_count is None:
            raise ValueError(
                "`vocab_size` or `min_count` must limit the number of words "
                "(min_count=1 keeps all). Received: neither"
            )
        if self.vocab_size is not None and not 3 <= self.vocab_size <= self.max_words:
            raise ValueError(
                "`vocab_size` must leave room for a word in addition to <eos> and "
                f"<unk>, and be at most `max_words`. Received: vocab_size="
                f"{self.vocab_size}, max_words={self.max_words}"
            )


def build_word_vocabulary(
    format: str,
    input_path: str,
    options: WordVocabularyOptions,
    reader_options: Mapping[str, Any] | None = None,
) -> WordVocabulary:
    """Makes a vocabulary of the words of a corpus; reports its coverage on stderr.

    Args:
        format, input_path, reader_options: as for `count_words`.
        options: options of the vocabulary.
    """
    normalization = Normalization(
        options.lower_case, options.strip_accents, options.split_ideographs
    )
    split = SPLITTERS[options.tokenizer](normalization)
    counted = count_words(
        format, input_path, reader_options or {}, split, options.max_words
    )
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
            f"No word of {input_path!r} occurs min_count={options.min_count} times: "
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
            f"More distinct words than max_words={options.max_words:,}: the rarest "
            "were dropped, and counts of rare words may be too low",
            file=sys.stderr,
        )
    return WordVocabulary(tuple(tokens))


if __name__ == "__main__":
    command_flags.define_vocabulary_flags()
    names = ("vocab_size", "min_count", "max_words")
    command_flags.define_option_flags(WordVocabularyOptions, *names)
    flags.DEFINE_enum(
        "tokenizer",
        None,
        list(SPLITTERS),
        "Tokenizer: words splits at white space and punctuation, whitespace splits at "
        "white space (for tokenized text).",
        required=True,
    )
    define_normalization_flags(
        "Lower-case and, without --nostrip_accents, strip accents (uncased). The "
        "default is that of word-level language models; build_vocab lower-cases, as "
        "BERT's uncased models do. Builds follow the rows of their vocabulary.",
        lower_case=WordVocabularyOptions.lower_case,
    )
    command_flags.run_vocabulary(build_word_vocabulary, WordVocabularyOptions)
