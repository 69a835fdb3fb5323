"""Splits paragraphs into sentences in the graph: Punkt on a flat tensor of characters.

The sentences are those of `seg_tf.text.punkt.SentenceSplitter`, which explains the
rules; here they are written for all paragraphs at once.

Shape key: N characters, M possible ends of sentences, S sentences, P paragraphs.
"""

import tensorflow as tf

from seg_tf.text.graph import punkt_tokens
from seg_tf.text.graph.code_point_table import CodePointTable
from seg_tf.text.graph.parts import LINE_FEED, ParagraphCutter, Sentences, joined
from seg_tf.text.graph.punkt_decision import GraphPunktDecision, Spans
from seg_tf.text.graph.punkt_tokens import DASH, DOT, Characters, Tokens
from seg_tf.text.marked_positions import MarkedPositions, shifted
from seg_tf.text.punkt_parameters import PunktParameters
from seg_tf.text.sentence_function import SentenceFunction


class GraphSentenceSplitter(tf.Module):
    """Punkt sentence splitter (Kiss and Strunk, 2006), in the graph.

    Args:
        parameters: the tables of a language. Default: the built-in English one.

    Raises:
        ValueError: if sentences are made by a Python function, which no graph holds.

    Call arguments:
        code_points: int32 tensor `(N,)`: paragraphs, each with a line feed after it
            and none inside.

    Returns:
        `Sentences`, without white space around them.
    """

    def __init__(self, parameters: PunktParameters | SentenceFunction | None = None):
        super().__init__()
        parameters = parameters or PunktParameters.english()
        if isinstance(parameters, SentenceFunction):
            raise ValueError(
                "`sentence_parameters` must be tables where a graph splits the text. "
                f"Received: {parameters.name}, a Python function, which is used from "
                "Python alone, as by `python -m seg_tf.commands.encode_text`"
            )
        self.parameters_checksum = parameters.checksum
        self._decision = GraphPunktDecision(parameters)
        self._flags = CodePointTable(punkt_tokens.character_flags())
        terminators = parameters.terminators
        self._cutter = ParagraphCutter(terminators) if terminators else None

    def __call__(self, code_points: tf.Tensor) -> Sentences:
        if self._cutter is None:
            return self._of_paragraphs(code_points)
        parts, ends = self._cutter.cut(code_points)
        return joined(self._of_paragraphs(parts), ends)

    def _of_paragraphs(self, code_points: tf.Tensor) -> Sentences:
        characters = Characters(code_points, self._flags)
        tokens = punkt_tokens.find_tokens(characters)
        paragraphs = _Paragraphs(characters)
        ends = _PossibleEnds(characters, paragraphs)
        boundaries = tf.boolean_mask(
            ends.boundaries(characters, paragraphs),
            self._contain_end(characters, tokens, ends),
        )
        return paragraphs.cut(boundaries)

    def _contain_end(
        self, characters: Characters, tokens: Tokens, ends: "_PossibleEnds"
    ) -> tf.Tensor:
        """Tells for each candidate if a sentence ends in its context: bool `(M,)`.

        That is between any two neighbours of the tokens from the start of the chunk to
        the end of the next word or, where a mark follows at once, to that mark.
        """
        every = Spans(tokens.starts.positions, tokens.ends, tokens.is_dots)
        is_left = self._decision.can_be_left(characters, every)
        # The last token has none after it.
        is_left &= tf.range(tf.size(is_left)) < tf.size(is_left) - 1
        left = tf.cast(tf.where(is_left)[:, 0], tf.int32)
        is_end = self._decision.ends(
            characters, _some(every, left), _some(every, left + 1)
        )
        # Tokens after which a sentence ends, counted.
        end_token = MarkedPositions(
            tf.scatter_nd(
                left[:, tf.newaxis], tf.cast(is_end, tf.int32), tf.shape(is_left)
            )
            > 0
        )
        first = tokens.starts.count_before(ends.chunk_starts)
        # Of a mark that is alone in its context: the tokens of the next word.
        after = ends.positions + 1
        first = tf.where(
            ends.is_alone, tokens.starts.count_before(ends.next_words), first
        )
        last = tokens.starts.count_before(
            tf.where(ends.has_mark, after, ends.next_word_ends)
        )
        last = tf.maximum(last - 1, first)
        inside = end_token.count_before(last) > end_token.count_before(first)
        contain = inside | self._ends_at_mark(characters, tokens, ends, every)
        return _with_linked_dots(contain, characters, tokens, ends, end_token, first)

    def _ends_at_mark(
        self,
        characters: Characters,
        tokens: Tokens,
        ends: "_PossibleEnds",
        every: Spans,
    ) -> tf.Tensor:
        """Tells for each candidate if a sentence ends between its mark and the next.

        Asked of those alone that a mark follows at once, or that are alone in their
        context: bool `(M,)`, False of others.
        """
        after = ends.positions + 1
        own = tf.maximum(tokens.starts.count_before(after) - 1, 0)
        of_own = _some(every, own)
        closed = Spans(
            tf.where(ends.is_alone, ends.positions, of_own.starts),
            after,
            of_own.are_dots & ~ends.is_alone,
        )
        following = tokens.starts.count_before(after)
        following = tf.minimum(following, tf.size(every.starts) - 1)
        of_word = _some(every, following)
        # The context of a mark that is alone ends before the run that it begins.
        begins_run = ends.is_alone & tf.gather(tokens.linked_dots, ends.positions)
        is_character = ends.has_mark | begins_run
        begin = tf.where(ends.has_mark, after, ends.next_words)
        opened = Spans(
            tf.where(is_character, begin, of_word.starts),
            tf.where(is_character, begin + 1, of_word.ends),
            of_word.are_dots & ~is_character,
        )
        asks = ends.has_mark | ends.is_alone
        asks &= self._decision.can_be_left(characters, closed)
        number = tf.cast(tf.where(asks)[:, 0], tf.int32)
        is_closed = self._decision.ends(
            characters, _some(closed, number), _some(opened, number)
        )
        between = tf.scatter_nd(
            number[:, tf.newaxis], tf.cast(is_closed, tf.int32), tf.shape(asks)
        )
        return between > 0


