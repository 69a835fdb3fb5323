"""Splits paragraphs into sentences with a fast version of Punkt.

Punkt (Kiss and Strunk, 2006) decides whether a mark, such as a period, ends a sentence.
The decision depends on the `Kind` of the token before the boundary and the `Evidence`
from the token after it. No sentence ends inside a collocation.

A regular expression finds chunks (strings between whitespace) that contain such a mark.
Results for chunks are cached, and the next word is read only if it is relevant.

Except for leading whitespace, sentences are identical to those of NLTK 3.10 with its
default language variables. NLTK's definitions and oddities are reproduced on purpose.
"""

import enum
import itertools
import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from seg_tf.text.punkt_parameters import Orthography, PunktParameters

# Characters with the Unicode property White_Space. `str.isspace` and `re` also include
# the four information separators, which are ordinary characters here.
WHITE_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007"
    "\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
ASCII_WHITE_SPACE = "\t\n\v\f\r "
SENTENCE_ENDS = ".?!"
# No word continues past one of these, and a sentence may end right before it.
WORD_ENDS = ")\";}]*:@'({[\u2018\u2019\u201c\u201d\xab\xbb?!"
# Marks that belong to the previous sentence if they are separate after its end.
CLOSERS = "\"')]}\u2018\u2019\u201c\u201d\xab\xbb"
# The same right after a terminator, except marks that may open the next sentence.
PART_CLOSERS = ".?!\"')]}\u2019\u201d\xbb」』）】》〉］｣"
# Characters other than whitespace that cannot begin a word.
NEVER_BEGINS_WORD = '("`{[:;&#*@)}]-,'
NEVER_FIRST_IN_SENTENCE = frozenset(";:,.!?")
NUMBER_TYPE = "##number##"

_NUMBER = re.compile(r"-?[.,]?\d[\d,.-]*")
# Symbols (category So) that Unicode lists as alphabetic, circled and squared letters,
# and the two joiners, which it counts as parts of words.
_LETTER_LIKE = re.compile(
    "[\u24b6-\u24e9\U0001f130-\U0001f149\U0001f150-\U0001f169\U0001f170-\U0001f189"
    "\u200c\u200d]"
)
_SPACE = f"[{WHITE_SPACE}]"
_NO_SPACE = f"[^{WHITE_SPACE}]"
_WORD_END = f"[{re.escape(WORD_ENDS)}]"


# One token: a run of dashes or dots, a word, or any single character.
_RUN = rf"-{{2,}}|\.{{2,}}|(?:\.{_SPACE}){{2,}}\."
_STOP = rf"{_RUN}|{_WORD_END}|,(?:\Z|{_SPACE}|{_WORD_END}|{_RUN})"
_FIRST = rf"[^{WHITE_SPACE}{re.escape(NEVER_BEGINS_WORD)}]"
_PLAIN = rf"[^{WHITE_SPACE}{re.escape(WORD_ENDS)}.,\-]"
_TOKEN = re.compile(
    rf"{_RUN}|{_FIRST}(?:{_PLAIN}+|(?!{_STOP}){_NO_SPACE})*|{_NO_SPACE}"
)


# === The decision ===


class Kind(enum.IntEnum):
    """Kinds of tokens before a possible boundary."""

    NO_END = 0  # Another word, or a single-letter abbreviation.
    ORDINARY = 1  # A question or exclamation mark, or a word with its period.
    ABBREVIATION = 2  # A known abbreviation with its period, or an ellipsis.
    INITIAL = 3  # One letter and a period.
    NUMBER = 4  # A number and a period, which may make it an ordinal.


class Evidence:
    """Flags of the evidence that a token provides about a boundary right before it."""

    STARTS = 1  # Capitalized here, and otherwise only to start sentences.
    CONTINUES = 2  # Punctuation, or lowercase though sentences capitalize it.
    NAME = 4  # Capitalized, and never seen in lowercase.
    STARTER = 8  # Capitalized, and often the first word of a sentence.


