"""Punkt's decision at a possible sentence boundary (Kiss and Strunk, 2006).

A mark that may end a sentence is judged by the token it closes and the token
that follows. All that matters of the one is its `Kind`, all that matters of the
other is its `Evidence`: ends-or-not is a table over the two, to which the
collocations are exceptions. The table is shared by every form of the splitter.

Answers are those of NLTK 3.10 with English language variables, down to what it
takes for white space and for a letter. Where they seem odd, they are faithful.
"""

import enum
import itertools
import re
import unicodedata
from typing import NamedTuple

from seg_tf.text.punkt_parameters import Orthography, PunktParameters

# White space as the Unicode property has it: `str.isspace` and `re` count the
# four information separators as well, which here are characters like any other.
WHITE_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007"
    "\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
ASCII_WHITE_SPACE = "\t\n\v\f\r "
SENTENCE_ENDS = ".?!"
# No word continues past one of these, and a sentence may end right before it.
WORD_ENDS = ")\";}]*:@'({[\u2018\u2019\u201c\u201d\xab\xbb?!"
# Marks of the sentence before, where they are separate after its end.
CLOSERS = "\"')]}\u2018\u2019\u201c\u201d\xab\xbb"
# The same right after a terminator, where what opens may follow without a space.
PART_CLOSERS = ".?!\"')]}\u2019\u201d\xbb」』）】》〉］｣"

# Nothing but white space and these cannot be the first character of a word.
NEVER_BEGINS_WORD = '("`{[:;&#*@)}]-,'

NUMBER_TYPE = "##number##"
NEVER_FIRST_IN_SENTENCE = frozenset(";:,.!?")
_NUMBER = re.compile(r"-?[.,]?\d[\d,.-]*")
# Symbols (category So) that Unicode lists as alphabetic: circled and squared
# letters; and the two joiners, which it counts as part of words.
_LETTER_LIKE = re.compile(
    "[\u24b6-\u24e9\U0001f130-\U0001f149\U0001f150-\U0001f169\U0001f170-\U0001f189"
    "\u200c\u200d]"
)


def _token_pattern() -> re.Pattern:
    """One token: a run of dashes or dots, a word, or any single character."""
    space = f"[{WHITE_SPACE}]"
    word_end = f"[{re.escape(WORD_ENDS)}]"
    run = rf"-{{2,}}|\.{{2,}}|(?:\.{space}){{2,}}\."
    stop = rf"{run}|{word_end}|,(?:\Z|{space}|{word_end}|{run})"
    first = rf"[^{WHITE_SPACE}{re.escape(NEVER_BEGINS_WORD)}]"
    plain = rf"[^{WHITE_SPACE}{re.escape(WORD_ENDS)}.,\-]"
    return re.compile(
        rf"{run}|{first}(?:{plain}+|(?!{stop})[^{WHITE_SPACE}])*|[^{WHITE_SPACE}]"
    )


_TOKEN = _token_pattern()


def tokenize(text: str) -> list[str]:
    """The tokens of `text`; periods stay with the word they follow."""
    tokens = []
    for line in text.split("\n"):
        if line.strip():
            tokens += _TOKEN.findall(line)
    return tokens


class Kind(enum.IntEnum):
    """Kinds of tokens before a possible boundary."""

    NO_END = 0
    """No sentence end: another word, or a single-letter abbreviation."""
    ORDINARY = 1
    """A question or exclamation mark, or a word with its full stop."""
    ABBREVIATION = 2
    """A known abbreviation with its period, or an ellipsis."""
    INITIAL = 3
    """One letter and a period."""
    NUMBER = 4
    """A number and a period, which may make it an ordinal."""


class Evidence:
    """Evidence of a token for a boundary right before it, as flags of an int."""

    STARTS = 1
    """Capitalised here, and known to be capitalised only to start sentences."""
    CONTINUES = 2
    """Punctuation, or a small letter where a sentence would have a capital."""
    NAME = 4
    """Capitalised, and never seen with a small letter."""
    STARTER = 8
    """Capitalised, and often the first word of a sentence."""


