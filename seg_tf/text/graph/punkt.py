"""Splits paragraphs into sentences with Punkt, on a flat tensor of characters.

Finds the same sentences as `seg_tf.text.punkt.SentenceSplitter`, but processes all
paragraphs at once. See `seg_tf.text.punkt` for the rules.

Shape key: N characters, T tokens, M candidates for sentence ends, S sentences.
"""

from __future__ import annotations

import dataclasses
import functools
import unicodedata
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from seg_tf.text import punkt
from seg_tf.text.graph.flat import (
    LINE_FEED,
    NUM_CODE_POINTS,
    CodePointTable,
    MarkedPositions,
    count_off,
    encode_strings,
    shifted,
)
from seg_tf.text.punkt import ENDS_IF, ENDS_UNLESS, NUMBER_TYPE, Evidence, Kind
from seg_tf.text.punkt_parameters import Orthography, PunktParameters
from seg_tf.text.splitters import SentenceFunction

# Properties of characters, as flags.
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
# Separates the two types of a collocation. No type contains it.
_SEPARATOR = "\n"
# In addition to the flags of `Orthography`.
_STARTER = 1
# Flags of `ParagraphCutter`.
_TERMINATOR, _CLOSER = 1, 2


@dataclasses.dataclass(frozen=True)
class Sentences:
    """Bounds and paragraph numbers of possibly empty sentences, int32 `(S,)`."""

    starts: tf.Tensor
    stops: tf.Tensor
    paragraphs: tf.Tensor


class GraphSentenceSplitter(tf.Module):
    """Punkt sentence splitter (Kiss and Strunk, 2006), in the graph.

    Splits int32 code points `(N,)`, in which a line feed ends every paragraph, into
    `Sentences` without surrounding whitespace. `parameters` are English by default. A
    `SentenceFunction` is rejected with a ValueError.
    """

    def __init__(self, parameters: PunktParameters | SentenceFunction | None = None):
        super().__init__()
        parameters = parameters or PunktParameters.english()
        if isinstance(parameters, SentenceFunction):
            raise ValueError(
                "`sentence_parameters` must be tables where a graph splits the text. "
                f"Received: {parameters.name}, a Python function"
            )
        self._decision = GraphPunktDecision(parameters)
        self._flags = CodePointTable(character_flags())
        terminators = parameters.terminators
        self._cutter = ParagraphCutter(terminators) if terminators else None
        self._joins_pieces = parameters.joins_pieces

    def __call__(self, code_points: tf.Tensor) -> Sentences:
        if self._cutter is None:
            sentences = self._split(code_points)
        else:
            parts, inserted = self._cutter.cut(code_points)
            # The splitter handles a part like a paragraph.
            sentences = self._split(parts)
            before = inserted.count_before(sentences.starts)
            sentences = Sentences(
                sentences.starts - before,
                sentences.stops - inserted.count_before(sentences.stops),
                sentences.paragraphs - before,
            )
        if self._joins_pieces:
            is_word = self._flags(code_points) & (LETTER | DIGIT) > 0
            return _join_pieces(sentences, MarkedPositions(is_word))
        return sentences

    def _split(self, code_points: tf.Tensor) -> Sentences:
        characters = Characters(code_points, self._flags)
        tokens = find_tokens(characters)
        paragraphs = _Paragraphs(characters)
        ends = _PossibleEnds(characters, paragraphs)
        boundaries = tf.boolean_mask(
            ends.boundaries(characters, paragraphs),
            self._contain_end(characters, tokens, ends),
        )
        return paragraphs.cut(boundaries)

    def _contain_end(
        self, characters: Characters, tokens: Tokens, ends: _PossibleEnds
    ) -> tf.Tensor:
        """Returns a mask `(M,)` of candidates with a sentence end in their context."""
        every = tokens.spans
        is_left = self._decision.can_be_left(characters, every)
        # No token follows the last one.
        is_left &= tf.range(tf.size(is_left)) < tf.size(is_left) - 1
        left = MarkedPositions(is_left).positions
        is_end = self._decision.ends(characters, every.take(left), every.take(left + 1))
        # Mark the tokens after which a sentence ends.
        end_token = MarkedPositions(_scattered(is_end, left, is_left))
        first = tokens.starts.count_before(ends.chunk_starts)
        # The context of a lone mark consists of the tokens of the next word.
        after = ends.positions + 1
        first = tf.where(
            ends.is_alone, tokens.starts.count_before(ends.next_words), first
        )
        last = tokens.starts.count_before(
            tf.where(ends.has_mark, after, ends.next_word_ends)
        )
        last = tf.maximum(last - 1, first)
        inside = end_token.count_before(last) > end_token.count_before(first)
        contain = inside | self._ends_at_mark(characters, tokens, ends)
        return _with_linked_dots(contain, characters, tokens, ends, end_token, first)

    def _ends_at_mark(
        self, characters: Characters, tokens: Tokens, ends: _PossibleEnds
    ) -> tf.Tensor:
        """Returns a mask `(M,)` of candidates with a sentence end right after them."""
        after = ends.positions + 1
        number = tf.maximum(tokens.starts.count_before(after) - 1, 0)
        token = tokens.spans.take(number)
        closed = Spans(
            tf.where(ends.is_alone, ends.positions, token.starts),
            after,
            token.are_dots & ~ends.is_alone,
        )
        following = tokens.starts.count_before(after)
        following = tf.minimum(following, tf.size(tokens.spans.starts) - 1)
        word = tokens.spans.take(following)
        # The context of a lone mark ends before the run that it begins.
        begins_run = ends.is_alone & tf.gather(tokens.linked_dots, ends.positions)
        is_character = ends.has_mark | begins_run
        begin = tf.where(ends.has_mark, after, ends.next_words)
        opened = Spans(
            tf.where(is_character, begin, word.starts),
            tf.where(is_character, begin + 1, word.ends),
            word.are_dots & ~is_character,
        )
        asks = ends.has_mark | ends.is_alone
        asks &= self._decision.can_be_left(characters, closed)
        number = MarkedPositions(asks).positions
        is_end = self._decision.ends(
            characters, closed.take(number), opened.take(number)
        )
        return _scattered(is_end, number, asks)