# Sentences end after these kinds unless any of the evidence is present …
ENDS_UNLESS = {
    Kind.ORDINARY: 0,
    Kind.INITIAL: Evidence.CONTINUES | Evidence.NAME,
    Kind.NUMBER: Evidence.CONTINUES,
}
# … and after these kinds only if some of it is present.
ENDS_IF = {Kind.ABBREVIATION: Evidence.STARTS | Evidence.STARTER}


def ends_sentence(kind: Kind, evidence: int) -> bool:
    """Returns whether a token of `kind` ends a sentence, given the `evidence` after it.

    Assumes that the tokens before and after the boundary form no collocation.
    """
    if kind in ENDS_UNLESS:
        return not evidence & ENDS_UNLESS[kind]
    return bool(evidence & ENDS_IF.get(kind, 0))


class Before(NamedTuple):
    """Token before a possible boundary. `type` is None if it starts no collocation."""

    kind: Kind
    type: str | None


class After(NamedTuple):
    """`Evidence` flags and type of the token after a possible boundary."""

    evidence: int
    type: str


class PunktDecision:
    """Decides where sentences end, given Punkt's parameters."""

    def __init__(self, parameters: PunktParameters):
        self.parameters = parameters
        self._collocation_starts = {first for first, _ in parameters.collocations}

    def before(self, token: str) -> Before:
        """Classifies a token before a possible boundary."""
        if not token.endswith("."):
            ends = len(token) == 1 and token in SENTENCE_ENDS
            return Before(Kind.ORDINARY if ends else Kind.NO_END, None)
        word_type = _without_period(type_of(token))
        initial = len(token) == 2 and is_letter(token[0])
        if _is_ellipsis(token):
            kind = Kind.ABBREVIATION
        elif self._is_abbreviation(token):
            kind = Kind.NO_END if initial else Kind.ABBREVIATION
        elif initial:
            kind = Kind.INITIAL
        elif word_type == NUMBER_TYPE:
            kind = Kind.NUMBER
        else:
            kind = Kind.ORDINARY
        starts = word_type in self._collocation_starts
        return Before(kind, word_type if starts else None)

    def after(self, token: str) -> After:
        """Classifies a token after a possible boundary."""
        word_type = type_of(token)
        # A period is part of an abbreviation, but not of other words.
        if (
            token.endswith(".")
            and not _is_ellipsis(token)
            and not self._is_abbreviation(token)
        ):
            word_type = _without_period(word_type)
        seen = self.parameters.orthographic_context.get(word_type, 0)
        evidence = 0
        if token in NEVER_FIRST_IN_SENTENCE:
            evidence = Evidence.CONTINUES
        elif token[0].isupper():
            if word_type in self.parameters.sentence_starters:
                evidence = Evidence.STARTER
            if not seen & Orthography.LOWER:
                evidence |= Evidence.NAME
            elif not seen & Orthography.UPPER_INSIDE:
                evidence |= Evidence.STARTS
        elif token[0].islower() and (
            seen & Orthography.UPPER or not seen & Orthography.LOWER_FIRST
        ):
            evidence = Evidence.CONTINUES
        return After(evidence, word_type)

    def contains_end(self, tokens: list[str]) -> bool:
        """Returns whether a sentence ends between any two adjacent tokens."""
        return any(
            (before.type, after.type) not in self.parameters.collocations
            and ends_sentence(before.kind, after.evidence)
            for before, after in (
                (self.before(left), self.after(right))
                for left, right in itertools.pairwise(tokens)
            )
        )

    def _is_abbreviation(self, token: str) -> bool:
        word = token[:-1].lower()
        types = self.parameters.abbreviation_types
        return token != "." and (word in types or word.rpartition("-")[2] in types)


def tokenize(text: str) -> list[str]:
    """Splits `text` into tokens. Periods belong to the word they follow."""
    tokens: list[str] = []
    for line in text.split("\n"):
        if line.strip():
            tokens += _TOKEN.findall(line)
    return tokens


def type_of(token: str) -> str:
    """Returns the lowercase form of a token, or `NUMBER_TYPE` for a number."""
    return NUMBER_TYPE if _NUMBER.fullmatch(token) else token.lower()


