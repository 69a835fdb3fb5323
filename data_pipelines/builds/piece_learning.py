"""Learns word pieces from counts of words, to a given number of them.

The pieces are those of tensorflow_text's learner (top-down: frequent substrings of
words), which takes a threshold of frequency and searches it by bisection from the
count of the most frequent word down, at seconds to a minute per try. The number of
pieces falls nearly as a power of the threshold, so a few tries suffice here.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib

CONTINUATION = "##"

_MAX_TRIES = 12
# Surplus pieces, the least frequent, are cut; so many are few enough.
_MAX_SURPLUS = 0.05
# Longer words say little on pieces and take the learner long.
_MAX_WORD_LENGTH = 40
# Rank, as a share of the wanted size, of the word whose count is tried first.
_FIRST_TRY_RANK = 0.7
_FIRST_EXPONENT = 0.7


def learn_tokens(
    word_counts: Mapping[str, int],
    vocab_size: int,
    reserved_tokens: Sequence[str],
    *,
    max_characters: int = 1000,
    on_try: Callable[[int, int], None] = lambda threshold, size: None,
) -> list[str]:
    """Tokens of a vocabulary, the reserved ones first.

    Every character gets a piece, and one for inside of words if it occurs in words
    of several characters, so that any word of these characters has pieces.

    Args:
        word_counts: word -> how often it occurs.
        vocab_size: number of tokens; there are fewer only if the words do not hold
            as many different pieces.
        reserved_tokens: tokens with the first ids, whether or not they occur.
        max_characters: the most frequent characters get pieces; words with others
            are left out.
        on_try: called with the threshold and the number of tokens of each try.

    Returns:
        The tokens: reserved, then characters, then pieces by falling frequency.

    Raises:
        ValueError: if there are no words, or `vocab_size` is too small.
    """
    num_free = vocab_size - len(reserved_tokens)
    if not word_counts:
        raise ValueError("`word_counts` must hold words. Received: none")
    if num_free < 2:
        raise ValueError(
            "`vocab_size` must leave room for pieces beside "
            f"{len(reserved_tokens)} reserved tokens. Received: {vocab_size}"
        )
    # Each takes up to two pieces.
    characters = frequent_characters(word_counts, min(max_characters, num_free // 2))
    words = [
        (word, count)
        for word, count in word_counts.items()
        if len(word) <= _MAX_WORD_LENGTH and characters.issuperset(word)
    ]
    first = [*reserved_tokens, *_character_pieces(words, characters)]

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
    rank = min(int(vocab_size * _FIRST_TRY_RANK), len(counts) - 1)
    return _search(tokens_at, vocab_size, len(first), counts[rank], counts[0], on_try)


def frequent_characters(word_counts: Mapping[str, int], number: int) -> set[str]:
    """The most frequent characters of the words; of equally frequent, the first."""
    counts = Counter()
    for word, count in word_counts.items():
        for character in word:
            counts[character] += count
    return set(sorted(counts, key=lambda c: (-counts[c], c))[:number])


def _character_pieces(words: list[tuple[str, int]], characters: set[str]) -> list[str]:
    inside = set().union(*(word for word, _ in words if len(word) > 1))
    return sorted(characters) + [CONTINUATION + c for c in sorted(inside)]


def _search(
    tokens_at: Callable[[int], list[str]],
    vocab_size: int,
    num_fixed: int,
    threshold: int,
    highest: int,
    on_try: Callable[[int, int], None],
) -> list[str]:
    """Tokens at about the highest threshold that gives enough, cut to the size."""
    lowest, enough, too_few, tries = 1, None, None, []
    while lowest <= highest and len(tries) < _MAX_TRIES:
        threshold = min(max(threshold, lowest), highest)
        tokens = tokens_at(threshold)
        on_try(threshold, len(tokens))
        tries.append((threshold, max(len(tokens) - num_fixed, 1)))
        if len(tokens) < vocab_size:
            too_few, highest = tokens, threshold - 1
        else:
            enough, lowest = tokens, threshold + 1
            if len(tokens) <= vocab_size * (1 + _MAX_SURPLUS):
                break
        aim = vocab_size * (1 + _MAX_SURPLUS / 2) - num_fixed
        threshold = _next_threshold(tries, aim)
    return (enough or too_few)[:vocab_size]


def _next_threshold(tries: list[tuple[int, int]], aim: float) -> int:
    """Extrapolates the threshold that gives `aim` pieces, by a power law."""
    threshold, size = tries[-1]
    exponent = _FIRST_EXPONENT
    if len(tries) > 1 and tries[-2][1] != size:
        other_threshold, other_size = tries[-2]
        exponent = math.log(other_size / size) / math.log(threshold / other_threshold)
        exponent = min(max(exponent, 0.2), 2.0)
    return round(threshold * (size / max(aim, 1)) ** (1 / exponent))
