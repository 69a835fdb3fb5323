r"""Finds the characters on which the two word-piece tokenizers differ.

Tries every code point inside a word and at its end with both tokenizers, and writes the
tables that `seg_tf.text.tokenizer_differences` reads, in some minutes. Run it when the
version of `tokenizers` or `tensorflow_text` changes:

    python -m seg_tf.text.find_differing_characters \
        --output=seg_tf/text/differing_characters.py
"""

import importlib.metadata
import itertools
import pathlib
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import tensorflow_text
from absl import app, flags

from seg_tf.text.exact_tokenizer import (
    CONTINUATION,
    UNKNOWN,
    Normalization,
    exact_normalizer,
    exact_tokenizer,
)
from seg_tf.text.fast_tokenizer import FastTokenizer

_OUTPUT = flags.DEFINE_string("output", None, "The table's file, which is replaced.")

ALL_CHARACTERS = (range(0xD800), range(0xE000, 0x110000))

# Each try has a vocabulary of the characters in question: a small one builds faster.
_CHARACTERS_AT_ONCE = 1 << 14

# What precedes and follows a character in the try. It makes a dropped character, a
# space and a split tell apart.
_BEFORE, _AFTER = "a", "b"

# Combining marks of a low and a high canonical class that normalisation keeps. One of
# the two changes places with any other mark.
_LOW_MARK, _HIGH_MARK = "\u1b44", "\U0001d16d"

_TEMPLATE = '''\
"""Code points that the fast and the exact word-piece tokenizer treat differently.

Written by `python -m seg_tf.text.find_differing_characters`, not by hand, with
{versions}.
"""

from seg_tf.text.exact_tokenizer import Normalization

# First and last code point of each range, in hexadecimal, by `lower_case` and
# `strip_accents` of the normalization.
_TABLES = {{
{tables}
}}

# Further ones where ideographs are not split.
_IDEOGRAPHS = """
{ideographs}
"""


def ranges(normalization: Normalization) -> list[tuple[int, int]]:
    """First and last code point of each range; ranges may overlap."""
    table = _TABLES[normalization.lower_case, normalization.strip_accents]
    if not normalization.split_ideographs:
        table += _IDEOGRAPHS
    bounds = (entry.split("-") for entry in table.split())
    return [(int(bound[0], 16), int(bound[-1], 16)) for bound in bounds]
'''


def differing_characters(
    code_points: Iterable[int], normalization: Normalization
) -> list[int]:
    """Selects the `code_points` that the tokenizers treat differently, in order."""
    normalize = exact_normalizer(normalization).normalize_str
    differing = []
    for group in _groups(sorted(code_points)):
        # Inside a word, and at its end, where Python's lower-case sigma is another.
        texts = [
            f"{_BEFORE}{chr(code_point)}{_AFTER} {_BEFORE}{chr(code_point)}"
            for code_point in group
        ]
        tokens = _character_tokens(texts, normalization)
        exact = exact_tokenizer(tokens, normalization)
        fast_ids, lengths = FastTokenizer(tokens, normalization).encode_unicode(texts)
        exact_ids = [exact.encode(text).ids for text in texts]
        fast_rows = np.split(fast_ids, np.cumsum(lengths)[:-1])
        differing += [
            code_point
            for code_point, exact_row, fast_row in zip(
                group, exact_ids, fast_rows, strict=True
            )
            if exact_row != fast_row.tolist()
            or _is_reordered(chr(code_point), normalize)
        ]
    return differing


def _groups(code_points: list[int]) -> Iterator[list[int]]:
    for start in range(0, len(code_points), _CHARACTERS_AT_ONCE):
        yield code_points[start : start + _CHARACTERS_AT_ONCE]


def _character_tokens(texts: list[str], normalization: Normalization) -> list[str]:
    """A vocabulary of all characters of `texts`, normalised by either tokenizer."""
    normalize = exact_normalizer(normalization).normalize_str
    normalized = [normalize(text) for text in texts]
    lowered = [text.lower() for text in texts]
    for changes in (True, False):
        fast = tensorflow_text.FastBertNormalizer(changes)
        normalized += [
            text.decode() for text in fast.normalize(texts + lowered).numpy()
        ]
    characters = sorted({c for c in "".join(normalized) if not c.isspace()})
    return [
        UNKNOWN,
        *characters,
        *(CONTINUATION + character for character in characters),
    ]


def _is_reordered(character: str, normalize: Callable[[str], str]) -> bool:
    """Tells if normalisation reorders a mark and `character`.

    The fast tokenizer normalises characters one by one, so it never does.
    """
    return any(
        normalize(f"a{first}{second}") != normalize(f"a{first}") + normalize(second)
        for first, second in ((character, _LOW_MARK), (_HIGH_MARK, character))
    )


def _as_table(code_points: list[int]) -> str:
    """Lines of ranges such as `80-9f aa`."""
    ranges = []
    for code_point in code_points:
        if ranges and ranges[-1][1] == code_point - 1:
            ranges[-1][1] = code_point
        else:
            ranges.append([code_point, code_point])
    entries = (
        f"{first:x}-{last:x}" if first < last else f"{first:x}"
        for first, last in ranges
    )
    return textwrap.fill(" ".join(entries), 88, break_on_hyphens=False)


def main(_: Sequence[str]) -> None:
    versions = " and ".join(
        f"{package} {importlib.metadata.version(package)}"
        for package in ("tokenizers", "tensorflow-text")
    )
    every_code_point = [*itertools.chain(*ALL_CHARACTERS)]
    tables, ideographs = [], set()
    for settings in itertools.product((True, False), repeat=2):
        differing, unsplit = (
            differing_characters(every_code_point, Normalization(*settings, split))
            for split in (True, False)
        )
        tables.append(f'    {settings}: """\n{_as_table(differing)}\n""",')
        ideographs |= set(unsplit).difference(differing)
    pathlib.Path(_OUTPUT.value).write_text(
        _TEMPLATE.format(
            versions=versions,
            tables="\n".join(tables),
            ideographs=_as_table(sorted(ideographs)),
        ),
        encoding="utf-8",
    )


if __name__ == "__main__":
    flags.mark_flag_as_required("output")
    app.run(main)
