"""Punkt's tokens of a flat tensor of characters, all at once, in the graph.

The same tokens as of `seg_tf.text.punkt_decision.tokenize`. There, an expression goes
from token to token; here, every position is asked whether a token begins at it, which
depends on the characters around it and on a few positions before.

Shape key: N characters.
"""

import dataclasses
import functools
import unicodedata

import numpy as np
import tensorflow as tf

from seg_tf.text import punkt_decision
from seg_tf.text.graph.code_point_table import NUM_CODE_POINTS, CodePointTable
from seg_tf.text.marked_positions import MarkedPositions, shifted

# What Punkt asks of a character, as flags.
SPACE = 1
ASCII_SPACE = 1 << 1
PYTHON_SPACE = 1 << 2
END_MARK = 1 << 3
WORD_END = 1 << 4
CLOSER = 1 << 5
NEVER_BEGINS_WORD = 1 << 6
LETTER = 1 << 7
UPPER = 1 << 8
LOWER = 1 << 9
DIGIT = 1 << 10
CONTINUES = 1 << 11

DOT, DASH, COMMA = ord("."), ord("-"), ord(",")


# Categories of what is no character, or none that Unicode knows.
_WITHOUT_PROPERTIES = ("Cn", "Co", "Cs")


@functools.cache
def character_flags() -> np.ndarray:
    """The flags of every code point: int32 array `(0x110000,)`."""
    flags = np.zeros(NUM_CODE_POINTS, np.int32)
    for characters, flag in (
        (punkt_decision.WHITE_SPACE, SPACE),
        (punkt_decision.ASCII_WHITE_SPACE, ASCII_SPACE),
        (punkt_decision.SENTENCE_ENDS, END_MARK),
        (punkt_decision.WORD_ENDS, WORD_END),
        (punkt_decision.CLOSERS, CLOSER),
        (punkt_decision.NEVER_BEGINS_WORD, NEVER_BEGINS_WORD),
        (punkt_decision.NEVER_FIRST_IN_SENTENCE, CONTINUES),
    ):
        for character in characters:
            flags[ord(character)] |= flag
    for code_point in range(NUM_CODE_POINTS):
        character = chr(code_point)
        if unicodedata.category(character) in _WITHOUT_PROPERTIES:
            continue
        flags[code_point] |= (
            PYTHON_SPACE * character.isspace()
            | LETTER * punkt_decision.is_letter(character)
            | UPPER * character.isupper()
            | LOWER * character.islower()
            | DIGIT * character.isdecimal()
        )
    return flags


class Characters:
    """Characters and what is asked of them.

    Args:
        code_points: int32 tensor `(N,)`; every paragraph ends with a line feed, and
            holds no other.
        table: of `character_flags`.
    """

    def __init__(self, code_points: tf.Tensor, table: CodePointTable):
        self.code_points = code_points
        self._flags = table(code_points)
        self.is_space = self.has(SPACE)

    def has(self, flag: int) -> tf.Tensor:
        """Bool tensor `(N,)`."""
        return self._flags & flag > 0

    def flag_at(self, position: tf.Tensor, flag: int) -> tf.Tensor:
        """Tells if the characters at some positions have a flag."""
        return tf.gather(self._flags, position) & flag > 0

    def at(self, position: tf.Tensor) -> tf.Tensor:
        """The code points at some positions."""
        return tf.gather(self.code_points, position)

    def equal(self, code_point: int) -> tf.Tensor:
        """Bool tensor `(N,)`."""
        return self.code_points == code_point


@dataclasses.dataclass(frozen=True)
class Tokens:
    """The tokens of a text.

    Attributes:
        starts: which positions are the first of a token.
        ends: int32 tensor, for every token the position after it.
        is_dots: bool tensor, whether a token is a run of dots.
        linked_dots: bool tensor `(N,)`, dots with another one after a space that does
            not part chunks.
    """

    starts: MarkedPositions
    ends: tf.Tensor
    is_dots: tf.Tensor
    linked_dots: tf.Tensor


def find_tokens(characters: Characters) -> Tokens:
    """The tokens of every paragraph.

    A run (`--`, `..`, or `. . .` with spaces that do not part chunks) begins at its
    first character; a word continues to the first character that stops it; any other
    character is a token by itself. So a token begins where a word begins, where
    something stops one, after a run, and after every token of a single
    character, which is a chain that goes back to one of these places.

    Args:
        characters: the text.
    """
    is_space = characters.is_space
    runs = _find_runs(characters)
    ends_word = characters.has(WORD_END)
    ends_clause = characters.equal(COMMA) & shifted(
        is_space | ends_word | runs.begins, 1, True
    )
    stops = is_space | runs.begins | ends_word | ends_clause
    is_single = characters.has(NEVER_BEGINS_WORD) & ~runs.begins & ~runs.inside

    may_begin = ~is_space & ~runs.inside
    after = shifted(is_space, -1, True) | shifted(runs.inside, -1, False)
    begins_for_sure = may_begin & (stops | after)
    # The chain: from the last sure place on there are only single characters.
    position = tf.range(tf.size(is_space))
    sure = MarkedPositions(begins_for_sure).last_before(position)
    other = MarkedPositions(~is_single).last_before(position)
    starts = MarkedPositions(begins_for_sure | may_begin & (other < sure))

    start = starts.positions
    ends = tf.where(
        tf.gather(is_single, start),
        start + 1,
        MarkedPositions(stops).next_from(start + 1),
    )
    ends = tf.where(
        tf.gather(runs.begins, start), runs.lasts.next_from(start) + 1, ends
    )
    return Tokens(
        starts=starts,
        ends=ends,
        is_dots=tf.gather(runs.begins_dots, start),
        linked_dots=runs.linked_dots,
    )


@dataclasses.dataclass(frozen=True)
class _Runs:
    """Runs of dashes or dots.

    Attributes:
        begins: whether a character is the first of one.
        begins_dots: whether of one that is dots alone.
        inside: whether it is another dash or dot of one.
        lasts: which characters are the last of one.
        linked_dots: as of `Tokens`.
    """

    begins: tf.Tensor
    begins_dots: tf.Tensor
    inside: tf.Tensor
    lasts: MarkedPositions
    linked_dots: tf.Tensor


def _find_runs(characters: Characters) -> _Runs:
    is_dot, is_dash = characters.equal(DOT), characters.equal(DASH)
    # From a dot over a space to the next dot, two of which make a run.
    link = is_dot & ~shifted(is_dot, -1, False) & shifted(is_dot, 2, False)
    link &= shifted(characters.is_space & ~characters.has(ASCII_SPACE), 1, False)
    leads_on = link & (shifted(link, 2, False) | shifted(link, -2, False))
    inside = shifted(leads_on, -2, False)
    begins = leads_on & ~inside
    lasts = inside & ~leads_on

    is_free_dot = is_dot & ~inside
    begins_dots = tf.zeros_like(is_dot)
    for is_mark in (is_free_dot, is_dash):
        follows, is_followed = (shifted(is_mark, by, False) for by in (-1, 1))
        if is_mark is is_free_dot:
            begins_dots = is_mark & is_followed & ~follows
        begins |= is_mark & is_followed & ~follows
        inside |= is_mark & follows
        lasts |= is_mark & follows & ~is_followed
    return _Runs(begins, begins_dots, inside, MarkedPositions(lasts), link)