def _with_linked_dots(
    contain: tf.Tensor,
    characters: Characters,
    tokens: Tokens,
    ends: "_PossibleEnds",
    end_token: MarkedPositions,
    first: tf.Tensor,
) -> tf.Tensor:
    """Decides candidates whose mark is linked to a dot of the next word; keeps others.

    Dots that are linked to the mark reach, over the space, to a dot in the next word:
    one token, after which a sentence ends if the word has more.

    Args:
        contain: bool `(M,)`, of other candidates.
        characters: the text.
        tokens: of the text.
        ends: the candidates.
        end_token: marks tokens after which a sentence ends.
        first: int32 `(M,)`, the first token of each candidate's context.
    """
    starts_linked = shifted(tokens.linked_dots, -2, False)
    dot = MarkedPositions(tokens.linked_dots & ~starts_linked).last_before(
        ends.positions
    )
    is_linked = tf.gather(starts_linked, ends.positions)
    is_linked &= ~ends.has_mark & ~ends.is_alone
    is_linked &= ends.next_words == ends.positions + 2
    is_linked &= characters.flag_at(ends.positions + 1, punkt_tokens.ASCII_SPACE)
    is_linked &= characters.at(ends.next_words) == DOT
    of_dot = tf.maximum(tokens.starts.count_before(dot + 1) - 1, first)
    before = end_token.count_before(of_dot) > end_token.count_before(first)
    before |= characters.flag_at(tf.maximum(dot - 1, 0), punkt_tokens.END_MARK) & (
        tf.gather(tokens.starts.positions, of_dot) == dot - 1
    )
    continues = ends.next_word_ends > ends.next_words + 1
    return tf.where(is_linked, before | continues, contain)


def _some(spans: Spans, numbers: tf.Tensor) -> Spans:
    return Spans(
        tf.gather(spans.starts, numbers),
        tf.gather(spans.ends, numbers),
        tf.gather(spans.are_dots, numbers),
    )