# Sentences end after these kinds unless any of the evidence is there …
ENDS_UNLESS = {
    Kind.ORDINARY: 0,
    Kind.INITIAL: Evidence.CONTINUES | Evidence.NAME,
    Kind.NUMBER: Evidence.CONTINUES,
}
# … and after these only if some of it is.
ENDS_IF = {Kind.ABBREVIATION: Evidence.STARTS | Evidence.STARTER}


def ends_sentence(kind: Kind, evidence: int) -> bool:
    """Tells if a sentence ends between tokens that are no collocation."""
    if kind in ENDS_UNLESS:
        return not evidence & ENDS_UNLESS[kind]
    return bool(evidence & ENDS_IF.get(kind, 0))


class Before(NamedTuple):
    """A token as the left side of a possible boundary.

    Attributes:
        kind: what it is.
        type: its lower-case form without the period, as collocations list it;
            None where no collocation can start.
    """

    kind: Kind
    type: str | None


class After(NamedTuple):
    """A token as the right side of a possible boundary.

    Attributes:
        evidence: flags of `Evidence`.
        type: its lower-case form, as collocations list it.
    """

    evidence: int
    type: str


class PunktDecision:
    """Punkt's decision under one set of parameters.

    Args:
        parameters: the tables of abbreviations, collocations, sentence starters
            and of how words are capitalised.
    """

    def __init__(self, parameters: PunktParameters):
        self.parameters = parameters
        self._collocation_starts = {first for first, _ in parameters.collocations}

    def before(self, token: str) -> Before:
        """`token` as the left side of a possible boundary."""
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
        """`token` as the right side of a possible boundary."""
        word_type = type_of(token)
        # A separate full stop is not part of the word, an abbreviation's is.
        if (
            token.endswith(".")
            and not _is_ellipsis(token)
            and not self._is_abbreviation(token)
        ):
            word_type = _without_period(word_type)
        return After(self._evidence(token, word_type), word_type)

    def _evidence(self, token: str, word_type: str) -> int:
        if token in NEVER_FIRST_IN_SENTENCE:
            return Evidence.CONTINUES
        seen = self.parameters.orthographic_context.get(word_type, 0)
        if token[0].isupper():
            starter = word_type in self.parameters.sentence_starters
            evidence = Evidence.STARTER if starter else 0
            if not seen & Orthography.LOWER:
                return evidence | Evidence.NAME
            if not seen & Orthography.UPPER_INSIDE:
                return evidence | Evidence.STARTS
            return evidence
        if token[0].islower() and (
            seen & Orthography.UPPER or not seen & Orthography.LOWER_FIRST
        ):
            return Evidence.CONTINUES
        return 0

    def ends(self, before: Before, after: After) -> bool:
        """Tells if a sentence ends between two tokens."""
        if before.type is not None:
            collocations = self.parameters.collocations
            if (before.type, after.type) in collocations:
                return False
        return ends_sentence(before.kind, after.evidence)

    def contains_end(self, tokens: list[str]) -> bool:
        """Tells if a sentence ends between any two neighbours of `tokens`."""
        return any(
            self.ends(self.before(left), self.after(right))
            for left, right in itertools.pairwise(tokens)
        )

    def _is_abbreviation(self, token: str) -> bool:
        word = token[:-1].lower()
        types = self.parameters.abbreviation_types
        return token != "." and (word in types or word.rpartition("-")[2] in types)


def type_of(token: str) -> str:
    """Lower-case form of `token`, the same one for every number."""
    return NUMBER_TYPE if _NUMBER.fullmatch(token) else token.lower()


def _without_period(word_type: str) -> str:
    return word_type[:-1] if word_type[1:].endswith(".") else word_type


def _is_ellipsis(token: str) -> bool:
    return len(token) > 1 and not token.strip(".")


def is_letter(character: str) -> bool:
    """Tells if Unicode calls `character` alphabetic, a mark or a connector."""
    category = unicodedata.category(character)
    return (
        category[0] in "LM"
        or category in ("Nl", "Pc")
        or _LETTER_LIKE.match(character) is not None
    )
