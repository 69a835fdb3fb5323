"""Counts the words of a corpus in bounded memory and learns word pieces from them.

The pieces come from tensorflow_text's learner, which selects frequent substrings. Its
own search for a vocabulary size bisects the frequency threshold and takes up to a
minute per step. The number of pieces roughly follows a power law in the threshold, so
a few extrapolated steps suffice here.
"""

import dataclasses
import math
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from data_pipelines.readers import base, get_reader
from seg_tf import command_line
from seg_tf.text.normalization import CONTINUATION

# Maximum number of distinct space-separated strings to collect before splitting them.
_MAX_CHUNKS = 1 << 20
# The rarest words are dropped once there are this many times the requested number.
_SLACK = 4
_MAX_STEPS = 12
# Accepted surplus of pieces, as a fraction of the vocabulary. The rarest are dropped.
_MAX_SURPLUS = 0.05
# Longer words contribute few pieces and slow down the learner.
_MAX_WORD_LENGTH = 40
# Rank of the word whose count is the first threshold, as a fraction of the size.
_FIRST_RANK = 0.7
_FIRST_EXPONENT = 0.7


@dataclasses.dataclass
class WordCounts:
    """The words of a corpus and their counts.

    Attributes:
        words: counts of the most frequent words, in descending order and then by word.
        num_words: number of words, including those whose counts were dropped.
        num_texts: number of paragraphs.
        has_forgotten: whether any distinct words were dropped.
    """

    words: dict[str, int] = dataclasses.field(default_factory=dict)
    num_words: int = 0
    num_texts: int = 0
    has_forgotten: bool = False

    def keep(self, max_words: int) -> None:
        """Sorts the words and keeps only the `max_words` most frequent."""
        ordered = sorted(self.words.items(), key=lambda item: (-item[1], item[0]))
        self.words = dict(ordered[:max_words])
        self.has_forgotten |= len(ordered) > max_words


def count_words(
    format: str,
    input_path: str,
    reader_options: Mapping[str, Any],
    split: Callable[[str], list[str]],
    max_words: int,
) -> WordCounts:
    """Counts the words of a corpus and reports skipped text on stderr.

    Raises OSError or ValueError for invalid input or options, or if no word is found.

    Args:
        format, input_path, reader_options: the reader and its input, see `get_reader`.
        split: maps a text to words. It is called on strings between two spaces.
        max_words: number of words to keep. The rarest are dropped whenever there are
            over four times as many, so counts of rare words may be too low.
    """
    result = WordCounts()
    # Each distinct string between spaces is normalized and split only once.
    chunks: Counter[str] = Counter()

    def split_chunks() -> None:
        for chunk, count in chunks.items():
            for word in split(chunk):
                result.words[word] = result.words.get(word, 0) + count
                result.num_words += count
        chunks.clear()
        if len(result.words) > _SLACK * max_words:
            result.keep(max_words)

    reader = get_reader(format, **reader_options)
    passed_over: base.PassedOver = {}
    sources = reader.sources(input_path, passed_over)
    if described := base.describe_passed_over(passed_over):
        print(base.passed_over_summary(described), file=sys.stderr)
    sizes = {source: path.stat().st_size for source, path in sources.items()}
    rejected: Counter[str] = Counter()
    with command_line.progress_bar(sum(sizes.values()), "counting words") as bar:
        for source, size in sizes.items():
            for item in reader.read(sources[source], source):
                if isinstance(item, base.RejectedDocument):
                    rejected[item.reason] += 1
                    if rejected.total() == 1:
                        print(f"left out, for example: {item}", file=sys.stderr)
                    continue
                result.num_texts += len(item.paragraphs)
                for paragraph in item.paragraphs:
                    chunks.update(paragraph.split(" "))
                if len(chunks) > _MAX_CHUNKS:
                    split_chunks()
            bar.update(size)
    split_chunks()
    result.keep(max_words)
    if rejected:
        print(f"left out: {dict(sorted(rejected.items()))}", file=sys.stderr)
    if not result.words:
        raise ValueError(
            f"No words could be read from {input_path!r} as {format}: "
            f"{rejected.total()} documents rejected"
        )
    return result


