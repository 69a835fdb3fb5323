"""Word counts of a corpus in bounded memory, and word pieces learned from them.

The pieces come from tensorflow_text's learner (top-down: frequent substrings of words).
Given a size, it bisects the frequency threshold, starting at the count of the most
frequent word, with seconds to a minute per step. The number of pieces falls nearly as a
power of the threshold, so a few extrapolated steps suffice here.
"""

import functools
import logging
import math
import pathlib
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from data_pipelines.readers import get_reader
from data_pipelines.readers.base import Document, PassedOver, passed_over_summary
from seg_tf import command_line, files
from seg_tf.text.normalization import CONTINUATION, Normalization
from seg_tf.text.vocabulary import TokenTable

# Maximum distinct strings between spaces in memory before they are split into words.
_MAX_CHUNKS = 1 << 20
# The rarest words are dropped when there are this many times more than requested.
_SLACK = 4
# Share of letters and marks that may lose a mark without a warning; English has less
# than a thousandth.
_MAX_STRIPPED_SHARE = 0.01
_MAX_STEPS = 12
# The least frequent pieces are cut if there are at most this many too many.
_MAX_SURPLUS = 0.05
# Longer words contribute few pieces and slow down the learner.
_MAX_WORD_LENGTH = 40
# Rank, as a share of the vocabulary's size, of the word whose count is tried first.
_FIRST_RANK = 0.7
_FIRST_EXPONENT = 0.7


class WordCounter:
    """Counts the words of texts.

    Strings between spaces are counted first, so that each distinct string is
    normalized and split only once.

    Args:
        split: text -> words. It must not look across a space.
        max_words: distinct words to keep, the most frequent ones. If a corpus has more
            than four times as many, the rarest so far are dropped on the way, and the
            counts of about equally rare words may be too low.

    Attributes:
        num_texts: texts counted.
        has_forgotten: whether words were dropped, on the way or at the end.
        num_letters: letters and combining marks of all texts.
        num_stripped: letters and marks that stripping of accents changes or removes.
    """

    def __init__(self, split: Callable[[str], list[str]], max_words: int):
        self.num_texts = 0
        self.num_letters = 0
        self.num_stripped = 0
        self.has_forgotten = False
        self._split = split
        self._max_words = max_words
        self._chunks: Counter[str] = Counter()
        self._words: Counter[str] = Counter()
        self._num_words = 0

    def add(self, text: str) -> None:
        """Counts the words of `text`."""
        self.num_texts += 1
        self._chunks.update(text.split(" "))
        if len(self._chunks) > _MAX_CHUNKS:
            self._split_chunks()

    def counts(self) -> dict[str, int]:
        """Counts of the most frequent words, falling; ties are sorted by word."""
        self._split_chunks()
        self.has_forgotten |= len(self._words) > self._max_words
        return dict(self._most_frequent())

    @property
    def num_words(self) -> int:
        """Words of all texts, including words whose counts were dropped."""
        self._split_chunks()
        return self._num_words

    def _split_chunks(self) -> None:
        for chunk, count in self._chunks.items():
            if chunk.isascii():
                self.num_letters += count * sum(map(str.isalpha, chunk))
            else:
                for character in chunk:
                    is_letter, has_mark = _letter(character)
                    self.num_letters += count * is_letter
                    self.num_stripped += count * has_mark
            for word in self._split(chunk):
                self._words[word] += count
                self._num_words += count
        self._chunks.clear()
        if len(self._words) > _SLACK * self._max_words:
            self._words = Counter(dict(self._most_frequent()))
            self.has_forgotten = True

    def _most_frequent(self) -> list[tuple[str, int]]:
        ordered = sorted(self._words.items(), key=lambda item: (-item[1], item[0]))
        return ordered[: self._max_words]


@functools.cache
def _letter(character: str) -> tuple[bool, bool]:
    """Tells letters and marks, and characters that are or have combining marks."""
    parts = unicodedata.normalize("NFD", character)
    return (
        unicodedata.category(character)[0] in "LM",
        any(unicodedata.category(part) == "Mn" for part in parts),
    )


def count_words(
    format: str,
    input_path: str,
    counter: WordCounter,
    reader_options: Mapping[str, Any],
    normalization: Normalization,
) -> dict[str, int]:
    """Counts the words of a corpus; reports on stderr what was left out or stripped.

    Args:
        format: name of the reader.
        input_path: file, folder or glob, or several separated by commas.
        counter: an unused counter, for further figures.
        reader_options: options of the reader.
        normalization: the normalization of the counter.

    Raises:
        ValueError: if the input is missing or empty, or no document could be read.
    """
    reader = get_reader(format, **reader_options)
    passed_over = PassedOver()
    sources = reader.sources(input_path, passed_over)
    if passed_over.names:
        print(passed_over_summary(passed_over.described()), file=sys.stderr)
    sizes = {source: path.stat().st_size for source, path in sources.items()}
    num_documents, last_rejected = 0, None
    rejected: Counter[str] = Counter()
    with command_line.progress_bar(sum(sizes.values()), "counting words") as bar:
        for source, size in sizes.items():
            for item in reader.read(sources[source], source):
                if isinstance(item, Document):
                    num_documents += 1
                    for paragraph in item.paragraphs:
                        counter.add(paragraph)
                else:
                    rejected[item.reason] += 1
                    last_rejected = item
            bar.update(size)
    counts = counter.counts()
    if rejected:
        listed = ", ".join(f"{n} {reason}" for reason, n in sorted(rejected.items()))
        print(f"left out: {listed}; the last one: {last_rejected}", file=sys.stderr)
    if not counts:
        raise ValueError(
            f"No words could be read from {input_path!r} as {format}: "
            f"{num_documents} documents, {rejected.total()} rejected"
        )
    if normalization.strip_accents:
        _report_stripped(counter)
    return counts


