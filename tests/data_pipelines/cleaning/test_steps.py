"""Cleaning steps: what each drops, and that all of it is counted."""

import sys

import pytest

from data_pipelines import check_records
from data_pipelines.builds.errors import BuildError
from data_pipelines.cleaning import drop_counts, steps
from data_pipelines.cleaning.cleaning_options import CleaningOptions
from data_pipelines.readers import Document
from seg_tf.data.manifest import Manifest
from tests.data_pipelines.cleaning import corpora
from tests.data_pipelines.cleaning.test_duplicates import kept_ids
from tests.data_pipelines.small_corpus import contents

LANGUAGE_MODULE = """
import re

def by_accents(text):
    share = len(re.findall("[éèêç]", text)) / len(text)
    return ("fr", share) if share else ("en", 0.9)

def code_alone(text):
    return by_accents(text)[0]

def logarithm(text):
    return "en", -56.8

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


def everything_on(language_module):
    return CleaningOptions(
        min_line_words=4,
        min_document_words=20,
        language="en,de",
        language_function=f"{language_module}:by_accents",
        min_language_confidence=0.5,
        duplicates="near",
    )


@pytest.fixture(scope="module")
def built(corpus, tmp_path_factory, language_module):
    """A build that no test changes."""
    folder = tmp_path_factory.mktemp("built") / "records"
    corpora.build(corpus[0], folder, everything_on(language_module))
    return folder


def test_counts_are_those_of_plain_python(corpus, built):
    """Step after step, with nothing of the project's."""
    left = dict(corpus[1])
    assert Manifest.load(built).cleaning["before"] == counted(left.values())
    found = Manifest.load(built).cleaning["steps"]
    assert list(found) == ["short_lines", "short_documents", "language", "duplicates"]

    short = {n: [li for li in x if len(li.split()) < 4] for n, x in left.items()}
    left = {n: [li for li in x if len(li.split()) >= 4] for n, x in left.items()}
    check(found["short_lines"], short.values(), sum(not x for x in left.values()))
    left = {number: lines for number, lines in left.items() if lines}

    few = {n for n, x in left.items() if len(" ".join(x).split()) < 20}
    check(found["short_documents"], [left.pop(n) for n in few], len(few))

    other = {n for n, x in left.items() if "é" in "".join(x)[:3]}
    check(found["language"], [left.pop(n) for n in other], 1)
    assert kept_ids(built) < left.keys()
    gone = left.keys() - kept_ids(built)
    check(found["duplicates"], [left.pop(n) for n in gone], len(gone))
    assert Manifest.load(built).cleaning["after"] == counted(left.values())
    assert Manifest.load(built).count("documents") == len(left)


def counted(documents):
    lines = [line for lines in documents for line in lines]
    return {
        "documents": len(documents),
        "paragraphs": len(lines),
        "characters": sum(map(len, lines)),
    }


def check(found, dropped, num_documents):
    expected = counted(dropped)
    assert found["documents"] == num_documents > 0
    assert found["paragraphs"] == expected["paragraphs"]
    assert found["characters"] == expected["characters"]


def test_examples_are_what_was_dropped(corpus, built):
    for step, found in Manifest.load(built).cleaning["steps"].items():
        things = "paragraphs" if step == "short_lines" else "documents"
        assert len(found["examples"]) == min(5, found[things])
        for example in found["examples"]:
            text = "\n".join(corpus[1][example["document_id"]])
            first_line = example["text"].removesuffix("…").splitlines()[0]
            assert first_line in text
            assert example["source"].startswith("part-")
            assert "rank" not in example


def test_a_cleaned_build_passes_its_check_and_is_found_finished(
    corpus, built, language_module
):
    assert not list(check_records.check_folder(built))
    before = contents(built)
    again = corpora.build(corpus[0], built, everything_on(language_module))
    assert again == Manifest.load(built)
    assert contents(built) == before


@pytest.mark.slow
def test_bytes_are_the_same_for_two_workers(corpus, built, tmp_path, language_module):
    options = everything_on(language_module)
    corpora.build(corpus[0], tmp_path / "two", options, num_workers=2)
    assert contents(tmp_path / "two") == contents(built)


