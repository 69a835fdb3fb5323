"""Punkt's decision whether a sentence ends, for many tokens at once, in the graph.

That of `seg_tf.text.punkt_decision`, from the same tables of parameters.

Shape key: N characters, T tokens.
"""

import dataclasses
import functools
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from seg_tf.text.graph import punkt_tokens
from seg_tf.text.graph.code_point_table import NUM_CODE_POINTS, CodePointTable
from seg_tf.text.graph.punkt_tokens import COMMA, DASH, DOT, Characters
from seg_tf.text.marked_positions import MarkedPositions, count_off
from seg_tf.text.punkt_decision import (
    ENDS_IF,
    ENDS_UNLESS,
    NUMBER_TYPE,
    Evidence,
    Kind,
)
from seg_tf.text.punkt_parameters import Orthography, PunktParameters

# No type of a word holds one, so that it parts the two of a collocation.
_PARTING = "\n"
# Beside the flags of `Orthography`.
_STARTER = 1


@dataclasses.dataclass(frozen=True)
class Spans:
    """Some tokens: int32 tensors `(T,)`, where they start and end; none is empty.

    Attributes:
        starts: the first position of each.
        ends: the position after each.
        are_dots: bool `(T,)`, which of them are runs of dots.
    """

    starts: tf.Tensor
    ends: tf.Tensor
    are_dots: tf.Tensor


class GraphPunktDecision(tf.Module):
    """Punkt's decision under one set of parameters.

    Args:
        parameters: the tables of abbreviations, collocations, sentence starters and
            of how words are capitalised.
    """

    def __init__(self, parameters: PunktParameters):
        super().__init__()
        reduced = parameters.reduced()
        self._abbreviations = _lookup(dict.fromkeys(reduced.abbreviation_types, 1))
        types = dict(reduced.orthographic_context)
        for word in reduced.sentence_starters:
            types[word] = types.get(word, 0) | _STARTER
        self._types = _lookup(types)
        self._collocations = _lookup(
            {_PARTING.join(pair): 1 for pair in reduced.collocations}
        )
        self._lower = CodePointTable(small_letters())

    def can_be_left(self, characters: Characters, tokens: Spans) -> tf.Tensor:
        """Tells for each token if a sentence may end after it: bool `(T,)`."""
        last = tokens.ends - 1
        is_mark = characters.flag_at(last, punkt_tokens.END_MARK)
        is_mark &= tokens.starts == last
        return is_mark | (characters.at(last) == DOT)

    def ends(self, characters: Characters, left: Spans, right: Spans) -> tf.Tensor:
        """Tells for neighbouring tokens if a sentence ends between them.

        Args:
            characters: the text.
            left: tokens for which `can_be_left` holds.
            right: what follows each.

        Returns:
            Bool tensor `(T,)`.
        """
        left_word = _TokenTexts(self, characters, left)
        right_word = _TokenTexts(self, characters, right)
        kind = left_word.kind()
        evidence, right_type = right_word.evidence_and_type()
        ends = tf.gather(_masks(ENDS_IF), kind) & evidence > 0
        is_unless = tf.gather(_masks(dict.fromkeys(ENDS_UNLESS, 1)), kind) > 0
        ends |= is_unless & (tf.gather(_masks(ENDS_UNLESS), kind) & evidence == 0)
        pairs = tf.strings.join([left_word.type(), right_type], _PARTING)
        is_collocation = left_word.ends_with_dot & (
            self._collocations.lookup(pairs) > 0
        )
        return ends & ~is_collocation