def _report_stripped(counter: WordCounter) -> None:
    share = counter.num_stripped / max(counter.num_letters, 1)
    text = (
        f"{share:.2%} of all letters and marks ({counter.num_stripped:,} of "
        f"{counter.num_letters:,}) lose their combining marks (accents, vowel signs, "
        "voicing marks, points)"
    )
    if share > _MAX_STRIPPED_SHARE:
        logging.warning(
            "%s: different words of the text become the same pieces. "
            "--nostrip_accents keeps the marks, in lower-cased text too",
            text,
        )
    else:
        print(text, file=sys.stderr)


def write_vocabulary(vocabulary: TokenTable, output: pathlib.Path) -> None:
    """Writes a complete `vocab.txt` or nothing."""
    with files.written_aside(output) as aside:
        aside.write_bytes(vocabulary.to_bytes())
    print(
        f"{vocabulary.size:,} tokens in {output} (sha256 {vocabulary.checksum[:12]}…)"
    )


# --- Word pieces ---------------------------------------------------------------------


def learn_pieces(
    word_counts: Mapping[str, int],
    vocab_size: int,
    reserved_tokens: Sequence[str],
    *,
    max_characters: int = 1000,
    on_step: Callable[[int, int], None] = lambda threshold, size: None,
) -> list[str]:
    """Learns the tokens of a vocabulary.

    Every frequent character gets a piece, and another one for the inside of words if it
    occurs in longer words, so that any word of these characters has pieces.

    Args:
        word_counts: word -> number of occurrences.
        vocab_size: number of tokens; there are fewer only if the words do not contain
            enough different pieces.
        reserved_tokens: tokens with the first ids, whether or not they occur.
        max_characters: number of characters with pieces, the most frequent ones; words
            with other characters are left out.
        on_step: receives the threshold and the number of tokens of each step.

    Returns:
        The tokens: reserved, then characters, then pieces by falling frequency.

    Raises:
        ValueError: if there are no words, or `vocab_size` is too small.
    """
    # Imported late because it imports TensorFlow: errors in flags come at once.
    from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib

    num_free = vocab_size - len(reserved_tokens)
    if not word_counts:
        raise ValueError("`word_counts` must contain words. Received: none")
    if num_free < 2:
        raise ValueError(
            "`vocab_size` must leave room for pieces in addition to "
            f"{len(reserved_tokens)} reserved tokens. Received: {vocab_size}"
        )
    character_counts: Counter[str] = Counter()
    for word, count in word_counts.items():
        for character in word:
            character_counts[character] += count
    ranked = sorted(character_counts, key=lambda c: (-character_counts[c], c))
    # Each character takes up to two pieces.
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

    counts = sorted((count for _, count in words), reverse=True)
    rank = min(int(vocab_size * _FIRST_RANK), len(counts) - 1)
    return search_threshold(
        tokens_at, vocab_size, len(first), counts[rank], counts[0], on_step
    )


def search_threshold(
    tokens_at: Callable[[int], list[str]],
    vocab_size: int,
    num_fixed: int,
    threshold: int,
    highest: int,
    on_step: Callable[[int, int], None],
) -> list[str]:
    """Tokens at about the highest threshold that gives enough, cut to the size.

    Args:
        tokens_at: threshold -> tokens; the first `num_fixed` are always the same.
        vocab_size: number of tokens.
        num_fixed: see above.
        threshold: the threshold to try first.
        highest: the highest threshold that gives any pieces.
        on_step: receives the threshold and the number of tokens of each step.
    """
    lowest, enough, too_few = 1, None, None
    steps: list[tuple[int, int]] = []
    aim = vocab_size * (1 + _MAX_SURPLUS / 2) - num_fixed
    while lowest <= highest and len(steps) < _MAX_STEPS:
        threshold = min(max(threshold, lowest), highest)
        tokens = tokens_at(threshold)
        on_step(threshold, len(tokens))
        size = max(len(tokens) - num_fixed, 1)
        if len(tokens) < vocab_size:
            too_few, highest = tokens, threshold - 1
        else:
            enough, lowest = tokens, threshold + 1
            if len(tokens) <= vocab_size * (1 + _MAX_SURPLUS):
                break
        # Extrapolates the threshold that gives `aim` pieces by a power law.
        exponent = _FIRST_EXPONENT
        if steps and steps[-1][1] != size:
            last_threshold, last_size = steps[-1]
            exponent = math.log(last_size / size) / math.log(threshold / last_threshold)
            exponent = min(max(exponent, 0.2), 2.0)
        steps.append((threshold, size))
        threshold = round(threshold * (size / max(aim, 1)) ** (1 / exponent))
    return (enough or too_few or [])[:vocab_size]
