"""How often each word occurs in a corpus, in bounded memory."""

from collections import Counter

from seg_tf.text.exact_tokenizer import word_splitter

# Distinct strings between spaces that are held before they are split into words.
_MAX_CHUNKS = 1 << 20
# Words are held until there are this many times those that are wanted.
_SLACK = 4


class WordCounter:
    """Counts the words that are cut into pieces.

    Text is counted by what stands between spaces first, so that each such string is
    normalised and split once, however often it occurs.

    Args:
        lower_case: whether words are lower-cased and stripped of accents.
        max_words: distinct words to keep, the most frequent ones. Where a corpus has
            more than four times as many, the rarest so far are forgotten on the way,
            and words about as rare as those may be counted too low.
    """

    def __init__(self, lower_case: bool, max_words: int):
        self._split = word_splitter(lower_case)
        self._max_words = max_words
        self._chunks = Counter()
        self._words = Counter()

    def add(self, text: str) -> None:
        """Counts the words of `text`."""
        self._chunks.update(text.split(" "))
        if len(self._chunks) > _MAX_CHUNKS:
            self._split_chunks()

    def counts(self) -> dict[str, int]:
        """The counts of the most frequent words, falling; ties in order of words."""
        self._split_chunks()
        return dict(self._most_frequent(self._max_words))

    def _split_chunks(self) -> None:
        for chunk, count in self._chunks.items():
            for word in self._split(chunk):
                self._words[word] += count
        self._chunks.clear()
        if len(self._words) > _SLACK * self._max_words:
            self._words = Counter(dict(self._most_frequent(self._max_words)))

    def _most_frequent(self, number: int) -> list[tuple[str, int]]:
        ordered = sorted(self._words.items(), key=lambda item: (-item[1], item[0]))
        return ordered[:number]