class _TokenTexts:
    """Words of a text, looked up in the tables of Punkt."""

    def __init__(
        self, decision: GraphPunktDecision, characters: Characters, spans: Spans
    ):
        self._decision = decision
        self._characters = characters
        self._spans = spans
        self._length = spans.ends - spans.starts
        last = spans.ends - 1
        self.ends_with_dot = characters.at(last) == DOT
        # In lower case, without the last period of those that are more than it.
        self._has_period = self.ends_with_dot & (self._length > 1)
        stems = spans.ends - tf.cast(self._has_period, tf.int32)
        self._lowered = characters_lowered(decision._lower, characters)
        self._stem = self._text(spans.starts, stems)
        dash = MarkedPositions(characters.equal(DASH)).last_before(stems)
        after_dash = self._text(tf.maximum(spans.starts, dash + 1), stems)
        known = decision._abbreviations.lookup(self._stem)
        known |= decision._abbreviations.lookup(after_dash)
        self._is_abbreviation = self._has_period & (known > 0)
        self._is_number = self._find_numbers()

    def kind(self) -> tf.Tensor:
        """`Kind` of each as the left one."""
        is_letter = self._characters.flag_at(self._spans.starts, punkt_tokens.LETTER)
        is_initial = (self._length == 2) & is_letter
        kind = tf.where(self._is_number & self._has_period, Kind.NUMBER, Kind.ORDINARY)
        kind = tf.where(is_initial & self._has_period, Kind.INITIAL, kind)
        kind = tf.where(
            self._is_abbreviation,
            tf.where(is_initial, Kind.NO_END, Kind.ABBREVIATION),
            kind,
        )
        return tf.where(self._spans.are_dots, Kind.ABBREVIATION, kind)

    def type(self) -> tf.Tensor:
        """Type of each as the left one."""
        return tf.where(self._is_number, NUMBER_TYPE, self._stem)

    def evidence_and_type(self) -> tuple[tf.Tensor, tf.Tensor]:
        """`Evidence` and type of each as the right one."""
        keeps_period = self._spans.are_dots | self._is_abbreviation
        whole = tf.where(keeps_period, tf.strings.join([self._stem, "."]), self._stem)
        word_type = tf.where(self._is_number, NUMBER_TYPE, whole)
        seen = self._decision._types.lookup(word_type)
        first = self._spans.starts
        is_upper = self._characters.flag_at(first, punkt_tokens.UPPER)
        is_lower = self._characters.flag_at(first, punkt_tokens.LOWER)
        never_lower = seen & Orthography.LOWER == 0
        never_upper_inside = seen & Orthography.UPPER_INSIDE == 0
        of_upper = (
            _flag(seen & _STARTER > 0, Evidence.STARTER)
            | _flag(never_lower, Evidence.NAME)
            | _flag(~never_lower & never_upper_inside, Evidence.STARTS)
        )
        continues = is_lower & (
            (seen & Orthography.UPPER > 0) | (seen & Orthography.LOWER_FIRST == 0)
        )
        evidence = tf.where(is_upper, of_upper, _flag(continues, Evidence.CONTINUES))
        is_mark = self._characters.flag_at(first, punkt_tokens.CONTINUES)
        is_mark &= self._length == 1
        return tf.where(is_mark, Evidence.CONTINUES, evidence), word_type

    def _text(self, starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
        """Strings of lower-case characters."""
        lengths = ends - starts
        position, _ = count_off(starts, lengths)
        return tf.strings.unicode_encode(
            tf.RaggedTensor.from_row_lengths(
                tf.gather(self._lowered, position), lengths, validate=False
            ),
            "UTF-8",
        )

    def _find_numbers(self) -> tf.Tensor:
        """Tells for each token if it is a number with sign and separators."""
        characters, end = self._characters, self._spans.ends
        is_separator = characters.equal(DOT) | characters.equal(COMMA)
        is_digit = characters.has(punkt_tokens.DIGIT)
        is_part = is_digit | is_separator | characters.equal(DASH)
        at = self._spans.starts
        at += tf.cast(characters.at(at) == DASH, tf.int32)
        at += tf.cast(tf.gather(is_separator, at), tf.int32)
        stop = MarkedPositions(~is_part).next_from(at)
        return (at < end) & tf.gather(is_digit, at) & (stop >= end)


def characters_lowered(lower: CodePointTable, characters: Characters) -> tf.Tensor:
    """The characters in lower case, each by itself: int32 `(N,)`."""
    return lower(characters.code_points)


@functools.cache
def small_letters() -> np.ndarray:
    """The small letter of every code point: int32 array `(0x110000,)`.

    What has two in its place becomes neither: it stays as it is, and is in no table
    of types. A final sigma is not told from others.
    """
    lowered = (chr(code_point).lower() for code_point in range(NUM_CODE_POINTS))
    return np.array(
        [
            ord(lower) if len(lower) == 1 else code_point
            for code_point, lower in enumerate(lowered)
        ],
        np.int32,
    )


def _lookup(values: Mapping[str, int]) -> tf.lookup.StaticHashTable:
    """A table of strings; of others it says 0."""
    # A table must not be empty. No word holds this key.
    entries = {_PARTING: 0, **values}
    return tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(
            list(entries), list(entries.values()), tf.string, tf.int32
        ),
        0,
    )


def _masks(of_kinds: Mapping[Kind, int]) -> np.ndarray:
    return np.array([of_kinds.get(kind, 0) for kind in Kind], np.int32)


def _flag(is_set: tf.Tensor, flag: int) -> tf.Tensor:
    return tf.where(is_set, flag, 0)
