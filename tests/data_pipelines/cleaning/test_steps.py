"""Cleaning steps: what each drops, and that all of it is counted."""

import sys

import pytest

from data_pipelines import BuildError
from data_pipelines.cleaning import drop_counts, steps
from data_pipelines.cleaning.cleaning_options import CleaningOptions
from data_pipelines.readers import Document
from seg_tf.data.manifest import Manifest
from tests.data_pipelines.cleaning import corpora
from tests.data_pipelines.cleaning.test_duplicates import kept_ids

LANGUAGE_MODULE = """
import re

def by_accents(text):
    share = len(re.findall("[éèêç]", text)) / len(text)
    return ("fr", share) if share else ("en", 0.9)

def code_alone(text):
    return by_accents(text)[0]

def number(text):
    return 3

def fails(text):
    raise KeyError("model")

constant = "en"
"""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    return folder, dict(enumerate(corpora.write(folder)))


@pytest.fixture(scope="module")
def language_module(tmp_path_factory):
    """The name of a module with language functions, workers' too."""
    folder = tmp_path_factory.mktemp("language")
    (folder / "language_of_tests.py").write_text(LANGUAGE_MODULE)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.syspath_prepend(folder)
        yield "language_of_tests"
    sys.modules.pop("language_of_tests", None)


def document(*lines):
    return Document(lines, "file", "line 1")


@pytest.fixture(scope="module")
def built(corpus, tmp_path_factory, language_module):
    """A build with every step, that no test changes."""
    folder = tmp_path_factory.mktemp("built") / "records"
    options = CleaningOptions(
        min_line_words=4,
        min_document_words=20,
        language="en,de",
        language_function=f"{language_module}:by_accents",
        duplicates="near",
    )
    corpora.build(corpus[0], folder, options)
    return folder


def counted(documents):
    lines = [line for lines in documents for line in lines]
    characters = sum(map(len, lines))
    counts = len(documents), len(lines), characters
    return dict(zip(drop_counts.COUNTS, counts, strict=True))


def test_counts_are_those_of_plain_python(corpus, built):
    """Step after step, with nothing of the project's."""
    left = dict(corpus[1])
    cleaning = Manifest.load(built).cleaning
    assert cleaning["before"] == counted(left.values())
    names = ["short_lines", "short_documents", "language", "duplicates"]
    assert list(cleaning["steps"]) == names

    def check(step, dropped, num_documents):
        counts = {**counted(dropped), "documents": num_documents}
        counts["examples"] = cleaning["steps"][step]["examples"]
        assert cleaning["steps"][step] == counts
        assert num_documents > 0
        for example in counts["examples"]:
            text = "\n".join(corpus[1][example["document_id"]])
            assert example["text"].removesuffix("…").splitlines()[0] in text

    short = {n: [li for li in x if len(li.split()) < 4] for n, x in left.items()}
    left = {n: [li for li in x if len(li.split()) >= 4] for n, x in left.items()}
    check("short_lines", short.values(), sum(not x for x in left.values()))
    left = {number: lines for number, lines in left.items() if lines}
    few = {n for n, x in left.items() if len(" ".join(x).split()) < 20}
    check("short_documents", [left.pop(n) for n in few], len(few))
    other = {n for n, x in left.items() if "é" in "".join(x)[:3]}
    check("language", [left.pop(n) for n in other], 1)
    gone = left.keys() - kept_ids(built)
    check("duplicates", [left.pop(n) for n in gone], len(gone))
    assert cleaning["after"] == counted(left.values())
    assert Manifest.load(built).count("documents") == len(left)


def apply(function, text):
    options = CleaningOptions(language="en", language_function=function)
    counts = drop_counts.DropCounter(["language"])
    return steps.other_languages(options).apply(0, document(text), counts)


@pytest.mark.parametrize("function", ["by_accents", "code_alone"])
def test_other_languages_are_dropped(language_module, function):
    name = f"{language_module}:{function}"
    assert apply(name, "une été") is None
    assert apply(name, "a summer") == document("a summer")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a:", "as `module:function`"),
        ("no_such_module_anywhere:guess", "No module named 'no_such_module_any"),
        ("language_of_tests:constant", "must name a function.*which is a str"),
        ("language_of_tests:number", "file, line 1: .*must return a language code.*3"),
        ("language_of_tests:fails", "file, line 1: .*KeyError: 'model'"),
    ],
)
def test_wrong_language_functions_are_refused(language_module, name, message):
    with pytest.raises((ValueError, BuildError), match=message):
        apply(name, "text")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"min_line_words": -1}, "min_line_words"),
        ({"language": "en"}, "together"),
        ({"evaluation_words": 8}, "only with `evaluation_texts`"),
        ({"evaluation_texts": "x", "evaluation_words": 0}, "at least 1"),
        ({"duplicates": "all"}, "one of exact, near"),
        ({"duplicates": "exact", "duplicate_threshold": 0.5}, "only with"),
        ({"duplicates": "near", "duplicate_threshold": 1.0}, "0.95"),
    ],
)
def test_wrong_options_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        CleaningOptions(**settings)
