"""Sentences split in the graph are those of the splitter, whatever the text."""

import dataclasses
import functools
import random
import re

import numpy as np
import pytest
import tensorflow as tf

from seg_tf.text.graph.punkt import GraphSentenceSplitter
from seg_tf.text.punkt import SentenceSplitter
from seg_tf.text.punkt_parameters import PunktParameters
from tests.sample_data import sample_data
from tests.text import test_punkt

pytestmark = pytest.mark.slow

TABLES = {
    "empty": PunktParameters,
    "small": lambda: test_punkt.SMALL,
    "english": PunktParameters.english,
    "universal": PunktParameters.universal,
    "terminators": lambda: dataclasses.replace(
        test_punkt.SMALL,
        terminators="。؟!b",
        # The small letters of Σ and İ depend on the word, or are two.
        abbreviation_types=frozenset({"κος", "i\u0307l", "mr"}),
    ),
}

PIECES = [piece for piece in test_punkt._PIECES if "\n" not in piece]

PIECES += ["。", "他说", "？！", "」", "؟ ", "।", "。”", "\u3000"]
PIECES += ["ΚΟΣ", "Σ. ", "İL. "]

# Ends of the tables, marks in odd places, and runs of dots that go over spaces.
ODD = [
    "",
    " ",
    ".",
    " .",
    '\t."',
    "?!",
    "a.b.c. D",
    "x" * 3000 + ". Y",
    "--a. B --. C",
    "a..b. ... C",
    "&&a. (((b.",
    ".\u00a0. . a",
    "x .\u00a0.\u00a0.]. Y",
    "The?.\u00a0. . .b",
    ".\u00a0.\u00a0. . .\u2028. No",
    ". . .\u0085. . .».“'",
    'He said: "No." \x1c',
    "。",
    "。」",
    " 他来了。」 。",
    "\u3000“他来了。”我说：“好！？”\u3000她走了。",
    "क्या? हाँ। ठीक।। जी",
    "\x1f. A\x1d. B",
    "Ο ΚΟΣ. Παπάς ήρθε. ΚΟΣ.Σ. Ο ΚΟΣΑ. Α. İL. Bach. il. Bach.",
]


@functools.cache
def splitters(table):
    parameters = TABLES[table]()
    in_graph = GraphSentenceSplitter(parameters)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32)])
    def split(code_points):
        found = in_graph(code_points)
        return found.starts, found.stops, found.paragraphs

    return SentenceSplitter(parameters), split


def assert_equal(table, paragraphs):
    exact, split = splitters(table)
    text = "".join(paragraph + "\n" for paragraph in paragraphs)
    code_points = np.frombuffer(text.encode("utf-32-le"), np.int32)
    found = [[] for _ in paragraphs]
    for start, stop, paragraph in zip(
        *(tensor.numpy() for tensor in split(code_points)), strict=True
    ):
        if start < stop:
            found[paragraph].append(text[start:stop])
    for paragraph, sentences in zip(paragraphs, found, strict=True):
        assert sentences == exact.split(paragraph), repr(paragraph)


@pytest.mark.parametrize("table", TABLES)
def test_odd_paragraphs(table):
    decisions = [re.sub("[|¦]", " ", line) for line in test_punkt.DECISIONS]
    lines = "\n".join(decisions + test_punkt.UNUSUAL).split("\n")
    assert len(lines) > 50
    assert_equal(table, lines + ODD)


@pytest.mark.parametrize("table", TABLES)
def test_random_paragraphs(table):
    generator = random.Random(5)
    paragraphs = []
    for _ in range(3000):
        pieces = generator.choices(PIECES, k=generator.randrange(25))
        ends = (". " if generator.random() < 0.15 else "" for _ in pieces)
        paragraphs.append("".join(map("".join, zip(pieces, ends, strict=True))))
    assert_equal(table, paragraphs)


def test_what_a_paragraph_comes_to_hangs_on_no_other():
    # A mark at the end, a word that would continue, a paragraph without words.
    assert_equal("english", ["He ran.", "then", "", "by J.", "Brown.", " ", ".", "."])
    assert_equal("english", [])


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param(("enwiki_wikiextractor_2015", "text", "AA", "wiki_07"), id="wiki"),
        pytest.param(("gutenberg",), id="gutenberg"),
    ],
)
def test_real_text(parts):
    path = sample_data(*parts)
    if path.is_dir():
        path = min(path.rglob("*.txt"))
    text = path.read_bytes()[:300_000].decode("utf-8", errors="replace")
    assert_equal("english", text.split("\n"))
