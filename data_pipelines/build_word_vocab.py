r"""Counts the words of a corpus and writes them as a vocabulary, frequent ones first.

  python -m data_pipelines.build_word_vocab --format=wikiextractor --input=text/ \
    --tokenizer=words --vocab_size=32768 --output=words.txt
  python -m data_pipelines.build_word_vocab --format=wikitext \
    --input=wiki.train.tokens --tokenizer=whitespace --min_count=1 --output=words.txt

The first line, id 0, is <eos>, the end of a paragraph. Words follow by falling
frequency, which is what an adaptive softmax needs; ties in the order of the words.
<unk>, any other word, is placed by its frequency in text that has it (WikiText
has), else right after <eos>. The same text gives the same file. Next:

  python -m data_pipelines.build_documents --tokenizer=words --vocab_file=words.txt …
"""

import dataclasses
import sys
from collections.abc import Mapping
from typing import Any

from absl import flags

from data_pipelines.builds import vocabulary_files
from data_pipelines.builds.word_counts import (
    WordCounter,
    count_words,
    report_stripped,
)
from seg_tf.text.encoding import SPLITTERS
from seg_tf.text.normalization import Normalization, define_normalization_flags
from seg_tf.text.vocabulary import EOS, UNKNOWN_WORD, WordVocabulary


@dataclasses.dataclass(frozen=True, kw_only=True)
class WordVocabularyOptions:
    """Options of a word vocabulary: tokenizer, size and limits of counting.

    Attributes:
        tokenizer: "words" or "whitespace".
        vocab_size: the most tokens, `<eos>` and `<unk>` included; None for no limit.
        min_count: how often a word has to occur.
        lower_case: whether words are lower-cased.
        strip_accents: whether words are stripped of accents; None follows `lower_case`.
        split_ideographs: whether each Chinese character is a word, for the tokenizer
            "words".
        max_words: distinct words that are held while counting, about.
    """

    tokenizer: str
    vocab_size: int | None = None
    min_count: int | None = None
    lower_case: bool = False
    strip_accents: bool | None = None
    split_ideographs: bool = True
    max_words: int = 1_000_000

    def __post_init__(self):
        if self.tokenizer not in SPLITTERS:
            raise ValueError(
                f"`tokenizer` must be one of {', '.join(SPLITTERS)}. "
                f"Received: {self.tokenizer!r}"
            )
        if self.vocab_size is None and self.min_count is None:
            raise ValueError(
                "`vocab_size` or `min_count` must say how many words there shall be "
                "(min_count=1 takes all). Received: neither"
            )
        if self.vocab_size is not None and not 3 <= self.vocab_size <= self.max_words:
            raise ValueError(
                "`vocab_size` must leave room for a word beside <eos> and <unk>, and "
                f"be at most `max_words`. Received: vocab_size={self.vocab_size}, "
                f"max_words={self.max_words}"
            )


def build_word_vocabulary(
    format: str,
    input_path: str,
    options: WordVocabularyOptions,
    reader_options: Mapping[str, Any] | None = None,
) -> WordVocabulary:
    """Makes a vocabulary of the words of a corpus; says on stderr what it covers.

    Args:
        format: name of the reader.
        input_path: file, folder or glob.
        options: what the vocabulary depends on beside the text.
        reader_options: options of the reader.

    Raises:
        ValueError: if the input is missing or empty, no document could be read, or no
            word is frequent enough.
    """
    normalization = Normalization(
        options.lower_case, options.strip_accents, options.split_ideographs
    )
    split = SPLITTERS[options.tokenizer](normalization)
    counter = WordCounter(split, options.max_words)
    counts = count_words(format, input_path, counter, reader_options or {})
    report_stripped(counter, normalization)
    # Of a literal <eos> in text the tokenizer makes <unk>.
    counts.pop(EOS, None)
    literal_unknown = counts.pop(UNKNOWN_WORD, 0)
    words = {
        word: count
        for word, count in counts.items()
        if count >= (options.min_count or 1)
    }
    if options.vocab_size is not None:
        words = dict(list(words.items())[: options.vocab_size - 2])
    if not words:
        raise ValueError(
            f"No word of {input_path!r} occurs min_count={options.min_count} times: "
            f"{counter.num_words:,} words, {len(counts):,} distinct"
        )
    num_unknown = counter.num_words - sum(words.values())
    ordered, rank = list(words), 0
    if literal_unknown:
        place = (-num_unknown, UNKNOWN_WORD)
        rank = sum((-count, word) < place for word, count in words.items())
    tokens = [EOS, *ordered[:rank], UNKNOWN_WORD, *ordered[rank:]]
    num_tokens = counter.num_words + counter.num_texts
    print(
        f"{num_tokens:,} tokens: {counter.num_words:,} words, {len(counts):,} of them "
        f"distinct, and {counter.num_texts:,} {EOS}. {num_unknown:,} tokens "
        f"({num_unknown / num_tokens:.2%}) are {UNKNOWN_WORD}, {literal_unknown:,} of "
        "them so in the text",
        file=sys.stderr,
    )
    if counter.has_forgotten:
        print(
            f"Not all distinct words fit max_words={options.max_words:,}: the rarest "
            "were forgotten on the way, and rare ones may be counted too low",
            file=sys.stderr,
        )
    return WordVocabulary(tuple(tokens))


# --- The script -----------------------------------------------------------------


def _define_flags() -> None:
    vocabulary_files.define_flags()
    flags.DEFINE_enum(
        "tokenizer",
        None,
        list(SPLITTERS),
        "Tokenizer: words splits at white space and punctuation, whitespace "
        "splits at white space (text that is tokenised already).",
        required=True,
    )
    flags.DEFINE_integer(
        "vocab_size", None, "The most tokens, <eos> and <unk> included.", lower_bound=3
    )
    flags.DEFINE_integer("min_count", None, "Least count of a word.", lower_bound=1)
    define_normalization_flags(
        "Lower-case and, without --nostrip_accents, strip accents (uncased). The "
        "default is that of word-level language models; build_vocab lower-cases, as "
        "BERT's uncased models do. What is built with a vocabulary follows its rows.",
        lower_case=WordVocabularyOptions.lower_case,
    )
    flags.DEFINE_integer(
        "max_words",
        WordVocabularyOptions.max_words,
        "Distinct words that are kept while counting, the most frequent ones. Bounds "
        "memory.",
        lower_bound=3,
    )


if __name__ == "__main__":
    _define_flags()
    vocabulary_files.run(build_word_vocabulary, WordVocabularyOptions)