def _without_period(word_type: str) -> str:
    return word_type[:-1] if word_type[1:].endswith(".") else word_type


def _is_ellipsis(token: str) -> bool:
    return len(token) > 1 and not token.strip(".")


def is_letter(character: str) -> bool:
    """Returns whether a character is alphabetic, a mark or a connector in Unicode."""
    category = unicodedata.category(character)
    return (
        category[0] in "LM"
        or category in ("Nl", "Pc")
        or _LETTER_LIKE.match(character) is not None
    )


# === The splitter ===

# Stop of the sentence before a boundary, and start of the sentence after it.
Boundary = tuple[int, int]

# From the first end mark of a chunk to the start of the next chunk.
_CHUNK_END = re.compile(rf"[{SENTENCE_ENDS}][^{ASCII_WHITE_SPACE}]*{_SPACE}*")
_NEXT_WORD = re.compile(f"{_NO_SPACE}+")
_UNUSUAL_CHUNK = re.compile(f"^[{SENTENCE_ENDS}]{_WORD_END}|{_SPACE}")
_LAST_END_INSIDE = re.compile(rf".*[{SENTENCE_ENDS}](?={_WORD_END})", re.DOTALL)
_END = re.compile(
    rf"[{SENTENCE_ENDS}](?=(?P<mark>{_WORD_END})|{_SPACE}+(?P<word>{_NO_SPACE}+))"
)
# Separate closing marks belong to the sentence before them.
_LONE_CLOSERS = re.compile(rf"([{re.escape(CLOSERS)}]++)(?:{_SPACE}+|(?=--)|\Z)")
_ANY_SPACE = re.compile(r"\s*")

_ALL_KINDS = sum(1 << kind for kind in Kind)


class CachedFunction(dict):
    """Dict that caches a function's results for short keys. It is emptied when full."""

    MAX_KEY_LENGTH = 40

    def __init__(self, function: Callable[[str], Any], max_entries: int = 2**16):
        super().__init__()
        self._function = function
        self._max_entries = max_entries

    def __missing__(self, key: str) -> Any:
        value = self._function(key)
        if len(key) <= self.MAX_KEY_LENGTH:
            if len(self) >= self._max_entries:
                self.clear()
            self[key] = value
        return value


class _Candidate(NamedTuple):
    """Candidate for a boundary: `stop` of a sentence, and `begin` of the next one.

    Both are counted back from the start of the next chunk. `begin` is None if the next
    sentence starts there. `before` is None if the next word does not matter.
    """

    stop: int
    begin: int | None
    before: Before | None


_UNUSUAL = _Candidate(0, None, Before(Kind.NO_END, "white space inside"))
_ORDINARY = Before(Kind.ORDINARY, None)


class Splitter:
    """Base class of sentence splitters. Subclasses implement `spans`."""

    def __init__(self, parameters: Any):
        self.parameters = parameters

    def __reduce__(self):
        return type(self), (self.parameters,)

    def split(self, paragraph: str) -> list[str]:
        """Splits a paragraph into stripped, nonempty sentences."""
        return [paragraph[start:stop] for start, stop in self.spans(paragraph)]

    def spans(self, paragraph: str) -> list[tuple[int, int]]:
        """Returns the start and stop offsets of all sentences, in characters."""
        raise NotImplementedError


