"""Word frequencies of a corpus, counted in bounded memory."""

import functools
import logging
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from data_pipelines.readers import get_reader
from data_pipelines.readers.base import Document, PassedOver, passed_over_summary
from seg_tf import command_line
from seg_tf.text.normalization import Normalization

# Distinct strings between spaces that are held before they are split into words.
_MAX_CHUNKS = 1 << 20
# Words are held until there are this many times those that are wanted.
_SLACK = 4
# Share of letters and marks that may lose a mark without a warning. Of English it is
# less than a thousandth.
_MAX_STRIPPED_SHARE = 0.01


class WordCounter:
    """Counts the words of texts.

    Strings between spaces are counted first, so that each distinct string is
    normalised and split once, however often it occurs.

    Args:
        split: text -> words. It must not look across a space.
        max_words: distinct words to keep, the most frequent ones. Where a corpus has
            more than four times as many, the rarest so far are forgotten on the way,
            and words about as rare as those may be counted too low.

    Attributes:
        num_texts: texts counted.
        has_forgotten: whether words were left out, on the way or in the end.
        num_letters: letters and combining marks of all texts.
        num_stripped: those of them that stripping of accents changes or removes.
    """

    def __init__(self, split: Callable[[str], list[str]], max_words: int):
        self.num_texts = 0
        self.num_letters = 0
        self.num_stripped = 0
        self.has_forgotten = False
        self._split = split
        self._max_words = max_words
        self._chunks = Counter()
        self._words = Counter()
        self._num_words = 0

    def add(self, text: str) -> None:
        """Counts the words of `text`."""
        self.num_texts += 1
        self._chunks.update(text.split(" "))
        if len(self._chunks) > _MAX_CHUNKS:
            self._split_chunks()

    def counts(self) -> dict[str, int]:
        """The counts of the most frequent words, falling; ties in order of words."""
        self._split_chunks()
        self.has_forgotten |= len(self._words) > self._max_words
        return dict(self._most_frequent(self._max_words))

    @property
    def num_words(self) -> int:
        """Words of all texts, those included whose counts are not kept."""
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
            self._words = Counter(dict(self._most_frequent(self._max_words)))
            self.has_forgotten = True

    def _most_frequent(self, number: int) -> list[tuple[str, int]]:
        ordered = sorted(self._words.items(), key=lambda item: (-item[1], item[0]))
        return ordered[:number]


@functools.cache
def _letter(character: str) -> tuple[bool, bool]:
    """Returns if it is a letter or a mark, and if it is or has a combining mark."""
    parts = unicodedata.normalize("NFD", character)
    return (
        unicodedata.category(character)[0] in "LM",
        any(unicodedata.category(part) == "Mn" for part in parts),
    )


def report_stripped(counter: WordCounter, normalization: Normalization) -> None:
    """Prints the share of letters that lose a mark, and warns of a high one.

    Args:
        counter: after all texts.
        normalization: that of its words.
    """
    if not normalization.strip_accents:
        return
    share = counter.num_stripped / max(counter.num_letters, 1)
    found = (
        f"{share:.2%} of all letters and marks ({counter.num_stripped:,} of "
        f"{counter.num_letters:,}) lose their combining marks (accents, vowel signs, "
        "voicing marks, points)"
    )
    if share > _MAX_STRIPPED_SHARE:
        logging.warning(
            "%s: different words of the text become the same pieces. "
            "--nostrip_accents keeps the marks, in lower-cased text too",
            found,
        )
    else:
        print(found, file=sys.stderr)


def count_words(
    format: str,
    input_path: str,
    counter: WordCounter,
    reader_options: Mapping[str, Any],
) -> dict[str, int]:
    """Counts the words of all paragraphs of a corpus, with a progress bar.

    Args:
        format: name of the reader.
        input_path: file, folder or glob, or several with commas.
        counter: an unused one, which knows more afterwards.
        reader_options: options of the reader.

    Returns:
        The counter's counts.

    Raises:
        ValueError: if the input is missing or empty, or no document could be read.
    """
    reader = get_reader(format, **reader_options)
    passed_over = PassedOver()
    sources = reader.sources(input_path, passed_over)
    if passed_over.names:
        print(passed_over_summary(passed_over.described()), file=sys.stderr)
    sizes = {source: path.stat().st_size for source, path in sources.items()}
    num_documents, rejected = 0, Counter()
    with command_line.progress_bar(sum(sizes.values()), "counting words") as bar:
        for source, size in sizes.items():
            for item in reader.read(sources[source], source):
                if not isinstance(item, Document):
                    rejected[item.reason] += 1
                    last_rejected = item
                    continue
                num_documents += 1
                for paragraph in item.paragraphs:
                    counter.add(paragraph)
            bar.update(size)
    counts = counter.counts()
    if rejected:
        listed = ", ".join(f"{n} {reason}" for reason, n in sorted(rejected.items()))
        print(f"left out: {listed}; the last one: {last_rejected}", file=sys.stderr)
    if not counts:
        raise ValueError(
            f"No words could be read from {input_path!r} as {format}: "
            f"{num_documents} documents, {sum(rejected.values())} rejected"
        )
    return counts