def _scattered(flags: tf.Tensor, positions: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """Returns a bool tensor shaped like `like`, with `flags` at `positions`."""
    flags = tf.cast(flags, tf.int32)
    return tf.scatter_nd(positions[:, tf.newaxis], flags, tf.shape(like)) > 0


def _with_linked_dots(
    contain: tf.Tensor,
    characters: Characters,
    tokens: Tokens,
    ends: _PossibleEnds,
    end_token: MarkedPositions,
    first: tf.Tensor,
) -> tf.Tensor:
    """Returns `contain`, corrected at marks linked to a dot of the next word."""
    starts_linked = shifted(tokens.linked_dots, -2, False)
    dot = MarkedPositions(tokens.linked_dots & ~starts_linked).last_before(
        ends.positions
    )
    is_linked = tf.gather(starts_linked, ends.positions)
    is_linked &= ~ends.has_mark & ~ends.is_alone
    is_linked &= ends.next_words == ends.positions + 2
    is_linked &= characters.flag_at(ends.positions + 1, ASCII_SPACE)
    is_linked &= characters.at(ends.next_words) == DOT
    dot_token = tf.maximum(tokens.starts.count_before(dot + 1) - 1, first)
    before = end_token.count_before(dot_token) > end_token.count_before(first)
    before |= characters.flag_at(tf.maximum(dot - 1, 0), END_MARK) & (
        tf.gather(tokens.starts.positions, dot_token) == dot - 1
    )
    continues = ends.next_word_ends > ends.next_words + 1
    return tf.where(is_linked, before | continues, contain)


def _join_pieces(sentences: Sentences, words: MarkedPositions) -> Sentences:
    """Joins sentences without letters or digits to the previous or next sentence."""
    starts, stops = sentences.starts, sentences.stops
    paragraphs = sentences.paragraphs
    has_word = words.count_before(stops) > words.count_before(starts)
    is_first = paragraphs != shifted(paragraphs, -1, -1)
    # Whether an earlier sentence of the paragraph has a letter or digit.
    before = tf.cumsum(tf.cast(has_word, tf.int32), exclusive=True)
    number = tf.range(tf.size(starts))
    first = MarkedPositions(is_first).last_before(number + 1)
    continues = ~is_first & ~(has_word & (before > tf.gather(before, first)))
    group = tf.cumsum(tf.cast(~continues, tf.int32)) - 1
    # Empty sentences are not part of the text.
    ends = tf.where(stops > starts, stops, 0)
    starts = tf.boolean_mask(starts, ~continues)
    return Sentences(
        starts,
        tf.maximum(starts, tf.math.segment_max(ends, group)),
        tf.boolean_mask(paragraphs, ~continues),
    )


class ParagraphCutter(tf.Module):
    """Splits paragraphs after terminators and the closing marks that follow them."""

    def __init__(self, terminators: str):
        super().__init__()
        flags = np.zeros(NUM_CODE_POINTS, np.int32)
        flags[[*map(ord, punkt.PART_CLOSERS)]] = _CLOSER
        flags[[*map(ord, terminators)]] = _TERMINATOR
        self._flags = CodePointTable(flags)

    def cut(self, code_points: tf.Tensor) -> tuple[tf.Tensor, MarkedPositions]:
        """Inserts line feeds between the parts of paragraphs in code points `(N,)`.

        Returns the new code points, and `MarkedPositions` of the inserted line feeds.
        """
        flags = self._flags(code_points)
        position = tf.range(1, tf.size(flags) + 1)
        last_end = MarkedPositions(flags == _TERMINATOR).last_before(position)
        last_other = MarkedPositions(flags == 0).last_before(position)
        follows = shifted(flags, 1, 0) > 0
        # Paragraphs already end with a line feed.
        is_last = shifted(code_points, 1, LINE_FEED) == LINE_FEED
        is_cut = tf.cast((last_end > last_other) & ~follows & ~is_last, tf.int32)
        places = tf.range(tf.size(flags)) + tf.cumsum(is_cut, exclusive=True)
        size = tf.size(flags) + tf.reduce_sum(is_cut)
        is_given = tf.scatter_nd(places[:, tf.newaxis], tf.ones_like(flags), [size]) > 0
        text = tf.scatter_nd(places[:, tf.newaxis], code_points, [size])
        return tf.where(is_given, text, LINE_FEED), MarkedPositions(~is_given)


class _Paragraphs:
    """Bounds of paragraphs, with and without surrounding whitespace."""

    def __init__(self, characters: Characters):
        self._line_feeds = MarkedPositions(characters.equal(LINE_FEED))
        self.words = MarkedPositions(~characters.has(PYTHON_SPACE))
        ends = self._line_feeds.positions
        self.begins = tf.pad(ends[:-1] + 1, [[1, 0]])
        self._text_starts = self.words.next_from(self.begins)
        self.text_ends = self.words.last_before(ends) + 1
        self._is_blank = self._text_starts >= ends

    def of(self, position: tf.Tensor) -> tf.Tensor:
        """Returns the paragraph number at each position."""
        return self._line_feeds.count_before(position)

    def cut(self, boundaries: tf.Tensor) -> Sentences:
        """Splits the paragraphs at boundaries `(M, 3)` from `_PossibleEnds`."""
        # Each paragraph that is not blank has one more sentence than boundaries.
        filled = MarkedPositions(~self._is_blank)
        number = filled.positions
        at, stop, start = tf.unstack(boundaries, axis=1)
        paragraph = self.of(at)
        ordinal = tf.range(tf.size(at)) + filled.count_before(paragraph)
        counts = tf.math.bincount(
            paragraph, minlength=tf.size(self._is_blank), dtype=tf.int32
        )
        up_to = tf.gather(tf.cumsum(counts), number) + tf.range(tf.size(number))
        before = up_to - tf.gather(counts, number)
        size = tf.size(at) + tf.size(number)

        def merged(positions: list[tf.Tensor], values: list[tf.Tensor]) -> tf.Tensor:
            places = tf.concat(positions, 0)[:, tf.newaxis]
            return tf.scatter_nd(places, tf.concat(values, 0), [size])

        begins = [before, ordinal + 1]
        starts = merged(begins, [tf.gather(self._text_starts, number), start])
        stops = merged([up_to, ordinal], [tf.gather(self.text_ends, number), stop])
        paragraphs = merged(begins, [number, paragraph])
        return Sentences(starts, tf.maximum(starts, stops), paragraphs)


class _PossibleEnds:
    """The candidates for sentence ends, with their contexts.

    A candidate is the last possible end in a chunk or, if `is_alone`, an earlier one at
    the start of the chunk. If `has_mark`, a mark in `punkt.WORD_ENDS` follows.
    """

    def __init__(self, characters: Characters, paragraphs: _Paragraphs):
        is_space = characters.is_space
        words, spaces = MarkedPositions(~is_space), MarkedPositions(is_space)
        is_end = characters.has(END_MARK) & shifted(
            is_space | characters.has(WORD_END), 1, False
        )
        position = MarkedPositions(is_end).positions
        has_mark = characters.flag_at(position + 1, WORD_END)
        next_word = words.next_from(position + 1)
        is_followed = paragraphs.of(next_word) == paragraphs.of(position)
        position, has_mark, next_word = (
            tf.boolean_mask(values, has_mark | is_followed)
            for values in (position, has_mark, next_word)
        )
        # Whitespace at the very beginning separates nothing.
        begin = tf.gather(paragraphs.begins, paragraphs.of(position))
        space = MarkedPositions(characters.has(ASCII_SPACE)).last_before(position)
        chunk_start = tf.where(space <= begin, begin, space + 1)
        is_last = shifted(chunk_start, 1, -1) != chunk_start
        is_alone = ~is_last & (chunk_start == position)
        self.positions, self.chunk_starts, self.next_words, *flags = (
            tf.boolean_mask(values, is_last | is_alone)
            for values in (position, chunk_start, next_word, has_mark, is_alone)
        )
        self.has_mark, self.is_alone = flags
        self.next_word_ends = spaces.next_from(self.next_words)

    def boundaries(self, characters: Characters, paragraphs: _Paragraphs) -> tf.Tensor:
        """Returns each candidate's position, sentence end and next start, `(M, 3)`."""
        stop = self.positions + 1
        begin = tf.where(self.has_mark, stop, self.next_words)
        after = MarkedPositions(~characters.has(CLOSER)).next_from(begin)
        is_dash = characters.equal(DASH)
        two_dashes = tf.gather(is_dash & shifted(is_dash, 1, False), after)
        end_of_text = tf.gather(paragraphs.text_ends, paragraphs.of(self.positions))
        is_separate = characters.flag_at(after, SPACE) | two_dashes
        gives = (after > begin) & (is_separate | (after == end_of_text))
        words = MarkedPositions(~characters.is_space)
        begin = tf.where(gives, words.next_from(after), begin)
        stop = tf.where(gives, after, stop)
        # Python counts some separators as whitespace.
        begin = tf.minimum(paragraphs.words.next_from(begin), end_of_text)
        return tf.stack([self.positions, stop, begin], axis=1)


# === Tokens ===


@functools.cache
def character_flags() -> np.ndarray:
    """Returns flags such as `SPACE` of every code point, int32 array `(0x110000,)`."""
    flags = np.zeros(NUM_CODE_POINTS, np.int32)
    for characters, flag in (
        (punkt.WHITE_SPACE, SPACE),
        (punkt.ASCII_WHITE_SPACE, ASCII_SPACE),
        (punkt.SENTENCE_ENDS, END_MARK),
        (punkt.WORD_ENDS, WORD_END),
        (punkt.CLOSERS, CLOSER),
        (punkt.NEVER_BEGINS_WORD, NEVER_BEGINS_WORD),
        (punkt.NEVER_FIRST_IN_SENTENCE, CONTINUES),
    ):
        flags[[*map(ord, characters)]] |= flag
    for code_point in range(NUM_CODE_POINTS):
        character = chr(code_point)
        # Unassigned, private and surrogate code points have no properties.
        if unicodedata.category(character) not in ("Cn", "Co", "Cs"):
            flags[code_point] |= (
                PYTHON_SPACE * character.isspace()
                | LETTER * punkt.is_letter(character)
                | UPPER * character.isupper()
                | LOWER * character.islower()
                | DIGIT * character.isdecimal()
            )
    return flags


class Characters:
    """The characters of paragraphs that end with line feeds, and their flags."""

    def __init__(self, code_points: tf.Tensor, table: CodePointTable):
        self.code_points = code_points
        self._flags = table(code_points)
        self.is_space = self.has(SPACE)

    def has(self, flag: int) -> tf.Tensor:
        return self._flags & flag > 0

    def flag_at(self, position: tf.Tensor, flag: int) -> tf.Tensor:
        return tf.gather(self._flags, position) & flag > 0

    def at(self, position: tf.Tensor) -> tf.Tensor:
        return tf.gather(self.code_points, position)

    def equal(self, code_point: int) -> tf.Tensor:
        return self.code_points == code_point


@dataclasses.dataclass(frozen=True)
class Spans:
    """Tokens `(T,)` with int32 `starts` and `ends`. `are_dots` marks runs of dots."""

    starts: tf.Tensor
    ends: tf.Tensor
    are_dots: tf.Tensor

    def take(self, numbers: tf.Tensor) -> Spans:
        fields = (self.starts, self.ends, self.are_dots)
        return Spans(*(tf.gather(values, numbers) for values in fields))


@dataclasses.dataclass(frozen=True)
class Tokens:
    """The tokens of a text, as marks of their starts and as spans.

    `linked_dots` marks single dots before a single non-ASCII space and another dot.
    """

    starts: MarkedPositions
    spans: Spans
    linked_dots: tf.Tensor


def find_tokens(characters: Characters) -> Tokens:
    """Finds the tokens of every paragraph, like `seg_tf.text.punkt.tokenize`.

    A token is a run (`--`, `..`, or `. . .` with non-ASCII spaces), a word up to the
    first character that ends it, or any other character except whitespace.
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
    # Chains of single characters since the last certain start.
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
    spans = Spans(start, ends, tf.gather(runs.begins_dots, start))
    return Tokens(starts, spans, runs.linked_dots)


@dataclasses.dataclass(frozen=True)
class _Runs:
    """Runs of dashes or dots, as bool masks `(N,)` and marks of their ends."""

    begins: tf.Tensor
    begins_dots: tf.Tensor
    inside: tf.Tensor
    lasts: MarkedPositions
    linked_dots: tf.Tensor


def _find_runs(characters: Characters) -> _Runs:
    is_dot, is_dash = characters.equal(DOT), characters.equal(DASH)
    # A link leads from a dot over a space to the next dot. Two links form a run.
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


# === The decision ===


class GraphPunktDecision(tf.Module):
    """Decides where sentences end, like `punkt.PunktDecision`."""

    def __init__(self, parameters: PunktParameters):
        super().__init__()
        reduced = parameters.reduced()
        self.abbreviations = _lookup(dict.fromkeys(reduced.abbreviation_types, 1))
        types = dict(reduced.orthographic_context)
        for word in reduced.sentence_starters:
            types[word] = types.get(word, 0) | _STARTER
        self.types = _lookup(types)
        self.collocations = _lookup(
            {_SEPARATOR.join(pair): 1 for pair in reduced.collocations}
        )

    def can_be_left(self, characters: Characters, tokens: Spans) -> tf.Tensor:
        """Returns a mask `(T,)` of the tokens after which a sentence may end."""
        last = tokens.ends - 1
        is_mark = characters.flag_at(last, END_MARK) & (tokens.starts == last)
        return is_mark | (characters.at(last) == DOT)

    def ends(self, characters: Characters, left: Spans, right: Spans) -> tf.Tensor:
        """Returns a mask `(T,)` of the token pairs that a sentence end separates."""
        left_word = _TokenTexts(self, characters, left)
        right_word = _TokenTexts(self, characters, right)
        kind = left_word.kind()
        evidence, right_type = right_word.evidence_and_type()
        ends = tf.gather(_masks(ENDS_IF), kind) & evidence > 0
        is_unless = tf.gather(_masks(dict.fromkeys(ENDS_UNLESS, 1)), kind) > 0
        ends |= is_unless & (tf.gather(_masks(ENDS_UNLESS), kind) & evidence == 0)
        pairs = tf.strings.join([left_word.type(), right_type], _SEPARATOR)
        is_collocation = left_word.ends_with_dot & (self.collocations.lookup(pairs) > 0)
        return ends & ~is_collocation


class _TokenTexts:
    """Looks up the words of tokens in Punkt's tables."""

    def __init__(
        self, decision: GraphPunktDecision, characters: Characters, spans: Spans
    ):
        self._decision = decision
        self._characters = characters
        self._spans = spans
        self._length = spans.ends - spans.starts
        self.ends_with_dot = characters.at(spans.ends - 1) == DOT
        # Lowercase words, without the final period unless it is the whole token.
        self._has_period = self.ends_with_dot & (self._length > 1)
        stems = spans.ends - tf.cast(self._has_period, tf.int32)
        self._stem = self._text(spans.starts, stems)
        dash = MarkedPositions(characters.equal(DASH)).last_before(stems)
        after_dash = self._text(tf.maximum(spans.starts, dash + 1), stems)
        known = decision.abbreviations.lookup(self._stem)
        known |= decision.abbreviations.lookup(after_dash)
        self._is_abbreviation = self._has_period & (known > 0)
        self._is_number = self._find_numbers()

    def kind(self) -> tf.Tensor:
        is_letter = self._characters.flag_at(self._spans.starts, LETTER)
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
        return tf.where(self._is_number, NUMBER_TYPE, self._stem)

    def evidence_and_type(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the `Evidence` and type of each token after a possible boundary."""
        keeps_period = self._spans.are_dots | self._is_abbreviation
        whole = tf.where(keeps_period, tf.strings.join([self._stem, "."]), self._stem)
        word_type = tf.where(self._is_number, NUMBER_TYPE, whole)
        seen = self._decision.types.lookup(word_type)
        first = self._spans.starts
        is_upper = self._characters.flag_at(first, UPPER)
        is_lower = self._characters.flag_at(first, LOWER)
        never_lower = seen & Orthography.LOWER == 0
        never_upper_inside = seen & Orthography.UPPER_INSIDE == 0
        upper_evidence = (
            tf.where(seen & _STARTER > 0, Evidence.STARTER, 0)
            | tf.where(never_lower, Evidence.NAME, 0)
            | tf.where(~never_lower & never_upper_inside, Evidence.STARTS, 0)
        )
        continues = is_lower & (
            (seen & Orthography.UPPER > 0) | (seen & Orthography.LOWER_FIRST == 0)
        )
        evidence = tf.where(
            is_upper, upper_evidence, tf.where(continues, Evidence.CONTINUES, 0)
        )
        is_mark = self._characters.flag_at(first, CONTINUES) & (self._length == 1)
        return tf.where(is_mark, Evidence.CONTINUES, evidence), word_type

    def _text(self, starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
        position, _ = count_off(starts, ends - starts)
        code_points = tf.gather(self._characters.code_points, position)
        texts = encode_strings(code_points, ends - starts)
        return tf.strings.lower(texts, encoding="utf-8")

    def _find_numbers(self) -> tf.Tensor:
        """Marks tokens that are numbers, with an optional sign and separators."""
        characters, end = self._characters, self._spans.ends
        is_separator = characters.equal(DOT) | characters.equal(COMMA)
        is_digit = characters.has(DIGIT)
        is_part = is_digit | is_separator | characters.equal(DASH)
        at = self._spans.starts
        at += tf.cast(characters.at(at) == DASH, tf.int32)
        at += tf.cast(tf.gather(is_separator, at), tf.int32)
        stop = MarkedPositions(~is_part).next_from(at)
        return (at < end) & tf.gather(is_digit, at) & (stop >= end)


def _lookup(values: Mapping[str, int]) -> tf.lookup.StaticHashTable:
    # A table must not be empty. No word equals this key.
    entries = {_SEPARATOR: 0, **values}
    return tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(
            list(entries), list(entries.values()), tf.string, tf.int32
        ),
        0,
    )


def _masks(masks: Mapping[Kind, int]) -> np.ndarray:
    return np.array([masks.get(kind, 0) for kind in Kind], np.int32)