def test_another_step_is_another_build(corpus, built):
    with pytest.raises(BuildError, match=r"another `options\.cleaning\."):
        corpora.build(corpus[0], built, CleaningOptions(min_line_words=4))


def test_without_steps_the_manifest_has_no_counts_of_cleaning(corpus, tmp_path):
    manifest = corpora.build(corpus[0], tmp_path, CleaningOptions())
    assert manifest.cleaning is None
    assert manifest.options["cleaning"] == {}
    assert Manifest.load(tmp_path) == manifest


def test_a_corpus_of_which_nothing_is_left_says_why(corpus, tmp_path):
    with pytest.raises(BuildError, match=r"short_documents .* documents"):
        corpora.build(corpus[0], tmp_path, CleaningOptions(min_document_words=9999))
    assert not (tmp_path / "manifest.json").exists()


def test_examples_do_not_depend_on_the_slices():
    items = [(n, document(f"line {n} of many")) for n in range(40)]

    def merged(size):
        reports = []
        for begin in range(0, len(items), size):
            counts = drop_counts.DropCounter(["short_documents"])
            for number, item in items[begin : begin + size]:
                counts.see(item)
                counts.drop_document("short_documents", number, item, "4 words")
            reports.append(counts.report())
        return drop_counts.merge(reversed(reports))

    assert merged(40) == merged(7) == merged(1)
    examples = merged(7)["steps"]["short_documents"]["examples"]
    assert len(examples) == 5
    assert [e["document_id"] for e in examples] != [0, 1, 2, 3, 4]


def apply(function, text, confidence=0.0):
    options = CleaningOptions(
        language="en", language_function=function, min_language_confidence=confidence
    )
    counts = drop_counts.DropCounter(["language"])
    result = steps.OtherLanguages(options).apply(0, document(text), counts)
    return result, counts.report()["steps"]["language"]["examples"]


@pytest.mark.parametrize("function", ["by_accents", "code_alone"])
def test_other_languages_are_dropped(language_module, function):
    name = f"{language_module}:{function}"
    assert apply(name, "une été")[0] is None
    assert apply(name, "a summer")[0] == document("a summer")


def test_uncertain_languages_are_dropped(language_module):
    result, (example,) = apply(f"{language_module}:by_accents", "a summer", 0.95)
    assert result is None
    assert example["why"] == "en with confidence 0.90"
    # Logarithms are no confidences, which matters only with a limit.
    name = f"{language_module}:logarithm"
    assert apply(name, "a summer")[0] is not None
    with pytest.raises(BuildError, match=r"between 0 and 1\. Received: -56\.8"):
        apply(name, "a summer", 0.5)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("guess", "form `module:function`"),
        ("a:", "form `module:function`"),
        ("no_such_module_anywhere:guess", "can be imported"),
        ("json:guess", "guess is missing in json"),
        ("language_of_tests:constant", "constant is no function"),
        ("language_of_tests:number", "file, line 1: .*must return a language code.*3"),
        ("language_of_tests:fails", "file, line 1: .*KeyError: 'model'"),
    ],
)
def test_wrong_language_functions_are_refused(language_module, name, message):
    with pytest.raises((ValueError, BuildError), match=message):
        apply(name, "text")


def test_a_wrong_language_function_is_told_before_anything_is_written(corpus, tmp_path):
    options = CleaningOptions(language="en", language_function="no_such_module:f")
    with pytest.raises(ValueError, match="can be imported"):
        corpora.build(corpus[0], tmp_path / "out", options, num_workers=2)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"min_line_words": -1}, "min_line_words"),
        ({"language": "en"}, "together"),
        ({"language_function": "a:b"}, "together"),
        ({"language": "en,", "language_function": "a:b"}, "code"),
        ({"min_language_confidence": 0.5}, "0 without `language`"),
        ({"evaluation_words": 8}, "only with `evaluation_texts`"),
        ({"evaluation_texts": "x", "evaluation_words": 0}, "at least 1"),
        ({"duplicates": "all"}, "'exact' or 'near'"),
        ({"duplicates": "exact", "duplicate_threshold": 0.5}, "only with"),
        ({"duplicates": "near", "duplicate_threshold": 1.0}, "0.95"),
    ],
)
def test_wrong_options_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        CleaningOptions(**settings)
