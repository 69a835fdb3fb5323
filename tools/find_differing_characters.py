r"""Finds the characters on which the two word-piece tokenizers differ.

Tries every code point inside a word and at its end with both tokenizers, and writes the
table that `seg_tf.text.word_pieces` reads, in some minutes. Run it when the version of
`tokenizers` or `tensorflow_text` changes:

    python tools/find_differing_characters.py \
        --output=seg_tf/text/data/differing_characters.json
"""

import importlib.metadata
import itertools
import json
import pathlib
import textwrap
from collections.abc import Iterable, Sequence

import numpy as np
import tensorflow_text
from absl import app, flags

from seg_tf.text.normalization import (
    CONTINUATION,
    Normalization,
    exact_normalizer,
    exact_tokenizer,
)
from seg_tf.text.vocabulary import UNK
from seg_tf.text.word_pieces import FastTokenizer

_OUTPUT = flags.DEFINE_string("output", None, "The table's file, which is replaced.")

# Each try has a vocabulary of the characters in question: a small one builds faster.
_CHARACTERS_AT_ONCE = 1 << 14

# These letters around a character tell apart a dropped character, a space and a split.
_BEFORE, _AFTER = "a", "b"

# Combining marks of a low and a high canonical class that normalisation keeps. One of
# the two changes places with any other mark.
_LOW_MARK, _HIGH_MARK = "\u1b44", "\U0001d16d"


def find_differing_characters(
    code_points: Iterable[int], normalization: Normalization
) -> list[int]:
    """Selects the `code_points` that the tokenizers treat differently, in order."""
    normalize = exact_normalizer(normalization).normalize_str
    differing = []
    code_points = sorted(code_points)
    for start in range(0, len(code_points), _CHARACTERS_AT_ONCE):
        group = code_points[start : start + _CHARACTERS_AT_ONCE]
        # Inside a word, and at its end, where Python lower-cases sigma differently.
        texts = [
            f"{_BEFORE}{chr(code_point)}{_AFTER} {_BEFORE}{chr(code_point)}"
            for code_point in group
        ]
        tokens = _character_tokens(texts, normalization)
        exact = exact_tokenizer(tokens, normalization)
        fast_ids, lengths = FastTokenizer(tokens, normalization).encode_unicode(texts)
        fast_rows = np.split(fast_ids, np.cumsum(lengths)[:-1])
        for code_point, text, fast_row in zip(group, texts, fast_rows, strict=True):
            # The fast tokenizer normalises characters one by one: it reorders no marks.
            is_reordered = any(
                normalize(f"a{first}{second}")
                != normalize(f"a{first}") + normalize(second)
                for first, second in (
                    (chr(code_point), _LOW_MARK),
                    (_HIGH_MARK, chr(code_point)),
                )
            )
            if is_reordered or exact.encode(text).ids != fast_row.tolist():
                differing.append(code_point)
    return differing


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
    return [UNK, *characters, *(CONTINUATION + character for character in characters)]


def _as_lines(code_points: list[int]) -> list[str]:
    """Lines of ranges such as `80-9f aa`."""
    ranges: list[list[int]] = []
    for code_point in code_points:
        if ranges and ranges[-1][1] == code_point - 1:
            ranges[-1][1] = code_point
        else:
            ranges.append([code_point, code_point])
    entries = (
        f"{first:x}-{last:x}" if first < last else f"{first:x}"
        for first, last in ranges
    )
    return textwrap.wrap(" ".join(entries), 88, break_on_hyphens=False)


def main(_: Sequence[str]) -> None:
    every_code_point = [*range(0xD800), *range(0xE000, 0x110000)]
    tables: dict[str, object] = {
        "versions": " and ".join(
            f"{package} {importlib.metadata.version(package)}"
            for package in ("tokenizers", "tensorflow-text")
        )
    }
    ideographs = set()
    for settings in itertools.product((True, False), repeat=2):
        differing, unsplit = (
            find_differing_characters(every_code_point, Normalization(*settings, split))
            for split in (True, False)
        )
        tables["{},{}".format(*settings)] = _as_lines(differing)
        ideographs |= set(unsplit).difference(differing)
    tables["ideographs"] = _as_lines(sorted(ideographs))
    pathlib.Path(_OUTPUT.value).write_text(
        json.dumps(tables, indent=1) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    flags.mark_flag_as_required("output")
    app.run(main)