class SentenceSplitter(Splitter):
    """Punkt sentence splitter (Kiss and Strunk, 2006).

    Splits like NLTK's `PunktSentenceTokenizer` with the same parameters, but excludes
    the whitespace before the first sentence. If the parameters have terminators, text
    is first split after these and any closing marks. Parts are treated as paragraphs.

    Args:
        parameters: `PunktParameters`. Tables of a language, by default English.

    Example:
    >>> SentenceSplitter().split("Mr. Smith asked: “Why?” Nobody knew.")
    ['Mr. Smith asked: “Why?”', 'Nobody knew.']
    """

    def __init__(self, parameters: PunktParameters | None = None):
        super().__init__(parameters or PunktParameters.english())
        self._decision = PunktDecision(self.parameters)
        # Matches the parts of text. None if there are no terminators.
        self._part = None
        if self.parameters.terminators:
            ends = re.escape(self.parameters.terminators)
            closers = re.escape(PART_CLOSERS)
            self._part = re.compile(
                rf"[^{ends}]*+(?:[{ends}][{ends}{closers}]*+|\Z)", re.DOTALL
            )
        self._candidates = CachedFunction(self._candidate_of_chunk)
        self._followers = CachedFunction(self._follower)

    def spans(self, paragraph: str) -> list[tuple[int, int]]:
        if self._part is None:
            spans = self._spans(paragraph)
        else:
            spans = [
                (part.start() + start, part.start() + stop)
                for part in self._part.finditer(paragraph)
                for start, stop in self._spans(part.group())
            ]
        if self.parameters.joins_pieces and len(spans) > 1:
            return _join_pieces(paragraph, spans)
        return spans

    def _spans(self, paragraph: str) -> list[tuple[int, int]]:
        text = paragraph.rstrip()
        # Separators are whitespace to Python, but parts of words here.
        if any(separator in paragraph for separator in "\x1c\x1d\x1e\x1f"):
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
        """Finds the boundaries in `text`, which does not end in whitespace."""
        blanked = text
        for space in ASCII_WHITE_SPACE:
            if space in text:
                blanked = blanked.replace(space, " ")
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
        """Returns whether a sentence ends before the word at `next_word`."""
        word = _NEXT_WORD.match(text, next_word).group()
        kinds, word_type = self._followers[word]
        if not kinds >> before.kind & 1:
            return False
        return (before.type, word_type) not in self.parameters.collocations

    def _candidate_of_chunk(self, chunk: str) -> _Candidate | None:
        """Returns a chunk's candidate, None, or `_UNUSUAL` if context must decide."""
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
        """Returns a mask of kinds that end a sentence before `word`, and its type."""
        # As in Punkt, a sentence end inside `word` counts for all kinds.
        tokens = tokenize(word)
        if self._decision.contains_end(tokens):
            return _ALL_KINDS, None
        evidence, word_type = self._decision.after(tokens[0])
        kinds = sum(1 << kind for kind in Kind if ends_sentence(kind, evidence))
        return kinds, word_type

    def _boundaries_by_context(self, text: str) -> Iterator[Boundary]:
        """Yields the boundaries in any text, without the cache of `_boundaries`."""
        stripped = text.rstrip()
        for chunk_start, end in _last_ends(text):
            context = text[chunk_start : max(end.end("mark"), end.end("word"))]
            if self._decision.contains_end(tokenize(context)):
                begin = end.start("word") if end["word"] else end.end()
                stop, begin = _give_closers(stripped, end.end(), begin)
                yield stop, _ANY_SPACE.match(text, begin).end()


def _last_ends(text: str) -> Iterator[tuple[int, re.Match]]:
    """Yields each chunk's start and the match of its last possible sentence end.

    A possible end that is the first character of the chunk is yielded as well.
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
        # Whitespace at the very beginning separates nothing.
        if space > 0:
            chunk_start = space + 1
        last = match
    if last:
        yield chunk_start, last


def _give_closers(text: str, stop: int, begin: int) -> Boundary:
    """Returns a boundary, moved past separate closing marks at `begin`, if any."""
    closers = _LONE_CLOSERS.match(text, begin)
    return (closers.end(1), closers.end()) if closers else (stop, begin)


def _join_pieces(paragraph: str, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Joins sentences without letters or digits to the previous or next sentence."""
    joined: list[tuple[int, int]] = []
    joined_has_word = False
    for start, stop in spans:
        has_word = any(
            character.isdecimal() or is_letter(character)
            for character in paragraph[start:stop]
        )
        if joined and not (has_word and joined_has_word):
            start = joined.pop()[0]
            has_word |= joined_has_word
        joined.append((start, stop))
        joined_has_word = has_word
    return joined
