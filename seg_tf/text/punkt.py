"""Splits a paragraph into sentences: Punkt, in a form made for speed.

Most of a text never matters to Punkt, and what matters repeats. So one regular
expression jumps from chunk to chunk (strings between white space) that holds
a sentence end mark, the result for a chunk is computed once and cached, and
the word after it is looked at only where the answer depends on it.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from seg_tf.text.cached_function import CachedFunction
from seg_tf.text.punkt_decision import (
    ASCII_WHITE_SPACE,
    CLOSERS,
    PART_CLOSERS,
    SENTENCE_ENDS,
    WHITE_SPACE,
    WORD_ENDS,
    Before,
    Kind,
    PunktDecision,
    ends_sentence,
    tokenize,
)
from seg_tf.text.punkt_parameters import PunktParameters

# A boundary is where the sentence before it stops and the one after it begins.
Boundary = tuple[int, int]

_SPACE = f"[{WHITE_SPACE}]"
_NO_SPACE = f"[^{WHITE_SPACE}]"
# From the first end mark of a chunk to the start of the next chunk.
_CHUNK_END = re.compile(rf"[{SENTENCE_ENDS}][^{ASCII_WHITE_SPACE}]*{_SPACE}*")
_NEXT_WORD = re.compile(f"{_NO_SPACE}+")
_ENDS_AT_ONCE = f"[{SENTENCE_ENDS}][{re.escape(WORD_ENDS)}]"
_UNUSUAL_CHUNK = re.compile(f"^{_ENDS_AT_ONCE}|{_SPACE}")
_LAST_END_INSIDE = re.compile(
    rf".*[{SENTENCE_ENDS}](?=[{re.escape(WORD_ENDS)}])", re.DOTALL
)
_END = re.compile(
    rf"[{SENTENCE_ENDS}](?=(?P<mark>[{re.escape(WORD_ENDS)}])"
    rf"|{_SPACE}+(?P<word>{_NO_SPACE}+))"
)
# Separate closing marks go with the sentence before them.
_LONE_CLOSERS = re.compile(rf"([{re.escape(CLOSERS)}]++)(?:{_SPACE}+|(?=--)|\Z)")
_ANY_SPACE = re.compile(r"\s*")

_ALL_KINDS = sum(1 << kind for kind in Kind)


class _Candidate(NamedTuple):
    """Candidate for a boundary. Offsets count back from the next chunk's start.

    Attributes:
        stop: offset of the end of the sentence.
        begin: offset of the start of the next sentence; None if that is the next
            chunk, which may still have closing marks to give away.
        before: the token whose end it is, where the next word has a say; None
            where the sentence ends in any case.
    """

    stop: int
    begin: int | None
    before: Before | None


_UNUSUAL = _Candidate(0, None, Before(Kind.NO_END, "white space inside"))

_ORDINARY = Before(Kind.ORDINARY, None)


class SentenceSplitter:
    """Punkt sentence splitter (Kiss and Strunk, 2006).

    Sentences are those of NLTK's `PunktSentenceTokenizer` with the same
    parameters, without the white space before the first one. Where the parameters have
    terminators, text is cut after each first, the marks and closing marks that follow
    it included, and a part is what a paragraph is otherwise. Time is linear in
    the length of the paragraph, whatever it holds.

    Example:
    >>> SentenceSplitter().split("Mr. Smith asked: “Why?” Nobody knew.")
    ['Mr. Smith asked: “Why?”', 'Nobody knew.']

    Args:
        parameters: the tables of a language. Default: the built-in English one.

    Attributes:
        name: name of the parameters, for manifests.
        parameters_checksum: SHA-256 of the parameters.
    """

    def __init__(self, parameters: PunktParameters | None = None):
        if parameters is None:
            parameters = PunktParameters.english()
        self.parameters = parameters
        self._decision = PunktDecision(self.parameters)
        self._part = _part_pattern(parameters.terminators)
        self._candidates = CachedFunction(self._candidate_of_chunk)
        self._followers = CachedFunction(self._follower)

    @property
    def name(self) -> str:
        return self.parameters.name

    @property
    def parameters_checksum(self) -> str:
        return self.parameters.checksum

    def __reduce__(self):
        return SentenceSplitter, (self.parameters,)

    def split(self, paragraph: str) -> list[str]:
        """The sentences of `paragraph`, in order, stripped, none of them empty."""
        return [paragraph[start:stop] for start, stop in self.spans(paragraph)]

    def spans(self, paragraph: str) -> list[tuple[int, int]]:
        """Start and stop of each sentence of `paragraph`."""
        if self._part is None:
            return self._spans(paragraph)
        return [
            (part.start() + start, part.start() + stop)
            for part in self._part.finditer(paragraph)
            for start, stop in self._spans(part.group())
        ]

    def _spans(self, paragraph: str) -> list[tuple[int, int]]:
        text = paragraph.rstrip()
        if _has_separator(paragraph):
            boundaries = self._boundaries_by_context(paragraph)
        else:
            boundaries = self._boundaries(text)
        start = len(text) - len(text.lstrip())
        spans = []
        for stop, begin in boundaries:
            spans.append((start, stop))
            start = begin
        if start < len(text):
            spans.append((start, len(text)))
        return spans

    def _boundaries(self, text: str) -> list[Boundary]:
        """The boundaries in `text`, which ends in no white space."""
        blanked = _blank(text) if _has_other_space(text) else text
        candidates = self._candidates
        boundaries = []
        for match in _CHUNK_END.finditer(blanked):
            start, end = match.span()
            candidate = candidates[blanked[blanked.rfind(" ", 0, start) + 1 : end]]
            if candidate is None:
                continue
            stop, begin, before = candidate
            if before is not None:
                if candidate is _UNUSUAL:
                    return list(self._boundaries_by_context(text))
                if not self._ends(before, text, end):
                    continue
            if begin is not None:
                boundaries.append((end - stop, end - begin))
            elif text[end] in CLOSERS:
                boundaries.append(_give_closers(text, end - stop, end))
            else:
                boundaries.append((end - stop, end))
        return boundaries

    def _ends(self, before: Before, text: str, next_word: int) -> bool:
        """Tells if a sentence ends between `before` and the word at `next_word`."""
        word = _NEXT_WORD.match(text, next_word).group()
        kinds, word_type = self._followers[word]
        if not kinds >> before.kind & 1:
            return False
        return (before.type, word_type) not in self.parameters.collocations

    def _candidate_of_chunk(self, chunk: str) -> _Candidate | None:
        """Makes a candidate of `chunk` and the white space after it.

        None if no sentence ends in it. Without white space it ends the paragraph.
        """
        core = chunk.rstrip(WHITE_SPACE)
        space = len(chunk) - len(core)
        is_plain_word = core[:-1].isalpha()
        if not is_plain_word and _UNUSUAL_CHUNK.search(core):
            return _UNUSUAL
        if space and core[-1] in SENTENCE_ENDS:
            tokens = [core] if is_plain_word and core[-1] == "." else tokenize(core)
            before = self._decision.before(tokens[-1])
            if before == _ORDINARY or self._decision.contains_end(tokens):
                return _Candidate(space, None, None)
            return _Candidate(space, None, before)
        inside = _LAST_END_INSIDE.match(core)
        if inside:
            end = inside.end()
            if self._decision.contains_end(tokenize(core[: end + 1])):
                stop, begin = _give_closers(chunk, end, end)
                return _Candidate(len(chunk) - stop, len(chunk) - begin, None)
        return None

    def _follower(self, word: str) -> tuple[int, str | None]:
        """After which kinds of token a sentence ends if `word` is next, and its type.

        The kinds are flags. A sentence end inside `word` counts for all of them,
        collocations included: Punkt looks at the two words as one.
        """
        tokens = tokenize(word)
        if self._decision.contains_end(tokens):
            return _ALL_KINDS, None
        evidence, word_type = self._decision.after(tokens[0])
        kinds = sum(1 << kind for kind in Kind if ends_sentence(kind, evidence))
        return kinds, word_type

    def _boundaries_by_context(self, text: str) -> Iterator[Boundary]:
        """The boundaries in `text`, each decided on its own, whatever it holds.

        Slower. For white space between ASCII white space, and for separators,
        which are part of words here but not to Python.
        """
        stripped = text.rstrip()
        for chunk_start, end in _last_ends(text):
            context = text[chunk_start : max(end.end("mark"), end.end("word"))]
            if self._decision.contains_end(tokenize(context)):
                begin = end.start("word") if end["word"] else end.end()
                stop, begin = _give_closers(stripped, end.end(), begin)
                yield stop, _ANY_SPACE.match(text, begin).end()


def _last_ends(text: str) -> Iterator[tuple[int, re.Match]]:
    """Start of a chunk and the last possible sentence end in it, for each chunk.

    Only ASCII white space parts chunks. A first end mark that is the first
    character of its chunk counts by itself as well.
    """
    chunk_start, last = 0, None
    for match in _END.finditer(text):
        looked_up_to = last.start() if last else 0
        space = max(
            text.rfind(space, looked_up_to, match.start())
            for space in ASCII_WHITE_SPACE
        )
        if last and (space >= 0 or last.start() == chunk_start):
            yield chunk_start, last
        # White space that is the very first character parts nothing.
        if space > 0:
            chunk_start = space + 1
        last = match
    if last:
        yield chunk_start, last


def _give_closers(text: str, stop: int, begin: int) -> Boundary:
    """The boundary, moved after separate closing marks at `begin`."""
    closers = _LONE_CLOSERS.match(text, begin)
    return (closers.end(1), closers.end()) if closers else (stop, begin)


def _part_pattern(terminators: str) -> re.Pattern | None:
    """Text up to a terminator and the marks right after it, or to the end."""
    if not terminators:
        return None
    ends = re.escape(terminators)
    after = re.escape(terminators + PART_CLOSERS)
    return re.compile(rf"[^{ends}]*+(?:[{ends}][{after}]*+|\Z)", re.DOTALL)


def _blank(text: str) -> str:
    """The same text with blanks for all ASCII white space."""
    for space in ASCII_WHITE_SPACE:
        text = text.replace(space, " ")
    return text


def _has_separator(text: str) -> bool:
    """Tells if a character is a separator that only Python calls space."""
    return "\x1c" in text or "\x1d" in text or "\x1e" in text or "\x1f" in text


def _has_other_space(text: str) -> bool:
    """Tells if there is ASCII white space other than blanks."""
    return "\n" in text or "\t" in text or "\r" in text or "\v" in text or "\f" in text