def learn_pieces(
    word_counts: Mapping[str, int],
    vocab_size: int,
    reserved_tokens: Sequence[str],
    *,
    max_characters: int = 1000,
) -> list[str]:
    """Learns a vocabulary of reserved tokens, then characters, then frequent pieces.

    Each of the `max_characters` most frequent characters (at most half of the free
    rows) gets a piece, and a second one for positions inside words if it occurs there,
    so any word of these characters can be encoded. Words with rarer characters are
    ignored. Returns fewer than `vocab_size` tokens if there are not enough pieces.
    """
    # Imported late because it imports TensorFlow. Flag errors are reported before.
    from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib

    num_free = vocab_size - len(reserved_tokens)
    character_counts: Counter[str] = Counter()
    for word, count in word_counts.items():
        for character in word:
            character_counts[character] += count
    ranked = sorted(character_counts, key=lambda c: (-character_counts[c], c))
    # Each character needs up to two pieces.
    characters = set(ranked[: min(max_characters, num_free // 2)])
    words = [
        (word, count)
        for word, count in word_counts.items()
        if len(word) <= _MAX_WORD_LENGTH and characters.issuperset(word)
    ]
    inside = set().union(*(word for word, _ in words if len(word) > 1))
    first = [*reserved_tokens, *sorted(characters)]
    first += [CONTINUATION + character for character in sorted(inside)]

    def tokens_at(threshold: int) -> list[str]:
        learned = wordpiece_tokenizer_learner_lib.learn(
            words,
            vocab_size=vocab_size,
            reserved_tokens=list(reserved_tokens),
            lower_thresh=threshold,
            upper_thresh=threshold,
            max_token_length=_MAX_WORD_LENGTH,
            max_unique_chars=len(characters),
            max_input_tokens=-1,
            joiner=CONTINUATION,
        )
        longer = [
            token for token in learned if len(token.removeprefix(CONTINUATION)) > 1
        ]
        return list(dict.fromkeys([*first, *longer]))

    if not words:
        return first
    counts = sorted((count for _, count in words), reverse=True)
    rank = min(int(vocab_size * _FIRST_RANK), len(counts) - 1)
    return search_threshold(tokens_at, vocab_size, len(first), counts[rank], counts[0])


def search_threshold(
    tokens_at: Callable[[int], list[str]],
    vocab_size: int,
    num_fixed: int,
    threshold: int,
    highest: int,
) -> list[str]:
    """Searches for a threshold that yields just enough tokens and returns the tokens.

    `tokens_at(threshold)` always begins with the same `num_fixed` tokens. Tries
    `threshold` first and never exceeds `highest`. Returns at most `vocab_size` tokens.
    """
    lowest, enough, too_few = 1, None, None
    steps: list[tuple[int, int]] = []
    aim = vocab_size * (1 + _MAX_SURPLUS / 2) - num_fixed
    while lowest <= highest and len(steps) < _MAX_STEPS:
        threshold = min(max(threshold, lowest), highest)
        tokens = tokens_at(threshold)
        print(
            f"pieces with at least {threshold:,} occurrences: {len(tokens):,} tokens",
            file=sys.stderr,
        )
        size = max(len(tokens) - num_fixed, 1)
        if len(tokens) < vocab_size:
            too_few, highest = tokens, threshold - 1
        else:
            enough, lowest = tokens, threshold + 1
            if len(tokens) <= vocab_size * (1 + _MAX_SURPLUS):
                break
        # Extrapolate the threshold that gives `aim` pieces by a power law.
        exponent = _FIRST_EXPONENT
        if steps and steps[-1][1] != size:
            last_threshold, last_size = steps[-1]
            exponent = math.log(last_size / size) / math.log(threshold / last_threshold)
            exponent = min(max(exponent, 0.2), 2.0)
        steps.append((threshold, size))
        threshold = round(threshold * (size / max(aim, 1)) ** (1 / exponent))
    return (enough or too_few or [])[:vocab_size]