class _Paragraphs:
    """Bounds of paragraphs, and of their text without surrounding white space."""

    def __init__(self, characters: Characters):
        self._line_feeds = MarkedPositions(characters.equal(LINE_FEED))
        self.words = MarkedPositions(~characters.has(punkt_tokens.PYTHON_SPACE))
        ends = self._line_feeds.positions
        begins = tf.pad(ends[:-1] + 1, [[1, 0]])
        self.text_starts = self.words.next_from(begins)
        self.text_ends = self.words.last_before(ends) + 1
        self._begins = begins
        self._is_blank = self.text_starts >= ends

    def of(self, position: tf.Tensor) -> tf.Tensor:
        """Number of the paragraph that each character belongs to, from 0."""
        return self._line_feeds.count_before(position)

    def begins(self, position: tf.Tensor) -> tf.Tensor:
        """Start of the paragraph of each character."""
        return tf.gather(self._begins, self.of(position))

    def end_of_text(self, position: tf.Tensor) -> tf.Tensor:
        """End of the text of the paragraph of each character."""
        return tf.gather(self.text_ends, self.of(position))

    def cut(self, boundaries: tf.Tensor) -> Sentences:
        """The sentences between boundaries.

        Args:
            boundaries: int32 `(boundaries, 3)`: a character of each, where the
                sentence before it stops, and where that after it starts.
        """
        # Each paragraph that is not blank has one sentence more than boundaries.
        number = tf.cast(tf.where(~self._is_blank)[:, 0], tf.int32)
        kept = MarkedPositions(~self._is_blank)
        at, stop, start = tf.unstack(boundaries, axis=1)
        paragraph = self.of(at)
        ordinal = tf.range(tf.size(at)) + kept.count_before(paragraph)
        counts = tf.math.bincount(
            paragraph, minlength=tf.size(self._is_blank), dtype=tf.int32
        )
        up_to = tf.gather(tf.cumsum(counts), number) + tf.range(tf.size(number))
        before = up_to - tf.gather(counts, number)
        size = tf.size(at) + tf.size(number)

        def merged(
            of_paragraphs: tf.Tensor,
            where: tf.Tensor,
            values: tf.Tensor,
            positions: tf.Tensor,
        ) -> tf.Tensor:
            return tf.scatter_nd(
                tf.concat([where, positions], 0)[:, tf.newaxis],
                tf.concat([of_paragraphs, values], 0),
                [size],
            )

        starts = merged(tf.gather(self.text_starts, number), before, start, ordinal + 1)
        stops = merged(tf.gather(self.text_ends, number), up_to, stop, ordinal)
        paragraphs = merged(number, before, paragraph, ordinal + 1)
        return Sentences(starts, tf.maximum(starts, stops), paragraphs)


class _PossibleEnds:
    """Marks that may end a sentence, the last of each chunk, each with its context.

    Attributes:
        positions: int32 `(M,)`, positions of the marks.
        chunk_starts: where their chunks begin.
        next_words: where the next word begins, and `next_word_ends` where it ends.
        has_mark: bool `(M,)`, whether a mark follows that no word continues past.
        is_alone: whether it is the first character of its chunk, and another one the
            last mark.
    """

    def __init__(self, characters: Characters, paragraphs: _Paragraphs):
        is_space = characters.is_space
        words, spaces = MarkedPositions(~is_space), MarkedPositions(is_space)
        is_end = characters.has(punkt_tokens.END_MARK) & shifted(
            is_space | characters.has(punkt_tokens.WORD_END), 1, False
        )
        position = MarkedPositions(is_end).positions
        has_mark = characters.flag_at(position + 1, punkt_tokens.WORD_END)
        next_word = words.next_from(position + 1)
        is_followed = paragraphs.of(next_word) == paragraphs.of(position)
        position, has_mark, next_word = (
            tf.boolean_mask(values, has_mark | is_followed)
            for values in (position, has_mark, next_word)
        )
        # White space that is the very first character parts nothing.
        begin = paragraphs.begins(position)
        space = MarkedPositions(characters.has(punkt_tokens.ASCII_SPACE)).last_before(
            position
        )
        chunk_start = tf.where(space <= begin, begin, space + 1)
        is_last = shifted(chunk_start, 1, -1) != chunk_start
        is_alone = ~is_last & (chunk_start == position)
        (
            self.positions,
            self.chunk_starts,
            self.next_words,
            self.has_mark,
            self.is_alone,
        ) = (
            tf.boolean_mask(values, is_last | is_alone)
            for values in (position, chunk_start, next_word, has_mark, is_alone)
        )
        self.next_word_ends = spaces.next_from(self.next_words)

    def boundaries(self, characters: Characters, paragraphs: _Paragraphs) -> tf.Tensor:
        """For each the mark, the end of its sentence and the start of the next.

        Separate closing marks go with the sentence before them.
        """
        stop = self.positions + 1
        begin = tf.where(self.has_mark, stop, self.next_words)
        after = MarkedPositions(~characters.has(punkt_tokens.CLOSER)).next_from(begin)
        is_space = characters.flag_at(after, punkt_tokens.SPACE)
        is_dash = characters.equal(DASH)
        two_dashes = tf.gather(is_dash & shifted(is_dash, 1, False), after)
        is_alone = is_space | two_dashes
        is_alone |= after == paragraphs.end_of_text(self.positions)
        gives = (after > begin) & is_alone
        words = MarkedPositions(~characters.is_space)
        begin = tf.where(gives, words.next_from(after), begin)
        stop = tf.where(gives, after, stop)
        # Python counts some separators as white space.
        begin = tf.minimum(
            paragraphs.words.next_from(begin), paragraphs.end_of_text(self.positions)
        )
        return tf.stack([self.positions, stop, begin], axis=1)
