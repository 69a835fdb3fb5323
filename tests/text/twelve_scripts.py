"""Texts of twelve scripts from a seeded generator, and a vocabulary that tells all."""

import functools
import itertools
import random
import unicodedata

from seg_tf.text.normalization import Normalization
from seg_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary

ALL_NORMALIZATIONS = [
    Normalization(*settings) for settings in itertools.product((True, False), repeat=3)
]
# Half of them, in which any two settings have each of their combinations.
PAIRED_NORMALIZATIONS = [
    one
    for one in ALL_NORMALIZATIONS
    if (one.lower_case + one.strip_accents + one.split_ideographs) % 2
]

_ACCENTS = [*range(0x300, 0x346)]
# Code points of each script, with forms that are composed, doubled, or of several
# letters. Of those that are not letters, marks or digits none is taken.
_BLOCKS = {
    "Latin": [*range(0x41, 0x250), *range(0x1E00, 0x1F00), 0xFB01, *_ACCENTS],
    "Greek": [*range(0x370, 0x400), *range(0x1F00, 0x2000), *_ACCENTS],
    "Cyrillic": [*range(0x400, 0x530), *_ACCENTS],
    "Hebrew": [*range(0x590, 0x600), *range(0xFB1D, 0xFB50)],
    "Arabic": [*range(0x600, 0x780), *range(0xFB50, 0xFC00)],
    "Devanagari": [*range(0x900, 0x980)],
    "Bengali": [*range(0x980, 0xA00)],
    "Tamil": [*range(0xB80, 0xC00)],
    "Thai": [*range(0xE00, 0xE80)],
    "Hangul": [*range(0x1100, 0x1200), *range(0xAC00, 0xD7A4, 61)],
    "Kana": [*range(0x3040, 0x3100), *range(0xFF66, 0xFFA0)],
    "Han": [
        *range(0x3400, 0x4DC0, 97),
        *range(0x4E00, 0xA000, 97),
        *range(0xF900, 0xFB00, 5),
        *range(0x20000, 0x2A6E0, 997),
    ],
}
# White space, punctuation, and characters that normalisation drops.
_OTHERS = " \t\u00a0\u3000.,-?!'\u00ad\u200c\u200d\ufffd।。、…«»"


@functools.cache
def alphabets() -> dict[str, tuple[str, str]]:
    """Letters and digits, and combining marks, of every script."""
    found = {}
    for script, code_points in _BLOCKS.items():
        groups = {"L": "", "M": "", "N": ""}
        for character in map(chr, code_points):
            kind = unicodedata.category(character)[0]
            groups[kind] = groups.get(kind, "") + character
        found[script] = (groups["L"] + groups["N"], groups["M"])
    return found


def texts(number: int, seed: int = 0) -> list[str]:
    """Texts of words of a script; some words go on in another."""
    generator = random.Random(seed)
    scripts = [*alphabets().values()]
    made = ["ΟΔΥΣΣΕΥΣ ΑΣ. İstanbul, Straße"]  # case that depends on its place
    for index in range(1, number):
        letters, marks = scripts[index % len(scripts)]
        text = ""
        for _ in range(generator.randint(1, 12)):
            for _ in range(generator.randint(1, 9)):
                text += generator.choice(letters)
                while marks and generator.random() < 0.3:
                    text += generator.choice(marks)
            if generator.random() < 0.1:
                letters, marks = generator.choice(scripts)
            elif generator.random() < 0.8:
                text += " "
            else:
                text += "".join(generator.choices(_OTHERS, k=2))
        made.append(text)
    return made


@functools.cache
def vocabulary() -> Vocabulary:
    """Every character in every form that it may become, and longer pieces."""
    characters = _OTHERS + "".join(map("".join, alphabets().values()))
    cases = {case for one in characters for case in (one, one.lower(), one.upper())}
    forms = cases | {unicodedata.normalize("NFD", case) for case in cases}
    single = sorted({one for one in "".join(forms) if not one.isspace()})
    generator = random.Random(1)
    pairs = {
        "".join(generator.choices(letters + marks, k=2))
        for letters, marks in alphabets().values()
        for _ in range(3000)
    }
    pairs = sorted(pair for pair in pairs if not any(map(str.isspace, pair)))
    pieces = [*single, *pairs]
    return Vocabulary([*SPECIAL_TOKENS, *pieces, *("##" + piece for piece in pieces)])
